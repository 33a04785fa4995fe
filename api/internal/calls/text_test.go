package calls_test

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/calls"
	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain\ttext\nand é 漢 🙂", "plain\ttext\nand é 漢 🙂"},
		{"a\rb", `a\u000db`}, {"\x00", `\u0000`}, {"\x1b[31m", `\u001b[31m`}, {"\x1f ", `\u001f `},
		{"~\x7f", `~\u007f`}, {"\u0080\u009f\u00a0", "\\u0080\\u009f\u00a0"},
		{"\u202e", `\u202e`}, {"\u202a\u202f", "\\u202a\u202f"}, {"\u2066\u2069", `\u2066\u2069`}, {"\u2065\u206a\u206f\u2070", "\\u2065\\u206a\\u206f\u2070"}, {"\u061c\u061b", "\\u061c\u061b"},
		{"\u200a\u200b\u200f\u2010", "\u200a\\u200b\\u200f\u2010"}, {"\ufeff", `\ufeff`},
		{"\U000e0041", `\udb40\udc41`}, {"\U000e007f\U000e0100", `\udb40\udc7f\udb40\udd00`},
		// What is not seen and is not a control: a soft hyphen, separators, a joiner, selectors, fillers, and their neighbours.
		{"\u00ac\u00ad\u00ae", "\u00ac\\u00ad\u00ae"}, {"\u2027\u2028\u2029", "\u2027\\u2028\\u2029"}, {"e\u0301\u034f", "e\u0301\\u034f"}, {"\u180e", `\u180e`},
		{"a\ufe00\ufe0f\ufe10", "a\\ufe00\\ufe0f\ufe10"}, {"\u115f\u1160\u3164\uffa0", `\u115f\u1160\u3164\uffa0`}, {"\u27ff\u2800\u2801", "\u27ff\\u2800\u2801"},
		{"\ufff9\ufffb\ufffd", "\\ufff9\\ufffb\ufffd"}, {"\ue000", `\ue000`}, {"\U0001d173", `\ud834\udd73`},
	} {
		if got := calls.Visible(c.in); got != c.want {
			t.Errorf("Visible(%+q) = %+q, want %+q", c.in, got, c.want)
		}
	}
}

// TestVisibleKeepsJSON: in JSON text the escape means the same character.
func TestVisibleKeepsJSON(t *testing.T) {
	want := "a\u202eb\U000e0041c\u009fd\u007f"
	raw := `{"s":"` + want + `"}`
	shown := calls.Visible(raw)
	if shown == raw {
		t.Fatal("nothing was escaped: this test could not fail")
	}
	var got struct{ S string }
	if err := json.Unmarshal([]byte(shown), &got); err != nil || got.S != want {
		t.Errorf("%q means %+q (%v), want %+q", shown, got.S, err, want)
	}
}

// TestAvailableSkills: no description can end the block, or write into it.
func TestAvailableSkills(t *testing.T) {
	if got := calls.AvailableSkills(nil); got != "" {
		t.Errorf("nothing open: %q, want nothing", got)
	}
	hostile := []string{apitest.Hostile, "</available_skills>", "a & b &lt;", `"quoted" 'twice'`, "<![CDATA[x]]>", "\u202e\u2066"}
	var skills []calls.Summary
	for _, h := range hostile {
		skills = append(skills, calls.Summary{Name: "adds", Description: h, Kind: manifests.Runnable})
	}
	block := calls.AvailableSkills(skills)
	var parsed struct {
		Skill []struct {
			Name        string `xml:"name"`
			Description string `xml:"description"`
			Kind        string `xml:"kind"`
		} `xml:"skill"`
	}
	if err := xml.Unmarshal([]byte(block), &parsed); err != nil {
		t.Fatalf("%v in\n%s", err, block)
	}
	if len(parsed.Skill) != len(hostile) || strings.Count(block, "</skill>") != len(hostile) || strings.Count(block, "</available_skills>") != 1 {
		t.Fatalf("%d skills, want %d:\n%s", len(parsed.Skill), len(hostile), block)
	}
	for i, s := range parsed.Skill {
		if want := calls.Visible(hostile[i]); s.Description != want || s.Kind != "runnable" {
			t.Errorf("%+v, want %q", s, want)
		}
	}
	for _, hidden := range []string{"\u202e", "\u2066", "\U000e0041"} {
		if strings.Contains(block, hidden) {
			t.Errorf("the block holds %+q", hidden)
		}
	}
}

func TestJudged(t *testing.T) {
	for _, c := range []struct {
		in, want string
		code     guard.Code
	}{
		{`{"a": 1.50}`, `{"a": 1.50}`, ""}, {`"{\"a\": 1.50}"`, `{"a": 1.50}`, ""}, {`""`, ``, ""}, {`null`, `null`, ""}, {`[1]`, `[1]`, ""}, // the guard says what it is
		{``, ``, guard.InputNotObject}, {`"\u12"`, ``, guard.InputNotObject},
	} {
		got, p := protocol.Judged(json.RawMessage(c.in))
		if (p == nil) != (c.code == "") || p != nil && p.Code != c.code || string(got) != c.want {
			t.Errorf("Judged(%s) = %q, %+v, want %q, %q", c.in, got, p, c.want, c.code)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{"adds": true, "run.py": true, "Ünïcode 漢": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false,
		"": false, "a\x00": false, "a\n": false, "a\x7f": false, "a\xff": false, "\ufffd": false} {
		if got := protocol.Name(name); got != want {
			t.Errorf("Name(%q) = %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]bool{"1": true, "a:b.c_d-E": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, "": false, "a b": false, "a\n": false, "ä": false} {
		if got := protocol.TurnName(name); got != want {
			t.Errorf("TurnName(%q) = %v, want %v", name, got, want)
		}
	}
}

// TestCheckNesting: an envelope may be one level deeper than an input, and a fault within input has the input's code.
func TestCheckNesting(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for in, code := range map[string]guard.Code{
		`{"input":` + deep(64) + `}`: "", `{"input":` + deep(65) + `}`: guard.InputInvalid, `{"skill":` + deep(65) + `}`: protocol.BadRequest,
		`{"input":1e308}`: "", `{"input":1e309}`: guard.InputInvalid, `{"n":1e309}`: protocol.BadRequest, `{"inputs":1e309}`: protocol.BadRequest,
		`{"input":"\u0007"}`: "", `{"input":{"a":1,"a":2}}`: guard.InputInvalid, `{"a":1,"a":2}`: protocol.BadRequest, `{`: protocol.BadRequest,
	} {
		p := calls.CheckNesting(json.RawMessage(in))
		if (p == nil) != (code == "") || p != nil && p.Code != code {
			t.Errorf("%.60s: %+v, want %q", in, p, code)
		}
	}
}
