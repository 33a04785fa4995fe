package manifests

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// header is a parsed frontmatter: a mapping whose scalars keep their source text. YAML would read
// "version: 1.0" as the number 1 and "name: yes" as true.
type header struct {
	*report
	root *yaml.Node
}

// headerOffset: the frontmatter starts on line 2 of the file.
const headerOffset = 1

// maxYAMLDepth bounds mappings and lists inside each other.
const maxYAMLDepth = 32

// parseHeader returns nil after an Error finding.
func (r *report) parseHeader(text string) *header {
	doc, err := parseYAML(text)
	if errors.Is(err, errSecond) {
		r.second(text)
		return nil
	}
	if err != nil {
		r.explainYAML(text, err)
		return nil
	}
	h := &header{r, &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}}
	if len(doc.Content) == 0 {
		return h // an empty frontmatter: the fields will be missed one by one
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		r.add(Error, root.Line+headerOffset, root.Column, "write lines of the form key: value", "the frontmatter is not a mapping")
		return nil
	}
	if !h.sound(root, 1) {
		return nil
	}
	h.root = root
	return h
}

// parseYAML turns the library's panics, should there be any, into errors.
func parseYAML(text string) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = nil, fmt.Errorf("yaml: %v", p)
		}
	}()
	doc = &yaml.Node{}
	d := yaml.NewDecoder(strings.NewReader(text))
	if err := d.Decode(doc); err != nil {
		return doc, ignoreEOF(err) // nothing in it
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errSecond
	}
	return doc, nil
}

// errSecond: Unmarshal would give the first document and drop what follows without a word.
var errSecond = errors.New("a second document")

// second names the line that ends the first document.
func (r *report) second(text string) {
	line := slices.IndexFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, "...") || strings.HasPrefix(l, "---") })
	r.add(Error, line+1+headerOffset, 1, "remove this line, or what stands below it", "what stands below this line is a second document, and would not be read")
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// sound refuses what a plain header has no use for, at any depth: duplicate keys, keys that are not
// text, aliases (they multiply) and merges.
func (h *header) sound(n *yaml.Node, depth int) bool {
	line, column := n.Line+headerOffset, n.Column
	if depth > maxYAMLDepth {
		h.add(Error, line, column, "flatten it", "more than %d levels", maxYAMLDepth)
		return false
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		h.add(Error, line, column, "write the value out; put a text that starts with * or & in quotes", "YAML anchors and aliases are not read")
		return false
	}
	seen := map[string]bool{}
	for i, sub := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if sub.Kind != yaml.ScalarNode || sub.Tag == "!!merge" {
				h.add(Error, sub.Line+headerOffset, sub.Column, "use a plain word as the key; put a value that starts with { or [ in quotes", "a key is not a text")
				return false
			}
			if seen[sub.Value] {
				h.add(Error, sub.Line+headerOffset, sub.Column, "remove one of them", "the key %q is there twice", shorten(sub.Value))
				return false
			}
			seen[sub.Value] = true
		}
		if !h.sound(sub, depth+1) {
			return false
		}
	}
	return true
}

// explainYAML turns the library's error into a finding that names line, column and cure. The library
// gives only the line, and often the one after the fault.
func (r *report) explainYAML(text string, err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if i := strings.IndexFunc(text, refusedControl); i >= 0 { // for which the library gives no line
		before := text[:i]
		r.add(Error, strings.Count(before, "\n")+1+headerOffset, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])+1, "remove it",
			"the frontmatter is not valid YAML: %s", message)
		return
	}
	reported := 1
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if number, tail, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				reported, message = n, tail
			}
		}
	}
	lines := strings.Split(text, "\n")
	for _, n := range []int{reported, reported - 1, reported + 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		if column, what, cure := suspect(lines[n-1]); what != "" {
			r.add(Error, n+headerOffset, column, cure, "the frontmatter is not valid YAML: %s", what)
			return
		}
	}
	r.add(Error, min(reported, len(lines))+headerOffset, 1, "correct the YAML; put texts in double quotes", "the frontmatter is not valid YAML: %s", message)
}

// suspect looks for the mistakes that people make when they write prose into YAML.
func suspect(line string) (column int, what, cure string) {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if i := strings.IndexByte(indent, '\t'); i >= 0 {
		return i + 1, "a tab in the indent", "indent with spaces"
	}
	key, value, ok := strings.Cut(line, ":")
	if !ok {
		return 0, "", ""
	}
	start := len(key) + 1 + len(value) - len(strings.TrimLeft(value, " "))
	value = strings.TrimSpace(value)
	quoted := fmt.Sprintf(`put the whole value in double quotes: %s: "…"`, strings.TrimSpace(key))
	if value == "" {
		return 0, "", ""
	}
	if strings.IndexByte("@`*&%[{!|>", value[0]) >= 0 {
		return start + 1, fmt.Sprintf("a value that starts with %q", value[:1]), quoted
	}
	if i := strings.Index(line[start:], ": "); i >= 0 && value[0] != '"' && value[0] != '\'' {
		return start + i + 1, "a colon inside a value that is not in quotes", quoted
	}
	if strings.HasSuffix(value, ":") {
		return start + len(value), "a colon at the end of a value that is not in quotes", quoted
	}
	return 0, "", ""
}
