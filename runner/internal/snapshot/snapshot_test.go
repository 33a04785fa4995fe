package snapshot_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"xrayrunner/manifests"
	"xrayrunner/runner/internal/snapshot"
)

const (
	good  = "import json\nprint(json.dumps({'ok': True}))\n"
	pwned = "import json\nprint(json.dumps({'ok': None}))\n" // of the same length
	xray  = `{"class":"safe","scripts":{"run.py":{"description":"x","input":{"type":"object","additionalProperties":false}}}}`
)

type place struct {
	source string
	lock   *manifests.Lock
}

// newPlace has two sound skills, so that a test can see that only one of them stops.
func newPlace(t *testing.T) place {
	t.Helper()
	p := place{source: t.TempDir()}
	for _, name := range []string{"one", "other"} {
		for file, text := range map[string]string{"SKILL.md": "---\nname: " + name + "\ndescription: x\n---\nbody\n", "xray.json": xray, "run.py": good, "data/table.csv": "a,b\n"} {
			path := filepath.Join(p.source, name, file)
			must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
		}
	}
	built, findings, err := manifests.Build(p.source)
	must(t, err)
	if len(built.Disabled) > 0 {
		t.Fatalf("the skills are not sound: %v", findings[0])
	}
	raw, err := manifests.Encode(built)
	must(t, err)
	p.lock, err = manifests.Decode(raw)
	must(t, err)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p place) file(name string) string { return filepath.Join(p.source, "one", name) }

func (p place) take(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Take(p.source, filepath.Join(t.TempDir(), "snapshot"), p.lock)
	must(t, err)
	return s
}

// changes are the ways in which a source can differ from what was reviewed.
var changes = []struct {
	name, why string
	make      func(p place) error
}{
	{"one byte of the script", "run.py differs", func(p place) error {
		return os.WriteFile(p.file("run.py"), []byte(strings.Replace(good, "True", "true", 1)), 0o644)
	}},
	{"one byte of the text", "SKILL.md differs", func(p place) error {
		return os.WriteFile(p.file("SKILL.md"), []byte("---\nname: one\ndescription: y\n---\nbody\n"), 0o644)
	}},
	{"one byte more", "run.py differs", func(p place) error { return os.WriteFile(p.file("run.py"), []byte(good+"\n"), 0o644) }},
	{"emptied", "run.py differs", func(p place) error { return os.Truncate(p.file("run.py"), 0) }},
	{"missing", "missing", func(p place) error { return os.Remove(p.file("data/table.csv")) }},
	{"the folder is missing", "no such file", func(p place) error { return os.RemoveAll(filepath.Join(p.source, "one")) }},
	{"case 07: one file more", "json.py is not in the manifest", func(p place) error { return os.WriteFile(p.file("json.py"), nil, 0o644) }},
	{"case 07: a cache", "not in the manifest", func(p place) error {
		return errors.Join(os.Mkdir(p.file("__pycache__"), 0o755), os.WriteFile(p.file("__pycache__/run.cpython-311.pyc"), nil, 0o644))
	}},
	{"case 07: one module in C more", "not in the manifest", func(p place) error { return os.WriteFile(p.file("data/json.so"), nil, 0o644) }},
	{"a link to the same bytes", "not a regular file", func(p place) error {
		return errors.Join(os.Rename(p.file("run.py"), filepath.Join(p.source, "elsewhere")), os.Symlink("../elsewhere", p.file("run.py")))
	}},
	{"a link inside to the same bytes", "not a regular file", func(p place) error {
		return errors.Join(os.Rename(p.file("run.py"), p.file("run2.py")), os.Symlink("run2.py", p.file("run.py")))
	}},
	{"one link more", "not in the manifest", func(p place) error { return os.Symlink("/etc", p.file("etc")) }},
	{"a folder that is a link", "data", func(p place) error {
		return errors.Join(os.Rename(p.file("data"), filepath.Join(p.source, "elsewhere")), os.Symlink("../elsewhere", p.file("data")))
	}},
	{"a pipe", "not a regular file", func(p place) error {
		return errors.Join(os.Remove(p.file("run.py")), syscall.Mkfifo(p.file("run.py"), 0o644))
	}},
	{"one pipe more", "not in the manifest", func(p place) error { return syscall.Mkfifo(p.file("pipe"), 0o644) }},
	{"a socket", "not a regular file", func(p place) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(p.source, "s"), Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return errors.Join(l.Close(), os.Rename(filepath.Join(p.source, "s"), p.file("run.py")))
	}},
	{"a folder", "missing", func(p place) error {
		return errors.Join(os.Remove(p.file("run.py")), os.Mkdir(p.file("run.py"), 0o755))
	}},
}

// stopsOne looks that one skill is stopped, with a reason, and the other is not.
func stopsOne(t *testing.T, s *snapshot.Snapshot) {
	t.Helper()
	if stopped := s.Stopped(); len(stopped) != 1 || stopped["one"] == "" {
		t.Errorf("stopped: %v, want one", stopped)
	}
	if !s.StoppedSkill("one") || s.StoppedSkill("other") || s.Verify("other") != nil {
		t.Errorf("one stopped %v, other stopped %v", s.StoppedSkill("one"), s.StoppedSkill("other"))
	}
}

