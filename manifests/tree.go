package manifests

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// tree is the content of one skill folder, read once: what is hashed is what was judged.
type tree struct {
	folder   string
	files    map[string]treeFile // by path relative to the folder, slash-separated
	bytes    int64
	entries  int    // files and folders
	skip     string // a link that is left out, not refused: the entry of an external skill
	findings []Finding
}

type treeFile struct {
	content []byte
	exec    bool
}

// maxTreeDepth bounds folders inside each other.
const maxTreeDepth = 16

// readTree reads a skill folder below root. os.Root keeps every step inside of root; on top of that no
// link is followed and nothing but plain files is opened (case 15). What is refused becomes a finding;
// the rest is read all the same, so that the author sees all findings at once.
func readTree(root *os.Root, folder string) *tree {
	t := &tree{folder: folder, files: map[string]treeFile{}}
	t.readFolder(root, folder)
	return t
}

func (t *tree) readFolder(root *os.Root, folder string) {
	sub, err := root.OpenRoot(folder)
	if err != nil {
		t.refuse("", "make it readable", "cannot open the folder: %s", reason(err))
		return
	}
	defer sub.Close()
	t.walk(sub, ".", 1)
}

func (t *tree) refuse(name, cure, format string, args ...any) {
	t.note(Error, name, 0, cure, fmt.Sprintf(format, args...))
}

func (t *tree) note(severity Severity, name string, line int, cure, message string) {
	r := newReport(t.folder, name)
	r.add(severity, line, 0, cure, "%s", message)
	t.findings = append(t.findings, r.list...)
}

func (t *tree) walk(root *os.Root, dir string, depth int) {
	names, err := readNames(root, dir)
	if err != nil {
		t.refuse(strings.TrimPrefix(dir, "."), "make it readable", "cannot list the folder: %s", reason(err))
		return
	}
	if t.entries += len(names); t.full() { // before any of them is read
		t.refuse("", "split the skill or remove files", "more than %d files or %d MiB", MaxFiles, MaxSkillBytes>>20)
		return
	}
	for _, base := range names {
		name := path.Join(dir, base)
		info, err := root.Lstat(name)
		switch {
		case err != nil:
			t.refuse(name, "make it readable", "cannot look at it: %s", reason(err))
		case t.skip != "" && name == t.skip:
		case !t.allowedName(name, info):
		case info.IsDir() && depth >= maxTreeDepth:
			t.refuse(name, "flatten the folder", "more than %d folders inside each other", maxTreeDepth)
		case info.IsDir():
			t.walk(root, name, depth+1)
			if t.full() {
				return // said below
			}
		case t.allowedMode(name, info):
			t.read(root, name, info)
			if t.full() {
				return // said by read
			}
		}
	}
}

func (t *tree) full() bool { return t.entries > MaxFiles || t.bytes > MaxSkillBytes }

// allowedMode refuses everything that is not a plain file. A hard link is one: its content is hashed like
// any other, so it cannot change unnoticed.
func (t *tree) allowedMode(name string, info fs.FileInfo) bool {
	mode := info.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		t.refuse(name, "copy the file here", "a symbolic link; what it points to can change after the review")
	case !mode.IsRegular():
		t.refuse(name, "remove it", "not a plain file (%s)", mode.Type())
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		t.refuse(name, "chmod u-s,g-s", "the set-user-id or set-group-id bit is on")
	default:
		return true
	}
	return false
}

// read opens a file that Lstat has shown to be plain, and makes sure that it opened that very file.
// O_NONBLOCK: should a pipe have taken its place, opening it does not wait for a writer.
func (t *tree) read(root *os.Root, name string, info fs.FileInfo) { t.readAs(root, name, name, info) }

// readAs keeps the file under another name than it has.
func (t *tree) readAs(root *os.Root, name, key string, info fs.FileInfo) {
	if info.Size() > MaxSkillBytes-t.bytes { // before a byte of it is in memory
		t.bytes = MaxSkillBytes + 1
		t.refuse("", "split the skill or remove files", "more than %d MiB with %s", MaxSkillBytes>>20, key)
		return
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.refuse(name, "make it readable", "cannot open it: %s", reason(err))
		return
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		t.refuse(name, "build again when nothing writes to the folder", "the file was replaced while it was read")
		return
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxSkillBytes+1-t.bytes))
	if err != nil {
		t.refuse(name, "make it readable", "cannot read it: %s", reason(err))
		return
	}
	t.bytes += int64(len(content))
	t.files[key] = treeFile{content, info.Mode()&0o111 != 0}
	t.checkText(key, content)
}

// readNames lists a folder in the order of the names, so that two builds agree.
func readNames(root *os.Root, dir string) ([]string, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// reason drops the path from an error of package os: the finding names the file already, and paths of
// the build machine do not belong in a lock file.
func reason(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			return err.Error()
		}
		err = inner.Unwrap()
	}
}
