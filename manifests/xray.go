package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// maxXrayBytes is far above any real file; it bounds the search for the places of findings.
const maxXrayBytes = 1 << 20

// Xray is a decoded xray.json: what of a skill may run, and how.
type Xray struct {
	Class    Class
	Category string
	Network  string // NetworkNone or NetworkEgress
	Mounts   []Mount
	Scripts  map[string]*Script // by path; Interpreter is "" where only the file itself can tell
}

// xraySource is the file as its author writes it (spec section 4.2).
type xraySource struct {
	Class    Class                    `json:"class"`
	Category string                   `json:"category"`
	Network  string                   `json:"network"`
	Mounts   []Mount                  `json:"mounts"`
	Scripts  map[string]*scriptSource `json:"scripts"`
}

type scriptSource struct {
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output"`
	Stdout      string          `json:"stdout"`
	Limits      json.RawMessage `json:"limits"`
	Warm        bool            `json:"warm"`
	DryRun      string          `json:"dry_run"`
	Examples    []exampleSource `json:"examples"`
}

type exampleSource struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
}

// ParseXray reads an xray.json strictly; a byte-order mark and CRLF are accepted. The result is nil when
// the file cannot be decoded at all. An Error among the findings means that the skill must stay off.
func ParseXray(folder string, raw []byte) (*Xray, []Finding) {
	x, r := parseXray(folder, raw)
	SortFindings(r.list)
	return x, r.list
}

func parseXray(folder string, raw []byte) (*Xray, *xrayReport) {
	r := &xrayReport{report: newReport(folder, xrayFile)}
	if len(raw) > maxXrayBytes {
		r.add(Error, 0, 0, "split the skill", "the file has more than %d bytes", maxXrayBytes)
		return nil, r
	}
	text, ok := r.plainText(raw)
	if !ok {
		return nil, r
	}
	r.raw = []byte(text)
	var source xraySource
	if err := DecodeStrict(r.raw, &source); err != nil {
		r.at(Error, err.Pointer, "correct the file; the keys are class, category, network, mounts and scripts", "%s", err)
		return nil, r
	}
	r.hiddenCharacters(text)
	x := r.head(source)
	for _, name := range slices.Sorted(maps.Keys(source.Scripts)) {
		place := child("/scripts", name)
		if source.Scripts[name] == nil {
			r.at(Error, place, "write an object", "null is not a script")
			continue
		}
		x.Scripts[name] = r.script(name, place, source.Scripts[name], x)
	}
	return x, r
}

// xrayReport places findings by JSON pointer.
type xrayReport struct {
	*report
	raw []byte
}

// at finds the line of a pointer, or of its nearest parent that is in the file.
func (r *xrayReport) at(severity Severity, pointer, cure, format string, args ...any) {
	line, column := locate(r.raw, pointer)
	for p := pointer; line == 0 && p != ""; {
		p = p[:strings.LastIndexByte(p, '/')]
		line, column = locate(r.raw, p)
	}
	r.add(severity, line, column, cure, format, args...)
}

func (r *xrayReport) head(source xraySource) *Xray {
	x := &Xray{Class: source.Class, Category: source.Category, Network: source.Network, Mounts: source.Mounts, Scripts: map[string]*Script{}}
	switch {
	case x.Class == "":
		x.Class = Safe
		r.at(Warning, "", `write "class": "safe", "mutating" or "dangerous"`, "no class; safe is assumed")
	case x.Class.Rank() == 0:
		r.at(Error, "/class", "write safe, mutating or dangerous", "the class %q is not known", shorten(string(x.Class)))
	}
	switch x.Network {
	case "":
		x.Network = NetworkNone
	case NetworkNone, NetworkEgress:
	default:
		r.at(Error, "/network", "write none or egress", "the network %q is not known", shorten(x.Network))
	}
	if len(x.Category) > 64 || strings.ContainsFunc(x.Category, refusedControl) {
		r.at(Error, "/category", "use a short word", "the category is longer than 64 bytes or holds a control character")
	}
	if i, err := checkMounts(x.Mounts, x.Class, x.Network); err != nil {
		r.at(Error, element("/mounts", i), `write {"name": "cache", "mode": "ro"} or "rw"`, "%s", err)
	}
	if len(source.Scripts) == 0 {
		r.at(Error, "", "describe a script, or delete "+xrayFile, "no scripts")
	}
	return x
}

