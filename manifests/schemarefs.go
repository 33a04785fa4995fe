package manifests

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Bounds of a schema document. They keep the worst case of one validation small and known.
const (
	MaxSchemaBytes    = 64 << 10
	MaxSchemaDepth    = 32   // JSON levels, the root counts 1
	MaxSchemaExpanded = 1000 // schemas, after every $ref is replaced by what it points to
)

const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// document is a decoded schema and what may be referred to in it.
type document struct {
	schemas  map[string]map[string]any // by pointer: every place that is a schema and not just true or false
	booleans map[string]bool           // by pointer: the places that are
	anchors  map[string]string         // $anchor -> pointer
	sizes    map[string]int            // by pointer: schemas after expansion; -1 while it is being counted
}

// readDocument collects the schemas of a decoded text and refuses all that reaches outside of it.
func readDocument(root any) (*document, error) {
	d := &document{map[string]map[string]any{}, map[string]bool{}, map[string]string{}, map[string]int{}}
	if err := d.collect(root, ""); err != nil {
		return nil, err
	}
	for _, pointer := range d.pointers() {
		size, err := d.size(pointer)
		if err != nil {
			return nil, err
		}
		if size > MaxSchemaExpanded {
			return nil, fmt.Errorf("%s: more than %d schemas once every $ref is expanded", at(pointer), MaxSchemaExpanded)
		}
	}
	return d, nil
}

func (d *document) pointers() []string {
	list := make([]string, 0, len(d.schemas))
	for p := range d.schemas {
		list = append(list, p)
	}
	slices.Sort(list)
	return list
}

func (d *document) collect(value any, pointer string) error {
	node, ok := value.(map[string]any)
	if !ok {
		d.booleans[pointer] = true // another type is for the meta-schema to refuse
		return nil
	}
	d.schemas[pointer] = node
	if err := d.checkNode(node, pointer); err != nil {
		return err
	}
	for _, sub := range subschemas(node, pointer) {
		if err := d.collect(sub.value, sub.pointer); err != nil {
			return err
		}
	}
	return nil
}

// checkNode holds the rules for one schema that the meta-schema does not know.
func (d *document) checkNode(node map[string]any, pointer string) error {
	for keyword, cure := range forbiddenKeywords {
		if _, there := node[keyword]; there {
			return fmt.Errorf("%s: %s is not supported: %s", at(pointer), keyword, cure)
		}
	}
	if dialect, there := node["$schema"]; there && !is2020(dialect) {
		return fmt.Errorf("%s: $schema is %s; only draft 2020-12 is read: %s", at(pointer), quoteValue(dialect), draft2020)
	}
	if _, there := node["$id"]; there && pointer != "" {
		return fmt.Errorf("%s: $id is allowed at the top level only", at(pointer))
	}
	if anchor, ok := node["$anchor"].(string); ok {
		if _, twice := d.anchors[anchor]; twice {
			return fmt.Errorf("%s: the $anchor %q is there twice", at(pointer), shorten(anchor))
		}
		d.anchors[anchor] = pointer
	}
	return checkPatterns(node, pointer)
}

func is2020(dialect any) bool {
	text, _ := dialect.(string)
	return strings.TrimSuffix(text, "#") == draft2020
}

func checkPatterns(node map[string]any, pointer string) error {
	if pattern, ok := node["pattern"].(string); ok {
		if err := checkPattern(pattern); err != nil {
			return fmt.Errorf("%s: %w", at(child(pointer, "pattern")), err)
		}
	}
	byPattern, _ := node["patternProperties"].(map[string]any)
	for pattern := range byPattern {
		if err := checkPattern(pattern); err != nil {
			return fmt.Errorf("%s: %w", at(child(pointer, "patternProperties")), err)
		}
	}
	return nil
}

func checkPattern(pattern string) error {
	if _, err := regexp.Compile(pattern); err != nil {
		return fmt.Errorf("pattern does not compile (Go regexp: no look-ahead, no back-reference): %s", strings.TrimPrefix(printable(err.Error()), "error parsing regexp: "))
	}
	return nil
}

var errRecursive = errors.New("a $ref that leads back to itself; recursive schemas are not supported")

// size counts the schemas at and below a place, each $ref counted as a copy of its target: 30 doubling
// allOf references make 2^30 (case 17). Counting stops just above the limit.
func (d *document) size(pointer string) (int, error) {
	if d.booleans[pointer] {
		return 1, nil
	}
	switch known, counted := d.sizes[pointer]; {
	case counted && known < 0:
		return 0, fmt.Errorf("%s: %w", at(pointer), errRecursive)
	case counted:
		return known, nil
	}
	d.sizes[pointer] = -1
	node, total := d.schemas[pointer], 1
	places := []string{}
	for _, sub := range subschemas(node, pointer) {
		if sub.keyword != "$defs" && sub.keyword != "definitions" { // these apply only where they are referred to
			places = append(places, sub.pointer)
		}
	}
	if ref, there := node["$ref"]; there {
		target, err := d.resolve(ref)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", at(child(pointer, "$ref")), err)
		}
		places = append(places, target)
	}
	for _, place := range places {
		size, err := d.size(place)
		if err != nil {
			return 0, err
		}
		total = min(total+size, MaxSchemaExpanded+1)
	}
	d.sizes[pointer] = total
	return total, nil
}

// resolve turns a reference into the pointer of a schema of this document.
func (d *document) resolve(ref any) (string, error) {
	text, _ := ref.(string)
	fragment, local := strings.CutPrefix(text, "#")
	if !local {
		return "", fmt.Errorf("the reference %s leaves the document; only #/… is allowed", quoteValue(ref))
	}
	unescaped, err := url.PathUnescape(fragment)
	if err != nil {
		return "", fmt.Errorf("the reference %s is not a URI", quoteValue(ref))
	}
	target := unescaped
	if anchor, ok := d.anchors[unescaped]; ok {
		target = anchor
	}
	if d.schemas[target] == nil && !d.booleans[target] {
		return "", fmt.Errorf("the reference %s points at no schema of this document", quoteValue(ref))
	}
	return target, nil
}

func quoteValue(v any) string { return printable(shorten(fmt.Sprintf("%q", fmt.Sprint(v)))) }
