package manifests_test

import (
	"encoding/json"
	"strings"
	"testing"

	"xrayrunner/manifests"
)

// TestCheckJSON: every allowed text has a neighbour that is refused and differs in one thing.
func TestCheckJSON(t *testing.T) {
	in := manifests.InputBounds
	tests := []struct {
		name   string
		raw    string
		bounds manifests.Bounds
		want   manifests.JSONKind // "" = accepted
		at     string
	}{
		{"object", `{"a":1}`, in, "", ""},
		{"nothing", ``, in, manifests.JSONSyntax, ""},
		{"white space around", " \t\r\n{} \n", in, "", ""},
		{"a form feed around", "\f{}", in, manifests.JSONSyntax, ""},
		{"two values", `{} {}`, in, manifests.JSONSyntax, ""},
		{"bytes after", `{}x`, in, manifests.JSONSyntax, ""},
		{"NUL after", "{}\x00", in, manifests.JSONSyntax, ""},
		{"comma at the end", `{"a":1,}`, in, manifests.JSONSyntax, ""},
		{"comma at the end of an array", `[1,]`, in, manifests.JSONSyntax, "/1"},
		{"single quotes", `{'a':1}`, in, manifests.JSONSyntax, ""},
		{"byte-order mark", "\ufeff{}", in, manifests.JSONEncoding, ""},
		{"words", `[true,false,null]`, in, "", ""},
		{"NaN", `[NaN]`, in, manifests.JSONSyntax, "/0"},
		{"a word cut short", `[tru`, in, manifests.JSONSyntax, "/0"},

		{"different keys", `{"a":1,"b":2}`, in, "", ""},
		{"equal keys", `{"a":1,"a":2}`, in, manifests.JSONDuplicateKey, "/a"},
		{"equal after unescaping", `{"a":1,"\u0061":2}`, in, manifests.JSONDuplicateKey, "/a"},
		{"equal in an inner object", `{"x":[{"a/b":1,"a/b":2}]}`, in, manifests.JSONDuplicateKey, "/x/0/a~1b"},
		{"equal keys in two objects", `[{"a":1},{"a":1}]`, in, "", ""},
		{"keys that differ in case", `{"a":1,"A":2}`, in, "", ""},

		{"64 levels", strings.Repeat("[", 64) + strings.Repeat("]", 64), in, "", ""},
		{"65 levels", strings.Repeat("[", 65) + strings.Repeat("]", 65), in, manifests.JSONTooDeep, strings.Repeat("/0", 64)},
		{"a million levels", strings.Repeat("[", 1e6), in, manifests.JSONTooDeep, strings.Repeat("/0", 64)},

		{"64 digits", strings.Repeat("1", 64), in, "", ""},
		{"65 digits", strings.Repeat("1", 65), in, manifests.JSONNumber, ""},
		{"65 digits around the point", "1." + strings.Repeat("1", 64), in, manifests.JSONNumber, ""},
		{"exponent 308", `1e308`, in, "", ""},
		{"exponent 309", `1e309`, in, manifests.JSONNumber, ""},
		{"exponent -309", `{"n":1E-309}`, in, manifests.JSONNumber, "/n"},
		{"exponent with zeros", `1e+000308`, in, "", ""},
		{"exponent that fits no int", `1e` + strings.Repeat("9", 100), in, manifests.JSONNumber, ""},
		{"leading zero", `01`, in, manifests.JSONSyntax, ""},
		{"plus", `+1`, in, manifests.JSONSyntax, ""},
		{"no digit before the point", `.5`, in, manifests.JSONSyntax, ""},
		{"no digit after the point", `5.`, in, manifests.JSONSyntax, ""},
		{"no digit in the exponent", `5e`, in, manifests.JSONSyntax, ""},
		{"minus alone", `-`, in, manifests.JSONSyntax, ""},
		{"minus zero", `-0`, in, "", ""},

		{"escaped TAB LF CR", `["\t\n\r","\u0009\u000a\u000D"]`, in, "", ""},
		{"escaped NUL", `["\u0000"]`, in, manifests.JSONControl, "/0"},
		{"escaped backspace", `["\b"]`, in, manifests.JSONControl, "/0"},
		{"escaped ESC", `["\u001b"]`, in, manifests.JSONControl, "/0"},
		{"raw ESC", "[\"\x1b\"]", in, manifests.JSONControl, "/0"},
		{"raw DEL", "[\"\x7f\"]", in, manifests.JSONControl, "/0"},
		{"escaped C1", `["\u009b"]`, in, manifests.JSONControl, "/0"},
		{"raw C1", "[\"\u0085\"]", in, manifests.JSONControl, "/0"},
		{"after C1", "[\"\u00a0\"]", in, "", ""},
		{"control in a key", `{"a\u0007":1}`, in, manifests.JSONControl, ""},
		{"raw TAB is no JSON", "[\"\t\"]", in, manifests.JSONSyntax, "/0"},
		{"control in output", `["\u001b"]`, manifests.OutputBounds, "", ""},
		{"NUL in an output key", `{"a\u0000":1}`, manifests.OutputBounds, manifests.JSONControl, ""},
		{"NUL in an output value", `{"a":"\u0000"}`, manifests.OutputBounds, "", ""},

		{"surrogate pair", `["\ud83d\ude00"]`, in, "", ""},
		{"first half alone", `["\ud83d"]`, in, manifests.JSONEncoding, "/0"},
		{"second half alone", `["\ude00"]`, in, manifests.JSONEncoding, "/0"},
		{"halves in the wrong order", `["\ude00\ud83d"]`, in, manifests.JSONEncoding, "/0"},
		{"first half, then a letter", `["\ud83dx"]`, in, manifests.JSONEncoding, "/0"},
		{"replacement character itself", `["\ufffd"]`, in, "", ""},
		{"not UTF-8", "[\"\xff\"]", in, manifests.JSONEncoding, "/0"},
		{"surrogate in UTF-8", "[\"\xed\xa0\x80\"]", in, manifests.JSONEncoding, "/0"},
		{"unknown escape", `["\x"]`, in, manifests.JSONSyntax, "/0"},
		{"three hex digits", `["\u12"]`, in, manifests.JSONSyntax, "/0"},
		{"escape at the end", `"\`, in, manifests.JSONSyntax, ""},
		{"not closed", `"abc`, in, manifests.JSONSyntax, ""},

		{"zero bounds, a word", `true`, manifests.Bounds{}, "", ""},
		{"zero bounds, an object", `{}`, manifests.Bounds{}, manifests.JSONTooDeep, ""},
		{"zero bounds, a number", `1`, manifests.Bounds{}, manifests.JSONNumber, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := manifests.CheckJSON([]byte(tt.raw), tt.bounds)
			if err == nil {
				if tt.want != "" {
					t.Fatalf("accepted; want %s", tt.want)
				}
				if !json.Valid([]byte(tt.raw)) {
					t.Fatal("accepted, but encoding/json refuses it")
				}
				return
			}
			if err.Kind != tt.want || err.Pointer != tt.at {
				t.Fatalf("got %s at %q (%v), want %q at %q", err.Kind, err.Pointer, err, tt.want, tt.at)
			}
		})
	}
}

func TestMessagesHoldNoControlCharacter(t *testing.T) {
	for _, raw := range []string{"{\"a\x1b[31m\":x}", `{"a\u001b":1,"a\u001b":2}`, "\x1b", "{\"\u202e\":x}"} {
		err := manifests.CheckJSON([]byte(raw), manifests.OutputBounds)
		if err == nil {
			t.Fatalf("%q was accepted", raw)
		}
		if strings.ContainsAny(err.Error(), "\x1b\u202e") {
			t.Errorf("raw control character in %q", err.Error())
		}
	}
}

func TestIsObject(t *testing.T) {
	for raw, want := range map[string]bool{`{}`: true, " \r\n\t{": true, `[]`: false, ``: false, ` `: false, "\ufeff{}": false, `"{"`: false, `null`: false} {
		if got := manifests.IsObject([]byte(raw)); got != want {
			t.Errorf("IsObject(%q) = %v, want %v", raw, got, want)
		}
	}
}
