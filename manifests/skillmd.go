package manifests

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxDescription      = 1024     // characters; official skills exceed it, so it is only a warning
	maxFrontmatterBytes = 16 << 10 // far above any real one; 60 KB of brackets take the library 50 ms
)

// ParseSkillMD reads a SKILL.md: YAML frontmatter between two lines "---", then Markdown (agentskills.io;
// the fields of Claude Code, openclaw and our native dialect are read too). An Error among the findings
// means that the skill must stay off: what could be read is returned all the same, for a list, and must
// not be used. A skill is never loaded without restrictions that its author wrote (case 19).
func ParseSkillMD(folder string, raw []byte) (name, description string, fm Frontmatter, body string, findings []Finding) {
	return parseSkillMD(folder, raw, nil)
}

// parseSkillMD also knows the scripts of the skill: SKILL.md may name those.
func parseSkillMD(folder string, raw []byte, scripts []string) (name, description string, fm Frontmatter, body string, findings []Finding) {
	r := newReport(folder, skillFile)
	text, ok := r.plainText(raw)
	if !ok {
		return "", "", fm, "", r.list
	}
	header, body, bodyLine, ok := r.split(text)
	if !ok {
		return "", "", fm, "", r.list
	}
	r.hiddenCharacters(text)
	if h := r.parseHeader(header); h != nil {
		name, description, fm = h.read(folder)
	}
	r.mentions(body, bodyLine, scripts)
	SortFindings(r.list)
	return name, description, fm, body, r.list
}

// split finds the frontmatter. bodyLine is the line number where the body starts.
func (r *report) split(text string) (header, body string, bodyLine int, ok bool) {
	lines := strings.SplitAfter(text, "\n")
	if !isFence(lines[0]) {
		r.add(Error, 1, 1, `start the file with a line "---"; nothing may stand before it`, "no frontmatter: the first line is not ---")
		return "", "", 0, false
	}
	for i, line := range lines[1:] {
		if !isFence(line) {
			continue
		}
		header = strings.Join(lines[1:i+1], "")
		if len(header) > maxFrontmatterBytes {
			r.add(Error, 1, 0, "move text into the body", "the frontmatter has more than %d bytes", maxFrontmatterBytes)
			return "", "", 0, false
		}
		return header, strings.Join(lines[i+2:], ""), i + 3, true
	}
	r.add(Error, 1, 1, `end the frontmatter with a line "---"`, "the frontmatter is never closed")
	return "", "", 0, false
}

// isFence: "---" and nothing else but white space at the end. "a---b" in a value is no fence.
func isFence(line string) bool { return strings.TrimRight(line, " \t\r\n") == "---" }

// checkName judges the name against the folder, which is how the skill is found.
func (r *report) checkName(name, folder string, line, column int) {
	if err := checkSkillName(name); err != nil {
		r.add(Error, line, column, "use 1 to 64 of a-z, 0-9 and -, with no hyphen at an end and no two in a row", "%s", err)
		return
	}
	if name != folder {
		r.add(Error, line, column, fmt.Sprintf("write name: %s, or rename the folder", shorten(folder)),
			"the name %q is not the name of the folder, %q", name, shorten(folder))
		return
	}
	if strings.Contains(name, "_") {
		r.add(Warning, line, column, "use hyphens", "the name %q has an underscore; other clients refuse it", name)
	}
}

func (r *report) checkDescription(description string, line, column int) {
	switch n := utf8.RuneCountInString(description); {
	case n == 0:
		r.add(Error, line, column, `write description: "what it does and when to use it"`, "the description is missing or empty")
	case strings.ContainsFunc(description, refusedControl):
		r.add(Error, line, column, "remove it", "the description holds a control character")
	case n > maxDescription:
		r.add(Warning, line, column, "shorten it", "the description has %d characters; clients may cut it at %d", n, maxDescription)
	}
}
