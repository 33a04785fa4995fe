package manifests

import (
	"encoding/json"
	"regexp/syntax"
	"slices"
	"strings"
)

// MaxInputBytes is the most JSON text that one call may carry (spec section 5), and the most that an
// example may.
const MaxInputBytes = 4096

// boundingFormats are those whose values cannot be long.
var boundingFormats = []string{"date", "date-time", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}

// bounded holds the rules about size: a model (or who speaks through it) fills every string and list that
// has no end.
func (l *lint) bounded(node map[string]any, pointer string, r role) {
	if has(node, "enum") || has(node, "const") {
		return
	}
	types := typesOf(node)
	elsewhere := has(node, "$ref") || has(node, "allOf") || has(node, "anyOf") || has(node, "oneOf")
	if len(types) == 0 && r == wholeness && !elsewhere && pointer != "" {
		l.add(Error, pointer, `add "type"`, "no type: any value passes")
	}
	if slices.Contains(types, "string") {
		l.stringBounds(node, pointer)
	}
	if slices.Contains(types, "array") {
		l.arrayBounds(node, pointer)
	}
	if slices.Contains(types, "object") {
		l.objectBounds(node, pointer)
	}
}

func (l *lint) stringBounds(node map[string]any, pointer string) {
	format, _ := node["format"].(string)
	longest, isNumber := node["maxLength"].(json.Number)
	if !isNumber {
		if !slices.Contains(boundingFormats, format) {
			l.add(Error, pointer, `add "maxLength" (it counts characters, not bytes)`, "a string without a longest length")
		}
		return
	}
	if n, err := longest.Int64(); err != nil || n > MaxInputBytes {
		l.add(Warning, child(pointer, "maxLength"), "use a smaller number",
			"maxLength is above %d, which is the most bytes that a whole input may have", MaxInputBytes)
	}
}

func (l *lint) arrayBounds(node map[string]any, pointer string) {
	if !has(node, "items") && !has(node, "prefixItems") {
		l.add(Error, pointer, `add "items"`, "an array that does not say what its items are")
	}
	closed := has(node, "prefixItems") && node["items"] == false
	if !has(node, "maxItems") && !closed {
		l.add(Error, pointer, `add "maxItems"`, "an array without a largest length")
	}
}

func (l *lint) objectBounds(node map[string]any, pointer string) {
	_, describesRest := node["additionalProperties"].(map[string]any)
	switch {
	case node["additionalProperties"] == false, node["unevaluatedProperties"] == false:
	case describesRest && has(node, "maxProperties"): // a map with a largest size
	case describesRest:
		l.add(Error, pointer, `add "maxProperties"`, "an object with any number of properties")
	default:
		l.add(Error, pointer, `add "additionalProperties": false`, "an open object: properties that are not described pass unseen")
	}
}

func has(node map[string]any, keyword string) bool {
	_, there := node[keyword]
	return there
}

func typesOf(node map[string]any) []string {
	switch t := node["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var list []string
		for _, item := range t {
			if name, ok := item.(string); ok {
				list = append(list, name)
			}
		}
		return list
	}
	return nil
}

func (l *lint) patterns(node map[string]any, pointer string) {
	if pattern, ok := node["pattern"].(string); ok {
		l.pattern(pattern, child(pointer, "pattern"))
	}
	byPattern, _ := node["patternProperties"].(map[string]any)
	for pattern := range byPattern {
		l.pattern(pattern, child(child(pointer, "patternProperties"), pattern))
	}
}

func (l *lint) pattern(pattern, pointer string) {
	if err := checkPattern(pattern); err != nil {
		l.add(Error, pointer, "write it in Go's syntax (RE2)", "%s", err)
		return
	}
	if !anchored(pattern) {
		l.add(Error, pointer, "write ^(?:…)$", "the pattern is not anchored: it passes when any part of the value matches")
	}
}

// anchored reports whether every match spans the whole text. It reads the syntax tree: "^a|b$" begins and
// ends with the right signs and is not anchored.
func anchored(pattern string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return false
	}
	first := func(subs []*syntax.Regexp) *syntax.Regexp { return subs[0] }
	last := func(subs []*syntax.Regexp) *syntax.Regexp { return subs[len(subs)-1] }
	return edge(tree, syntax.OpBeginText, first) && edge(tree, syntax.OpEndText, last)
}

// edge reports whether the first or last thing that a pattern matches is always op.
func edge(re *syntax.Regexp, op syntax.Op, side func([]*syntax.Regexp) *syntax.Regexp) bool {
	switch re.Op {
	case op:
		return true
	case syntax.OpConcat:
		return edge(side(re.Sub), op, side)
	case syntax.OpCapture:
		return edge(re.Sub[0], op, side)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !edge(sub, op, side) })
	}
	return false
}

// comparePointers orders places as a reader meets the parts: a parent before its children.
func comparePointers(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}
