package manifests_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"xrayrunner/manifests"
)

const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// goodLock is the base of the tests below: each changes one thing.
func goodLock() *manifests.Lock {
	return &manifests.Lock{
		Version: manifests.LockVersion,
		Skills: map[string]*manifests.Skill{
			"calc": {
				Name: "calc", Description: "a <b> & c", Kind: manifests.Runnable, Class: manifests.Safe, Network: manifests.NetworkNone,
				Files: map[string]manifests.File{"SKILL.md": {SHA256: hash}, "xray.json": {SHA256: hash}, "run.py": {SHA256: hash, Size: 3, Exec: true}},
				Scripts: map[string]*manifests.Script{"run.py": {
					Description: "x", Interpreter: "python3", Stdout: manifests.StdoutJSON, Limits: manifests.DefaultLimits(), Warm: true,
					Input:    json.RawMessage(`{"maximum":9007199254740993.0,"minimum":1E2,"type":"object"}`),
					Output:   json.RawMessage(`{"type":"object"}`),
					Examples: []manifests.Example{{Input: json.RawMessage(`{"n":1.0}`), Output: json.RawMessage(`{"t":"<&>"}`)}},
				}},
				Frontmatter: manifests.Frontmatter{License: "MIT", OS: []string{"linux"}, Metadata: json.RawMessage(`{"a":"1.0"}`), Tools: []manifests.Tool{{Name: "t", Class: manifests.Safe}}},
			},
			"prose": {Name: "prose", Description: "x", Kind: manifests.InjectOnly, Files: map[string]manifests.File{"SKILL.md": {SHA256: hash}}},
		},
		Disabled: map[string]manifests.Finding{"broken": {Severity: manifests.Error, Skill: "broken", File: "broken/SKILL.md", Message: "m"}},
	}
}

var lockDiff = cmp.Options{
	cmpopts.IgnoreUnexported(manifests.Lock{}, manifests.Script{}), cmpopts.EquateEmpty(),
}

func TestLockRoundTrip(t *testing.T) {
	want := goodLock()
	raw, err := manifests.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := manifests.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, lockDiff); diff != "" {
		t.Errorf("decoded is not encoded (-want +got):\n%s", diff)
	}
	again, err := manifests.Encode(got)
	if err != nil || string(again) != string(raw) {
		t.Errorf("a second encoding differs (%v):\n%s", err, cmp.Diff(string(raw), string(again)))
	}
	if got.Digest() != manifests.Digest(raw) || !strings.HasPrefix(got.Digest(), "sha256:") || len(got.Digest()) != 71 {
		t.Errorf("digest %q", got.Digest())
	}
	script := got.Skills["calc"].Scripts["run.py"]
	if err := script.InputSchema().Validate([]byte(`{}`)); err != nil {
		t.Errorf("compiled input schema: %v", err)
	}
	if script.OutputSchema() == nil || script.OutputSchema().Validate([]byte(`[]`)) == nil {
		t.Error("the output schema was not compiled")
	}
}

func TestEncodeIsCanonical(t *testing.T) {
	raw, err := manifests.Encode(goodLock())
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, want := range []string{"{\n  \"disabled\": {", "a <b> & c", "9007199254740993.0", "1E2", "\"n\": 1.0", "<&>", "}\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if !strings.HasSuffix(text, "}\n") || strings.HasSuffix(text, "\n\n") {
		t.Error("it does not end in one newline")
	}
	if strings.Index(text, `"skills"`) > strings.Index(text, `"version"`) || strings.Index(text, `"calc"`) > strings.Index(text, `"prose"`) {
		t.Error("keys are not sorted")
	}
}

