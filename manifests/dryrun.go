package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ClassOf is the class of one run. It is the skill's, but for a dry run, which is safe: a script of class mutating may name a
// boolean property of its input as the one that asks for a look without a change, and a run whose input says true there gets
// no folder to write to. Nothing is believed of the script: what it cannot write it cannot change.
//
// What decides is the judged input alone. A default in the schema does not count: it is the script's word, not the input's.
func (s *Skill) ClassOf(script string, input []byte) Class {
	if known := s.Scripts[script]; s.Class == Mutating && known != nil && known.DryRun != "" && says(input, known.DryRun) {
		return Safe
	}
	return s.Class
}

// says reports whether a property of an object is true. Preconditions: the input has passed CheckJSON, so that no key is there
// twice.
func says(input []byte, property string) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(input, &object) == nil && string(object[property]) == "true"
}

const cureDryRun = "name a boolean property of the input of a mutating script, or remove dry_run"

// checkDryRun: only where it can be kept. What is dangerous asks always, and what a run sends away no folder can hold back.
func (s *Script) checkDryRun(class Class, network string) error {
	switch {
	case s.DryRun == "":
		return nil
	case class != Mutating:
		return fmt.Errorf("dry_run is for the class mutating, and the class is %s", class)
	case network == NetworkEgress:
		return errors.New("dry_run stands beside network egress: what a run sends away cannot be held back")
	case !booleanProperty(s.Input, s.DryRun):
		return fmt.Errorf(`dry_run is %q, and the input schema has no property of that name with "type": "boolean"`, printable(shorten(s.DryRun)))
	}
	return nil
}

// booleanProperty goes by maps: a struct's fields would answer to names in any letter case.
func booleanProperty(schema json.RawMessage, name string) bool {
	var shape, properties, property map[string]json.RawMessage
	return json.Unmarshal(schema, &shape) == nil && json.Unmarshal(shape["properties"], &properties) == nil &&
		json.Unmarshal(properties[name], &property) == nil && string(property["type"]) == `"boolean"`
}
