package guard_test

import (
	"encoding/json"
	"testing"

	"xrayrunner/guard"
	"xrayrunner/manifests"
)

// schema has a part for each kind of input that the tables try.
const schema = `{
	"type": "object",
	"properties": {
		"n": {"type": "number", "minimum": 0},
		"s": {"type": "string", "maxLength": 5000},
		"a": {"type": "array"},
		"dry": {"type": "boolean"}
	},
	"additionalProperties": false
}`

// lock has one skill of each class and kind. A schema is compiled by Decode alone, so the tests go through it.
func lock(t testing.TB) *manifests.Lock {
	t.Helper()
	file := map[string]any{"sha256": "0000000000000000000000000000000000000000000000000000000000000000", "size": 1}
	look := map[string]any{"description": "x", "interpreter": "python3", "stdout": "json", "input": json.RawMessage(schema), "limits": manifests.DefaultLimits(), "dry_run": "dry"}
	script := map[string]any{"description": "x", "interpreter": "python3", "stdout": "json", "input": json.RawMessage(schema), "limits": manifests.DefaultLimits()}
	skills := map[string]any{
		"prose": map[string]any{"name": "prose", "description": "x", "kind": "inject-only", "files": map[string]any{"SKILL.md": file}, "frontmatter": map[string]any{}},
	}
	for _, class := range []string{"safe", "mutating", "dangerous"} {
		skills[class] = map[string]any{
			"name": class, "description": "x", "kind": "runnable", "class": class, "network": "none", "frontmatter": map[string]any{},
			"files":   map[string]any{"SKILL.md": file, "xray.json": file, "run.py": file, "other.py": file},
			"scripts": map[string]any{"run.py": script, "other.py": script},
		}
	}
	mutating := skills["mutating"].(map[string]any)
	mutating["files"].(map[string]any)["look.py"], mutating["scripts"].(map[string]any)["look.py"] = file, look
	raw, err := json.Marshal(map[string]any{"version": 1, "skills": skills})
	if err != nil {
		t.Fatal(err)
	}
	l, err := manifests.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// allowed is a policy and a call that every rule lets through, with nothing to spare but what a row takes away.
func allowed(t testing.TB) (guard.Policy, guard.Call) {
	t.Helper()
	p := guard.Policy{
		Tools:      map[string]bool{guard.ToolList: true, guard.ToolLoad: true, guard.ToolRun: true},
		Skills:     map[string]guard.SkillPolicy{},
		MaxClass:   manifests.Safe,
		DailyLimit: 100,
		TokenLimit: 10,
	}
	for name, skill := range lock(t).Skills {
		p.Skills[name] = guard.SkillPolicy{Skill: skill}
	}
	return p, guard.Call{Tool: guard.ToolRun, Skill: "safe", Script: "run.py", Input: []byte(`{"n":1}`)}
}

// closed is the policy with one skill closed.
func closed(p *guard.Policy, skill string, code guard.Code, words string) {
	s := p.Skills[skill]
	s.Closed, s.Words = code, words
	p.Skills[skill] = s
}
