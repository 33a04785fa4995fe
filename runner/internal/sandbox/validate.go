package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// maxStdin is what fits the pipe in one write without a reader, whatever the pipe quota of the uid (pipe(7): a pipe has
// at least one page). It is also the ceiling of a run's input.
const maxStdin = 4096

// validate refuses what would weaken a run if it were taken literally. The policy has been decided elsewhere; this
// catches a caller that forgot to.
func (s Spec) validate() error {
	switch {
	case len(s.Argv) == 0 || !filepath.IsAbs(s.Argv[0]):
		return fmt.Errorf("%w: the program needs an absolute path", ErrSpec)
	case !properFolder(s.Dir):
		return fmt.Errorf("%w: working folder %q is not a clean absolute path below /", ErrSpec, s.Dir)
	case len(s.Stdin) > maxStdin:
		return fmt.Errorf("%w: %d bytes of input, at most %d", ErrSpec, len(s.Stdin), maxStdin)
	}
	for _, path := range s.Readable {
		if !properFolder(path) {
			return fmt.Errorf("%w: readable path %q is not a clean absolute path below /", ErrSpec, path)
		}
	}
	for _, path := range s.Writable {
		if !properFolder(path) {
			return fmt.Errorf("%w: writable path %q is not a clean absolute path below /", ErrSpec, path)
		}
	}
	for _, link := range s.Links {
		if link.Name == "" || link.Name == "." || link.Name == ".." || strings.ContainsAny(link.Name, "/\x00") || !properFolder(link.To) {
			return fmt.Errorf("%w: link %q to %q", ErrSpec, link.Name, link.To)
		}
	}
	for _, entry := range s.Env {
		if name, _, found := strings.Cut(entry, "="); !found || name == "" {
			return fmt.Errorf("%w: environment entry without a name", ErrSpec)
		}
	}
	return s.Limits.validate()
}

// properFolder refuses "/": granting it grants everything, and the shim's read-back relies on it being refused.
func properFolder(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && path != "/" && !strings.ContainsRune(path, 0)
}

func (l Limits) validate() error {
	for _, limit := range []struct {
		name string
		ok   bool
	}{
		{"wall", l.Wall > 0},
		{"cpu", l.CPU >= time.Second},
		{"memory", l.MemoryBytes > 0},
		{"file", l.FileBytes > 0},
		{"disk", l.DiskBytes > 0},
		{"disk files", l.DiskFiles > 0},
		{"open files", l.OpenFiles > 0},
		{"processes", l.Processes > 0},
		{"stdout", l.StdoutBytes > 0},
		{"stderr", l.StderrBytes > 0},
	} {
		if !limit.ok {
			return fmt.Errorf("%w: no %s limit", ErrSpec, limit.name)
		}
	}
	switch l.Interpreter {
	case Python, Bash, Node, Compiled:
		return nil
	default:
		return fmt.Errorf("%w: interpreter %q", ErrSpec, l.Interpreter)
	}
}
