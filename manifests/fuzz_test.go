package manifests_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/manifests"
)

// fuzzTargets are the targets below; their seeds are committed in testdata/fuzz and run with every test.
var fuzzTargets = []string{"FuzzCheckJSON", "FuzzDecodeLock", "FuzzSkillMD", "FuzzXray", "FuzzParseExternal", "FuzzSchemaValidate"}

// TestFuzzSeedsExist: an empty folder would make a fuzz target pass without having run.
func TestFuzzSeedsExist(t *testing.T) {
	for _, name := range fuzzTargets {
		if entries, err := os.ReadDir(filepath.Join("testdata", "fuzz", name)); err != nil || len(entries) == 0 {
			t.Errorf("%s has no seeds (%v)", name, err)
		}
	}
}

// FuzzCheckJSON: what is accepted, encoding/json accepts too; what it accepts is never called bad syntax.
func FuzzCheckJSON(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, b := range []manifests.Bounds{manifests.InputBounds, manifests.OutputBounds, {Depth: 3, Digits: 5, Exponent: 2}} {
			err := manifests.CheckJSON(raw, b)
			valid := json.Valid(raw)
			if err == nil && !valid {
				t.Fatalf("%q was accepted and is no JSON", raw)
			}
			if err != nil && err.Kind == manifests.JSONSyntax && valid {
				t.Fatalf("%q is JSON and was refused: %v", raw, err)
			}
			if err == nil {
				var v any
				if err := json.Unmarshal(raw, &v); err != nil && b.Exponent <= 308 && b.Digits <= 5 {
					t.Fatalf("%q does not decode: %v", raw, err)
				}
			}
		}
	})
}

// FuzzDecodeLock: decoding, encoding and decoding again gives the same, and the bytes are stable.
func FuzzDecodeLock(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := manifests.Decode(raw)
		if err != nil {
			return
		}
		first, err := manifests.Encode(l)
		if err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		again, err := manifests.Decode(first)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l, again, lockDiff); diff != "" {
			t.Fatal(diff)
		}
		second, err := manifests.Encode(again)
		if err != nil || string(second) != string(first) {
			t.Fatalf("the bytes are not stable (%v): %s", err, cmp.Diff(string(first), string(second)))
		}
	})
}

// FuzzSkillMD: a file without an error makes a skill that the lock file accepts.
func FuzzSkillMD(f *testing.F) {
	f.Fuzz(func(t *testing.T, folder string, raw []byte) {
		name, description, fm, _, findings := manifests.ParseSkillMD(folder, raw)
		if manifests.HasErrors(findings) {
			return
		}
		if name != folder || description == "" {
			t.Fatalf("name %q in folder %q, description %q", name, folder, description)
		}
		encodeSkill(t, &manifests.Skill{Name: name, Description: description, Kind: manifests.InjectOnly, Frontmatter: fm})
	})
}

// FuzzXray: the same for the scripts.
func FuzzXray(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		x, findings := manifests.ParseXray("s", raw)
		if manifests.HasErrors(findings) {
			return
		}
		s := &manifests.Skill{Name: "s", Description: "x", Kind: manifests.Runnable, Class: x.Class, Category: x.Category, Network: x.Network, Scripts: x.Scripts}
		for _, script := range x.Scripts {
			if script.Interpreter == "" { // Build reads it from the file
				script.Interpreter = "/bin/x"
			}
		}
		encodeSkill(t, s)
	})
}

func encodeSkill(t *testing.T, s *manifests.Skill) {
	t.Helper()
	s.Files = map[string]manifests.File{"SKILL.md": {SHA256: hash}, "xray.json": {SHA256: hash}}
	for name := range s.Scripts {
		s.Files[name] = manifests.File{SHA256: hash}
	}
	if _, err := manifests.Encode(&manifests.Lock{Version: manifests.LockVersion, Skills: map[string]*manifests.Skill{s.Name: s}}); err != nil {
		t.Fatalf("no finding, and yet the lock file refuses it: %v", err)
	}
}

// FuzzSchemaValidate: no schema and no value makes the validator panic, and a verdict is the same twice.
func FuzzSchemaValidate(f *testing.F) {
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		problems := manifests.LintSchema(schema)
		s, err := manifests.CompileSchema(schema)
		if err != nil {
			for _, p := range problems {
				if p.Severity == manifests.Error {
					return
				}
			}
			t.Fatalf("the lint is content, and it does not compile: %v", err)
		}
		first := s.Validate(value)
		if second := s.Validate(value); (first == nil) != (second == nil) || first != nil && *first != *second {
			t.Fatalf("not the same twice: %v and %v", first, second)
		}
		if first != nil && (first.Message == "" || first.Keyword == "") {
			t.Fatalf("an empty refusal: %+v", first)
		}
	})
}
