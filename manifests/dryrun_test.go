package manifests_test

import (
	"strings"
	"testing"

	"xrayrunner/manifests"
)

// TestClassOf: a run is a dry one when the judged input says true at the declared property, and in no other case. Each row
// beside the first differs from it in one thing.
func TestClassOf(t *testing.T) {
	skill := func(class manifests.Class, property string) *manifests.Skill {
		return &manifests.Skill{Class: class, Scripts: map[string]*manifests.Script{"run.py": {DryRun: property}}}
	}
	for _, c := range []struct {
		name  string
		skill *manifests.Skill
		input string
		want  manifests.Class
	}{
		{"a dry run", skill(manifests.Mutating, "dry"), `{"dry":true,"n":1}`, manifests.Safe},
		{"with white space", skill(manifests.Mutating, "dry"), "{ \"dry\" :\n true }", manifests.Safe},
		{"the key escaped", skill(manifests.Mutating, "dry"), `{"\u0064ry":true}`, manifests.Safe},
		{"false", skill(manifests.Mutating, "dry"), `{"dry":false}`, manifests.Mutating},
		{"absent, whatever the schema's default", skill(manifests.Mutating, "dry"), `{}`, manifests.Mutating},
		{"a word", skill(manifests.Mutating, "dry"), `{"dry":"true"}`, manifests.Mutating},
		{"a number", skill(manifests.Mutating, "dry"), `{"dry":1}`, manifests.Mutating},
		{"null", skill(manifests.Mutating, "dry"), `{"dry":null}`, manifests.Mutating},
		{"another letter case", skill(manifests.Mutating, "dry"), `{"Dry":true}`, manifests.Mutating},
		{"deeper", skill(manifests.Mutating, "dry"), `{"a":{"dry":true}}`, manifests.Mutating},
		{"no object", skill(manifests.Mutating, "dry"), `[{"dry":true}]`, manifests.Mutating},
		{"no JSON", skill(manifests.Mutating, "dry"), `{"dry":true`, manifests.Mutating},
		{"nothing declared", skill(manifests.Mutating, ""), `{"":true}`, manifests.Mutating},
		{"dangerous asks always", skill(manifests.Dangerous, "dry"), `{"dry":true}`, manifests.Dangerous},
		{"no class", skill("", "dry"), `{"dry":true}`, ""},
		{"no such script", &manifests.Skill{Class: manifests.Mutating}, `{"dry":true}`, manifests.Mutating},
		{"safe stays safe", skill(manifests.Safe, ""), `{}`, manifests.Safe},
	} {
		if got := c.skill.ClassOf("run.py", []byte(c.input)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestDryRunDeclared: where it may stand, in both formats.
func TestDryRunDeclared(t *testing.T) {
	const boolean = `{"type":"object","properties":{"dry":{"type":"boolean"}},"additionalProperties":false}`
	for _, c := range []struct{ name, class, network, schema, property, want string }{
		{"sound", "mutating", "none", boolean, "dry", ""},
		{"safe", "safe", "none", boolean, "dry", "for the class mutating"},
		{"dangerous", "dangerous", "none", boolean, "dry", "for the class mutating"},
		{"no such property", "mutating", "none", boolean, "dry_run", "no property of that name"},
		{"a property of another type", "mutating", "none", strings.Replace(boolean, `"boolean"`, `"string"`, 1), "dry", "no property of that name"},
		{"of two types", "mutating", "none", strings.Replace(boolean, `"boolean"`, `["boolean","string"]`, 1), "dry", "no property of that name"},
		{"in another letter case", "mutating", "none", strings.Replace(boolean, `"type":"boolean"`, `"Type":"boolean"`, 1), "dry", "no property of that name"},
		{"beside egress", "mutating", "egress", boolean, "dry", "beside network egress"},
	} {
		_, findings := manifests.ParseXray("s", []byte(`{"class":"`+c.class+`","network":"`+c.network+`","scripts":{"a.py":{"description":"x","dry_run":"`+c.property+`","input":`+c.schema+`}}}`))
		expectFault(t, "xray.json: "+c.name, findings, c.want)
		if c.network == "none" {
			_, findings = manifests.ParseExternal("s", []byte(`{"name":"s","description":"x","entry":"a.py","class":"`+c.class+`","dry_run":"`+c.property+`","schema":`+c.schema+`}`))
			expectFault(t, "skill.json: "+c.name, findings, c.want)
		}
	}
}

func expectFault(t *testing.T, what string, findings []manifests.Finding, want string) {
	t.Helper()
	seen := want == ""
	for _, f := range findings {
		seen = seen || strings.Contains(f.Message, want) && f.Severity == manifests.Error && f.Line > 0 && f.Cure != ""
	}
	if !seen || want == "" && manifests.HasErrors(findings) {
		t.Errorf("%s: %v, want %q", what, findings, want)
	}
}

// TestDryRunOfExternal: the api proves anew what the runner told it.
func TestDryRunOfExternal(t *testing.T) {
	for property, sound := range map[string]bool{"dry": true, "": true, "other": false} {
		s := &manifests.Skill{Name: "s", Kind: manifests.External, Network: manifests.NetworkNone, Class: manifests.Mutating, Folder: "sha256:" + strings.Repeat("0", 64),
			Scripts: map[string]*manifests.Script{"a.py": {DryRun: property, Input: []byte(`{"type":"object","properties":{"dry":{"type":"boolean"}}}`)}}}
		if err := s.PrepareExternal(); (err == nil) != sound {
			t.Errorf("%q: %v", property, err)
		}
	}
}
