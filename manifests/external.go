package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ExternalFile is the name of the file that makes a folder below an allow-listed root an external skill.
const ExternalFile = "skill.json"

// externalSource is skill.json as its author writes it (spec section 4.3; mounts, processes and dry_run are ours).
type externalSource struct {
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Schema         json.RawMessage `json:"schema"`
	Entry          string          `json:"entry"`
	EnvAllow       []string        `json:"env_allow"`
	TimeoutSeconds int             `json:"timeout_seconds"`
	Class          Class           `json:"class"`
	Category       string          `json:"category"`
	Mounts         []Mount         `json:"mounts"`
	Processes      int             `json:"processes"`
	DryRun         string          `json:"dry_run"`
}

// ExternalManifest is a decoded skill.json. Where the program is, and what it is, only its folder can tell.
type ExternalManifest struct {
	Skill        *Skill // without files and scripts
	Entry        string // as written
	Script       *Script
	ClassAssumed bool // no class was written; safe is assumed
}

var (
	externalName = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// emptySchema is that of a skill without one: an object with nothing in it.
const emptySchema = `{"type":"object","properties":{},"additionalProperties":false}`

// maxEnvAllow bounds the variables of one skill: each bad name is looked up in the file and told.
const maxEnvAllow = 64

// ParseExternal reads a skill.json strictly; a byte-order mark and CRLF are accepted. folder is for the findings. The result
// is nil when it cannot be used; then one of the findings is an Error.
func ParseExternal(folder string, raw []byte) (*ExternalManifest, []Finding) {
	r := &xrayReport{report: newReport(folder, ExternalFile)}
	m := r.external(raw)
	SortFindings(r.list)
	if HasErrors(r.list) {
		return nil, r.list
	}
	return m, r.list
}

func (r *xrayReport) external(raw []byte) *ExternalManifest {
	if len(raw) > maxXrayBytes {
		r.add(Error, 0, 0, "shorten it", "the file has more than %d bytes", maxXrayBytes)
		return nil
	}
	text, ok := r.plainText(raw)
	if !ok {
		return nil
	}
	r.raw = []byte(text)
	var source externalSource
	if err := DecodeStrict(r.raw, &source); err != nil {
		r.broken(err)
		return nil
	}
	r.hiddenCharacters(text)
	return r.manifest(source)
}

// broken places what cannot be decoded. A syntax error has encoding/json's words: people know them, and search for them.
func (r *xrayReport) broken(err *JSONError) {
	const cure = "correct the file; the keys are name, description, schema, entry, env_allow, timeout_seconds, class, category, mounts, processes and dry_run"
	var syntax *json.SyntaxError
	var v any
	if errors.As(json.Unmarshal(r.raw, &v), &syntax) {
		line, column := position(r.raw, int(syntax.Offset))
		r.add(Error, line, column, cure, "%s", strings.TrimSuffix(syntax.Error(), " string"))
		return
	}
	r.at(Error, err.Pointer, cure, "%s", err)
}

// position turns an offset just behind a byte into the byte's line and column.
func position(raw []byte, offset int) (line, column int) {
	before := string(raw[:max(0, min(offset, len(raw))-1)])
	return strings.Count(before, "\n") + 1, len(before) - strings.LastIndexByte(before, '\n')
}

func (r *xrayReport) manifest(source externalSource) *ExternalManifest {
	m := &ExternalManifest{Entry: source.Entry, ClassAssumed: source.Class == "", Script: &Script{Description: strings.TrimSpace(source.Description), Stdout: StdoutJSON, DryRun: source.DryRun}}
	m.Skill = &Skill{Name: source.Name, Description: m.Script.Description, Kind: External, Class: source.Class, Category: source.Category, Network: NetworkNone,
		Mounts: source.Mounts, EnvAllow: source.EnvAllow}
	if m.ClassAssumed {
		m.Skill.Class = Safe
		r.at(Warning, "", `write "class": "safe", "mutating" or "dangerous"`, "no class; safe (assumed)")
	}
	if m.Skill.Category == "" {
		m.Skill.Category = string(External)
	}
	r.externalWords(source, m.Skill)
	r.externalSchema(source, m.Script)
	m.Script.Limits = r.externalLimits(source)
	if err := m.Script.checkDryRun(m.Skill.Class, NetworkNone); err != nil {
		r.at(Error, "/dry_run", cureDryRun, "%s", err)
	}
	if len(source.EnvAllow) > maxEnvAllow {
		r.at(Error, "/env_allow", "name only what the program reads", "env_allow names %d variables, at most %d", len(source.EnvAllow), maxEnvAllow)
		source.EnvAllow = nil
	}
	for i, name := range source.EnvAllow {
		if !variableName.MatchString(name) {
			r.at(Error, element("/env_allow", i), "write the names of variables, without values", "%q is not the name of a variable", printable(shorten(name)))
		}
	}
	if i, err := checkMounts(source.Mounts, m.Skill.Class, NetworkNone); err != nil {
		r.at(Error, element("/mounts", i), `write {"name": "cache", "mode": "ro"} or "rw"`, "%s", err)
	}
	return m
}

func (r *xrayReport) externalWords(source externalSource, s *Skill) {
	switch {
	case source.Name == "":
		r.at(Error, "", `write "name": a-z, 0-9 and _`, "the name is missing")
	case !externalName.MatchString(source.Name):
		r.at(Error, "/name", "write a-z, 0-9 and _, at most 64", "the name %q may hold only a-z, 0-9 and _", printable(shorten(source.Name)))
	}
	switch {
	case s.Description == "":
		r.at(Error, "", "say in one sentence what it does: models and people read it", "the description is missing")
	case len(s.Description) > maxDescription, strings.ContainsFunc(s.Description, refusedControl):
		r.at(Error, "/description", "write one plain sentence", "the description is longer than %d bytes or holds a control character", maxDescription)
	}
	if source.Entry == "" {
		r.at(Error, "", `write "entry": the path of the program`, "the entry is missing")
	} else if strings.ContainsFunc(source.Entry, refusedInPath) {
		r.at(Error, "/entry", "rename the file", "the entry holds a control character or a backslash")
	}
	if s.Class.Rank() == 0 {
		r.at(Error, "/class", "write safe, mutating or dangerous", "the class %q is not known", printable(shorten(string(source.Class))))
	}
	if len(s.Category) > 64 || strings.ContainsFunc(s.Category, refusedControl) {
		r.at(Error, "/category", "use a short word", "the category is longer than 64 bytes or holds a control character")
	}
}

// externalSchema takes a schema of any shape that compiles; what models stumble over is a warning.
func (r *xrayReport) externalSchema(source externalSource, s *Script) {
	raw := source.Schema
	if raw == nil {
		raw = json.RawMessage(emptySchema)
	}
	s.Input = raw // verbatim
	compiled, err := CompileSchema(raw)
	if err != nil {
		r.at(Error, "/schema", "correct the schema (draft 2020-12, references inside the document only)", "the schema cannot be used: %s", err)
		return
	}
	s.input = compiled
	if source.Schema != nil {
		for _, p := range LintSchema(raw) {
			r.at(Warning, "/schema"+p.Pointer, p.Cure, "%s: %s", at("/schema"+p.Pointer), p.Message)
		}
	}
}

func (r *xrayReport) externalLimits(source externalSource) Limits {
	l := DefaultLimits()
	for _, n := range []struct {
		given int
		to    *int
	}{{source.TimeoutSeconds, &l.TimeoutSeconds}, {source.Processes, &l.Processes}} {
		if n.given != 0 { // 0 is the same as missing
			*n.to = n.given
		}
	}
	if key, err := l.check(); err != nil {
		r.at(Error, child("", key), "choose a number in that range", "%s", err)
	}
	return l
}

// Entry is the one script of an external skill; nil when there is none, which PrepareExternal refuses.
func (s *Skill) Entry() (string, *Script) {
	for name, script := range s.Scripts {
		return name, script
	}
	return "", nil
}

// PrepareExternal proves an external skill that another process has read, and compiles its schema.
func (s *Skill) PrepareExternal() error {
	switch {
	case !externalName.MatchString(s.Name):
		return fmt.Errorf("the name %q may hold only a-z, 0-9 and _", printable(shorten(s.Name)))
	case s.Kind != External || s.Network != NetworkNone:
		return errors.New("it is not an external skill")
	case s.Class.Rank() == 0:
		return fmt.Errorf("the class %q is not known", printable(shorten(string(s.Class))))
	case !strings.HasPrefix(s.Folder, "sha256:") || len(s.Folder) != len("sha256:")+64:
		return errors.New("its folder has no digest")
	case len(s.Scripts) != 1:
		return fmt.Errorf("%d scripts; an external skill has one", len(s.Scripts))
	}
	if _, err := checkMounts(s.Mounts, s.Class, s.Network); err != nil {
		return err
	}
	for name, script := range s.Scripts {
		if script == nil {
			return errors.New("null is not a script")
		}
		compiled, err := CompileSchema(script.Input)
		if err != nil {
			return fmt.Errorf("script %q: %w", printable(shorten(name)), err)
		}
		script.input = compiled
		if err := script.checkDryRun(s.Class, s.Network); err != nil {
			return fmt.Errorf("script %q: %w", printable(shorten(name)), err)
		}
	}
	return nil
}

// VariableName reports whether an environment variable can have this name.
func VariableName(s string) bool { return variableName.MatchString(s) }

// Printable makes any text one line that steers no terminal.
func Printable(text string) string { return printable(text) }
