package manifests_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"xrayrunner/manifests"
)

func compile(t *testing.T, raw string) *manifests.Schema {
	t.Helper()
	s, err := manifests.CompileSchema([]byte(raw))
	if err != nil {
		t.Fatalf("compile %.200s: %v", raw, err)
	}
	return s
}

// TestCase01NumbersNeverPanic: the validator turns numbers into exact fractions, and panics on those that
// it cannot represent.
func TestCase01NumbersNeverPanic(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"n":{"type":"number","minimum":0,"multipleOf":0.5}}}`)
	for _, n := range []string{"1e1000001", "-1e-1000001", "1e999999", strings.Repeat("9", 10_000), "1e" + strings.Repeat("9", 5000)} {
		raw := []byte(`{"n":` + n + `}`)
		start := time.Now()
		err := s.Validate(raw)
		if err == nil || err.Pointer != "/n" || err.Keyword != "json" {
			t.Errorf("%.20s: got %v, want a refusal of the number at /n", n, err)
		}
		if judged := manifests.CheckJSON(raw, manifests.InputBounds); judged == nil || judged.Kind != manifests.JSONNumber {
			t.Errorf("%.20s: CheckJSON got %v", n, judged)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("%.20s: took %s", n, took)
		}
	}
	if err := s.Validate([]byte(`{"n":1e308}`)); err != nil {
		t.Errorf("1e308: %v", err)
	}
}

// TestCase01NumbersAreExact: 2^53+1 is not 2^53, which it becomes as a float64.
func TestCase01NumbersAreExact(t *testing.T) {
	s := compile(t, `{"const":9007199254740993}`)
	if err := s.Validate([]byte(`9007199254740993`)); err != nil {
		t.Error(err)
	}
	if err := s.Validate([]byte(`9007199254740992`)); err == nil {
		t.Error("9007199254740992 passed as 9007199254740993")
	}
}

// TestCase17SchemaReachesNothing: no file is opened and no connection made, whatever a schema refers to.
func TestCase17SchemaReachesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var hits sync.WaitGroup
	connected := make(chan struct{}, 1)
	hits.Go(func() {
		if c, err := listener.Accept(); err == nil {
			c.Close()
			connected <- struct{}{}
		}
	})
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte("zzsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{
		"file://" + secret, "file:///etc/hostname", secret, "http://" + listener.Addr().String() + "/x",
		"../other/xray.json", "other.json#/a", "https://json-schema.org/draft/2020-12/schema", "urn:x", "//host/x", "",
	} {
		for _, doc := range []string{`{"$ref":%q}`, `{"properties":{"a":{"items":{"$ref":%q}}}}`, `{"$defs":{"unused":{"$ref":%q}}}`, `{"$schema":%q}`, `{"$dynamicRef":%q}`} {
			raw := fmt.Sprintf(doc, ref)
			if strings.Contains(raw, `"$schema":"https://json-schema.org/draft/2020-12/schema"`) {
				continue
			}
			_, err := manifests.CompileSchema([]byte(raw))
			if err == nil {
				t.Errorf("%s was compiled", raw)
			} else if strings.Contains(err.Error(), "zzs") || strings.Contains(err.Error(), "'z'") {
				t.Errorf("%s: the error quotes the file: %v", raw, err)
			}
		}
	}
	listener.Close()
	hits.Wait()
	if len(connected) > 0 {
		t.Error("a connection was made")
	}
}

func TestCase17ReferencesAreBounded(t *testing.T) {
	doubling := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		}
		fmt.Fprintf(&b, `"d%d":{}}}`, n)
		return b.String()
	}
	tests := []struct{ name, raw, want string }{
		{"inside the document", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`, ""},
		{"nowhere", `{"$ref":"#/$defs/b","$defs":{"a":{"type":"object"}}}`, "points at no schema"},
		{"a value that is no schema", `{"$ref":"#/default","default":{"type":"object"}}`, "points at no schema"},
		{"below an unknown keyword", `{"$ref":"#/x","x":{"$ref":"file:///etc/passwd"}}`, "points at no schema"},
		{"anchor", `{"$ref":"#a","$defs":{"a":{"$anchor":"a"}}}`, ""},
		{"to itself", `{"$ref":"#"}`, "leads back to itself"},
		{"loop of two", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "leads back to itself"},
		{"loop through a property", `{"properties":{"a":{"$ref":"#"}}}`, "leads back to itself"},
		{"loop nobody refers to", `{"$defs":{"a":{"items":{"$ref":"#/$defs/a"}}}}`, "leads back to itself"},
		{"5 doublings", doubling(5), ""},
		{"30 doublings", doubling(30), "more than 1000 schemas"},
		{"escaped name", `{"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"type":"object"}}}`, ""},
		{"a property called $ref", `{"properties":{"$ref":{"type":"string"}},"default":{"$ref":"file:///x"}}`, ""},
		{"inner $id", `{"properties":{"a":{"$id":"http://x/y"}}}`, "$id is allowed at the top level only"},
		{"outer $id", `{"$id":"http://x/y","$ref":"#/$defs/a","$defs":{"a":{}}}`, ""},
		{"inner dialect", `{"properties":{"a":{"$schema":"http://json-schema.org/draft-07/schema#"}}}`, "only draft 2020-12"},
		{"its own dialect", `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, ""},
		{"32 levels", strings.Repeat(`{"not":`, 31) + "{}" + strings.Repeat("}", 31), ""},
		{"33 levels", strings.Repeat(`{"not":`, 32) + "{}" + strings.Repeat("}", 32), "nested more than 32"},
		{"64 KiB", `{"title":"` + strings.Repeat("x", manifests.MaxSchemaBytes-12) + `"}`, ""},
		{"one byte more", `{"title":"` + strings.Repeat("x", manifests.MaxSchemaBytes-11) + `"}`, "at most 65536"},
		{"look-ahead", `{"pattern":"^(?!x)a"}`, "pattern does not compile"},
		{"look-ahead in patternProperties", `{"patternProperties":{"^(?!x)a":{}}}`, "pattern does not compile"},
		{"large number", `{"minimum":1e1000001}`, "exponent"},
		{"duplicate key", `{"type":"object","type":"string"}`, "twice"},
		{"wrong type of a keyword", `{"maxLength":"3"}`, "/maxLength"},
		{"unknown type", `{"type":"text"}`, "/type"},
		{"not a schema", `[]`, "expected"},
		{"null", `null`, "expected"},
		{"true", `true`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := manifests.CompileSchema([]byte(tt.raw))
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want something about %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "schema://") {
				t.Errorf("the error shows our own URL: %v", err)
			}
		})
	}
}

func TestValidateMessages(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"csv":{"type":"string","maxLength":3},"n":{"type":"integer"},"mail":{"format":"email"},"either":{"anyOf":[{"type":"string"},{"type":"null"}]},
		"deep":{"type":"array","items":{"type":"object","properties":{"a b/c":{"enum":["x","y"]}}}}},"required":["csv","n"],"additionalProperties":false}`)
	tests := []struct{ name, raw, pointer, keyword, message string }{
		{"sound", `{"csv":"abc","n":1}`, "", "", ""},
		{"too long", `{"csv":"abcd","n":1}`, "/csv", "maxLength", `at "/csv": length must be <= 3, but got 4`},
		{"characters, not bytes", `{"csv":"😀😀😀","n":1}`, "", "", ""},
		{"missing, sorted", `{}`, "", "required", `at the top level: missing properties: "csv", "n"`},
		{"unknown, sorted", `{"csv":"","n":1,"z'z":1,"y":1,"x":1}`, "", "additionalProperties", `at the top level: unknown properties: "x", "y", "z'z"`},
		{"deepest wins", `{"deep":[{"a b/c":"z"}],"csv":"abcd","n":1.5}`, "/deep/0/a b~1c", "enum", `at "/deep/0/a b~1c": value must be one of "x", "y"`},
		{"type", `{"csv":"","n":"1"}`, "/n", "type", `at "/n": expected integer, but got string`},
		{"branches that differ in type", `{"csv":"","n":1,"either":1}`, "/either", "type", `at "/either": expected null or string, but got number`},
		{"null", `{"csv":null,"n":1}`, "/csv", "type", `at "/csv": expected string, but got null`},
		{"format is asserted", `{"csv":"","n":1,"mail":"x"}`, "/mail", "format", `at "/mail": 'x' is not valid 'email'`},
		{"an integer in another notation", `{"csv":"","n":1.0e1}`, "", "", ""},
		{"duplicate key", `{"csv":"","csv":"","n":1}`, "/csv", "json", `at "/csv": the key "csv" is there twice`},
		{"no JSON", `{`, "", "json", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := s.Validate([]byte(tt.raw))
			if tt.keyword == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			if err.Pointer != tt.pointer || err.Keyword != tt.keyword || (tt.message != "" && err.Message != tt.message) {
				t.Errorf("got %q %q %q, want %q %q %q", err.Pointer, err.Keyword, err.Message, tt.pointer, tt.keyword, tt.message)
			}
			for range 20 { // the validator walks maps
				if again := s.Validate([]byte(tt.raw)); again.Message != err.Message {
					t.Fatalf("not the same twice: %q and %q", err.Message, again.Message)
				}
			}
		})
	}
}

