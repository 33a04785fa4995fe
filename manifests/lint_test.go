package manifests_test

import (
	"strings"
	"testing"

	"xrayrunner/manifests"
)

// TestCase18SchemaMeansWhatItSays: the list of case 18 and our own rules, each beside a schema that
// differs in one thing and is accepted.
func TestCase18SchemaMeansWhatItSays(t *testing.T) {
	field := func(schema string) string {
		return `{"type":"object","properties":{"f":` + schema + `},"required":["f"],"additionalProperties":false}`
	}
	nested := func(n int) string {
		s := `{"type":"integer"}`
		for range n - 2 {
			s = `{"type":"array","maxItems":2,"items":` + s + `}`
		}
		return field(s)
	}
	tests := []struct {
		name, good, bad string
		at, message     string // of the bad one
	}{
		{"object root", `{"type":"object","properties":{},"additionalProperties":false}`, `{"properties":{},"additionalProperties":false}`, "", "must have type object"},
		{"object and null root", field(`{"type":"integer"}`), `{"type":["object","null"],"properties":{},"additionalProperties":false}`, "", "must have type object"},
		{"root anyOf", field(`{"anyOf":[{"type":"integer"},{"type":"null"}]}`), `{"type":"object","properties":{},"additionalProperties":false,"anyOf":[{}]}`, "/anyOf", "anyOf at the top level"},
		{"root not", field(`{"type":"integer","not":{"const":1}}`), `{"type":"object","properties":{},"additionalProperties":false,"not":{"required":["x"]}}`, "/not", "not at the top level"},
		{"depth", nested(10), nested(11), "/properties/f" + strings.Repeat("/items", 9), "more than 10 schemas"},
		{"open object", field(`{"type":"object","additionalProperties":false}`), field(`{"type":"object"}`), "/properties/f", "an open object"},
		{"open root", field(`{"type":"integer"}`), `{"type":"object","properties":{}}`, "", "an open object"},
		{"additionalProperties true", field(`{"type":"object","unevaluatedProperties":false}`), field(`{"type":"object","additionalProperties":true}`), "/properties/f", "an open object"},
		{"map", field(`{"type":"object","maxProperties":9,"additionalProperties":{"type":"integer"}}`), field(`{"type":"object","additionalProperties":{"type":"integer"}}`), "/properties/f", "any number of properties"},
		{"misspelt properties", field(`{"type":"integer"}`), `{"type":"object","propertys":{},"additionalProperties":false}`, "/propertys", `did you mean "properties"?`},
		{"misspelt additionalProperties", field(`{"type":"object","additionalProperties":false}`), field(`{"type":"object","additionalproperties":false}`), "/properties/f", "an open object"},
		{"unknown keyword", field(`{"type":"integer","description":"x"}`), field(`{"type":"integer","x-note":"x"}`), "/properties/f/x-note", `unknown keyword "x-note"`},
		{"older keyword", field(`{"type":"integer"}`), `{"type":"object","properties":{},"additionalProperties":false,"definitions":{}}`, "/definitions", "unknown keyword"},
		{"string", field(`{"type":"string","maxLength":3}`), field(`{"type":"string"}`), "/properties/f", "a string without a longest length"},
		{"string or null", field(`{"type":["string","null"],"maxLength":3}`), field(`{"type":["string","null"]}`), "/properties/f", "a string without a longest length"},
		{"string by enum", field(`{"type":"string","enum":["a"]}`), field(`{"type":"string","minLength":1}`), "/properties/f", "a string without a longest length"},
		{"string by const", field(`{"const":"a"}`), field(`{"title":"a"}`), "/properties/f", "no type"},
		{"string by format", field(`{"type":"string","format":"email"}`), field(`{"type":"string","format":"uri"}`), "/properties/f", "a string without a longest length"},
		{"string by pattern", field(`{"type":"string","pattern":"^[a-z]+$","maxLength":9}`), field(`{"type":"string","pattern":"^[a-z]+$"}`), "/properties/f", "a string without a longest length"},
		{"string in anyOf", field(`{"anyOf":[{"type":"string","maxLength":1},{"type":"null"}]}`), field(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), "/properties/f/anyOf/0", "a string without a longest length"},
		{"string in $defs", field(`{"type":"string","maxLength":1}`), `{"type":"object","properties":{},"additionalProperties":false,"$defs":{"a":{"type":"string"}}}`, "/$defs/a", "a string without a longest length"},
		{"string in a condition", field(`{"type":"string","maxLength":9,"not":{"type":"string","minLength":3}}`), field(`{"type":"string","maxlength":9}`), "/properties/f", "a string without a longest length"},
		{"array without items", field(`{"type":"array","maxItems":2,"items":{"type":"integer"}}`), field(`{"type":"array","maxItems":2}`), "/properties/f", "what its items are"},
		{"array without end", field(`{"type":"array","prefixItems":[{"type":"integer"}],"items":false}`), field(`{"type":"array","items":{"type":"integer"}}`), "/properties/f", "an array without a largest length"},
		{"pattern not anchored", field(`{"type":"string","maxLength":9,"pattern":"^[a-z]+$"}`), field(`{"type":"string","maxLength":9,"pattern":"[a-z]+"}`), "/properties/f/pattern", "not anchored"},
		{"pattern open at the end", field(`{"type":"string","maxLength":9,"pattern":"\\A[a-z]+\\z"}`), field(`{"type":"string","maxLength":9,"pattern":"^[a-z]+"}`), "/properties/f/pattern", "not anchored"},
		{"pattern with a quoted dollar", field(`{"type":"string","maxLength":9,"pattern":"^a\\$$"}`), field(`{"type":"string","maxLength":9,"pattern":"^a\\$"}`), "/properties/f/pattern", "not anchored"},
		{"alternatives", field(`{"type":"string","maxLength":9,"pattern":"^(a|b)$"}`), field(`{"type":"string","maxLength":9,"pattern":"^a|b$"}`), "/properties/f/pattern", "not anchored"},
		{"alternatives, each anchored", field(`{"type":"string","maxLength":9,"pattern":"^a$|^b$"}`), field(`{"type":"string","maxLength":9,"pattern":"(?m)^a$"}`), "/properties/f/pattern", "not anchored"},
		{"look-ahead", field(`{"type":"string","maxLength":9,"pattern":"^a$"}`), field(`{"type":"string","maxLength":9,"pattern":"^(?!x)a$"}`), "/properties/f/pattern", "does not compile"},
		{"patternProperties", field(`{"type":"object","additionalProperties":false,"patternProperties":{"^a$":{"type":"integer"}}}`), field(`{"type":"object","additionalProperties":false,"patternProperties":{"a":{"type":"integer"}}}`), "/properties/f/patternProperties/a", "not anchored"},
		{"format", field(`{"type":"string","format":"date"}`), field(`{"type":"string","maxLength":9,"format":"dat"}`), "/properties/f/format", `did you mean "date"?`},
		{"reference", field(`{"type":"integer"}`), field(`{"$ref":"other.json#/a"}`), "/properties/f/$ref", "leaves the document"},
		{"recursion", field(`{"type":"integer"}`), field(`{"$ref":"#"}`), "", "leads back to itself"},
		{"dialect", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{},"additionalProperties":false}`, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{},"additionalProperties":false}`, "/$schema", "only draft 2020-12"},
		{"required", field(`{"type":"integer"}`), `{"type":"object","properties":{"text":{"type":"integer"}},"required":["txt"],"additionalProperties":false}`, "/required/0", `did you mean "text"?`},
		{"meta-schema", field(`{"type":"integer"}`), field(`{"type":"int"}`), "/properties/f/type", "value must be one of"},
		{"JSON", field(`{"type":"integer"}`), `{"type":"object",}`, "", "expected a key"},
		{"no object", field(`{"type":"integer"}`), `true`, "", "not a JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, p := range manifests.LintSchema([]byte(tt.good)) {
				if p.Severity == manifests.Error {
					t.Errorf("the good one was refused: %+v", p)
				}
			}
			var got []string
			for _, p := range manifests.LintSchema([]byte(tt.bad)) {
				if p.Severity == manifests.Error && p.Pointer == tt.at && strings.Contains(p.Message, tt.message) && p.Cure != "" {
					return
				}
				got = append(got, p.Pointer+": "+p.Message)
			}
			t.Errorf("no error %q at %q among %q", tt.message, tt.at, got)
		})
	}
}

func TestLintWarnings(t *testing.T) {
	tests := []struct{ name, raw, at string }{
		{"longer than any input", `{"type":"object","properties":{"f":{"type":"string","maxLength":4097}},"additionalProperties":false}`, "/properties/f/maxLength"},
		{"no properties", `{"type":"object","additionalProperties":false}`, ""},
		{"reference", `{"type":"object","properties":{"f":{"$ref":"#/$defs/a"}},"additionalProperties":false,"$defs":{"a":{"type":"integer"}}}`, "/properties/f/$ref"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := manifests.LintSchema([]byte(tt.raw))
			if len(got) != 1 || got[0].Severity != manifests.Warning || got[0].Pointer != tt.at {
				t.Errorf("got %+v, want one warning at %q", got, tt.at)
			}
		})
	}
}
