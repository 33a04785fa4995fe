package manifests

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// prepare proves one skill of a lock file and compiles its schemas.
func (s *Skill) prepare(key string) error {
	if err := checkSkillName(s.Name); err != nil {
		return err
	}
	if s.Name != key {
		return fmt.Errorf("it is listed under another name than its own, %q", s.Name)
	}
	for _, check := range []func() error{s.checkKind, s.checkFiles, s.checkFrontmatter, s.checkImports, s.prepareScripts} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkKind: an inject-only skill has nothing that runs; an external one is never in a lock file, since
// only the runner sees its folder.
func (s *Skill) checkKind() error {
	switch s.Kind {
	case InjectOnly:
		if s.Class != "" || s.Network != "" || len(s.Scripts) > 0 || len(s.Mounts) > 0 {
			return errors.New("an inject-only skill has no class, no network, no mounts and no scripts")
		}
	case Runnable:
		if len(s.EnvAllow) > 0 || s.Folder != "" {
			return errors.New("only an external skill has env_allow and folder")
		}
		if s.Class.Rank() == 0 {
			return fmt.Errorf("the class %q is not safe, mutating or dangerous", s.Class)
		}
		if s.Network != NetworkNone && s.Network != NetworkEgress {
			return fmt.Errorf("the network %q is not none or egress", s.Network)
		}
		if _, err := checkMounts(s.Mounts, s.Class, s.Network); err != nil {
			return err
		}
		if len(s.Scripts) == 0 {
			return errors.New("a runnable skill needs a script")
		}
		if _, ok := s.Files[xrayFile]; !ok {
			return errors.New("a runnable skill needs the file " + xrayFile)
		}
	default:
		return fmt.Errorf("the kind %q is not inject-only or runnable", s.Kind)
	}
	if s.Description == "" {
		return errors.New("the description is empty")
	}
	return nil
}

func (s *Skill) checkFiles() error {
	if _, ok := s.Files[skillFile]; !ok {
		return errors.New("the file " + skillFile + " is missing")
	}
	if len(s.Files) > MaxFiles {
		return fmt.Errorf("%d files; at most %d are allowed", len(s.Files), MaxFiles)
	}
	total := int64(0)
	for name, f := range s.Files {
		if err := checkFilePath(name); err != nil {
			return err
		}
		sum, err := hex.DecodeString(f.SHA256)
		if err != nil || len(sum) != 32 || strings.ToLower(f.SHA256) != f.SHA256 {
			return fmt.Errorf("file %q: the sha256 is not 64 lower-case hex digits", name)
		}
		if f.Size < 0 || f.Size > MaxSkillBytes {
			return fmt.Errorf("file %q: the size %d is out of range", name, f.Size)
		}
		total += f.Size
	}
	if total > MaxSkillBytes {
		return fmt.Errorf("%d bytes of files; at most %d are allowed", total, MaxSkillBytes)
	}
	return nil
}

func (s *Skill) checkFrontmatter() error {
	for _, tool := range s.Frontmatter.Tools {
		if tool.Name == "" || (tool.Class != "" && tool.Class.Rank() == 0) {
			return fmt.Errorf("the tool %q needs a name and a known class", tool.Name)
		}
	}
	if m := s.Frontmatter.Metadata; m != nil && !IsObject(m) {
		return errors.New("metadata is not an object")
	}
	return nil
}

// maxImports bounds what a cell imports.
const maxImports = 200

// checkImports: the names go to an interpreter, and no file of the skill may answer to one of them.
func (s *Skill) checkImports() error {
	if len(s.Imports) > 0 && !s.Warm() {
		return errors.New("imports are for warm scripts")
	}
	if len(s.Imports) > maxImports {
		return fmt.Errorf("%d imports; at most %d are allowed", len(s.Imports), maxImports)
	}
	for _, name := range s.Imports {
		top, _, _ := strings.Cut(name, ".")
		if _, own := s.Files[top+".py"]; own || len(name) > 100 || !isDotted(name) {
			return fmt.Errorf("the import %q is not the name of a module outside the skill", shorten(name))
		}
	}
	return nil
}

// isDotted: a.b_2, as Python names modules; ASCII will do.
func isDotted(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || part[0] >= '0' && part[0] <= '9' {
			return false
		}
		if strings.ContainsFunc(part, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
		}) {
			return false
		}
	}
	return true
}

func (s *Skill) prepareScripts() error {
	for name, script := range s.Scripts {
		if script == nil {
			return fmt.Errorf("script %q: null is not a script", name)
		}
		if err := checkScriptName(name); err != nil {
			return err
		}
		if _, ok := s.Files[name]; !ok {
			return fmt.Errorf("script %q: it is not one of the files", name)
		}
		if err := script.prepare(); err != nil {
			return fmt.Errorf("script %q: %w", name, err)
		}
		if err := script.checkDryRun(s.Class, s.Network); err != nil {
			return fmt.Errorf("script %q: %w", name, err)
		}
	}
	return nil
}

// prepare proves one script and compiles its schemas.
func (s *Script) prepare() (err error) {
	if err := checkInterpreter(s.Interpreter); err != nil {
		return err
	}
	if !slices.Contains([]string{StdoutJSON, StdoutText}, s.Stdout) {
		return fmt.Errorf("stdout is %q; it must be json or text", s.Stdout)
	}
	if _, err := s.Limits.check(); err != nil {
		return err
	}
	if s.Warm && s.Interpreter != interpreters[".py"] {
		return errors.New("warm is for python3 only")
	}
	if s.Warm && s.Limits.Processes > 1 {
		return errors.New("warm is for one process")
	}
	if s.input, err = CompileSchema(s.Input); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if s.Output != nil {
		if s.output, err = CompileSchema(s.Output); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	for i, example := range s.Examples {
		if !IsObject(example.Input) || !IsObject(example.Output) || len(example.Input) > MaxInputBytes {
			return fmt.Errorf("example %d: input and output must be objects, input of at most %d bytes", i, MaxInputBytes)
		}
	}
	return nil
}
