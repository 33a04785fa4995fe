package guard_test

import (
	"reflect"
	"testing"

	"xrayrunner/guard"
	"xrayrunner/manifests"
)

// TestEveryFieldDecides: each field of what is judged is listed here with a change that turns an allow into a
// denial, so a field that is added and forgotten in the rules fails.
func TestEveryFieldDecides(t *testing.T) {
	policy := map[string]func(*guard.Policy){
		"Tools":      func(p *guard.Policy) { p.Tools = nil },
		"Skills":     func(p *guard.Policy) { p.Skills = nil },
		"MaxClass":   func(p *guard.Policy) { p.MaxClass = manifests.Safe },
		"DailyLimit": func(p *guard.Policy) { p.DailyLimit = 1 },
		"TokenLimit": func(p *guard.Policy) { p.TokenLimit = 1 },
	}
	skill := map[string]func(*guard.SkillPolicy){
		"Skill":  func(s *guard.SkillPolicy) { s.Skill = nil },
		"Closed": func(s *guard.SkillPolicy) { s.Closed = guard.AgentDisabled },
		"Words":  nil, // only the reason; a row of TestDecide shows it
	}
	call := map[string]func(*guard.Call){
		"Tool":        func(c *guard.Call) { c.Tool = "" },
		"Skill":       func(c *guard.Call) { c.Skill = "" },
		"Script":      func(c *guard.Call) { c.Script = "" },
		"Input":       func(c *guard.Call) { c.Input = nil },
		"TurnRuns":    func(c *guard.Call) { c.TurnRuns = guard.RunsPerTurn },
		"SessionRuns": func(c *guard.Call) { c.SessionRuns = guard.RunsPerSession },
		"DayRuns":     func(c *guard.Call) { c.DayRuns = 100 },
		"TokenHolds":  func(c *guard.Call) { c.TokenHolds = 100 },
		"Approved":    func(c *guard.Call) { c.Approved = false },
		// Only the code and the reason of a refusal; TestUnapproved shows both.
		"Unapproved": nil, "UnapprovedWhy": nil,
	}
	// A call for which all fields count: approved, of a class at the ceiling, one run short of the daily limit.
	base := func() (guard.Policy, guard.Call) {
		p, c := allowed(t)
		p.MaxClass, c.Skill, c.Approved, c.DayRuns, c.TokenHolds = manifests.Mutating, "mutating", true, 1, 1
		return p, c
	}
	if p, c := base(); !guard.Decide(p, c).Allowed() {
		t.Fatalf("the base is refused: %+v", guard.Decide(p, c))
	}
	check(t, policy, func(change func(*guard.Policy)) guard.Decision {
		p, c := base()
		change(&p)
		return guard.Decide(p, c)
	})
	check(t, skill, func(change func(*guard.SkillPolicy)) guard.Decision {
		p, c := base()
		s := p.Skills["mutating"]
		change(&s)
		p.Skills["mutating"] = s
		return guard.Decide(p, c)
	})
	check(t, call, func(change func(*guard.Call)) guard.Decision {
		p, c := base()
		change(&c)
		return guard.Decide(p, c)
	})
}

func check[T any](t *testing.T, changes map[string]func(*T), decide func(func(*T)) guard.Decision) {
	t.Helper()
	for f := range reflect.TypeFor[T]().Fields() {
		change, listed := changes[f.Name]
		switch {
		case !listed:
			t.Errorf("%s.%s is not listed: which rule reads it?", reflect.TypeFor[T](), f.Name)
		case change != nil && decide(change).Allowed():
			t.Errorf("%s.%s does not decide", reflect.TypeFor[T](), f.Name)
		}
		delete(changes, f.Name)
	}
	for name := range changes {
		t.Errorf("%s has no field %s", reflect.TypeFor[T](), name)
	}
}

// TestDecideChangesNothing: the guard is pure, so judging twice gives the same, and what was judged is what runs.
func TestDecideChangesNothing(t *testing.T) {
	for _, r := range rows {
		p, c := allowed(t)
		r.change(&p, &c)
		before := string(c.Input)
		first, second := guard.Decide(p, c), guard.Decide(p, c)
		if first != second || string(c.Input) != before {
			t.Errorf("%s: %+v, then %+v", r.name, first, second)
		}
	}
}
