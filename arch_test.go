package xrayrunner_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "xrayrunner"

type pkg struct {
	ImportPath, Doc string
	Imports, Deps   []string
	Standard        bool
	Module          *struct{ Path string }
}

// ours is every package of this module with its dependencies, and third is the module of each package that is not.
func ours(t *testing.T) (map[string]pkg, map[string]string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Doc,Imports,Deps,Standard,Module", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	own, third := map[string]pkg{}, map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch {
		case p.ImportPath == module || strings.HasPrefix(p.ImportPath, module+"/"):
			own[strings.TrimPrefix(p.ImportPath, module+"/")] = p
		case p.Module != nil:
			third[p.ImportPath] = p.Module.Path
		}
	}
	if len(own) < 10 {
		t.Fatalf("found only %d packages", len(own))
	}
	return own, third
}

func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// TestImportRules: the folders are the architecture. Each rule names what it is for; a rule that names nothing that
// exists fails, so that it cannot pass by a package having moved.
func TestImportRules(t *testing.T) {
	own, third := ours(t)
	imports := func(p pkg) []string {
		var out []string
		for _, i := range p.Imports {
			out = append(out, strings.TrimPrefix(i, module+"/"))
		}
		return out
	}
	for _, rule := range []struct {
		name, of string // packages below of …
		bad      func(from, imported string) bool
	}{
		{"guard is pure: no module, of ours only manifests, no I/O and no clock", "guard", func(_, i string) bool {
			return third[i] != "" || own[i].ImportPath != "" && i != "manifests" ||
				slices.Contains([]string{"os", "net", "io/fs", "os/exec", "syscall", "time", "log", "log/slog", "context", "sync", "math/rand", "net/http"}, i)
		}},
		{"the api never starts a program", "api", func(_, i string) bool {
			return i == "os/exec" || i == "plugin" || i == "net/http/cgi" || strings.Contains(i, "libcontainer")
		}},
		{"the api takes of the runner only protocol and client", "api", func(_, i string) bool {
			return below(i, "runner") && i != "runner/protocol" && i != "runner/client"
		}},
		{"the runner does not know the api", "runner", func(_, i string) bool { return below(i, "api") }},
		{"echo lives in one package of the api", "api", func(from, i string) bool {
			return strings.HasPrefix(third[i], "github.com/labstack/echo") && from != "api/internal/server"
		}},
		{"the runner has no echo", "runner", func(_, i string) bool { return strings.HasPrefix(third[i], "github.com/labstack/echo") }},
		{"SQL lives in the store", "api", func(from, i string) bool { return i == "database/sql" && from != "api/internal/store" }},
		{"the sandbox needs the kernel and nothing else", "runner/internal/sandbox", func(_, i string) bool {
			return third[i] != "" && third[i] != "golang.org/x/sys" || own[i].ImportPath != ""
		}},
		{"libcontainer lives in one package", "runner", func(from, i string) bool {
			return strings.HasPrefix(third[i], "github.com/opencontainers/") && from != "runner/internal/jail"
		}},
		// Each Go package that is initialised in it makes each jail slower.
		{"a jail's init knows the sandbox's words and nothing else of ours", "runner/internal/jail", func(_, i string) bool {
			return own[i].ImportPath != "" && i != "runner/internal/sandbox"
		}},
		{"xray-jail is a jail's init and nothing else", "runner/cmd/xray-jail", func(_, i string) bool {
			return third[i] != "" || own[i].ImportPath != "" && i != "runner/internal/jail"
		}},
		// cost is the other one: it measures a bare start.
		{"only the sandbox starts programs in the runner", "runner", func(from, i string) bool {
			return i == "os/exec" && from != "runner/internal/cost"
		}},
		{"a bare start is doctor's to measure", "runner", func(from, i string) bool {
			return i == "runner/internal/cost" && from != "runner/internal/serve"
		}},
		{"manifests starts programs only to review Python", "manifests", func(from, i string) bool {
			return i == "os/exec" && from != "manifests/internal/review"
		}},
		{"protocol is messages", "runner/protocol", func(_, i string) bool { return third[i] != "" }},
	} {
		t.Run(rule.name, func(t *testing.T) {
			checked := 0
			for path, p := range own {
				if !below(path, rule.of) {
					continue
				}
				checked++
				for _, i := range imports(p) {
					if rule.bad(path, i) {
						t.Errorf("%s imports %s", path, i)
					}
				}
			}
			if checked == 0 {
				t.Errorf("the rule checks nothing: there is no package below %s", rule.of)
			}
		})
	}
}

