package manifests

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Build reads a folder of skills (runner/skills) and makes the lock file of it. Every sub-folder is a
// skill; plain files and names that start with "." beside them are none. A skill with an Error is put
// into Lock.Disabled and never hides the others. dir itself may be a link: whoever names it means it.
// The error is only for a folder that cannot be read at all. Equal folders give equal results.
func Build(dir string) (*Lock, []Finding, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open skills folder: %w", err)
	}
	defer root.Close()
	names, err := readNames(root, ".")
	if err != nil {
		return nil, nil, fmt.Errorf("list skills folder: %w", err)
	}
	l := &Lock{Version: LockVersion, Skills: map[string]*Skill{}, Disabled: map[string]Finding{}}
	var all []Finding
	for _, name := range names {
		skill, findings, isSkill := buildEntry(root, name)
		if !isSkill {
			continue
		}
		SortFindings(findings)
		if i := slices.IndexFunc(findings, func(f Finding) bool { return f.Severity == Error }); i >= 0 {
			l.Disabled[printable(name)] = findings[i]
		} else {
			l.Skills[name] = skill
		}
		all = append(all, findings...)
	}
	SortFindings(all)
	return l, all, nil
}

func buildEntry(root *os.Root, name string) (s *Skill, findings []Finding, isSkill bool) {
	if strings.HasPrefix(name, ".") {
		return nil, nil, false
	}
	info, err := root.Lstat(name)
	r := newReport(name, "")
	switch {
	case err != nil:
		r.add(Error, 0, 0, "make it readable", "cannot look at it: %s", reason(err))
	case info.Mode()&fs.ModeSymlink != 0:
		r.add(Error, 0, 0, "copy the folder here", "a symbolic link; what it points to can change after the review")
	case info.IsDir():
		s, findings := buildSkill(root, name)
		return s, findings, true
	default:
		return nil, nil, false
	}
	return nil, r.list, true
}

func buildSkill(root *os.Root, folder string) (*Skill, []Finding) {
	t := readTree(root, folder)
	findings := t.findings
	s := &Skill{Kind: InjectOnly, Files: t.locked()}
	if file, ok := t.files[xrayFile]; ok {
		findings = append(findings, s.addScripts(t, file.content)...)
	}
	text, ok := t.files[skillFile]
	if !ok {
		return nil, append(findings, t.missingSkillFile()...)
	}
	var more []Finding
	scripts := slices.Collect(maps.Keys(s.Scripts))
	s.Name, s.Description, s.Frontmatter, _, more = parseSkillMD(folder, text.content, scripts)
	return s, append(findings, more...)
}

func (t *tree) locked() map[string]File {
	files := map[string]File{}
	for name, f := range t.files {
		files[name] = File{SHA256: hashHex(f.content), Size: int64(len(f.content)), Exec: f.exec}
	}
	return files
}

// missingSkillFile reports the missing file, unless it is there and was refused for another reason.
func (t *tree) missingSkillFile() []Finding {
	r := newReport(t.folder, skillFile)
	for _, f := range t.findings {
		if f.File == r.file {
			return nil
		}
	}
	cure := "write " + skillFile + ", or move the folder away"
	for name := range t.files {
		if strings.EqualFold(name, skillFile) {
			cure = fmt.Sprintf("rename %s to %s", name, skillFile)
		}
	}
	r.add(Error, 0, 0, cure, "the file is missing")
	return r.list
}

// addScripts makes the skill runnable.
func (s *Skill) addScripts(t *tree, raw []byte) []Finding {
	x, r := parseXray(t.folder, raw)
	if x == nil {
		return r.list
	}
	s.Kind, s.Class, s.Category, s.Network, s.Mounts, s.Scripts = Runnable, x.Class, x.Category, x.Network, x.Mounts, x.Scripts
	for _, name := range slices.Sorted(maps.Keys(x.Scripts)) {
		place := child("/scripts", name)
		file, ok := t.files[name]
		if !ok {
			r.at(Error, place, "write the file, or correct the key: it is a path relative to the skill's folder", "the script %q is not a file of this skill", shorten(name))
			continue
		}
		script := x.Scripts[name]
		if script.Interpreter != "" {
			continue
		}
		interpreter, err := shebang(file)
		if err != nil {
			r.at(Error, place, "name it .py, .sh or .js, or make it executable with a #! line", "the script %q: %s", shorten(name), err)
		}
		script.Interpreter = interpreter
	}
	return r.list
}

// shebang reads the interpreter from "#!". The kernel never reads it: the runner starts the interpreter
// itself, so there is one program, without arguments, and env's search is done here.
func shebang(f treeFile) (string, error) {
	first, _, _ := strings.Cut(string(f.content[:min(len(f.content), 256)]), "\n")
	line, ok := strings.CutPrefix(first, "#!")
	words := strings.Fields(line)
	switch {
	case !f.exec:
		return "", fmt.Errorf("its extension names no interpreter and it is not executable")
	case !ok || len(words) == 0:
		return "", fmt.Errorf("its extension names no interpreter and it has no #! line")
	case path.Base(words[0]) == "env" && len(words) == 2 && slices.Contains(slices.Collect(maps.Values(interpreters)), words[1]):
		return words[1], nil
	case path.Base(words[0]) == "env" || len(words) > 1:
		return "", fmt.Errorf("its #! line must name one program without arguments, or env with python3, bash or node")
	case !path.IsAbs(words[0]):
		return "", fmt.Errorf("its #! line must name an absolute path")
	}
	return words[0], checkInterpreter(words[0])
}