func TestValidateMessageIsBoundedAndPlain(t *testing.T) {
	s := compile(t, `{"additionalProperties":false,"properties":{"f":{"format":"ipv4"}}}`)
	for _, raw := range []string{`{"f":"` + strings.Repeat("é", 5000) + `"}`, `{"` + strings.Repeat("k", 5000) + `":1}`, `{"\u001b[31m\u202e":1}`, `{"f":"\u001b\u202e"}`} {
		err := s.Validate([]byte(raw))
		if err == nil || utf8.RuneCountInString(err.Message) > 300 || strings.ContainsAny(err.Message, "\x1b\u202e") {
			t.Errorf("%.40s: %v", raw, err)
		}
	}
}

func TestZeroSchemaRefuses(t *testing.T) {
	if err := new(manifests.Schema).Validate([]byte(`{}`)); err == nil || err.Keyword != "validator" {
		t.Errorf("a schema that was never compiled let a value pass: %v", err)
	}
}

func TestValidateConcurrently(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"maxLength":1}}}`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if s.Validate([]byte(`{"a":"xx"}`)) == nil || s.Validate([]byte(`{"a":"x"}`)) != nil {
					t.Error("wrong verdict")
				}
			}
		})
	}
	all.Wait()
}

// TestFormatsAreAsserted: in draft 2020-12 a format is only a note, unless the validator is told otherwise.
func TestFormatsAreAsserted(t *testing.T) {
	for _, dialect := range []string{``, `"$schema":"https://json-schema.org/draft/2020-12/schema",`} {
		s := compile(t, `{`+dialect+`"format":"email"}`)
		if s.Validate([]byte(`"x"`)) == nil || s.Validate([]byte(`"x@example.com"`)) != nil {
			t.Errorf("with %q the format is a note", dialect)
		}
	}
}
