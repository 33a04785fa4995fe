package external

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"xrayrunner/manifests"
)

// fixedPath is PATH for a skill that asks for it: the same short one that reviewed skills have.
const fixedPath = "/usr/local/bin:/usr/bin:/bin"

// maxEnvFile bounds RUNNER_EXTERNAL_ENV_FILE.
const maxEnvFile = 64 << 10

// loaders are names, and beginnings of names ("LD_*"), that mean "run this first" to a loader, a shell or an interpreter
// (case 36). They are compared without regard to letter case.
var loaders = []string{
	"LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "RESOLV_HOST_CONF", "MALLOC_*", "LIBC_*",
	"BASH_*", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS", "CDPATH", "GLOBIGNORE", "ZDOTDIR", "FPATH",
	"PYTHON*", "NODE_*", "NPM_*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_*", "JAVA_OPTS", "CLASSPATH",
	"GIT_*", "LUA_*", "PHPRC", "PHP_*", "R_*", "TCLLIBPATH", "ERL_*", "DOTNET_*", "COR_*", "CORECLR_*", "GOFLAGS", "GODEBUG", "RUSTC_*", "CARGO_*",
	"OPENSSL_*", "SSL_CERT_*", "EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "BROWSER",
}

// Environment is what the operator gives to external skills: values, and names that would else be refused.
type Environment struct {
	Values map[string]string
	Unsafe []string
}

// LoadEnvironment reads a file of NAME=VALUE lines ("" gives none); # begins a comment.
func LoadEnvironment(path string, unsafe []string) (Environment, error) {
	e := Environment{Values: map[string]string{}, Unsafe: unsafe}
	if path == "" {
		return e, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	return e, e.parse(raw)
}

func (e Environment) parse(raw []byte) error {
	if len(raw) > maxEnvFile || bytes.IndexByte(raw, 0) >= 0 {
		return fmt.Errorf("more than %d bytes, or a NUL", maxEnvFile)
	}
	for i, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || !manifests.VariableName(name) {
			return fmt.Errorf("line %d is not NAME=VALUE", i+1)
		}
		if _, twice := e.Values[name]; twice {
			return fmt.Errorf("line %d: %s stands there twice", i+1, name)
		}
		e.Values[name] = value
	}
	return nil
}

// Refused says which of the names no skill may have; "" when it may have all.
func (e Environment) Refused(names []string) string {
	for _, name := range names {
		if loads(name) && !slices.Contains(e.Unsafe, name) {
			return fmt.Sprintf("env_allow: %s makes a loader or an interpreter run something first", name)
		}
	}
	return ""
}

func loads(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(loaders, func(pattern string) bool {
		start, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, start)
	})
}

// For is the whole environment of a run: exactly the names that the skill may have, and of those only what has a value.
func (e Environment) For(names []string, dir string) []string {
	env := []string{}
	for _, name := range names {
		value, set := e.Values[name]
		switch name {
		case "PATH":
			value, set = fixedPath, true
		case "HOME":
			value, set = dir, true
		}
		if set {
			env = append(env, name+"="+value)
		}
	}
	return env
}
