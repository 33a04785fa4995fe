// Package external loads skills that an operator drops into allow-listed folders: skill.json and a program (spec section
// 4.3). A bad one is named and left out; it hides no other one and never stops the start. What is loaded is the folder as it
// was at that moment: its digest covers every file, and what runs is the copy that was taken then.
package external

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// Bounds of a walk, so that no tree can keep the start waiting.
const (
	maxDepth    = 16
	maxFolders  = 4096
	maxManifest = 128 << 10 // bytes of a skill.json: its schema may have half of them. A megabyte takes 30 to read
	maxSkills   = 256
)

// Line is one line of the log. Text is the seed's to the letter; the rest is for whoever mends the fault.
type Line struct {
	Level        slog.Level
	Text         string
	File         string
	Line, Column int
	Cure         string
}

// Write puts it into a log.
func (l Line) Write(log *slog.Logger) {
	args := []any{}
	if l.Cure != "" {
		args = append(args, "file", l.File, "line", l.Line, "column", l.Column, "cure", l.Cure)
	}
	log.Log(context.Background(), l.Level, l.Text, args...)
}

// Skill is one that was registered.
type Skill struct {
	*manifests.ExternalSkill
	Root, Dir string // as the operator wrote them
	manifest  *manifests.ExternalManifest
}

// Changed reads the folder again and says how it differs from what was loaded; nil when it does not.
func (s *Skill) Changed() error {
	now, findings := manifests.ReadExternal(s.Root, s.Dir, s.manifest)
	if now == nil {
		return fmt.Errorf("its folder cannot be read any more: %s", findings[0].Message)
	}
	if now.Folder != s.Folder {
		return fmt.Errorf("its folder has changed since it was loaded")
	}
	return nil
}

// Settings are the operator's.
type Settings struct {
	Roots []string // absolute, in order: the first wins
	Env   Environment
	Taken func(name string) bool // names that are not to be had: the manifest's skills
}

// Set is what was loaded.
type Set struct {
	Skills map[string]*Skill // by name
	Lines  []Line
}

// Plain are the skills as the runner's lock holds them.
func (s *Set) Plain() map[string]*manifests.Skill {
	out := map[string]*manifests.Skill{}
	for name, skill := range s.Skills {
		out[name] = skill.Skill
	}
	return out
}

// Told is what GET /external answers.
func (s *Set) Told() protocol.External {
	out := protocol.External{Skills: map[string]protocol.ExternalSkill{}}
	for name, skill := range s.Skills {
		told := *skill.Skill
		told.Files = nil // its digest stands for them
		out.Skills[name] = protocol.ExternalSkill{Skill: &told, Digest: told.Folder, ClassAssumed: skill.ClassAssumed}
	}
	return out
}

// Load walks the roots.
func Load(s Settings) *Set {
	l := &loader{Settings: s, set: &Set{Skills: map[string]*Skill{}}}
	for _, root := range s.Roots {
		if !filepath.IsAbs(root) {
			l.line(slog.LevelWarn, "skill loader: %s is not an absolute path, skipping", root)
			continue
		}
		l.folders = 0
		l.walk(root, filepath.Clean(root), 1)
	}
	l.line(slog.LevelInfo, "skill loader: %d external skills registered", len(l.set.Skills))
	return l.set
}

type loader struct {
	Settings
	set     *Set
	folders int
}

func (l *loader) line(level slog.Level, format string, args ...any) {
	l.set.Lines = append(l.set.Lines, Line{Level: level, Text: manifests.Printable(fmt.Sprintf(format, args...))})
}

func (l *loader) faults(what, file string, findings []manifests.Finding) {
	for _, f := range findings {
		level, line, column := slog.LevelError, f.Line, f.Column
		if f.Severity == manifests.Warning {
			level = slog.LevelWarn
		}
		l.set.Lines = append(l.set.Lines, Line{level, manifests.Printable("skill loader: " + what + ": " + f.Message), place(file, f), line, column, f.Cure})
	}
}

// place is the file that a finding means: findings name it relative to the parent of the skill's folder.
func place(file string, f manifests.Finding) string {
	folder := filepath.Dir(file)
	if rest, ok := strings.CutPrefix(f.File, filepath.Base(folder)+"/"); ok {
		return filepath.Join(folder, rest)
	}
	return folder
}

// walk looks at one folder and those in it, in path order. Links are not followed: what they lead to is not below the root.
func (l *loader) walk(root, dir string, depth int) {
	if l.folders++; l.folders > maxFolders || depth > maxDepth {
		l.line(slog.LevelError, "skill loader: %s: more than %d folders, or %d inside each other; the rest is not looked at", dir, maxFolders, maxDepth)
		return
	}
	entries, err := os.ReadDir(dir + "/") // the slash follows the link that a root may be
	if err != nil {
		if !os.IsNotExist(err) { // a missing root is a fresh installation
			l.line(slog.LevelError, "skill loader: %s: %v", dir, err)
		}
		return
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == manifests.ExternalFile:
			l.load(root, dir, path, e)
		case e.IsDir():
			l.walk(root, path, depth+1)
		}
	}
}

func (l *loader) load(root, dir, path string, e fs.DirEntry) {
	raw, err := read(path, e)
	if err != nil {
		l.faults("parse "+path, path, []manifests.Finding{{Severity: manifests.Error, Message: err.Error(), Cure: "write a plain file of at most 1 MiB that this user may read"}})
		return
	}
	m, findings := manifests.ParseExternal(filepath.Base(dir), raw)
	l.faults("parse "+path, path, findings)
	if m == nil {
		return
	}
	name := m.Skill.Name
	if _, twice := l.set.Skills[name]; twice || l.Taken(name) {
		l.line(slog.LevelWarn, "skill loader: skill %q already registered, skipping %s", name, path)
		return
	}
	if len(l.set.Skills) >= maxSkills {
		l.line(slog.LevelError, "skill loader: more than %d skills, skipping %s", maxSkills, path)
		return
	}
	build := fmt.Sprintf("build %q", name)
	if why := l.Env.Refused(m.Skill.EnvAllow); why != "" {
		l.faults(build, path, []manifests.Finding{{Severity: manifests.Error, File: filepath.Base(dir) + "/" + manifests.ExternalFile, Message: why, Cure: "remove it from env_allow, or let the operator name it in RUNNER_EXTERNAL_ENV_UNSAFE"}})
		return
	}
	s, findings := manifests.ReadExternal(root, dir, m)
	l.faults(build, path, findings)
	if s == nil {
		return
	}
	l.set.Skills[name] = &Skill{s, root, dir, m}
	l.line(slog.LevelInfo, "skill loader: registered subprocess skill %q from %s", name, path)
}

// read takes only a plain file, does not wait for a pipe, and stops at the bound.
func read(path string, e fs.DirEntry) ([]byte, error) {
	if !e.Type().IsRegular() {
		return nil, fmt.Errorf("not a plain file (%s)", e.Type())
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot be opened: %s", unwrapped(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxManifest {
		return nil, fmt.Errorf("more than %d bytes", maxManifest)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1)) // it may have grown
	if err == nil && len(raw) > maxManifest {
		err = fmt.Errorf("more than %d bytes", maxManifest)
	}
	return raw, err
}

func unwrapped(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err
	}
	return err
}
