package guard_test

import (
	"encoding/json"
	"os"
	"testing"
	"unicode/utf8"

	"xrayrunner/guard"
	"xrayrunner/manifests"
)

// FuzzDecide holds the properties that no table can show. Its seeds are testdata/fuzz/FuzzDecide.
func FuzzDecide(f *testing.F) {
	base, _ := allowed(f)
	base.MaxClass = manifests.Mutating
	f.Fuzz(func(t *testing.T, tool, skill, script string, text []byte, turn, session, day int, approved bool) {
		c := guard.Call{Tool: tool, Skill: skill, Script: script, Input: text, TurnRuns: turn, SessionRuns: session, DayRuns: day, Approved: approved}
		if guard.Decide(guard.Policy{}, c).Allowed() {
			t.Fatal("the zero policy allows")
		}
		got := guard.Decide(base, c)
		if got.Code == guard.GuardError {
			t.Fatal("a call alone made the guard fail")
		}
		if got.Allowed() {
			sound(t, c)
			return
		}
		if got.Code == "" || got.Rule < 1 || got.Rule > 6 || got.Reason == "" || !utf8.ValidString(got.Reason) || len(got.Reason) > 8192 {
			t.Fatalf("a denial without reason: %+v", got)
		}
		widened := []guard.Call{c, c, c, c}
		widened[0].TurnRuns = more(turn)
		widened[1].SessionRuns = more(session)
		widened[2].DayRuns = more(day)
		widened[3].Approved = false
		for _, w := range widened {
			if guard.Decide(base, w).Allowed() {
				t.Fatalf("%+v is refused and %+v is not", c, w)
			}
		}
	})
}

// sound says what must be true of every run that is allowed.
func sound(t *testing.T, c guard.Call) {
	t.Helper()
	if c.Tool != guard.ToolRun {
		return
	}
	var object map[string]any
	if len(c.Input) > guard.MaxInputBytes || json.Unmarshal(c.Input, &object) != nil || object == nil {
		t.Fatalf("allowed with the input %q", c.Input)
	}
	if c.TurnRuns >= guard.RunsPerTurn || c.SessionRuns >= guard.RunsPerSession || c.Skill == "dangerous" || c.Skill == "prose" || c.Skill == "mutating" && !c.Approved && (c.Script != "look.py" || object["dry"] != true) {
		t.Fatalf("allowed: %+v", c)
	}
}

// more does not go round to the negative.
func more(n int) int { return max(n, n+1) }

func TestFuzzSeedsExist(t *testing.T) {
	seeds, err := os.ReadDir("testdata/fuzz/FuzzDecide")
	if err != nil || len(seeds) == 0 {
		t.Errorf("no seeds for FuzzDecide: %v", err)
	}
}

// BenchmarkDecide judges the examples of a shipped script by its own schema.
func BenchmarkDecide(b *testing.B) {
	raw, err := os.ReadFile("../runner/manifest.json")
	if err != nil {
		b.Fatal(err)
	}
	l, err := manifests.Decode(raw)
	if err != nil {
		b.Fatal(err)
	}
	p := guard.Policy{Tools: map[string]bool{guard.ToolRun: true}, MaxClass: manifests.Safe, Skills: map[string]guard.SkillPolicy{}}
	for name, s := range l.Skills {
		p.Skills[name] = guard.SkillPolicy{Skill: s}
	}
	for _, c := range []guard.Call{{Skill: "cidr-calc", Script: "member.py"}, {Skill: "csv-stats", Script: "stats.py"}} {
		script := l.Skills[c.Skill].Scripts[c.Script]
		if script == nil {
			b.Fatalf("the manifest has no %s/%s any more", c.Skill, c.Script)
		}
		c.Tool, c.Input = guard.ToolRun, script.Examples[0].Input
		b.Run(c.Skill, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d := guard.Decide(p, c); !d.Allowed() {
					b.Fatal(d.Reason)
				}
			}
		})
	}
}
