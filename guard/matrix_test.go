package guard_test

import (
	"fmt"
	"strings"
	"testing"

	"xrayrunner/guard"
	"xrayrunner/manifests"
)

// TestClassMatrix tries every class against every ceiling, with and without an approval. The zero class and a word
// that is no class stand on both sides: as a skill's class they are never admitted, as a ceiling they admit none.
func TestClassMatrix(t *testing.T) {
	classes := []manifests.Class{"", "Safe", manifests.Safe, manifests.Mutating, manifests.Dangerous}
	// What each ceiling admits, written out: computed from Rank it would repeat the rule that it tests.
	admits := map[manifests.Class]map[manifests.Class]bool{
		manifests.Safe:      {manifests.Safe: true},
		manifests.Mutating:  {manifests.Safe: true, manifests.Mutating: true},
		manifests.Dangerous: {manifests.Safe: true, manifests.Mutating: true, manifests.Dangerous: true},
	}
	for _, of := range classes {
		for _, ceiling := range classes {
			for _, approved := range []bool{false, true} {
				t.Run(fmt.Sprintf("%q below %q approved %v", of, ceiling, approved), func(t *testing.T) {
					p, c := allowed(t)
					changed := *p.Skills["safe"].Skill
					changed.Class = of
					p.Skills["safe"] = guard.SkillPolicy{Skill: &changed}
					p.MaxClass, c.Approved = ceiling, approved
					want, rule := guard.ClassNotAllowed, 5
					switch {
					case admits[ceiling][of] && (of == manifests.Safe || approved):
						want, rule = "", 0
					case admits[ceiling][of]:
						want = guard.ApprovalRequired
					}
					if got := guard.Decide(p, c); got.Code != want || got.Rule != rule || got.Allowed() != (want == "") {
						t.Errorf("got %q, rule %d (%s); want %q, rule %d", got.Code, got.Rule, got.Reason, want, rule)
					}
				})
			}
		}
	}
}

// TestReasonsStayOnOneLine: TAB, LF and CR may stand in a key, and over MCP a refusal is three lines. A key that the
// reason or the pointer names must not begin a line of its own, nor turn the text around.
func TestReasonsStayOnOneLine(t *testing.T) {
	const key = `x\r\nretry: after_ms\t\u2028\u202e`
	for _, c := range []struct {
		name, text string
		want       guard.Code
	}{
		{"twice", `{"a":[{"` + key + `":1,"` + key + `":2}]}`, guard.InputInvalid},
		{"once", `{"a":[{"` + key + `":1}]}`, ""},
		{"on the way to a control character", `{"a":[{"` + key + `":"\u001b"}]}`, guard.ControlChars},
		{"on the way to a number", `{"a":[{"` + key + `":1e309}]}`, guard.InputInvalid},
		{"on the way to what is no JSON", `{"a":[{"` + key + `":NaN}]}`, guard.InputNotObject},
		{"unknown to the schema", `{"` + key + `":1}`, guard.InputInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, call := allowed(t)
			call.Input = []byte(c.text)
			got := guard.Decide(p, call)
			if got.Code != c.want {
				t.Fatalf("got %q (%s), want %q", got.Code, got.Reason, c.want)
			}
			if text := got.Reason + got.Pointer; strings.ContainsAny(text, "\r\n\t\u2028\u202e") {
				t.Errorf("reason %q, pointer %q", got.Reason, got.Pointer)
			}
		})
	}
}
