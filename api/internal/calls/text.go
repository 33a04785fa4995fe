package calls

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"xrayrunner/manifests"
)

// howToRun is the paragraph that follows SKILL.md: how a runnable skill is called here, whatever its text says
// about command lines.
func howToRun(s *manifests.Skill) string {
	if s.Kind == manifests.InjectOnly {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\n---\n\n## How to run this skill here\n\n")
	fmt.Fprintf(&b, "Call `skill_run(skill, script, input)` with `skill` = `%s`. `input` is one JSON object of at most 4096 bytes, as an object or as JSON text. ", s.Name)
	b.WriteString("There are no command lines, files or environment variables. At most 3 runs per turn and 12 per session.\n")
	for _, name := range slices.Sorted(maps.Keys(s.Scripts)) {
		script := s.Scripts[name]
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n\nInput schema:\n\n```json\n%s\n```\n", name, script.Description, compact(script.Input))
		b.WriteString(asks(s.Class, script.DryRun))
		if len(script.Examples) > 0 {
			e := script.Examples[0]
			fmt.Fprintf(&b, "\nExample input: `%s`\nIts result: `%s`\n", compact(e.Input), compact(e.Output))
		}
	}
	return b.String()
}

// asks says what a run above safe waits for, and how to look first.
func asks(class manifests.Class, dryRun string) string {
	text := ""
	if n := class.Operators(); n > 0 {
		text = fmt.Sprintf("\nClass `%s`: a run waits for %d of the operators. The first call is refused with an `approval_id` and says how to go on.\n", class, n)
	}
	if dryRun != "" {
		text += fmt.Sprintf("With `\"%s\": true` in the input it runs at once and can change nothing: look first.\n", dryRun)
	}
	return text
}

func compact(raw json.RawMessage) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(raw); err != nil {
		return string(raw)
	}
	return strings.TrimSpace(b.String())
}

// AvailableSkills is the block that an injector puts into a system prompt; empty when nothing is open. Descriptions
// are reviewed text, and escaped all the same: "</skill>" in one must not end it.
func AvailableSkills(skills []Summary) string {
	if len(skills) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<available_skills>\n")
	for _, s := range skills {
		fmt.Fprintf(&b, "  <skill>\n    <name>%s</name>\n    <description>%s</description>\n    <kind>%s</kind>\n  </skill>\n",
			xmlEscaper.Replace(s.Name), xmlEscaper.Replace(Visible(s.Description)), s.Kind)
	}
	b.WriteString("</available_skills>\n")
	return b.String()
}

var xmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")

// Visible replaces characters that people cannot see or that reorder what they see (control characters but TAB and
// LF, all of the category format, separators of lines, variation selectors, fillers) by \u escapes. In JSON text the escape
// means the same.
func Visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// hidden goes by Unicode's own tables: two paths that differ in one such character look the same, and a text can be written
// in nothing else (CVE-2021-42574).
func hidden(r rune) bool {
	switch {
	case r == '\t' || r == '\n':
		return false
	case r < 0x7f:
		return r < 0x20
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) || r == 0x2800 // a braille cell without dots
}