func (r *xrayReport) script(name, place string, source *scriptSource, x *Xray) *Script {
	s := &Script{
		Description: strings.TrimSpace(source.Description), Interpreter: interpreters[path.Ext(name)],
		Stdout: source.Stdout, Limits: r.limits(place, source.Limits), Warm: source.Warm, DryRun: source.DryRun,
	}
	if err := checkScriptName(name); err != nil {
		r.at(Error, place, "rename the file", "%s", err)
	}
	switch {
	case s.Description == "":
		r.at(Warning, place, "say in one sentence what it does", "the script has no description")
	case strings.ContainsFunc(s.Description, refusedControl) || len(s.Description) > maxDescription:
		r.at(Error, child(place, "description"), "write one plain sentence", "the description is longer than %d bytes or holds a control character", maxDescription)
	}
	switch s.Stdout {
	case "":
		s.Stdout = StdoutJSON
	case StdoutJSON, StdoutText:
	default:
		r.at(Error, child(place, "stdout"), "write json or text", "stdout %q is not known", shorten(s.Stdout))
	}
	if s.Warm && s.Interpreter != interpreters[".py"] {
		r.at(Error, child(place, "warm"), "remove it", "warm is for .py scripts only")
	}
	if s.Warm && s.Limits.Processes > 1 {
		r.at(Error, child(place, "warm"), "remove it, or do the work in one process", "warm is for scripts with one process")
	}
	r.schemas(place, source, s)
	if err := s.checkDryRun(x.Class, x.Network); err != nil {
		r.at(Error, child(place, "dry_run"), cureDryRun, "%s", err)
	}
	r.examples(place, source.Examples, s, x.Network)
	return s
}

func (r *xrayReport) limits(place string, raw json.RawMessage) Limits {
	limits := DefaultLimits()
	if raw == nil {
		return limits
	}
	place = child(place, "limits")
	if err := DecodeStrict(raw, &limits); err != nil {
		r.at(Error, place+err.Pointer, "use whole numbers for the known limits", "%s", err.Message)
		return DefaultLimits()
	}
	if key, err := limits.check(); err != nil {
		r.at(Error, child(place, key), "choose a number in that range", "%s", err)
	}
	return limits
}

func (r *xrayReport) schemas(place string, source *scriptSource, s *Script) {
	if source.Input == nil {
		r.at(Error, place, `write "input": {"type": "object", "properties": {}, "additionalProperties": false}`, "the script has no input schema")
	} else {
		s.Input = canonical(source.Input)
		r.problems(child(place, "input"), LintSchema(source.Input))
		s.input, _ = CompileSchema(source.Input) // a refusal is among the problems
	}
	if source.Output != nil {
		s.Output = canonical(source.Output)
		r.problems(child(place, "output"), lintOutputSchema(source.Output))
		s.output, _ = CompileSchema(source.Output)
	}
}

func (r *xrayReport) problems(place string, list []SchemaProblem) {
	for _, p := range list {
		r.at(p.Severity, place+p.Pointer, p.Cure, "%s: %s", at(place+p.Pointer), p.Message)
	}
}

// examples are calls that must agree with the schemas: a test runs them in the real sandbox. What a
// skill with network: egress answers is not in its author's hands, so it needs none.
func (r *xrayReport) examples(place string, list []exampleSource, s *Script, network string) {
	place = child(place, "examples")
	if len(list) == 0 && network != NetworkEgress {
		r.at(Warning, place, "add one: it is run as a test", "the script has no example")
	}
	for i, source := range list {
		p := element(place, i)
		if source.Input == nil || source.Output == nil {
			r.at(Error, p, "write input and output", "an example needs both input and output")
			continue
		}
		e := Example{canonical(source.Input), canonical(source.Output)}
		s.Examples = append(s.Examples, e)
		if err := e.checkInput(s.input); err != nil {
			r.at(Error, child(p, "input"), "correct the example or the schema", "the example's input would be refused: %s", err)
		}
		if err := e.checkOutput(s); err != nil {
			r.at(Error, child(p, "output"), "correct the example or the schema", "the example's output would be refused: %s", err)
		}
	}
}

func (e Example) checkInput(schema *Schema) error {
	if len(e.Input) > MaxInputBytes {
		return fmt.Errorf("%d bytes; an input has at most %d", len(e.Input), MaxInputBytes)
	}
	if err := CheckJSON(e.Input, InputBounds); err != nil {
		return err
	}
	return judgeObject(e.Input, schema)
}

func (e Example) checkOutput(s *Script) error {
	if err := CheckJSON(e.Output, OutputBounds); err != nil {
		return err
	}
	if s.Stdout == StdoutText {
		var text struct {
			Text *string `json:"text"`
		}
		if err := DecodeStrict(e.Output, &text); err != nil || text.Text == nil {
			return fmt.Errorf(`stdout is text, so the output must be {"text": "…"}`)
		}
	}
	return judgeObject(e.Output, s.output)
}

// judgeObject: a schema that does not compile is reported elsewhere, and is nil here.
func judgeObject(raw []byte, schema *Schema) error {
	if !IsObject(raw) {
		return fmt.Errorf("it is not a JSON object")
	}
	if schema == nil {
		return nil
	}
	if err := schema.Validate(raw); err != nil {
		return err
	}
	return nil
}
