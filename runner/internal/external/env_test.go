package external_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/runner/internal/external"
)

// TestCase36Names: each name that means "run this first" is refused at load, whatever its letter case, and one that the
// operator's setting spells out is not.
func TestCase36Names(t *testing.T) {
	refused := []string{"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "ld_preload", "Ld_Preload", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "GCONV_PATH",
		"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "NODE_OPTIONS", "NODE_PATH", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "BASH_FUNC_ls",
		"PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "GIT_SSH_COMMAND", "GIT_DIR",
		"PROMPT_COMMAND", "LESSOPEN", "OPENSSL_CONF", "DOTNET_STARTUP_HOOKS"}
	for _, name := range refused {
		if why := (external.Environment{}).Refused([]string{"PATH", name}); !strings.Contains(why, name) {
			t.Errorf("%s: %q", name, why)
		}
		if why := (external.Environment{Unsafe: []string{name}}).Refused([]string{name}); why != "" {
			t.Errorf("%s, named by the operator: %q", name, why)
		}
	}
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "API_TOKEN", "GREETING", "LDAP_HOST", "ENVIRONMENT"} {
		if why := (external.Environment{}).Refused([]string{name}); why != "" {
			t.Errorf("%s: %q", name, why)
		}
	}
	for _, name := range []string{"LD_*", "", "A=B", "A\\nB", "A B", "1A", "é", "LD_PRELOAD"} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"run.sh*": "#!/bin/bash\n", "skill.json": fmt.Sprintf(`{"name":"s","description":"x","entry":"run.sh","class":"safe","env_allow":["%s"]}`, name)})
		if set := load(dir); len(set.Skills) != 0 {
			t.Errorf("env_allow %q was registered", name)
		}
	}
}

// TestFor: exactly the names, PATH and HOME with fixed values, others from the operator's file alone.
func TestFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# values\nTOKEN=a=b c\n\nPATH=/evil\nHOME=/root\nEMPTY=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FROM_THE_RUNNER", "secret")
	e, err := external.LoadEnvironment(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ names, want []string }{
		{nil, []string{}},
		{[]string{"PATH", "HOME"}, []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/run/dir"}},
		{[]string{"TOKEN", "EMPTY", "FROM_THE_RUNNER", "NOT_SET"}, []string{"TOKEN=a=b c", "EMPTY="}},
	} {
		if diff := cmp.Diff(c.want, e.For(c.names, "/run/dir")); diff != "" {
			t.Errorf("%v (-want +got)\n%s", c.names, diff)
		}
	}
	for _, text := range []string{"A", "A B=c", "=x", "A=1\nA=2", "A=\x00", strings.Repeat("#", 64<<10) + "#"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := external.LoadEnvironment(file, nil); err == nil {
			t.Errorf("%.20q was taken", text)
		}
	}
}
