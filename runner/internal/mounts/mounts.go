// Package mounts maps the folders that skills name to the paths that the runner's operator gives. A run is granted the
// mounts of its own skill and no other; a skill whose mount is missing, or is given for reading only where it must write,
// does not run at all.
package mounts

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"xrayrunner/manifests"
)

// Folder is one that the operator gives.
type Folder struct {
	Path     string // as configured, then resolved
	Writable bool
}

// Table is by name.
type Table map[string]Folder

// Parse reads "name=/path:ro,name=/path:rw".
func Parse(text string) (Table, error) {
	if text == "" {
		return nil, nil
	}
	t := Table{}
	for entry := range strings.SplitSeq(text, ",") {
		name, rest, named := strings.Cut(strings.TrimSpace(entry), "=")
		i := strings.LastIndexByte(rest, ':')
		switch {
		case !named || i < 0:
			return nil, fmt.Errorf("%q: write name=/path:ro or name=/path:rw", entry)
		case !manifests.MountName(name):
			return nil, fmt.Errorf("%q: a name is 1 to 32 of a-z 0-9 _ -", name)
		case rest[i+1:] != manifests.MountRead && rest[i+1:] != manifests.MountWrite:
			return nil, fmt.Errorf("%s: the mode %q is not ro or rw", name, rest[i+1:])
		case !filepath.IsAbs(rest[:i]) || filepath.Clean(rest[:i]) != rest[:i]:
			return nil, fmt.Errorf("%s: %q is not a clean absolute path", name, rest[:i])
		}
		if _, twice := t[name]; twice {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		t[name] = Folder{rest[:i], rest[i+1:] == manifests.MountWrite}
	}
	return t, nil
}

// never are folders of the system that are no place for data, whatever the operator says, nor is what lies in them: some of
// it every run may read.
var never = []string{"/proc", "/sys", "/dev", "/usr", "/bin", "/lib", "/lib64", "/etc"}

// Resolve follows the links of each path once and checks what it leads to: a folder, not one of the system's, not one that
// holds or lies in the runner's own (own: work folder, skills, socket, …), and not one that holds or lies in another mount,
// since a skill with one would see the other.
func (t Table) Resolve(own []string) (Table, error) {
	out := Table{}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		path, err := filepath.EvalSymlinks(t[name].Path)
		if err != nil {
			return nil, fmt.Errorf("mount %s: %w", name, err)
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("mount %s: %s is not a folder", name, path)
		}
		if path == "/" || slices.ContainsFunc(never, func(dir string) bool { return within(path, dir) }) {
			return nil, fmt.Errorf("mount %s: %s is the system's", name, path)
		}
		for _, o := range own {
			if overlap(path, resolved(o)) {
				return nil, fmt.Errorf("mount %s: %s overlaps with the runner's own %s", name, path, o)
			}
		}
		for other, f := range out {
			if overlap(path, f.Path) {
				return nil, fmt.Errorf("mounts %s and %s overlap: a skill with one would see the other", other, name)
			}
		}
		out[name] = Folder{path, t[name].Writable}
	}
	return out, nil
}

// resolved follows the links of the nearest part of a path that exists.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func overlap(a, b string) bool { return within(a, b) || within(b, a) }

// Missing says which mount a skill cannot have; "" when it can have all.
func (t Table) Missing(list []manifests.Mount) string {
	for _, m := range list {
		f, ok := t[m.Name]
		switch {
		case !ok:
			return fmt.Sprintf("needs the folder %q, which RUNNER_MOUNTS does not give", m.Name)
		case m.Mode == manifests.MountWrite && !f.Writable:
			return fmt.Sprintf("must write to the folder %q, which RUNNER_MOUNTS gives for reading only", m.Name)
		}
	}
	return ""
}

// Paths are what a run of this class, of a skill with these mounts, is granted. It asks for no more than the skill does: what
// the operator gives for writing is granted for reading to a skill that only reads. A safe run writes to none of them: that,
// and not its script, is what makes a dry run one.
func (t Table) Paths(list []manifests.Mount, class manifests.Class) (readable, writable []string) {
	for _, m := range list {
		if m.Mode == manifests.MountWrite && t[m.Name].Writable && class.Rank() > manifests.Safe.Rank() {
			writable = append(writable, t[m.Name].Path)
		} else {
			readable = append(readable, t[m.Name].Path)
		}
	}
	return readable, writable
}
