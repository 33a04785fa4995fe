package agentmcp

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"xrayrunner/manifests"
)

const soundSchema = `{"type":"object","properties":{"file":{"type":"string","maxLength":255}},"required":["file"],"additionalProperties":false}`

func external(name string, class manifests.Class, schema string) *manifests.Skill {
	return &manifests.Skill{Name: name, Kind: manifests.External, Class: class, Scripts: map[string]*manifests.Script{"run.sh": {Description: "x \u202e y", Input: json.RawMessage(schema)}}}
}

func locked(skills ...*manifests.Skill) *manifests.Lock {
	l := &manifests.Lock{Skills: map[string]*manifests.Skill{}}
	for _, s := range skills {
		l.Skills[s.Name] = s
	}
	return l
}

// TestFunctionNames: names that every model's API takes, none of them one of ours, none given twice; and each leads back to
// its skill.
func TestFunctionNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	l := locked(external("tail_file", manifests.Safe, soundSchema), external("run", manifests.Safe, soundSchema), external("load", manifests.Safe, soundSchema),
		external("0digit", manifests.Safe, soundSchema), external(long+"_one", manifests.Safe, soundSchema), external(long+"_two", manifests.Safe, soundSchema),
		external("cleaner", manifests.Mutating, soundSchema), external("wiper", manifests.Dangerous, soundSchema))
	l.Skills["reviewed"] = &manifests.Skill{Name: "reviewed", Kind: manifests.Runnable, Class: manifests.Safe, Scripts: external("x", manifests.Safe, soundSchema).Scripts}
	// A skill that is named as the cut name of another: it must not answer in its place.
	hashed := ""
	for name, skill := range functionNames(l) {
		if skill == "run" {
			hashed = strings.TrimPrefix(name, functionPrefix)
		}
	}
	l.Skills[hashed] = external(hashed, manifests.Safe, soundSchema)
	names, sound := functionNames(l), regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)
	if names["skill_tail_file"] != "tail_file" || names["skill_0digit"] != "0digit" || len(names) != 7 {
		t.Errorf("%d: %v", len(names), names)
	}
	seen := map[string]bool{}
	for name, skill := range names {
		if !sound.MatchString(name) || name == "skill_run" || name == "skill_load" || seen[skill] || l.Skills[skill].Class != manifests.Safe || l.Skills[skill].Kind != manifests.External {
			t.Errorf("%s -> %s", name, skill)
		}
		seen[skill] = true
	}
}

// TestFunctionSchemas: a schema that a model's API may refuse gives no tool (case 40: one odd schema hides all tools).
func TestFunctionSchemas(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		want   bool
	}{
		"sound":                  {soundSchema, true},
		"empty":                  {`{"type":"object","properties":{},"additionalProperties":false}`, true},
		"anyOf at the root":      {`{"type":"object","anyOf":[{"required":["a"]}],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, false},
		"no object":              {`{"type":"array","items":{"type":"integer"}}`, false},
		"true":                   {`true`, false},
		"no bound on a string":   {strings.Replace(soundSchema, `,"maxLength":255`, "", 1), false},
		"more than 10 levels":    {deep(11), false},
		"a reference out of it":  {`{"type":"object","properties":{"a":{"$ref":"https://example.com/x"}},"additionalProperties":false}`, false},
		"not even JSON, somehow": {`{`, false},
	} {
		l := locked(external("s", manifests.Safe, c.schema), external("good", manifests.Safe, soundSchema))
		names := functionNames(l)
		tools := functionTools(names, []string{"s", "good"}, l)
		if _, has := names["skill_s"]; has != c.want || names["skill_good"] != "good" || (len(tools) == 2) != c.want {
			t.Errorf("%s: %v", name, names)
		}
	}
}

func deep(n int) string {
	s := `{"type":"integer"}`
	for range n {
		s = `{"type":"object","properties":{"a":` + s + `},"additionalProperties":false}`
	}
	return s
}

// TestFunctionTools: those that are open, described as people may read it.
func TestFunctionTools(t *testing.T) {
	l := locked(external("one", manifests.Safe, soundSchema), external("two", manifests.Safe, soundSchema))
	tools := functionTools(functionNames(l), []string{"two"}, l)
	if len(tools) != 1 || tools[0].Name != "skill_two" || strings.Contains(tools[0].Description, "\u202e") || string(tools[0].InputSchema.(json.RawMessage)) != soundSchema {
		t.Errorf("%+v", tools)
	}
}