// TestDecodeRefuses: each row is the good lock with one change.
func TestDecodeRefuses(t *testing.T) {
	calc := func(f func(*manifests.Skill)) func(*manifests.Lock) {
		return func(l *manifests.Lock) { f(l.Skills["calc"]) }
	}
	run := func(f func(*manifests.Script)) func(*manifests.Lock) {
		return func(l *manifests.Lock) { f(l.Skills["calc"].Scripts["run.py"]) }
	}
	file := func(name string) func(*manifests.Lock) {
		return calc(func(s *manifests.Skill) { s.Files[name] = manifests.File{SHA256: hash} })
	}
	script := func(name string) func(*manifests.Lock) {
		return calc(func(s *manifests.Skill) {
			s.Files[name] = manifests.File{SHA256: hash}
			s.Scripts[name] = s.Scripts["run.py"]
		})
	}
	tests := []struct {
		name   string
		change func(*manifests.Lock)
		want   string // "" = accepted
	}{
		{"nothing", func(*manifests.Lock) {}, ""},
		{"version", func(l *manifests.Lock) { l.Version = 2 }, "version 2"},
		{"key is not the name", func(l *manifests.Lock) { l.Skills["other"] = l.Skills["prose"] }, "another name"},
		{"null skill", func(l *manifests.Lock) { l.Skills["x"] = nil }, "null is not a skill"},
		{"underscore in the name", calc(func(s *manifests.Skill) { s.Name = "ca_lc" }), "another name"},
		{"name in capitals", calc(func(s *manifests.Skill) { s.Name = "Calc" }), "may hold only"},
		{"no kind", calc(func(s *manifests.Skill) { s.Kind = "" }), "kind"},
		{"external", calc(func(s *manifests.Skill) { s.Kind = manifests.External }), "kind"},
		{"inject-only with scripts", calc(func(s *manifests.Skill) { s.Kind = manifests.InjectOnly }), "inject-only skill has no class"},
		{"no class", calc(func(s *manifests.Skill) { s.Class = "" }), "class"},
		{"unknown class", calc(func(s *manifests.Skill) { s.Class = "read" }), "class"},
		{"dangerous", calc(func(s *manifests.Skill) { s.Class = manifests.Dangerous }), ""},
		{"no network", calc(func(s *manifests.Skill) { s.Network = "" }), "network"},
		{"egress", calc(func(s *manifests.Skill) { s.Network = manifests.NetworkEgress }), ""},
		{"no description", calc(func(s *manifests.Skill) { s.Description = "" }), "description"},
		{"no scripts", calc(func(s *manifests.Skill) { s.Scripts = nil }), "needs a script"},
		{"no SKILL.md", calc(func(s *manifests.Skill) { delete(s.Files, "SKILL.md") }), "SKILL.md is missing"},
		{"no xray.json", calc(func(s *manifests.Skill) { delete(s.Files, "xray.json") }), "xray.json"},
		{"script is no file", calc(func(s *manifests.Skill) { delete(s.Files, "run.py") }), "not one of the files"},
		{"null script", calc(func(s *manifests.Skill) { s.Scripts["x.py"] = nil }), "null is not a script"},
		{"file in a folder", file("data/x.csv"), ""},
		{"file with two dots in its name", file("data/..x"), ""},
		{"file above", file("../x"), "clean relative path"},
		{"file above, inside", file("a/../../x"), "clean relative path"},
		{"absolute file", file("/x"), "clean relative path"},
		{"file not clean", file("a//x"), "clean relative path"},
		{"folder", file("a/"), "clean relative path"},
		{"dot", file("."), "clean relative path"},
		{"backslash", file(`a\x`), "backslash"},
		{"line feed in a file name", file("a\nx"), "control character"},
		{"script in a folder", script("bin/a-b.v1.py"), ""},
		{"script with a space", script("a b.py"), "script name"},
		{"script with a dash first", script("-a.py"), "script name"},
		{"script with a dot first", script("bin/.a.py"), "script name"},
		{"short hash", calc(func(s *manifests.Skill) { s.Files["run.py"] = manifests.File{SHA256: hash[2:]} }), "64 lower-case hex"},
		{"hash in capitals", calc(func(s *manifests.Skill) { s.Files["run.py"] = manifests.File{SHA256: strings.ToUpper(hash)} }), "64 lower-case hex"},
		{"negative size", calc(func(s *manifests.Skill) { s.Files["run.py"] = manifests.File{SHA256: hash, Size: -1} }), "size"},
		{"too large together", calc(func(s *manifests.Skill) {
			s.Files["run.py"] = manifests.File{SHA256: hash, Size: manifests.MaxSkillBytes}
			s.Files["SKILL.md"] = manifests.File{SHA256: hash, Size: 1}
		}), "at most"},
		{"absolute interpreter", run(func(s *manifests.Script) { s.Interpreter, s.Warm = "/usr/bin/perl", false }), ""},
		{"relative interpreter", run(func(s *manifests.Script) { s.Interpreter = "perl" }), "interpreter"},
		{"interpreter not clean", run(func(s *manifests.Script) { s.Interpreter = "/usr/../bin/perl" }), "interpreter"},
		{"interpreter with an argument", run(func(s *manifests.Script) { s.Interpreter = "/usr/bin/perl -w" }), "interpreter"},
		{"no interpreter", run(func(s *manifests.Script) { s.Interpreter = "" }), "interpreter"},
		{"warm bash", run(func(s *manifests.Script) { s.Interpreter = "bash" }), "warm"},
		{"no stdout", run(func(s *manifests.Script) { s.Stdout = "" }), "stdout"},
		{"text", run(func(s *manifests.Script) { s.Stdout = manifests.StdoutText }), ""},
		{"no limits", run(func(s *manifests.Script) { s.Limits = manifests.Limits{} }), "timeout_seconds is 0"},
		{"highest limits", run(func(s *manifests.Script) {
			s.Limits = manifests.Limits{TimeoutSeconds: 120, CPUSeconds: 30, MemoryMB: 256, FileMB: 16, OpenFiles: 64, Processes: 32}
			s.Warm = false
		}), ""},
		{"warm with several processes", run(func(s *manifests.Script) { s.Limits.Processes = 2 }), "warm is for one process"},
		{"imports", calc(func(s *manifests.Skill) { s.Imports = []string{"json", "xml.etree", "_heapq"} }), ""},
		{"imports without a warm script", calc(func(s *manifests.Skill) {
			s.Imports, s.Scripts["run.py"].Warm = []string{"json"}, false
		}), "imports are for warm scripts"},
		{"import of its own file", calc(func(s *manifests.Skill) { s.Imports = []string{"run"} }), `the import "run"`},
		{"import of a path", calc(func(s *manifests.Skill) { s.Imports = []string{"/x"} }), "not the name of a module"},
		{"import with a number first", calc(func(s *manifests.Skill) { s.Imports = []string{"a.1"} }), "not the name of a module"},
		{"import of nothing", calc(func(s *manifests.Skill) { s.Imports = []string{"a."} }), "not the name of a module"},
		{"import with a NUL", calc(func(s *manifests.Skill) { s.Imports = []string{"a\x00b"} }), "not the name of a module"},
		{"timeout", run(func(s *manifests.Script) { s.Limits.TimeoutSeconds = 121 }), "from 1 to 120"},
		{"cpu", run(func(s *manifests.Script) { s.Limits.CPUSeconds = 31 }), "from 1 to 30"},
		{"memory", run(func(s *manifests.Script) { s.Limits.MemoryMB = 257 }), "from 16 to 256"},
		{"little memory", run(func(s *manifests.Script) { s.Limits.MemoryMB = 15 }), "from 16 to 256"},
		{"file size", run(func(s *manifests.Script) { s.Limits.FileMB = 17 }), "from 1 to 16"},
		{"open files", run(func(s *manifests.Script) { s.Limits.OpenFiles = 7 }), "from 8 to 64"},
		{"processes", run(func(s *manifests.Script) { s.Limits.Processes = 33 }), "from 1 to 32"},
		{"no input schema", run(func(s *manifests.Script) { s.Input = nil }), "input"},
		{"bad input schema", run(func(s *manifests.Script) { s.Input = json.RawMessage(`{"type":"x"}`) }), "input"},
		{"bad output schema", run(func(s *manifests.Script) { s.Output = json.RawMessage(`{"$ref":"file:///x"}`) }), "output"},
		{"no output schema", run(func(s *manifests.Script) { s.Output = nil }), ""},
		{"example is no object", run(func(s *manifests.Script) { s.Examples[0].Input = json.RawMessage(`[]`) }), "example 0"},
		{"example without output", run(func(s *manifests.Script) { s.Examples[0].Output = nil }), "example 0"},
		{"metadata is no object", calc(func(s *manifests.Skill) { s.Frontmatter.Metadata = json.RawMessage(`1`) }), "metadata"},
		{"tool without a name", calc(func(s *manifests.Skill) { s.Frontmatter.Tools[0].Name = "" }), "tool"},
		{"tool of class read", calc(func(s *manifests.Skill) { s.Frontmatter.Tools[0].Class = "read" }), "tool"},
		{"disabled without a reason", func(l *manifests.Lock) { l.Disabled["x"] = manifests.Finding{} }, "disabled folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := goodLock()
			tt.change(l)
			raw, err := json.Marshal(l) // not Encode: it refuses what Decode refuses
			if err != nil {
				t.Fatal(err)
			}
			_, err = manifests.Decode(raw)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want something about %q", err, tt.want)
			}
			if _, err := manifests.Encode(l); err == nil {
				t.Error("Encode wrote what Decode refuses")
			}
		})
	}
}

func TestDecodeIsStrict(t *testing.T) {
	raw, err := manifests.Encode(goodLock())
	if err != nil {
		t.Fatal(err)
	}
	good := string(raw)
	for name, changed := range map[string]string{
		"unknown key":   strings.Replace(good, `"version": 1`, `"version": 1, "x": 1`, 1),
		"other case":    strings.Replace(good, `"exec": true`, `"Exec": true`, 1),
		"long s":        strings.Replace(good, `"skills"`, "\"\u017fkills\"", 1),
		"twice":         strings.Replace(good, `"version": 1`, `"version": 1, "version": 1`, 1),
		"null":          strings.Replace(good, `"exec": true`, `"exec": null`, 1),
		"trailing data": good + "{}",
		"mark":          "\ufeff" + good,
	} {
		if changed == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := manifests.Decode([]byte(changed)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestClassRank(t *testing.T) {
	if manifests.Class("").Rank() != 0 || manifests.Class("Safe").Rank() != 0 {
		t.Error("a class that is none has a rank")
	}
	if !(manifests.Safe.Rank() < manifests.Mutating.Rank() && manifests.Mutating.Rank() < manifests.Dangerous.Rank()) {
		t.Error("classes are not in order")
	}
}
