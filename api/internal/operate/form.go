package operate

import (
	"encoding/json"

	"xrayrunner/api/internal/calls"
	"xrayrunner/manifests"
)

// ScriptForm is what a user interface needs to ask for one run: it is made from the same description as the agents' tools,
// the guard's judgement and the record.
type ScriptForm struct {
	Key         string            `json:"key"` // skill/script, unique in the deployment
	Description string            `json:"description"`
	Class       manifests.Class   `json:"class"`
	Asks        int               `json:"asks"`              // operators that must approve a run
	DryRun      string            `json:"dry_run,omitempty"` // the property of the input that, when true, makes a run that asks nobody and changes nothing
	Category    string            `json:"category,omitempty"`
	Input       json.RawMessage   `json:"input_schema"` // verbatim
	Example     json.RawMessage   `json:"example_input,omitempty"`
	Preview     json.RawMessage   `json:"result_preview,omitempty"` // what the example gives
	Limits      manifests.Limits  `json:"limits"`
	Mounts      []manifests.Mount `json:"mounts,omitempty"` // folders that it may use
}

// forms describes every script of a skill.
func forms(s *manifests.Skill) map[string]ScriptForm {
	out := map[string]ScriptForm{}
	for name, script := range s.Scripts {
		f := ScriptForm{Key: s.Name + "/" + name, Description: calls.Visible(script.Description), Class: s.Class, Asks: s.Class.Operators(), DryRun: script.DryRun,
			Category: s.Category, Input: script.Input, Limits: script.Limits, Mounts: s.Mounts}
		if len(script.Examples) > 0 {
			f.Example, f.Preview = script.Examples[0].Input, script.Examples[0].Output
		}
		out[name] = f
	}
	return out
}
