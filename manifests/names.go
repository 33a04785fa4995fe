package manifests

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a skill folder (SEP-2640; spec section 4.3 has the same for external skills).
const (
	MaxFiles      = 512
	MaxSkillBytes = 16 << 20 // all files of one skill together
)

const (
	skillFile = "SKILL.md"
	xrayFile  = "xray.json"
)

// checkSkillName holds the rule of agentskills.io for names, with "_" let through: that is only a warning.
func checkSkillName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > 64:
		return fmt.Errorf("the name %q is longer than 64 characters", shorten(name))
	case strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) }):
		return fmt.Errorf("the name %q may hold only a-z, 0-9 and -", printable(shorten(name)))
	case strings.HasPrefix(name, "-"), strings.HasSuffix(name, "-"), strings.Contains(name, "--"):
		return fmt.Errorf("the name %q has a hyphen at an end, or two in a row", name)
	}
	return nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// checkFilePath refuses a path that is not a plain name below a skill's folder: it must be relative,
// clean, and mean the same on every system.
func checkFilePath(name string) error {
	switch {
	case name == "", len(name) > 255:
		return errors.New("a file name must have 1 to 255 bytes")
	case !utf8.ValidString(name), strings.ContainsFunc(name, refusedInPath):
		return fmt.Errorf("the file name %q holds a control character, a backslash or no UTF-8", printable(shorten(name)))
	case path.IsAbs(name), path.Clean(name) != name, name == "." || name == "..", strings.HasPrefix(name, "../"):
		return fmt.Errorf("the file name %q is not a clean relative path", shorten(name))
	}
	return nil
}

func refusedInPath(r rune) bool { return r == '\\' || r < 0x20 || (r >= 0x7f && r <= 0x9f) }

// checkScriptName holds the rule for what a caller may name: [A-Za-z0-9_][A-Za-z0-9._-]* per segment.
func checkScriptName(name string) error {
	if err := checkFilePath(name); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(name, "/") {
		for i, r := range segment {
			letter := isNameRune(r) && r != '-' || r >= 'A' && r <= 'Z'
			if !letter && (i == 0 || r != '.' && r != '-') {
				return fmt.Errorf("the script name %q may hold only A-Z, a-z, 0-9, _ and inside a name . and -", shorten(name))
			}
		}
	}
	return nil
}

// checkInterpreter admits the three that the runner's image knows by name, and an absolute clean path.
func checkInterpreter(name string) error {
	if slices.Contains([]string{"python3", "bash", "node"}, name) {
		return nil
	}
	if path.IsAbs(name) && path.Clean(name) == name && name != "/" && checkFilePath(name[1:]) == nil && !strings.ContainsAny(name, " \t") {
		return nil
	}
	return fmt.Errorf("the interpreter %q is not python3, bash, node or an absolute path", printable(shorten(name)))
}

// interpreters by extension. Any other script needs an executable bit and a "#!" line.
var interpreters = map[string]string{".py": "python3", ".sh": "bash", ".js": "node"}
