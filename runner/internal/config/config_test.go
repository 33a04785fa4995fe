package config_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/manifests"
	"xrayrunner/runner/internal/config"
)

const token = "0123456789abcdef"

func TestDefaults(t *testing.T) {
	got, err := config.Load([]string{"PATH=/bin"})
	want := config.Config{
		Socket: "/run/xray/runner.sock", SkillsDir: "/opt/xray/skills", Manifest: "/opt/xray/manifest.json", WorkDir: "/work", Queue: 64,
		Isolation: "auto", MinIsolation: []string{"landlock", "seccomp"}, Network: "none", MaxClass: manifests.Safe, DefaultedCPUs: runtime.NumCPU(),
		Warm: true,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// TestSettings: each accepted value has a refused neighbour. The error names the setting.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name, env string // lines
		wantErr   string // empty: accepted
		check     func(config.Config) bool
	}{
		{"a socket", "RUNNER_LISTEN=unix:///tmp/x.sock", "", func(c config.Config) bool { return c.Socket == "/tmp/x.sock" && c.TCP == "" }},
		{"a relative socket", "RUNNER_LISTEN=unix://x.sock", "absolute path", nil},
		{"no scheme", "RUNNER_LISTEN=/tmp/x.sock", "RUNNER_LISTEN", nil},
		{"another scheme", "RUNNER_LISTEN=http://127.0.0.1:1", "RUNNER_LISTEN", nil},
		{"empty", "RUNNER_LISTEN=", "RUNNER_LISTEN", nil},
		{"TCP with a token", "RUNNER_LISTEN=tcp://127.0.0.1:8080\nRUNNER_TOKEN=" + token, "", func(c config.Config) bool { return c.TCP == "127.0.0.1:8080" && c.Socket == "" }},
		{"TCP without a token", "RUNNER_LISTEN=tcp://127.0.0.1:8080", "RUNNER_TOKEN", nil},
		{"case 42: TCP with an empty token", "RUNNER_LISTEN=tcp://127.0.0.1:8080\nRUNNER_TOKEN=", "RUNNER_TOKEN", nil},
		{"case 42: TCP with a word for a token", "RUNNER_LISTEN=tcp://127.0.0.1:8080\nRUNNER_TOKEN=undefined", "at least 16", nil},
		{"case 42: one character short", "RUNNER_LISTEN=tcp://127.0.0.1:8080\nRUNNER_TOKEN=" + token[1:], "at least 16", nil},
		{"TCP without a port", "RUNNER_LISTEN=tcp://127.0.0.1\nRUNNER_TOKEN=" + token, "RUNNER_LISTEN", nil},
		{"TCP over IPv6 loopback", "RUNNER_LISTEN=tcp://[::1]:8080\nRUNNER_TOKEN=" + token, "", nil},
		{"TCP on all addresses", "RUNNER_LISTEN=tcp://0.0.0.0:8080\nRUNNER_TOKEN=" + token, "RUNNER_DEV=1", nil},
		{"TCP on no address", "RUNNER_LISTEN=tcp://:8080\nRUNNER_TOKEN=" + token, "RUNNER_DEV=1", nil},
		{"TCP on a name", "RUNNER_LISTEN=tcp://localhost:8080\nRUNNER_TOKEN=" + token, "RUNNER_DEV=1", nil},
		{"TCP on all addresses in development", "RUNNER_DEV=1\nRUNNER_LISTEN=tcp://0.0.0.0:8080\nRUNNER_TOKEN=" + token, "", func(c config.Config) bool { return c.Dev }},
		{"development does not lift the token", "RUNNER_DEV=1\nRUNNER_LISTEN=tcp://0.0.0.0:8080", "RUNNER_TOKEN", nil},
		{"a word is not development", "RUNNER_DEV=true\nRUNNER_LISTEN=tcp://0.0.0.0:8080\nRUNNER_TOKEN=" + token, "RUNNER_DEV=1", nil},

		{"runs at once", "RUNNER_MAX_CONCURRENT=256", "", func(c config.Config) bool { return c.Slots == 256 }},
		{"one more", "RUNNER_MAX_CONCURRENT=257", "RUNNER_MAX_CONCURRENT", nil},
		{"less than none", "RUNNER_MAX_CONCURRENT=-1", "from 0 to 256", nil},
		{"places", "RUNNER_QUEUE=1000", "", func(c config.Config) bool { return c.Queue == 1000 }},
		{"no places", "RUNNER_QUEUE=0", "", func(c config.Config) bool { return c.Queue == 0 }},
		{"one place more", "RUNNER_QUEUE=1001", "RUNNER_QUEUE", nil},
		{"half a place", "RUNNER_QUEUE=1.5", "whole number", nil},
		{"places, empty", "RUNNER_QUEUE=", "RUNNER_QUEUE", nil},

		{"isolation", "RUNNER_ISOLATION=landlock", "", func(c config.Config) bool { return c.Isolation == "landlock" }},
		{"isolation by namespaces", "RUNNER_ISOLATION=namespaces", "", func(c config.Config) bool { return slices.Contains(c.MinIsolation, "namespaces") }},
		{"isolation against the minimum", "RUNNER_ISOLATION=landlock\nRUNNER_MIN_ISOLATION=namespaces", "change one", nil},
		{"isolation off", "RUNNER_ISOLATION=none", "RUNNER_ISOLATION", nil},
		{"minimum", "RUNNER_MIN_ISOLATION=landlock, seccomp,sweep", "", func(c config.Config) bool { return len(c.MinIsolation) == 3 && c.MinIsolation[1] == "seccomp" }},
		{"minimum, misspelt", "RUNNER_MIN_ISOLATION=landlok", `unknown layer "landlok"`, nil},
		{"minimum, empty", "RUNNER_MIN_ISOLATION=", "RUNNER_MIN_ISOLATION", nil},
		{"network", "RUNNER_NETWORK=none", "", nil},
		{"network of a later part", "RUNNER_NETWORK=egress", "RUNNER_NETWORK", nil},
		{"class", "RUNNER_MAX_CLASS=dangerous", "", func(c config.Config) bool { return c.MaxClass == manifests.Dangerous }},
		{"class, unknown", "RUNNER_MAX_CLASS=all", "RUNNER_MAX_CLASS", nil},
		{"class, in capitals", "RUNNER_MAX_CLASS=Safe", "RUNNER_MAX_CLASS", nil},
		{"class, empty", "RUNNER_MAX_CLASS=", "RUNNER_MAX_CLASS", nil},

		{"cold", "RUNNER_WARM=off", "", func(c config.Config) bool { return !c.Warm }},
		{"warm, unknown", "RUNNER_WARM=1", "write on or off", nil},
		{"warm, empty", "RUNNER_WARM=", "write on or off", nil},
		{"memory of cells", "RUNNER_WARM_MEMORY=96", "", func(c config.Config) bool { return c.WarmMemory == 96<<20 }},
		{"memory of cells, too much", "RUNNER_WARM_MEMORY=4097", "from 0 to 4096", nil},
		{"memory of cells, with a unit", "RUNNER_WARM_MEMORY=96M", "whole number of MiB", nil},

		{"uids", "RUNNER_ALLOW_UIDS=0, 64001", "", func(c config.Config) bool { return cmp.Equal(c.AllowUIDs, []uint32{0, 64001}) }},
		{"uid, negative", "RUNNER_ALLOW_UIDS=-1", "not a user id", nil},
		{"uid, a name", "RUNNER_ALLOW_UIDS=root", "RUNNER_ALLOW_UIDS", nil},
		{"uid, more than 32 bits", "RUNNER_ALLOW_UIDS=4294967296", "RUNNER_ALLOW_UIDS", nil},
		{"uid, a comma too many", "RUNNER_ALLOW_UIDS=1,", "RUNNER_ALLOW_UIDS", nil},

		{"folders", "RUNNER_SKILLS_DIR=/a\nRUNNER_MANIFEST=/b\nRUNNER_WORK_DIR=/c\nRUNNER_SHIM=/d", "", func(c config.Config) bool {
			return c.SkillsDir == "/a" && c.Manifest == "/b" && c.WorkDir == "/c" && c.Shim == "/d"
		}},
		{"skills, relative", "RUNNER_SKILLS_DIR=a", "RUNNER_SKILLS_DIR", nil},
		{"manifest, relative", "RUNNER_MANIFEST=a", "RUNNER_MANIFEST", nil},
		{"work folder, relative", "RUNNER_WORK_DIR=a", "RUNNER_WORK_DIR", nil},
		{"work folder, empty", "RUNNER_WORK_DIR=", "RUNNER_WORK_DIR", nil},

		{"a name of somebody else", "RUNNER_TOOL_CACHE=/x", "", func(c config.Config) bool {
			return strings.Contains(strings.Join(c.StartRemarks, ""), "RUNNER_TOOL_CACHE")
		}},
		{"a misspelt name", "RUNNER_MAX_CLAS=safe", "did you mean RUNNER_MAX_CLASS?", nil},
		{"a name of the api", "XRAY_SKILL_RUNNER_URL=unix:/x", "unknown setting XRAY_SKILL_RUNNER_URL", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := config.Load(strings.Split(c.env, "\n"))
			if (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Fatalf("err = %v, want %q", err, c.wantErr)
			}
			if c.check != nil && !c.check(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestErrorsKeepTheToken: a token that is refused is not repeated in the error, which goes to a log.
func TestErrorsKeepTheToken(t *testing.T) {
	_, err := config.Load([]string{"RUNNER_LISTEN=tcp://127.0.0.1:1", "RUNNER_TOKEN=hunter2"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range config.Table {
		named := strings.HasPrefix(s.Name, "RUNNER_") || strings.HasPrefix(s.Text, "another name for RUNNER_")
		if seen[s.Name] || !named || s.Text == "" || s.Secret != strings.Contains(s.Name, "TOKEN") {
			t.Errorf("row %+v", s)
		}
		seen[s.Name] = true
	}
}

// TestExternalDirs: three names of one setting; two that differ would leave open which holds.
func TestExternalDirs(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string // the folders; "!" refused
	}{
		{nil, ""},
		{[]string{"RUNNER_EXTERNAL_DIRS=/a:/b,/c"}, "/a /b /c"},
		{[]string{"XRAY_SKILLS_EXTERNAL_DIRS=/a, /b"}, "/a /b"},
		{[]string{"ONGRID_SKILLS_EXTERNAL_DIRS=/a"}, "/a"},
		{[]string{"ONGRID_SKILLS_EXTERNAL_DIRS=/a", "RUNNER_EXTERNAL_DIRS=/a"}, "/a"},
		{[]string{"ONGRID_SKILLS_EXTERNAL_DIRS=/a", "RUNNER_EXTERNAL_DIRS=/b"}, "!"},
		{[]string{"RUNNER_MOUNTS=a=/x"}, "!"},
		{[]string{"RUNNER_SOP_KEYS=keys.pem"}, "!"},
	} {
		got, err := config.Load(c.env)
		if (err != nil) != (c.want == "!") || err == nil && strings.Join(got.ExternalDirs, " ") != c.want {
			t.Errorf("%v: %v (%v), want %s", c.env, got.ExternalDirs, err, c.want)
		}
	}
}
