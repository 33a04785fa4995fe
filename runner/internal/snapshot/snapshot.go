// Package snapshot makes sure that the bytes that were hashed are the bytes that run.
//
// At start each file of the lock is opened once, hashed while it is copied, and kept in a folder that no run can
// write. Each run hashes that copy again, and its source too: a source that changes under a running runner means
// that somebody has touched what was reviewed, and the skill stops until a person has looked (alpamon#430,
// hermes-agent#57558). Only files that the lock names are copied, so a cache or a shadowing module beside a script
// is never visible to it (python/cpython#101210); one more file in the source is a difference like any other.
package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"xrayrunner/manifests"
)

// Snapshot is the copy of all skills.
type Snapshot struct {
	source, root string
	lock         *manifests.Lock
	changed      map[string]func() error // external skills -> how their source differs from what was loaded

	mu      sync.Mutex
	stopped map[string]string // skill -> why; never taken back before a restart
}

// Take copies every skill below root, which must not exist. A skill that differs from the lock is stopped, not
// an error: the others run. An error is our own failure.
func Take(source, root string, lock *manifests.Lock) (*Snapshot, error) {
	s := &Snapshot{source: source, root: root, lock: lock, changed: map[string]func() error{}, stopped: map[string]string{}}
	if err := os.MkdirAll(filepath.Join(root, "skills"), 0o755); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(lock.Skills)) {
		if lock.Skills[name].Kind == manifests.External {
			continue // Add
		}
		differs, err := s.copySkill(lock.Skills[name])
		if err != nil {
			return nil, fmt.Errorf("snapshot of %s: %w", name, err)
		}
		if differs == nil {
			differs = s.Verify(name)
		}
		if differs != nil {
			s.stop(name, differs)
		}
	}
	return s, nil
}

// Add takes an external skill of the lock, whose bytes have been read already. changed says how its source differs from
// them now. It is for the time before the first run.
func (s *Snapshot) Add(name string, contents map[string][]byte, changed func() error) error {
	s.changed[name] = changed
	files := s.lock.Skills[name].Files
	for path, bytes := range contents {
		target := filepath.Join(s.Dir(name), filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("snapshot of %s: %w", name, err)
		}
		mode := fs.FileMode(0o444)
		if files[path].Exec {
			mode = 0o555
		}
		if err := os.WriteFile(target, bytes, mode); err != nil {
			return fmt.Errorf("snapshot of %s: %w", name, err)
		}
	}
	return nil
}

// Dir is the folder that a run of this skill may read.
func (s *Snapshot) Dir(skill string) string { return filepath.Join(s.root, "skills", skill) }

// Stopped says which skills do not run any more, and why.
func (s *Snapshot) Stopped() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.stopped)
}

// StoppedSkill reports whether one skill is stopped.
func (s *Snapshot) StoppedSkill(skill string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.stopped[skill]
	return ok
}

// Verify hashes the skill's files again, copy and source. A difference stops the skill and is returned.
func (s *Snapshot) Verify(skill string) error {
	files := s.lock.Skills[skill].Files
	err := verifyTree(s.Dir(skill), files)
	if changed := s.changed[skill]; err == nil && changed != nil {
		err = changed()
	} else if err == nil {
		err = verifyTree(filepath.Join(s.source, skill), files)
	}
	if err != nil {
		s.stop(skill, err)
	}
	return err
}

// Read returns the bytes of one file of the copy, if they are what the lock says. A difference stops the skill.
func (s *Snapshot) Read(skill, path string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(s.Dir(skill), filepath.FromSlash(path)))
	if err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", skill, err)
	}
	sum := sha256.Sum256(text)
	if err := compare(path, int64(len(text)), hex.EncodeToString(sum[:]), s.lock.Skills[skill].Files[path]); err != nil {
		s.stop(skill, err)
		return nil, err
	}
	return text, nil
}

func (s *Snapshot) stop(skill string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.stopped[skill]; !ok {
		s.stopped[skill] = why.Error()
	}
}

// copySkill returns as its first value how the source differs from the lock.
func (s *Snapshot) copySkill(skill *manifests.Skill) (differs, err error) {
	from, err := os.OpenRoot(filepath.Join(s.source, skill.Name))
	if err != nil {
		return err, nil
	}
	defer from.Close()
	for _, path := range slices.Sorted(maps.Keys(skill.Files)) {
		target := filepath.Join(s.Dir(skill.Name), filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return nil, err
		}
		if differs, err := copyFile(from, path, target, skill.Files[path]); differs != nil || err != nil {
			return differs, err
		}
	}
	return nil, nil
}

func copyFile(from *os.Root, path, target string, want manifests.File) (differs, err error) {
	in, err := openRegular(from, path)
	if err != nil {
		return err, nil
	}
	defer in.Close()
	mode := fs.FileMode(0o444)
	if want.Exec {
		mode = 0o555
	}
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, want.Size+1))
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	return compare(path, n, hex.EncodeToString(sum.Sum(nil)), want), nil
}

// openRegular does not follow a link at the last element, does not block on a pipe, and insists on a plain file, also
// when the path becomes something else between the two looks at it.
func openRegular(root *os.Root, path string) (*os.File, error) {
	named, err := root.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (%s)", path, named.Mode())
	}
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !opened.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file (%s)", path, opened.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func compare(path string, size int64, sum string, want manifests.File) error {
	if size != want.Size || sum != want.SHA256 {
		return fmt.Errorf("%s differs from the manifest", path)
	}
	return nil
}

// verifyTree insists that dir holds exactly these files with exactly these bytes.
func verifyTree(dir string, files map[string]manifests.File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, ok := files[path]
		if !ok {
			return fmt.Errorf("%s is not in the manifest", path)
		}
		seen++
		return verifyFile(root, path, want)
	})
	if err == nil && seen != len(files) {
		return fmt.Errorf("%d files of %d are missing", len(files)-seen, len(files))
	}
	return err
}

func verifyFile(root *os.Root, path string, want manifests.File) error {
	in, err := openRegular(root, path)
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(in, want.Size+1))
	if err != nil {
		return err
	}
	return compare(path, n, hex.EncodeToString(sum.Sum(nil)), want)
}
