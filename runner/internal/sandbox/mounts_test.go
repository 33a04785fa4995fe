package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMountIsNoProgram: whoever may write into a folder must not be able to run what he wrote.
func TestMountIsNoProgram(t *testing.T) {
	f := inForce{landlock: handledBy(7)}
	grants, err := f.grantsFor(Spec{Argv: []string{"/usr/bin/env"}, Writable: []string{"/var/tmp"}, Readable: []string{"/usr/share"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range grants {
		if g.path == "/var/tmp" || g.path == "/usr/share" {
			seen++
			if g.access&execute != 0 || g.access&never != 0 {
				t.Errorf("%s is granted %x", g.path, g.access)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d of 2 mounts are granted", seen)
	}
}

// TestFoldersStartCold: all forks of a cell have what the cell has, so a run with folders of its own is none of them.
func TestFoldersStartCold(t *testing.T) {
	warm := Spec{Warm: &Warm{}, Argv: append(append([]string{"/usr/bin/python3"}, pythonFlags...), "/x.py"), Limits: Limits{Processes: 1, Interpreter: Python}}
	if !warm.forkable() {
		t.Fatal("the base is not forkable")
	}
	for name, change := range map[string]func(*Spec){
		"a folder to write to": func(s *Spec) { s.Writable = []string{"/srv"} },
		"a folder by a link":   func(s *Spec) { s.Links = []Link{{"cache", "/srv"}} },
	} {
		spec := warm
		if change(&spec); spec.forkable() {
			t.Errorf("%s: forked", name)
		}
	}
}

// TestJailsAreShared by runs that are granted the very same, and by no others: whoever is in a jail sees all that is bound
// into it, in the mode in which it is bound.
func TestJailsAreShared(t *testing.T) {
	work, srv := t.TempDir(), t.TempDir()
	logs, cache, other := filepath.Join(srv, "logs"), filepath.Join(srv, "cache"), filepath.Join(srv, "other")
	for _, dir := range []string{logs, cache, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	j := &jails{own: []string{"/usr/bin/true"}, open: func(JailSpec) (Jail, error) { return Jail{Close: func() error { return nil }}, nil }}
	get := func(change func(*Spec)) *heldJail {
		t.Helper()
		s := Spec{Argv: []string{"/usr/bin/env"}, Dir: filepath.Join(work, "run-1"), Readable: []string{logs}, Writable: []string{cache}}
		change(&s)
		h, release, err := j.get(s)
		if err != nil {
			t.Fatal(err)
		}
		release(true)
		return h
	}
	same := func(*Spec) {}
	base := get(same)
	for name, c := range map[string]struct {
		change func(*Spec)
		shared bool
	}{
		"the same run again":        {same, true},
		"another run":               {func(s *Spec) { s.Dir = filepath.Join(work, "run-2") }, true},
		"runs somewhere else":       {func(s *Spec) { s.Dir = filepath.Join(work, "elsewhere", "run-1") }, false},
		"one folder more to read":   {func(s *Spec) { s.Readable = []string{logs, other} }, false},
		"another folder to read":    {func(s *Spec) { s.Readable = []string{other} }, false},
		"no folder to read":         {func(s *Spec) { s.Readable = nil }, false},
		"another folder to change":  {func(s *Spec) { s.Writable = []string{other} }, false},
		"both, and only to read":    {func(s *Spec) { s.Readable, s.Writable = []string{cache, logs}, nil }, false},
		"both, and to change":       {func(s *Spec) { s.Readable, s.Writable = nil, []string{cache, logs} }, false},
		"the other one of the both": {func(s *Spec) { s.Readable, s.Writable = s.Writable, s.Readable }, false},
	} {
		if got := get(c.change) == base; got != c.shared {
			t.Errorf("%s: shared %v, want %v", name, got, c.shared)
		}
	}
}
