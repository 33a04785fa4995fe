package xrayrunner_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestImages: both Dockerfiles begin with the same text, so that the build and the comparison of the manifest are made
// once; every base image is pinned; nothing in a build runs a skill.
func TestImages(t *testing.T) {
	shared := map[string]bool{}
	for _, name := range []string{"Dockerfile.api", "Dockerfile.runner"} {
		text := readFile(t, name)
		_, text, found := strings.Cut(text, "\n") // the first line says which it is
		begin, _, checked := strings.Cut(text, "\nFROM ${PYTHON_IMAGE}\n")
		if name == "Dockerfile.api" {
			begin, _, checked = strings.Cut(text, "\nFROM ${GO_IMAGE} AS root\n")
		}
		if !found || !checked || !strings.Contains(begin, "manifestgen check") {
			t.Errorf("%s does not begin as expected", name)
		}
		shared[begin] = true
		pinned := regexp.MustCompile(`(?m)^ARG [A-Z]+_IMAGE=[a-z0-9.:-]+@sha256:[0-9a-f]{64}$`).FindAllString(text, -1)
		if len(pinned) != 2 {
			t.Errorf("%s pins %d base images", name, len(pinned))
		}
		for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1) {
			if from[1] != "${GO_IMAGE}" && from[1] != "${PYTHON_IMAGE}" && from[1] != "scratch" {
				t.Errorf("%s is built from %s, which nothing pins", name, from[1])
			}
		}
	}
	if len(shared) != 1 {
		t.Error("the Dockerfiles begin differently")
	}
}

// TestComposeGrantsNothing: what a reader looks for first. (What the engine makes of it is tested in deploy.)
func TestComposeGrantsNothing(t *testing.T) {
	text := regexp.MustCompile(`(?m)#.*$`).ReplaceAllString(readFile(t, "compose.yaml"), "")
	for _, never := range []string{"privileged", "cap_add", "docker.sock", "devices", "unconfined", "pid:", "userns_mode", "network_mode: host"} {
		if strings.Contains(text, never) {
			t.Errorf("compose.yaml has %q", never)
		}
	}
	for what, times := range map[string]int{"cap_drop: [ALL]": 1, "<<: *hardened": 2, "no-new-privileges:true": 2, "network_mode: none": 1, "read_only: true": 2, "mem_limit": 2, "pids_limit": 2, "healthcheck: {": 2} {
		if got := strings.Count(text, what); got < times {
			t.Errorf("compose.yaml has %q %d times, want %d", what, got, times)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestOverlaysGrantOneThing: what an overlay may have is written here; the profile has five calls more than the default, and
// the generator is compared with it by scripts/test-deploy.
func TestOverlaysGrantOneThing(t *testing.T) {
	options := regexp.MustCompile(`(?m)(seccomp|apparmor|systempaths|writable-cgroups|runtime)[=:] ?([^"\s:]*)`)
	for name, want := range map[string][]string{
		"namespaces": {"seccomp=./deploy/seccomp/runner-namespaces.json", "apparmor=${XRAY_APPARMOR"},
		"fresh-proc": {"systempaths=unconfined"},
		"cgroup":     {"writable-cgroups=true"},
		"gvisor":     {"runtime: runsc"},
	} {
		text := regexp.MustCompile(`(?m)#.*$`).ReplaceAllString(readFile(t, "deploy/compose."+name+".yaml"), "")
		if got := options.FindAllString(text, -1); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s grants %q, not %q", name, got, want)
		}
		for _, never := range []string{"privileged", "cap_add", "docker.sock", "devices", "pid:", "userns_mode", "network_mode", "volumes", "user:"} {
			if strings.Contains(text, never) {
				t.Errorf("%s has %q", name, never)
			}
		}
	}
	var profile struct {
		Syscalls []struct {
			Names    []string
			Includes struct{ Caps []string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, "deploy/seccomp/runner-namespaces.json")), &profile); err != nil {
		t.Fatal(err)
	}
	last := profile.Syscalls[len(profile.Syscalls)-1]
	if got := strings.Join(last.Names, " "); got != "unshare mount umount2 pivot_root sethostname" || len(last.Includes.Caps) > 0 {
		t.Errorf("the profile ends with %q", got)
	}
}
