package config_test

import (
	"strings"
	"testing"

	"xrayrunner/runner/internal/config"
)

// TestListenPort: a port that cannot be listened on, or that no caller could know, is refused at the start.
func TestListenPort(t *testing.T) {
	for port, ok := range map[string]bool{
		":1": true, ":65535": true, ":0": false, ":65536": false, ":-1": false, ":": false, "": false, ":http": false, ":+80": false, ":8080:8080": false, ":80/x": false,
	} {
		listen := "RUNNER_LISTEN=tcp://127.0.0.1" + port
		got, err := config.Load([]string{listen, "RUNNER_TOKEN=" + token})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "RUNNER_LISTEN") {
			t.Errorf("%s: %v, want accepted %v", listen, err, ok)
		}
		if ok && got.TCP != "127.0.0.1"+port {
			t.Errorf("%s: TCP = %q", listen, got.TCP)
		}
	}
}

// TestShimPath: the shim is started from wherever the runner is, so its path is whole or not given.
func TestShimPath(t *testing.T) {
	for shim, ok := range map[string]bool{"": true, "/opt/xray-shim": true, "xray-shim": false, "./xray-shim": false, "../xray-shim": false} {
		if got, err := config.Load([]string{"RUNNER_SHIM=" + shim}); (err == nil) != ok || ok && got.Shim != shim || err != nil && !strings.Contains(err.Error(), "RUNNER_SHIM") {
			t.Errorf("RUNNER_SHIM=%q: %q, %v; want accepted %v", shim, got.Shim, err, ok)
		}
	}
}

// TestEveryLayer: each layer may be asked for, alone or with others; a name beside it may not.
func TestEveryLayer(t *testing.T) {
	for layer, ok := range map[string]bool{
		"no_new_privs": true, "rlimits": true, "oom_score_adj": true, "landlock": true, "landlock_net": true, "landlock_scope": true,
		"seccomp": true, "sweep": true, "namespaces": true, " seccomp ": true, "landlock,seccomp": true,
		"Landlock": false, "landlock;seccomp": false, "landlock,": false, ",": false, "none": false, "landlock seccomp": false,
	} {
		got, err := config.Load([]string{"RUNNER_MIN_ISOLATION=" + layer})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "RUNNER_MIN_ISOLATION") {
			t.Errorf("%q: %v, want accepted %v", layer, err, ok)
		}
		if ok && strings.Join(got.MinIsolation, ",") != strings.TrimSpace(layer) {
			t.Errorf("%q: %q", layer, got.MinIsolation)
		}
	}
}

// TestEveryClass: three words and no other.
func TestEveryClass(t *testing.T) {
	for class, ok := range map[string]bool{"safe": true, "mutating": true, "dangerous": true, "Mutating": false, " safe": false, "safe,mutating": false, "none": false, "3": false} {
		got, err := config.Load([]string{"RUNNER_MAX_CLASS=" + class})
		if (err == nil) != ok || ok && string(got.MaxClass) != class || err != nil && !strings.Contains(err.Error(), "RUNNER_MAX_CLASS") {
			t.Errorf("%q: %q, %v; want accepted %v", class, got.MaxClass, err, ok)
		}
	}
}
