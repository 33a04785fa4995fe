package manifests

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// headerKeys are those that we read.
var headerKeys = []string{
	"activation", "allowed-tools", "compatibility", "description", "license", "metadata", "name", "tools", "when_to_use",
}

// vendors whose metadata may carry os and requires (openclaw's own and older name).
var vendors = []string{"openclaw", "clawdbot"}

// read takes the fields out of the header.
func (h *header) read(folder string) (name, description string, fm Frontmatter) {
	name = h.name(folder)
	description = h.description()
	fm.License = h.text("license")
	fm.Compatibility = h.text("compatibility")
	fm.WhenToUse = h.text("when_to_use")
	fm.AllowedTools = h.words(h.get(h.root, "allowed-tools"), "allowed-tools")
	fm.Activation = h.activation()
	fm.Tools = h.tools()
	h.metadata(&fm)
	fm.Unknown = h.unknown()
	return name, description, fm
}

// get returns the value of a key of a mapping; nil when it is absent or null.
func (h *header) get(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key && !isNull(mapping.Content[i+1]) {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func (h *header) name(folder string) string {
	n := h.get(h.root, "name")
	if n == nil {
		h.add(Warning, 1, 0, "write name: "+shorten(folder), "no name; the folder's is taken")
		h.checkName(folder, folder, 1, 0)
		return folder
	}
	if n.Kind != yaml.ScalarNode {
		h.add(Error, n.Line+headerOffset, n.Column, "write name: "+shorten(folder), "the name is not a text")
		return ""
	}
	h.checkName(n.Value, folder, n.Line+headerOffset, n.Column)
	return n.Value
}

func (h *header) description() string {
	n := h.get(h.root, "description")
	if n == nil {
		h.checkDescription("", 1, 0)
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		h.add(Error, n.Line+headerOffset, n.Column, `put it in double quotes: description: "…"`, "the description is not a text")
		return ""
	}
	if n.LineComment != "" {
		h.add(Warning, n.Line+headerOffset, n.Column, `put the whole value in double quotes`,
			"YAML reads %q as a comment: the description ends before it", shorten(n.LineComment))
	}
	text := strings.TrimSpace(n.Value)
	h.checkDescription(text, n.Line+headerOffset, n.Column)
	return text
}

// text reads a field for people. A list is joined; that is what its author meant.
func (h *header) text(key string) string {
	n := h.get(h.root, key)
	switch {
	case n == nil:
		return ""
	case n.Kind == yaml.ScalarNode:
		return strings.TrimSpace(n.Value)
	case n.Kind == yaml.SequenceNode:
		h.add(Warning, n.Line+headerOffset, n.Column, "write one text in quotes", "%s is a list; it is read as one text", key)
		return strings.Join(h.words(n, key), ", ")
	}
	h.add(Error, n.Line+headerOffset, n.Column, "write one text in quotes", "%s is not a text", key)
	return ""
}

// words reads a list, or a text of words between spaces or commas. What stands in parentheses stays
// together: "Bash(git add:*)" is one word.
func (h *header) words(n *yaml.Node, key string) []string {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		return splitWords(n.Value)
	}
	var list []string
	for _, item := range n.Content {
		if n.Kind != yaml.SequenceNode || item.Kind != yaml.ScalarNode {
			h.add(Error, n.Line+headerOffset, n.Column, "write a list of texts", "%s is not a list of texts", key)
			return nil
		}
		list = append(list, strings.TrimSpace(item.Value))
	}
	return list
}

func splitWords(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		return depth == 0 && (r == ',' || unicode.IsSpace(r))
	})
}

// activation is {mode: …} in the native dialect; a bare text is read as the mode.
func (h *header) activation() string {
	n := h.get(h.root, "activation")
	if n == nil {
		return ""
	}
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	mode := h.get(n, "mode")
	if mode == nil || mode.Kind != yaml.ScalarNode {
		h.add(Error, n.Line+headerOffset, n.Column, "write activation: {mode: …}", "activation has no mode")
		return ""
	}
	return mode.Value
}

func (h *header) tools() []Tool {
	n := h.get(h.root, "tools")
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		h.add(Error, n.Line+headerOffset, n.Column, "write a list of {name, impl, class, description}", "tools is not a list")
		return nil
	}
	var list []Tool
	for _, item := range n.Content {
		list = append(list, h.tool(item))
	}
	return list
}

func (h *header) tool(n *yaml.Node) Tool {
	field := func(key string) string {
		if v := h.get(n, key); v != nil && v.Kind == yaml.ScalarNode {
			return strings.TrimSpace(v.Value)
		}
		return ""
	}
	t := Tool{Name: field("name"), Impl: field("impl"), Class: Class(field("class")), Description: field("description")}
	if t.Class == "read" {
		t.Class = Safe
	}
	if t.Name == "" {
		h.add(Error, n.Line+headerOffset, n.Column, "add name", "a tool without a name")
	}
	if v := h.get(n, "class"); v != nil && t.Class.Rank() == 0 {
		h.add(Error, v.Line+headerOffset, v.Column, "write safe, mutating or dangerous", "the class %q is not known", shorten(v.Value))
	}
	return t
}

// metadata reads os and requires, from metadata itself or from a vendor's part, and keeps the rest.
func (h *header) metadata(fm *Frontmatter) {
	n := h.get(h.root, "metadata")
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		h.add(Error, n.Line+headerOffset, n.Column, "write metadata as a mapping, not as a text", "metadata is not a mapping: what it requires would be lost")
		return
	}
	places := []*yaml.Node{n}
	for _, vendor := range vendors {
		places = append(places, h.get(n, vendor))
	}
	for _, place := range places {
		fm.OS = append(fm.OS, h.words(h.get(place, "os"), "os")...)
		h.requires(h.get(place, "requires"), &fm.Requires)
	}
	rest, _ := yamlValue(n).(map[string]any)
	delete(rest, "os")
	delete(rest, "requires")
	if len(rest) > 0 {
		fm.Metadata = json.RawMessage(strings.TrimSuffix(string(encodeSorted(rest, "")), "\n"))
	}
}

func (h *header) requires(n *yaml.Node, r *Requires) {
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		h.add(Error, n.Line+headerOffset, n.Column, "write requires: {bins: […]}", "requires is not a mapping")
		return
	}
	r.Bins = append(r.Bins, h.words(h.get(n, "bins"), "requires.bins")...)
	r.AnyBins = append(r.AnyBins, h.words(h.get(n, "anyBins"), "requires.anyBins")...)
	r.Config = append(r.Config, h.words(h.get(n, "config"), "requires.config")...)
	r.Env = append(r.Env, h.words(h.get(n, "env"), "requires.env")...)
}

// yamlValue turns a node into JSON values; every scalar is its source text.
func yamlValue(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = yamlValue(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, yamlValue(item))
		}
		return list
	}
	return n.Value
}

// unknown lists the keys that are kept in the file but not read. Some restrict a skill elsewhere
// (disable-model-invocation), so the author is told.
func (h *header) unknown() []string {
	var list []string
	for i := 0; i+1 < len(h.root.Content); i += 2 {
		key := h.root.Content[i]
		if slices.Contains(headerKeys, key.Value) {
			continue
		}
		list = append(list, printable(shorten(key.Value)))
		cure := "remove it if it was meant to restrict the skill: it does not do so here"
		if near := nearest(key.Value, headerKeys); near != "" {
			cure = "did you mean " + near + "?"
		}
		h.add(Warning, key.Line+headerOffset, key.Column, cure, "the key %q is kept, but has no effect", shorten(key.Value))
	}
	slices.Sort(list)
	return list
}