func TestSound(t *testing.T) {
	p := newPlace(t)
	s := p.take(t)
	if len(s.Stopped()) != 0 || s.Verify("one") != nil || s.Verify("other") != nil {
		t.Fatalf("stopped: %v", s.Stopped())
	}
	for name, text := range map[string]string{"run.py": good, "data/table.csv": "a,b\n"} {
		path := filepath.Join(s.Dir("one"), name)
		got, err := os.ReadFile(path)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		if string(got) != text || info.Mode().Perm()&0o222 != 0 {
			t.Errorf("%s: %q with mode %s", name, got, info.Mode())
		}
	}
}

func TestChangedBeforeStart(t *testing.T) {
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			must(t, c.make(p))
			stopsOne(t, p.take(t))
		})
	}
}

// TestChangedAfterStart: the copy is still what was reviewed, and yet the skill stops: somebody has touched the source.
func TestChangedAfterStart(t *testing.T) {
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			s := p.take(t)
			must(t, s.Verify("one"))
			must(t, c.make(p))
			if err := s.Verify("one"); err == nil || !strings.Contains(err.Error(), c.why) && !strings.Contains(err.Error(), "not in the manifest") {
				t.Errorf("Verify: %v, want %q", err, c.why)
			}
			stopsOne(t, s)
			if got, err := os.ReadFile(filepath.Join(s.Dir("one"), "run.py")); err != nil || string(got) != good {
				t.Errorf("the copy changed: %q (%v)", got, err)
			}
		})
	}
}

// TestCopyChanged: no run can write there, and were it otherwise it would be seen.
func TestCopyChanged(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"one byte": func(dir string) error {
			return errors.Join(os.Chmod(filepath.Join(dir, "run.py"), 0o644), os.WriteFile(filepath.Join(dir, "run.py"), []byte(pwned), 0o644))
		},
		"one file more": func(dir string) error { return os.WriteFile(filepath.Join(dir, "json.py"), nil, 0o644) },
		"one file less": func(dir string) error { return os.Remove(filepath.Join(dir, "data/table.csv")) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			s := p.take(t)
			must(t, change(s.Dir("one")))
			if s.Verify("one") == nil {
				t.Error("not seen")
			}
			stopsOne(t, s)
		})
	}
}

// TestNeverTakenBack: putting the old bytes back does not put the skill back; only a restart, after a person looked.
func TestNeverTakenBack(t *testing.T) {
	p := newPlace(t)
	s := p.take(t)
	must(t, os.WriteFile(p.file("run.py"), []byte(pwned), 0o644))
	first := s.Verify("one")
	must(t, os.WriteFile(p.file("run.py"), []byte(good), 0o644))
	if err := s.Verify("one"); first == nil || err != nil {
		t.Errorf("the bytes: first %v, then %v; want a difference, then none", first, err)
	}
	if why := s.Stopped()["one"]; why != first.Error() {
		t.Errorf("stopped for %q, want the first reason %q", why, first)
	}
	s.Stopped()["other"] = "written into the copy that was given"
	if s.StoppedSkill("other") {
		t.Error("a caller can stop a skill through what it is given")
	}
	if len(p.take(t).Stopped()) != 0 {
		t.Error("a restart does not put it back")
	}
}

// TestCase06Swap renames other bytes over the source all the time. Whatever Take and Verify see of it, what a run
// would read is the reviewed bytes, or the skill is stopped.
func TestCase06Swap(t *testing.T) {
	p := newPlace(t)
	stop, swapped := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				swapped <- n
				return
			default:
			}
			next := filepath.Join(p.source, "next")
			if err := errors.Join(os.WriteFile(next, []byte([]string{pwned, good}[n%2]), 0o644), os.Rename(next, p.file("run.py"))); err != nil {
				t.Error(err)
			}
		}
	}()
	ran, refused := 0, 0
	for range 50 {
		s, err := snapshot.Take(p.source, filepath.Join(t.TempDir(), "snapshot"), p.lock)
		must(t, err)
		for range 40 {
			if s.StoppedSkill("one") || s.Verify("one") != nil {
				refused++
				break
			}
			got, err := os.ReadFile(filepath.Join(s.Dir("one"), "run.py"))
			if err != nil || string(got) != good {
				t.Fatalf("a run would read %q (%v)", got, err)
			}
			ran++
		}
	}
	close(stop)
	t.Logf("%d swaps, %d runs, %d refused", <-swapped, ran, refused)
	if refused == 0 {
		t.Error("no swap was ever seen")
	}
}

func TestVerifyInParallel(t *testing.T) {
	p := newPlace(t)
	s := p.take(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := s.Verify("one"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestOurOwnFailure: a snapshot that cannot be written is an error, not a stopped skill.
func TestOurOwnFailure(t *testing.T) {
	p := newPlace(t)
	root := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(root, nil, 0o644))
	if s, err := snapshot.Take(p.source, root, p.lock); s != nil || err == nil {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		t.Error("what stood in the way was removed")
	}
}
