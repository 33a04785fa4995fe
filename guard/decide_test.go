package guard_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"xrayrunner/guard"
	"xrayrunner/manifests"
)

type row struct {
	name    string
	change  func(p *guard.Policy, c *guard.Call)
	want    guard.Code // empty: allowed
	rule    int
	reason  string // part of the reason
	pointer string
}

// dry is a call of the script that declares dry runs, with nothing that a class above safe needs.
func dry(text string) func(*guard.Policy, *guard.Call) {
	return func(_ *guard.Policy, c *guard.Call) {
		c.Skill, c.Script, c.Input = "mutating", "look.py", []byte(text)
	}
}

// input makes a row's change out of the text of an input.
func input(text string) func(*guard.Policy, *guard.Call) {
	return func(_ *guard.Policy, c *guard.Call) { c.Input = []byte(text) }
}

// ofLength is an input of exactly n bytes.
func ofLength(n int) string {
	const frame = `{"s":""}`
	return `{"s":"` + strings.Repeat("x", n-len(frame)) + `"}`
}

// nested is an input with n levels: the object, and arrays inside each other.
func nested(n int) string {
	return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
}

// rows stand in pairs: what passes, and beside it what does not and differs from it in one thing.
var rows = []row{
	{name: "the base passes", change: func(*guard.Policy, *guard.Call) {}},

	// Rule 1: the tool.
	{name: "list is on", change: func(_ *guard.Policy, c *guard.Call) { c.Tool = guard.ToolList }},
	{name: "list is off", want: guard.ToolDisabled, rule: 1, reason: "skill_list is switched off",
		change: func(p *guard.Policy, c *guard.Call) { c.Tool, p.Tools[guard.ToolList] = guard.ToolList, false }},
	{name: "load is on", change: func(_ *guard.Policy, c *guard.Call) { c.Tool = guard.ToolLoad }},
	{name: "load is off", want: guard.ToolDisabled, rule: 1, reason: "skill_load is switched off",
		change: func(p *guard.Policy, c *guard.Call) { c.Tool, p.Tools[guard.ToolLoad] = guard.ToolLoad, false }},
	{name: "run is off", want: guard.ToolDisabled, rule: 1, reason: "do not retry",
		change: func(p *guard.Policy, _ *guard.Call) { p.Tools[guard.ToolRun] = false }},
	{name: "run is not in the set", want: guard.ToolDisabled, rule: 1,
		change: func(p *guard.Policy, _ *guard.Call) { delete(p.Tools, guard.ToolRun) }},
	{name: "a name in another letter case is another tool", want: guard.ToolDisabled, rule: 1, reason: `there is no tool "Skill_run"`,
		change: func(_ *guard.Policy, c *guard.Call) { c.Tool = "Skill_run" }},
	{name: "a tool that has no rules, though the set names it", want: guard.ToolDisabled, rule: 1,
		change: func(p *guard.Policy, c *guard.Call) { c.Tool, p.Tools["shell"] = "shell", true }},
	{name: "no tool", want: guard.ToolDisabled, rule: 1, change: func(_ *guard.Policy, c *guard.Call) { c.Tool = "" }},

	// Rule 2: the skill.
	{name: "list asks for no skill", change: func(_ *guard.Policy, c *guard.Call) { c.Tool, c.Skill = guard.ToolList, "nobody" }},
	{name: "load asks for one", want: guard.UnknownSkill, rule: 2, reason: `there is no skill "nobody"`,
		change: func(_ *guard.Policy, c *guard.Call) { c.Tool, c.Skill = guard.ToolLoad, "nobody" }},
	{name: "unknown to run", want: guard.UnknownSkill, rule: 2, reason: "skill_list names those that are open",
		change: func(_ *guard.Policy, c *guard.Call) { c.Skill = "nobody" }},
	{name: "a name in another letter case", want: guard.UnknownSkill, rule: 2, change: func(_ *guard.Policy, c *guard.Call) { c.Skill = "SAFE" }},
	{name: "a name with a NUL", want: guard.UnknownSkill, rule: 2, change: func(_ *guard.Policy, c *guard.Call) { c.Skill = "safe\x00" }},
	{name: "an entry without a skill", want: guard.UnknownSkill, rule: 2,
		change: func(p *guard.Policy, _ *guard.Call) { p.Skills["safe"] = guard.SkillPolicy{} }},
	{name: "another skill is closed", change: func(p *guard.Policy, _ *guard.Call) { closed(p, "mutating", guard.AgentDisabled, "") }},
	{name: "without its folder", want: guard.NotMounted, rule: 2, reason: "has not given", change: func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", guard.NotMounted, "") }},
	{name: "this skill is closed", want: guard.AgentDisabled, rule: 2, reason: "skill safe is not open to agents",
		change: func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", guard.AgentDisabled, "") }},
	{name: "closed to load too", want: guard.AgentDisabled, rule: 2,
		change: func(p *guard.Policy, c *guard.Call) {
			c.Tool = guard.ToolLoad
			closed(p, "safe", guard.AgentDisabled, "")
		}},
	{name: "drifted", want: guard.SkillDrift, rule: 2, reason: "publish it again",
		change: func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", guard.SkillDrift, "") }},
	{name: "changed", want: guard.Integrity, rule: 2, reason: "is stopped",
		change: func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", guard.Integrity, "") }},
	{name: "of another network", want: guard.WrongNetwork, rule: 2, reason: "needs a network",
		change: func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", guard.WrongNetwork, "") }},
	{name: "closed because running is off", want: guard.ToolDisabled, rule: 2, reason: "switched off or locked",
		change: func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", guard.ToolDisabled, "") }},
	{name: "closed in words of the caller", want: guard.AgentDisabled, rule: 2, reason: "skill safe rests today",
		change: func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", guard.AgentDisabled, "rests today") }},
	{name: "closed with a code that nobody knows", want: "moon_phase", rule: 2, reason: "skill safe is not open to agents",
		change: func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", "moon_phase", "") }},

	// Rule 3: the script.
	{name: "text can be loaded", change: func(_ *guard.Policy, c *guard.Call) { c.Tool, c.Skill = guard.ToolLoad, "prose" }},
	{name: "text cannot be run", want: guard.NotRunnable, rule: 3, reason: "read it with skill_load",
		change: func(_ *guard.Policy, c *guard.Call) { c.Skill = "prose" }},
	{name: "the other script", change: func(_ *guard.Policy, c *guard.Call) { c.Script = "other.py" }},
	{name: "no such script", want: guard.UnknownScript, rule: 3, reason: "it has other.py, run.py",
		change: func(_ *guard.Policy, c *guard.Call) { c.Script = "another.py" }},
	{name: "a file that is not a script", want: guard.UnknownScript, rule: 3, change: func(_ *guard.Policy, c *guard.Call) { c.Script = "xray.json" }},
	{name: "a way around the name", want: guard.UnknownScript, rule: 3, change: func(_ *guard.Policy, c *guard.Call) { c.Script = "./run.py" }},
	{name: "load asks for no script", change: func(_ *guard.Policy, c *guard.Call) { c.Tool, c.Script, c.Input = guard.ToolLoad, "", nil }},

	// Rule 3: length.
	{name: "4096 bytes", change: input(ofLength(4096))},
	{name: "4097 bytes", change: input(ofLength(4097)), want: guard.InputTooLarge, rule: 3, reason: "4097 bytes of JSON, at most 4096"},
	{name: "white space counts", change: input(`{"n":1}` + strings.Repeat(" ", 4090)), want: guard.InputTooLarge, rule: 3},

	// Rule 3: one object.
	{name: "white space around it", change: input(" \t\r\n{\"n\":1}\n")},
	{name: "nothing", change: input(""), want: guard.InputNotObject, rule: 3},
	{name: "white space only", change: input(" \n"), want: guard.InputNotObject, rule: 3},
	{name: "null", change: input("null"), want: guard.InputNotObject, rule: 3, reason: "must be one JSON object"},
	{name: "an array", change: input("[]"), want: guard.InputNotObject, rule: 3},
	{name: "a string", change: input(`"{}"`), want: guard.InputNotObject, rule: 3},
	{name: "the empty object", change: input("{}")},
	{name: "two objects", change: input("{}{}"), want: guard.InputNotObject, rule: 3},
	{name: "half an object", change: input(`{"n":`), want: guard.InputNotObject, rule: 3},
	{name: "NaN", change: input(`{"n":NaN}`), want: guard.InputNotObject, rule: 3, pointer: "/n"},
	{name: "byte-order mark", change: input("\ufeff{}"), want: guard.InputNotObject, rule: 3, reason: "byte-order mark"},
	{name: "UTF-8", change: input(`{"s":"é"}`)},
	{name: "Latin-1", change: input("{\"s\":\"\xe9\"}"), want: guard.InputNotObject, rule: 3},
	{name: "a surrogate pair", change: input(`{"s":"\ud83d\ude00"}`)},
	{name: "half a surrogate pair", change: input(`{"s":"\ud83d"}`), want: guard.InputNotObject, rule: 3},

	// Rule 3: control characters; TestControlCharacters tries them all.
	{name: "an escaped tab", change: input(`{"s":"\t"}`)},
	{name: "an escaped vertical tab", change: input(`{"s":"\u000b"}`), want: guard.ControlChars, rule: 3, pointer: "/s", reason: "U+000B"},

	// Rule 3: bounds and schema. 65 levels are one more than the bound.
	{name: "64 levels", change: input(nested(64))},
	{name: "65 levels", change: input(nested(65)), want: guard.InputInvalid, rule: 3},
	{name: "case 01: 200 levels", change: input(nested(200)), want: guard.InputInvalid, rule: 3, reason: "levels deep"},
	{name: "one key", change: input(`{"n":1}`)},
	{name: "case 02: the key twice", change: input(`{"n":1,"n":1}`), want: guard.InputInvalid, rule: 3, pointer: "/n"},
	{name: "case 02: the key twice, once escaped", change: input(`{"n":1,"\u006e":2}`), want: guard.InputInvalid, rule: 3},
	{name: "case 02: the key twice, deeper", change: input(`{"a":[{"x":1,"x":2}]}`), want: guard.InputInvalid, rule: 3, pointer: "/a/0/x"},
	{name: "case 02: another letter case", change: input(`{"N":1}`), want: guard.InputInvalid, rule: 3},
	{name: "case 01: 9007199254740993", change: input(`{"n":9007199254740993}`)},
	{name: "case 01: 1e308", change: input(`{"n":1e308}`)},
	{name: "case 01: 1e309", change: input(`{"n":1e309}`), want: guard.InputInvalid, rule: 3, pointer: "/n"},
	{name: "case 01: 1e1000001", change: input(`{"n":1e1000001}`), want: guard.InputInvalid, rule: 3, pointer: "/n"},
	{name: "case 01: -1e-1000001", change: input(`{"n":-1e-1000001}`), want: guard.InputInvalid, rule: 3, pointer: "/n"},
	{name: "case 01: 1e999999", change: input(`{"n":1e999999}`), want: guard.InputInvalid, rule: 3, pointer: "/n"},
	{name: "case 01: 64 digits", change: input(`{"n":` + strings.Repeat("9", 64) + `}`)},
	{name: "case 01: 65 digits", change: input(`{"n":` + strings.Repeat("9", 65) + `}`), want: guard.InputInvalid, rule: 3, pointer: "/n"},
	{name: "case 01: 4000 digits", change: input(`{"n":` + strings.Repeat("9", 4000) + `}`), want: guard.InputInvalid, rule: 3, pointer: "/n"},
	{name: "the least that fits", change: input(`{"n":0}`)},
	{name: "below the least", change: input(`{"n":-1}`), want: guard.InputInvalid, rule: 3, pointer: "/n", reason: "does not fit the schema of run.py"},
	{name: "of another type", change: input(`{"n":"1"}`), want: guard.InputInvalid, rule: 3, pointer: "/n"},
	{name: "a key too many", change: input(`{"n":1,"m":1}`), want: guard.InputInvalid, rule: 3, reason: `unknown properties: "m"`},

	// Rule 4: counts. The third of a turn and the twelfth of a session pass, the next does not.
	{name: "2 runs of the turn", change: func(_ *guard.Policy, c *guard.Call) { c.TurnRuns = 2 }},
	{name: "3 runs of the turn", want: guard.QuotaTurn, rule: 4, change: func(_ *guard.Policy, c *guard.Call) { c.TurnRuns = 3 }},
	{name: "11 runs of the session", change: func(_ *guard.Policy, c *guard.Call) { c.SessionRuns = 11 }},
	{name: "12 runs of the session", want: guard.QuotaSession, rule: 4, change: func(_ *guard.Policy, c *guard.Call) { c.SessionRuns = 12 }},
	{name: "99 runs of the day of 100", change: func(_ *guard.Policy, c *guard.Call) { c.DayRuns = 99 }},
	{name: "100 runs of the day of 100", want: guard.QuotaDaily, rule: 4, change: func(_ *guard.Policy, c *guard.Call) { c.DayRuns = 100 }},
	{name: "many runs of a day without limit", change: func(p *guard.Policy, c *guard.Call) { p.DailyLimit, c.DayRuns = 0, 1_000_000 }},
	{name: "one place short of half", change: func(_ *guard.Policy, c *guard.Call) { c.TokenHolds = 9 }},
	{name: "half of all places", want: guard.Busy, rule: 4, change: func(_ *guard.Policy, c *guard.Call) { c.TokenHolds = 10 }},
	{name: "many places, and it is not known how many there are", change: func(p *guard.Policy, c *guard.Call) { p.TokenLimit, c.TokenHolds = 0, 1000 }},
	{name: "one run of a day with limit 1", want: guard.QuotaDaily, rule: 4, change: func(p *guard.Policy, c *guard.Call) { p.DailyLimit, c.DayRuns = 1, 1 }},
	{name: "loading counts nothing", change: func(_ *guard.Policy, c *guard.Call) {
		c.Tool, c.TurnRuns, c.SessionRuns, c.DayRuns = guard.ToolLoad, 99, 99, 999
	}},

	// Rule 5: classes.
	{name: "mutating below its ceiling and approved", change: func(p *guard.Policy, c *guard.Call) {
		c.Skill, c.Approved, p.MaxClass = "mutating", true, manifests.Mutating
	}},
	{name: "a dry run of what is mutating, below the ceiling and not approved", change: dry(`{"dry":true}`)},
	{name: "the same, not dry", want: guard.ClassNotAllowed, rule: 5, change: dry(`{"dry":false}`)},
	{name: "the same, and the input does not say", want: guard.ClassNotAllowed, rule: 5, change: dry(`{}`)},
	{name: "the same, and it says twice", want: guard.InputInvalid, rule: 3, pointer: "/dry", change: dry(`{"dry":false,"dry":true}`)},
	{name: "a script that declares no dry run", want: guard.ClassNotAllowed, rule: 5, change: func(p *guard.Policy, c *guard.Call) {
		dry(`{"dry":true}`)(p, c)
		c.Script = "run.py"
	}},
	{name: "not dry, at the ceiling", want: guard.ApprovalRequired, rule: 5, change: func(p *guard.Policy, c *guard.Call) {
		dry(`{"dry":false}`)(p, c)
		p.MaxClass = manifests.Mutating
	}},
	{name: "mutating, not approved", want: guard.ApprovalRequired, rule: 5, reason: "needs an operator's approval", change: func(p *guard.Policy, c *guard.Call) {
		c.Skill, p.MaxClass = "mutating", manifests.Mutating
	}},
	{name: "mutating above the ceiling, though approved", want: guard.ClassNotAllowed, rule: 5, change: func(p *guard.Policy, c *guard.Call) {
		c.Skill, c.Approved, p.MaxClass = "mutating", true, manifests.Safe
	}},
	{name: "dangerous below its ceiling and approved", change: func(p *guard.Policy, c *guard.Call) {
		c.Skill, c.Approved, p.MaxClass = "dangerous", true, manifests.Dangerous
	}},
	{name: "dangerous, not approved", want: guard.ApprovalRequired, rule: 5, change: func(p *guard.Policy, c *guard.Call) {
		c.Skill, p.MaxClass = "dangerous", manifests.Dangerous
	}},
	{name: "dangerous above the ceiling, though approved", want: guard.ClassNotAllowed, rule: 5, change: func(p *guard.Policy, c *guard.Call) {
		c.Skill, c.Approved, p.MaxClass = "dangerous", true, manifests.Mutating
	}},
	{name: "mutating, and its approval waits", want: guard.ApprovalPending, rule: 5, reason: "because", change: unapproved(guard.ApprovalPending)},
	{name: "mutating, and its approval was refused", want: guard.ApprovalDenied, rule: 5, reason: "because", change: unapproved(guard.ApprovalDenied)},
	{name: "mutating, and its approval has ended", want: guard.ApprovalExpired, rule: 5, reason: "because", change: unapproved(guard.ApprovalExpired)},
	{name: "mutating, and its approval was used", want: guard.ApprovalUsed, rule: 5, reason: "because", change: unapproved(guard.ApprovalUsed)},
	{name: "mutating, and its approval is for another call", want: guard.ApprovalVoid, rule: 5, reason: "because", change: unapproved(guard.ApprovalVoid)},
	{name: "mutating, and its approval has no procedure", want: guard.SOPInvalid, rule: 5, reason: "because", change: unapproved(guard.SOPInvalid)},
	{name: "what is missing is no approval's", want: guard.ApprovalRequired, rule: 5, change: unapproved("allow")},
	{name: "no ceiling", want: guard.ClassNotAllowed, rule: 5, change: func(p *guard.Policy, _ *guard.Call) { p.MaxClass = "" }},
	{name: "a ceiling that is no class", want: guard.ClassNotAllowed, rule: 5, change: func(p *guard.Policy, _ *guard.Call) { p.MaxClass = "everything" }},
	{name: "a skill without a class", want: guard.ClassNotAllowed, rule: 5, change: func(p *guard.Policy, _ *guard.Call) {
		changed := *p.Skills["safe"].Skill
		changed.Class = ""
		p.Skills["safe"] = guard.SkillPolicy{Skill: &changed}
	}},
	{name: "reading what is dangerous", change: func(_ *guard.Policy, c *guard.Call) { c.Tool, c.Skill = guard.ToolLoad, "dangerous" }},

	// Rule 6: our own failure. A script that is nil panics inside; a schema that was never compiled cannot judge.
	{name: "a panic inside", want: guard.GuardError, rule: 6, reason: guard.GuardErrorReason, change: func(p *guard.Policy, _ *guard.Call) {
		broken := *p.Skills["safe"].Skill
		broken.Scripts = map[string]*manifests.Script{"run.py": nil}
		p.Skills["safe"] = guard.SkillPolicy{Skill: &broken}
	}},
	{name: "a schema that was never compiled", want: guard.GuardError, rule: 6, reason: guard.GuardErrorReason, change: func(p *guard.Policy, _ *guard.Call) {
		broken := *p.Skills["safe"].Skill
		broken.Scripts = map[string]*manifests.Script{"run.py": {}}
		p.Skills["safe"] = guard.SkillPolicy{Skill: &broken}
	}},
}

func unapproved(code guard.Code) func(*guard.Policy, *guard.Call) {
	return func(p *guard.Policy, c *guard.Call) {
		c.Skill, p.MaxClass, c.Unapproved, c.UnapprovedWhy = "mutating", manifests.Mutating, code, "because"
	}
}

func TestDecide(t *testing.T) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p, c := allowed(t)
			r.change(&p, &c)
			got := guard.Decide(p, c)
			if got.Allowed() != (r.want == "") || got.Code != r.want || got.Rule != r.rule {
				t.Fatalf("got %v, code %q, rule %d (%s); want %q, rule %d", got.Verdict, got.Code, got.Rule, got.Reason, r.want, r.rule)
			}
			if !strings.Contains(got.Reason, r.reason) || (got.Reason == "") != got.Allowed() {
				t.Errorf("reason = %q, want it to hold %q", got.Reason, r.reason)
			}
			if r.pointer != "" && got.Pointer != r.pointer {
				t.Errorf("pointer = %q, want %q", got.Pointer, r.pointer)
			}
		})
	}
}

// TestEveryCodeHasARow reads the constants from the source: one that is added without a row fails here.
func TestEveryCodeHasARow(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{}
	for _, r := range rows {
		wanted[string(r.want)] = true
	}
	found := 0
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		found++
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || !wanted[value] {
			t.Errorf("no row of the table wants %s = %q", spec.Names[0].Name, value)
		}
		return true
	})
	if found < 18 {
		t.Errorf("found only %d codes in code.go", found)
	}
}

// TestCase01Numbers: no number ends in the guard's own failure, and the refusal names the place.
func TestCase01Numbers(t *testing.T) {
	p, c := allowed(t)
	for _, n := range []string{"1e1000001", "-1e-1000001", "1e999999", "1e99999999999999999999", "1E+1000001", strings.Repeat("7", 4000), "0." + strings.Repeat("0", 4000) + "1"} {
		c.Input = []byte(`{"n":` + n + `}`)
		if got := guard.Decide(p, c); got.Code != guard.InputInvalid || got.Pointer != "/n" {
			t.Errorf("%.20s: %q at %q (%s)", n, got.Code, got.Pointer, got.Reason)
		}
	}
}

// TestControlCharacters tries every C0, DEL and C1, raw and escaped, in a value and in a key. Only TAB, LF and CR
// pass, and those only escaped: raw they are no JSON.
func TestControlCharacters(t *testing.T) {
	p, c := allowed(t)
	for r := rune(0); r <= 0xa0; r++ {
		if r == 0x20 {
			r = 0x7e // what is between is text; 0x7e and 0xa0 are the neighbours that pass
		}
		refused := r < 0x20 || r >= 0x7f && r <= 0x9f
		white := r == '\t' || r == '\n' || r == '\r'
		escaped := `\u` + strconv.FormatInt(0x10000+int64(r), 16)[1:]
		for _, try := range []struct {
			name, text string
			want       guard.Code
		}{
			{"raw in a value", `{"s":"` + string(r) + `"}`, controlIf(refused)},
			{"escaped in a value", `{"s":"` + escaped + `"}`, controlIf(refused && !white)},
			{"escaped deeper", `{"a":[{"k":"` + escaped + `"}]}`, controlIf(refused && !white)},
			{"escaped in a key", `{"a":[{"` + escaped + `":1}]}`, controlIf(refused && !white)},
		} {
			if white && try.name == "raw in a value" {
				try.want = guard.InputNotObject
			}
			c.Input = []byte(try.text)
			if got := guard.Decide(p, c); got.Code != try.want {
				t.Errorf("U+%04X %s: got %q, want %q", r, try.name, got.Code, try.want)
			}
		}
	}
	for _, short := range []string{`\b`, `\f`} { // these have letters of their own
		c.Input = []byte(`{"s":"` + short + `"}`)
		if got := guard.Decide(p, c); got.Code != guard.ControlChars {
			t.Errorf("%s: got %q, want %q", short, got.Code, guard.ControlChars)
		}
	}
}

func controlIf(refused bool) guard.Code {
	if refused {
		return guard.ControlChars
	}
	return ""
}

func TestZeroDecisionDenies(t *testing.T) {
	var d guard.Decision
	if d.Allowed() || d.Verdict != guard.Deny {
		t.Errorf("the zero decision allows: %+v", d)
	}
}

// TestZeroPolicyDenies: all calls that the base policy lets through, against the zero policy.
func TestZeroPolicyDenies(t *testing.T) {
	for _, r := range rows {
		p, c := allowed(t)
		r.change(&p, &c)
		if got := guard.Decide(guard.Policy{}, c); got.Allowed() || got.Code != guard.ToolDisabled || got.Rule != 1 {
			t.Errorf("%s: %+v", r.name, got)
		}
	}
}

// TestOrderOfRules puts two faults into one call, for each pair: the one that stands first decides.
func TestOrderOfRules(t *testing.T) {
	faults := []struct {
		part   string // of the call or the policy: two faults of one part cannot be put together
		code   guard.Code
		change func(*guard.Policy, *guard.Call)
	}{
		{"tools", guard.ToolDisabled, func(p *guard.Policy, _ *guard.Call) { p.Tools = nil }},
		{"skill", guard.UnknownSkill, func(_ *guard.Policy, c *guard.Call) { c.Skill = "nobody" }},
		{"skill", guard.AgentDisabled, func(p *guard.Policy, _ *guard.Call) { closed(p, "safe", guard.AgentDisabled, "") }},
		{"skill", guard.NotRunnable, func(_ *guard.Policy, c *guard.Call) { c.Skill = "prose" }},
		{"script", guard.UnknownScript, func(_ *guard.Policy, c *guard.Call) { c.Script = "nothing.py" }},
		{"input", guard.InputTooLarge, input("\x01" + strings.Repeat("[", 5000))},
		{"input", guard.ControlChars, input("[\"\\u0001\"]")},
		{"input", guard.InputNotObject, input("[1]")},
		{"input", guard.InputInvalid, input(`{"m":1}`)},
		{"session", guard.QuotaSession, func(_ *guard.Policy, c *guard.Call) { c.SessionRuns = 12 }},
		{"turn", guard.QuotaTurn, func(_ *guard.Policy, c *guard.Call) { c.TurnRuns = 3 }},
		{"day", guard.QuotaDaily, func(_ *guard.Policy, c *guard.Call) { c.DayRuns = 100 }},
		{"class", guard.ClassNotAllowed, func(p *guard.Policy, _ *guard.Call) { p.MaxClass = "" }},
	}
	pairs := 0
	for i, first := range faults {
		for _, second := range faults[i+1:] {
			if first.part == second.part {
				continue
			}
			pairs++
			p, c := allowed(t)
			second.change(&p, &c)
			first.change(&p, &c)
			if got := guard.Decide(p, c); got.Code != first.code {
				t.Errorf("%s with %s: got %s, want the first", first.code, second.code, got.Code)
			}
		}
	}
	if pairs < 60 {
		t.Errorf("only %d pairs were tried", pairs)
	}
}

// TestReasonsAreBounded: a caller's text cannot make a refusal into a page, nor bring a control character into it.
func TestReasonsAreBounded(t *testing.T) {
	page := strings.Repeat("\x1b]0;é", 2000)
	for _, change := range []func(*guard.Policy, *guard.Call){
		func(_ *guard.Policy, c *guard.Call) { c.Tool = page },
		func(_ *guard.Policy, c *guard.Call) { c.Skill = page },
		func(_ *guard.Policy, c *guard.Call) { c.Script = page },
		input(`{"` + strings.Repeat("k", 4000) + `":1}`),
		input(`{"a":[` + strings.Repeat(`{"k":`, 500)),
	} {
		p, c := allowed(t)
		change(&p, &c)
		got := guard.Decide(p, c)
		if got.Allowed() || len(got.Reason) > 800 || strings.ContainsAny(got.Reason, "\x1b\x00\n") {
			t.Errorf("%d bytes of reason: %q", len(got.Reason), got.Reason)
		}
	}
}

// TestUnapproved: what an approval lacks is said with its code, and nothing that a caller puts there lets a call through.
func TestUnapproved(t *testing.T) {
	for _, c := range []struct{ given, want guard.Code }{
		{"", guard.ApprovalRequired}, {guard.ApprovalPending, guard.ApprovalPending}, {guard.ApprovalDenied, guard.ApprovalDenied},
		{guard.ApprovalExpired, guard.ApprovalExpired}, {guard.ApprovalUsed, guard.ApprovalUsed}, {guard.ApprovalVoid, guard.ApprovalVoid},
		{guard.SOPInvalid, guard.SOPInvalid}, {"allow", guard.ApprovalRequired}, {guard.Busy, guard.ApprovalRequired},
	} {
		for _, class := range []manifests.Class{manifests.Mutating, manifests.Dangerous} {
			p, call := allowed(t)
			p.MaxClass, call.Skill, call.Unapproved, call.UnapprovedWhy = manifests.Dangerous, string(class), c.given, "because"
			d := guard.Decide(p, call)
			if d.Allowed() || d.Code != c.want || d.Rule != 5 || (c.given == c.want && c.given != "") != strings.HasSuffix(d.Reason, "because") {
				t.Errorf("%q for %s: %+v, want %s", c.given, class, d, c.want)
			}
			call.Approved = true
			if d := guard.Decide(p, call); !d.Allowed() {
				t.Errorf("approved, and %q for %s: %+v", c.given, class, d)
			}
		}
	}
}