// TestOnlyTheAttacksAreUnconfined: what takes the protection off is for the attacks' controls, and asked for by doctor.
func TestOnlyTheAttacksAreUnconfined(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("sandbox.Unconfined(")) {
			found[path] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || !found["runner/internal/serve/doctor.go"] {
		t.Errorf("used by %v", found)
	}
}

// TestAPILinksNothingThatStartsPrograms looks at the binary: what is not in it cannot be called. The controls
// are binaries that do start programs and must show it.
func TestAPILinksNothingThatStartsPrograms(t *testing.T) {
	starters := regexp.MustCompile(`(?m) (os\.StartProcess|os\.startProcess|os/exec\.\S*|syscall\.(forkExec|forkAndExecInChild1?|Exec|ForkExec|StartProcess)|golang\.org/x/sys/unix\.Exec)$`)
	symbols := func(binary string) []string {
		out, err := exec.Command("go", "tool", "nm", filepath.Join(binaries, binary)).Output()
		if err != nil {
			t.Fatal(err)
		}
		return starters.FindAllString(string(out), -1)
	}
	if found := symbols("api"); len(found) > 0 {
		t.Errorf("the api links %v", found)
	}
	for _, control := range []string{"runner", "spawnprobe"} {
		if len(symbols(control)) == 0 {
			t.Errorf("the control %s shows nothing: this test could not fail", control)
		}
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	own, _ := ours(t)
	for path, p := range own {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", path)
		}
	}
}

// TestManifestIsCurrent: what is committed is what the skills give, byte for byte, and building twice gives the same.
func TestManifestIsCurrent(t *testing.T) {
	committed, err := os.ReadFile("runner/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out := filepath.Join(t.TempDir(), "manifest.json")
		if text, err := exec.Command(filepath.Join(binaries, "manifestgen"), "build", "--skills", "runner/skills", "--out", out).CombinedOutput(); err != nil {
			t.Fatal(err, string(text))
		}
		built, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(built, committed) {
			t.Fatal("runner/manifest.json is not current: run scripts/generate and commit it")
		}
	}
}

// TestEverySettingIsInTheReadme reads the tables in the source and wants a row with name and default in the README.
func TestEverySettingIsInTheReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"runner/internal/config/config.go", "api/internal/config/config.go"} {
		rows := settingsIn(t, file)
		if len(rows) < 10 {
			t.Errorf("%s: found only %d settings", file, len(rows))
		}
		for name, value := range rows {
			if value == "" {
				value = "(empty)"
			}
			row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(name) + "` \\| `?" + regexp.QuoteMeta(value) + "`? \\|")
			if !row.Match(readme) {
				t.Errorf("README.md has no row | `%s` | `%s` | …", name, value)
			}
		}
	}
}

func settingsIn(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		values := map[string]string{}
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				key, okKey := kv.Key.(*ast.Ident)
				value, okValue := kv.Value.(*ast.BasicLit)
				if okKey && okValue && value.Kind == token.STRING {
					values[key.Name], _ = strconv.Unquote(value.Value)
				}
			}
		}
		if name := values["Name"]; name != "" {
			rows[name] = values["Default"]
		}
		return true
	})
	return rows
}
