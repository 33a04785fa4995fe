package manifests

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SchemaProblem is one thing to mend in a schema.
type SchemaProblem struct {
	Pointer  string // RFC 6901, into the schema; "" is the root
	Message  string
	Cure     string
	Severity Severity
}

// maxModelDepth is how many schemas may be inside each other in what a model is given; the strictest of
// the model APIs refuses a whole request above it.
const maxModelDepth = 10

// LintSchema judges a schema that models see, beyond what compiles: in draft 2020-12 a misspelt keyword
// is ignored, a pattern is not anchored and an object is open, so a schema can say much less than its
// author believes (case 18). An Error means that the script must not be offered. The result is sorted by
// pointer and is empty for a good schema.
func LintSchema(raw []byte) []SchemaProblem {
	l := &lint{model: true}
	l.document(raw)
	return l.problems
}

// lintOutputSchema holds only the rules about a schema that does not mean what it says: what a script
// prints is bounded by its size, and open objects are usual there.
func lintOutputSchema(raw []byte) []SchemaProblem {
	l := &lint{}
	l.document(raw)
	return l.problems
}

type lint struct {
	model    bool // the schema is for a model to fill in
	problems []SchemaProblem
}

func (l *lint) add(severity Severity, pointer, cure, format string, args ...any) {
	l.problems = append(l.problems, SchemaProblem{printable(pointer), printable(fmt.Sprintf(format, args...)), cure, severity})
}

func (l *lint) document(raw []byte) {
	bounds := Bounds{Depth: MaxSchemaDepth, Digits: InputBounds.Digits, Exponent: InputBounds.Exponent}
	if err := CheckJSON(raw, bounds); err != nil {
		l.add(Error, err.Pointer, "write one JSON object", "%s", err.Message)
		return
	}
	root, ok := decodeAny(raw).(map[string]any)
	if !ok {
		l.add(Error, "", `write {"type": "object", …}`, "the schema is not a JSON object")
		return
	}
	l.root(root)
	l.schema(root, "", "properties", 1)
	l.compiles(raw)
	slices.SortStableFunc(l.problems, func(a, b SchemaProblem) int { return comparePointers(a.Pointer, b.Pointer) })
}

// compiles adds the compiler's own refusal, unless a rule has already said it better.
func (l *lint) compiles(raw []byte) {
	if slices.ContainsFunc(l.problems, func(p SchemaProblem) bool { return p.Severity == Error }) {
		return
	}
	_, err := CompileSchema(raw)
	if err == nil {
		return
	}
	pointer := ""
	if invalid, ok := errors.AsType[*SchemaError](err); ok {
		pointer = invalid.Pointer
	}
	message := strings.TrimPrefix(err.Error(), at(pointer)+": ")
	l.add(Error, pointer, "correct the schema (JSON Schema, draft 2020-12)", "%s", message)
}

func (l *lint) root(root map[string]any) {
	if root["type"] != "object" {
		l.add(Error, "", `add "type": "object"`, "the top level must have type object, and only that")
	}
	if !l.model {
		return
	}
	for _, keyword := range []string{"allOf", "anyOf", "not", "oneOf"} {
		if _, there := root[keyword]; there {
			l.add(Error, child("", keyword), "move it into a property, or use two scripts",
				"%s at the top level: model APIs refuse the tool", keyword)
		}
	}
	if _, there := root["properties"]; !there {
		l.add(Warning, "", `add "properties": {}`, "no properties at the top level; some clients drop such a tool")
	}
}

// role says how much of a value a schema describes, by the keyword that holds it.
type role int

const (
	condition role = iota // if, not, contains …: states a part, bounds nothing
	branch                // allOf, anyOf, oneOf: what it states must be complete
	wholeness             // a property, an item, a definition: it alone describes a value
)

func roleOf(keyword string) role {
	switch keyword {
	case "properties", "patternProperties", "additionalProperties", "unevaluatedProperties",
		"items", "prefixItems", "unevaluatedItems", "$defs":
		return wholeness
	case "allOf", "anyOf", "oneOf":
		return branch
	}
	return condition
}

func (l *lint) schema(node map[string]any, pointer, heldBy string, depth int) {
	if l.model && depth > maxModelDepth {
		l.add(Error, pointer, "flatten the input", "more than %d schemas inside each other", maxModelDepth)
		return
	}
	l.keywords(node, pointer)
	l.references(node, pointer)
	l.patterns(node, pointer)
	l.required(node, pointer, heldBy)
	if r := roleOf(heldBy); l.model && r != condition {
		l.bounded(node, pointer, r)
	}
	for _, sub := range subschemas(node, pointer) {
		if inner, ok := sub.value.(map[string]any); ok {
			l.schema(inner, sub.pointer, sub.keyword, depth+1)
		}
	}
}

func (l *lint) keywords(node map[string]any, pointer string) {
	known := slices.Sorted(maps.Keys(keywords))
	for _, keyword := range slices.Sorted(maps.Keys(node)) {
		if _, ok := keywords[keyword]; ok {
			continue
		}
		cure := "remove it: a keyword that is not known is ignored without a word"
		if why, forbidden := forbiddenKeywords[keyword]; forbidden {
			cure = why
		}
		l.add(Error, child(pointer, keyword), cure, "%s", unknownName("keyword", keyword, known))
	}
	if format, ok := node["format"].(string); ok && !slices.Contains(formats, format) {
		l.add(Error, child(pointer, "format"), "use pattern, or one of the known formats",
			"%s; nothing would check it", unknownName("format", format, formats))
	}
}

func (l *lint) references(node map[string]any, pointer string) {
	if dialect, there := node["$schema"]; there && !is2020(dialect) {
		l.add(Error, child(pointer, "$schema"), "use "+draft2020+" or leave it out",
			"$schema is %s; only draft 2020-12 is read", quoteValue(dialect))
	}
	ref, there := node["$ref"]
	if !there {
		return
	}
	if text, _ := ref.(string); len(text) == 0 || text[0] != '#' {
		l.add(Error, child(pointer, "$ref"), "copy the schema into $defs and refer to #/$defs/…",
			"the reference %s leaves the document", quoteValue(ref))
	} else if l.model {
		l.add(Warning, child(pointer, "$ref"), "write the schema out in place", "some model APIs do not read $ref")
	}
}

func (l *lint) required(node map[string]any, pointer, heldBy string) {
	properties, _ := node["properties"].(map[string]any)
	list, _ := node["required"].([]any)
	if roleOf(heldBy) != wholeness {
		return // a branch may require what the schema around it describes
	}
	for i, name := range list {
		text, ok := name.(string)
		if _, described := properties[text]; ok && !described && node["additionalProperties"] == false {
			l.add(Error, element(child(pointer, "required"), i), "describe it in properties, or do not require it",
				"%s, and additionalProperties is false: no value can pass", unknownName("property", text, slices.Sorted(maps.Keys(properties))))
		}
	}
}
