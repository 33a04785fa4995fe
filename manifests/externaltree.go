package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ExternalSkill is an external skill with the bytes that make it up.
type ExternalSkill struct {
	*Skill
	ClassAssumed bool
	Contents     map[string][]byte // of Files
}

// outsideEntry is where an entry stands that lies below the root, and not in the skill's own folder.
const outsideEntry = ".entry/"

// ReadExternal reads the folder of a decoded skill.json: every file of it, and the program. root is the allow-listed root,
// folder the skill's folder below it; both as the operator wrote them. The entry may be a link and must stay below root; no
// other link is followed, and nothing but plain files is read.
func ReadExternal(root, folder string, m *ExternalManifest) (*ExternalSkill, []Finding) {
	name := filepath.Base(folder)
	fail := func(cure, format string, args ...any) (*ExternalSkill, []Finding) {
		r := newReport(name, "")
		r.add(Error, 0, 0, cure, format, args...)
		return nil, r.list
	}
	entry, why := resolveEntry(root, folder, m.Entry)
	if why != "" {
		return fail("keep the program below the root, in the skill's own folder", "%s", why)
	}
	parent, err := os.OpenRoot(filepath.Dir(folder))
	if err != nil {
		return fail("make it readable", "cannot open the folder: %s", reason(err))
	}
	defer parent.Close()
	t := &tree{folder: name, files: map[string]treeFile{}, skip: linkOf(folder, m.Entry)}
	t.readFolder(parent, name)
	if HasErrors(t.findings) {
		return nil, t.findings
	}
	key, err := t.addEntry(folder, entry)
	if err != nil {
		return fail("write the program, or correct the entry", "entry %s: %s", m.Entry, reason(err))
	}
	interpreter, err := externalInterpreter(key, t.files[key])
	if err != nil {
		return fail("name it .py, .sh or .js, or make it executable with a #! line, or compile it", "entry %s: %s", m.Entry, err)
	}
	return m.assemble(t, key, interpreter), t.findings
}

func (m *ExternalManifest) assemble(t *tree, key, interpreter string) *ExternalSkill {
	s, script := *m.Skill, *m.Script
	script.Interpreter = interpreter
	s.Files, s.Scripts = t.locked(), map[string]*Script{key: &script}
	s.Folder = s.FolderDigest()
	contents := map[string][]byte{}
	for name, f := range t.files {
		contents[name] = f.content
	}
	return &ExternalSkill{&s, m.ClassAssumed, contents}
}

// resolveEntry gives the real path of the program. Both sides are resolved and compared by path element: /skills-evil does
// not lie below /skills (case 15).
func resolveEntry(root, folder, entry string) (path, why string) {
	if !filepath.IsAbs(entry) {
		entry = filepath.Join(folder, entry)
	}
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", reason(err)
	}
	real, err := filepath.EvalSymlinks(entry)
	if err != nil {
		real = filepath.Clean(entry) // not there: say so, unless it would escape anyway
	}
	realFolder, folderErr := filepath.EvalSymlinks(filepath.Dir(entry))
	inside := strings.HasPrefix(real, realRoot+"/") || err != nil && folderErr == nil && strings.HasPrefix(realFolder+"/", realRoot+"/")
	switch {
	case !inside:
		return "", fmt.Sprintf("entry %s escapes allowlist root %s", real, root)
	case err != nil:
		return "", fmt.Sprintf("entry %s: %s", entry, reason(err))
	}
	return real, ""
}

// linkOf is the entry's path in its folder when it is a link there: the one link that is let through.
func linkOf(folder, entry string) string {
	full := entry
	if !filepath.IsAbs(entry) {
		full = filepath.Join(folder, entry)
	}
	rel, err := filepath.Rel(folder, full)
	if err != nil || strings.HasPrefix(rel, "..") {
		return ""
	}
	if info, err := os.Lstat(full); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	return filepath.ToSlash(rel)
}

// addEntry makes sure that the program is among the files, and gives its key.
func (t *tree) addEntry(folder, entry string) (string, error) {
	if realFolder, err := filepath.EvalSymlinks(folder); err == nil {
		if rel, err := filepath.Rel(realFolder, entry); err == nil && !strings.HasPrefix(rel, "..") {
			if _, ok := t.files[filepath.ToSlash(rel)]; ok {
				return filepath.ToSlash(rel), nil
			}
		}
	}
	key := outsideEntry + filepath.Base(entry)
	dir, err := os.OpenRoot(filepath.Dir(entry))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	info, err := dir.Lstat(filepath.Base(entry))
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("not a plain file (%s)", info.Mode().Type())
	}
	before := len(t.findings)
	t.readAs(dir, filepath.Base(entry), key, info)
	if len(t.findings) > before {
		return "", fmt.Errorf("%s", t.findings[len(t.findings)-1].Message)
	}
	return key, nil
}

// elf begins every program that the kernel runs by itself (elf(5)).
var elf = []byte("\x7fELF")

// Compiled is the interpreter of a program that needs none.
const Compiled = "compiled"

func externalInterpreter(key string, f treeFile) (string, error) {
	if known := interpreters[path.Ext(key)]; known != "" {
		return known, nil
	}
	if bytes.HasPrefix(f.content, elf) {
		if !f.exec {
			return "", fmt.Errorf("it is a compiled program and not executable")
		}
		return Compiled, nil
	}
	return shebang(f)
}

// FolderDigest names all files of a skill: "sha256:" and the hex sha256 of their sorted list with modes and digests.
func (s *Skill) FolderDigest() string {
	var list [][]any
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		f := s.Files[name]
		list = append(list, []any{name, f.SHA256, f.Exec})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		panic("BUG: names do not marshal: " + err.Error())
	}
	return Digest(raw)
}

// ScriptDigest is what stands for a script's bytes in approvals and procedures: the hex sha256 of its file, or of the whole
// folder of an external skill, since all of that is its program.
func (s *Skill) ScriptDigest(script string) string {
	if s.Kind == External {
		return strings.TrimPrefix(s.Folder, "sha256:")
	}
	return s.Files[script].SHA256
}
