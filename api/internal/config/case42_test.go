package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/api/internal/config"
)

const sixteen = "0123456789abcdef" // a secret exactly as long as one must be

// TestDefaultsAreLocked: with nothing set there is no token, no unlock and no listener but on loopback.
func TestDefaultsAreLocked(t *testing.T) {
	got, err := config.Load([]string{"PATH=/bin", "RUNNER_TOOL_CACHE=/x"})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{Listen: "127.0.0.1:8080", RunnerURL: "unix:/run/xray/runner.sock", DB: "sqlite:/data/xray.db",
		Manifest: "/opt/xray/manifest.json", SkillsDir: "/opt/xray/skills", Approval: 15 * time.Minute, Tokens: map[string]string{}, Remarks: []string{"ignoring unknown variable RUNNER_TOOL_CACHE"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCase42NamesAndAddresses(t *testing.T) {
	for _, c := range []struct {
		kv, err string // err "": accepted
	}{
		{"XRAY_DB_SYNC=normal", ""},
		{"XRAY_DB_SYNC=full", ""},
		{"XRAY_DB_SYNC=FULL", "XRAY_DB_SYNC"},
		{"XRAY_DB_SYNC=", "XRAY_DB_SYNC"},
		{"XRAY_UNLOCK_DANGEROUS_TOOLS=1", ""},
		{"XRAY_UNLOCK_DANGEROUS_TOOLS=0", ""},
		{"XRAY_UNLOCK_DANGEROUS_TOOLS=", ""},
		{"XRAY_UNLOCK_DANGEROUS_TOOLS=true", "XRAY_UNLOCK_DANGEROUS_TOOLS"},
		{"XRAY_UNLOCK_DANGEROUS_TOOLS= 1", "XRAY_UNLOCK_DANGEROUS_TOOLS"},

		{"XRAY_LISTEN=127.0.0.1:9090", ""},
		{"XRAY_LISTENS=127.0.0.1:9090", "did you mean XRAY_LISTEN?"},
		{"XRAY_UNLOCK_DANGEROUS_TOOL=1", "did you mean XRAY_UNLOCK_DANGEROUS_TOOLS?"},
		{"XRAY_AGENT_TOKENS=" + sixteen, "did you mean XRAY_AGENT_TOKEN?"},
		{"XRAY_ADMIN_PASSWORD=x", "unknown setting XRAY_ADMIN_PASSWORD"},
		{"XRAY_=x", "unknown setting XRAY_"},
		{"xray_listen=x", ""}, // not one of ours: names have one case
		{"MY_XRAY_LISTEN=x", ""},

		{"XRAY_SKILL_RUNNER_URL=unix:/run/x.sock", ""},
		{"XRAY_SKILL_RUNNER_URL=unix:///run/x.sock", ""},
		{"XRAY_SKILL_RUNNER_URL=unix:run/x.sock", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=unix:", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=/run/x.sock", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=http://127.0.0.1:8081", ""},
		{"XRAY_SKILL_RUNNER_URL=http://127.0.0.1", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=http://127.0.0.1:8081/", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=https://127.0.0.1:8081", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=http://localhost:8081", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=http://[::1]:8081", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=http://10.0.0.1:8081", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=http://127.0.0.1:8081@evil.example:80", "XRAY_SKILL_RUNNER_URL"},
	} {
		_, err := config.Load([]string{c.kv})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want an error with %q", c.kv, err, c.err)
		}
	}
}

// TestMeaning: what is accepted is also what it means.
func TestMeaning(t *testing.T) {
	got, err := config.Load([]string{"XRAY_DB_SYNC=full", "XRAY_UNLOCK_DANGEROUS_TOOLS=1", "XRAY_SKILL_RUNNER_TOKEN=t", "XRAY_DB=sqlite:/x",
		"XRAY_AGENT_TOKEN=" + sixteen, "XRAY_OPERATOR_TOKEN=" + sixteen + "2"})
	if err != nil {
		t.Fatal(err)
	}
	if !got.FullSync || !got.Unlock || got.RunnerToken != "t" || got.DB != "sqlite:/x" {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(map[string]string{"agent": sixteen, "operator": sixteen + "2"}, got.Tokens); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, off := range []string{"", "0"} {
		if got, err := config.Load([]string{"XRAY_UNLOCK_DANGEROUS_TOOLS=" + off}); err != nil || got.Unlock {
			t.Errorf("%q unlocks (%v)", off, err)
		}
	}
}

// TestSecretsAreMarked: a setting whose value is a secret is not logged.
func TestSecretsAreMarked(t *testing.T) {
	for _, s := range config.Table {
		if want := strings.HasSuffix(s.Name, "_TOKEN"); s.Secret != want {
			t.Errorf("%s: secret %v, want %v", s.Name, s.Secret, want)
		}
	}
}
