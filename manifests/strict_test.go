package manifests_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/manifests"
)

type envelope struct {
	Skill  string          `json:"skill"`
	Script string          `json:"script"`
	Count  int             `json:"count"`
	List   []inner         `json:"list"`
	Map    map[string]int  `json:"map"`
	Opt    *int            `json:"opt"`
	Raw    json.RawMessage `json:"raw"`
	Any    any             `json:"any"`
	Hidden string          `json:"-"`
}

type inner struct {
	Key string `json:"key"`
}

func TestDecodeStrict(t *testing.T) {
	tests := []struct {
		name, raw string
		want      manifests.JSONKind
		at        string
	}{
		{"all fields", `{"skill":"a","script":"b","count":1,"list":[{"key":"x"}],"map":{"Any Key":2},"opt":null,"raw":{"Z":1},"any":{"skill":1}}`, "", ""},
		{"unknown key", `{"skil":"a"}`, manifests.JSONField, "/skil"},
		{"unknown key inside", `{"list":[{"key":"x"},{"kez":"x"}]}`, manifests.JSONField, "/list/1/kez"},
		{"other case inside", `{"list":[{"Key":"x"}]}`, manifests.JSONField, "/list/0/Key"},
		{"Go name of a field", `{"Hidden":"x"}`, manifests.JSONField, "/Hidden"},
		{"dash", `{"-":"x"}`, manifests.JSONField, "/-"},
		{"null for a string", `{"skill":null}`, manifests.JSONField, "/skill"},
		{"null for a list", `{"list":null}`, manifests.JSONField, "/list"},
		{"null in a list", `{"list":[null]}`, manifests.JSONField, "/list/0"},
		{"null for a raw value", `{"raw":null,"any":null}`, "", ""},
		{"null at the top", `null`, manifests.JSONField, ""},
		{"array for an object", `{"list":[[]]}`, manifests.JSONField, "/list/0"},
		{"object for a string", `{"skill":{}}`, manifests.JSONField, "/skill"},
		{"number for a string", `{"skill":1}`, manifests.JSONField, "/skill"},
		{"fraction for a whole number", `{"count":1.5}`, manifests.JSONField, "/count"},
		{"whole number", `{"count":15}`, "", ""},
		{"number too large", `{"count":99999999999999999999}`, manifests.JSONField, "/count"},
		{"array at the top", `[]`, manifests.JSONField, ""},
		{"trailing data", `{} {}`, manifests.JSONSyntax, ""},
		{"duplicate below an opaque field", `{"raw":{"a":1,"a":1}}`, manifests.JSONDuplicateKey, "/raw/a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v envelope
			err := manifests.DecodeStrict([]byte(tt.raw), &v)
			if err == nil && tt.want != "" {
				t.Fatalf("accepted as %+v; want %s", v, tt.want)
			}
			if err != nil && (err.Kind != tt.want || err.Pointer != tt.at) {
				t.Fatalf("got %s at %q (%v), want %q at %q", err.Kind, err.Pointer, err, tt.want, tt.at)
			}
		})
	}
}

// TestCase02TwoReadersSeeOneCall: the bodies of case 02; encoding/json decodes the first two to "other".
func TestCase02TwoReadersSeeOneCall(t *testing.T) {
	tests := []struct {
		raw  string
		want manifests.JSONKind
	}{
		{`{"skill":"ok","Skill":"other"}`, manifests.JSONField},
		{`{"skill":"ok","\u017fkill":"other"}`, manifests.JSONField},
		{"{\"skill\":\"ok\",\"\u017fkill\":\"other\"}", manifests.JSONField},
		{`{"skill":"ok","s\u212aill":"other"}`, manifests.JSONField},
		{`{"script":"a","script":"b"}`, manifests.JSONDuplicateKey},
		{`{"skill\u0000":"other","skill":"ok"}`, manifests.JSONControl},
		{`{"skill":"ok","raw":{"n":1,"n":2}}`, manifests.JSONDuplicateKey},
		{`{"skill":"ok","raw":{"n\u0000":1,"n":2}}`, manifests.JSONControl},
	}
	for _, tt := range tests {
		var v envelope
		if err := manifests.DecodeStrict([]byte(tt.raw), &v); err == nil || err.Kind != tt.want {
			t.Errorf("%s: got %v, want %s", tt.raw, err, tt.want)
		}
	}
	var v envelope
	if err := manifests.DecodeStrict([]byte(`{"skill":"ok","raw":{"n":1,"N":2}}`), &v); err != nil {
		t.Fatalf("the sound neighbour was refused: %v", err)
	}
	if diff := cmp.Diff(envelope{Skill: "ok", Raw: json.RawMessage(`{"n":1,"N":2}`)}, v); diff != "" {
		t.Error(diff)
	}
}
