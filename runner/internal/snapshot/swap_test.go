package snapshot_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCase06ReadsWhileSwapped: 2,000 times Verify and a read of what a run would read, while the source is renamed over
// all the time. The copy never moves, and once a swap was seen the skill stays stopped.
func TestCase06ReadsWhileSwapped(t *testing.T) {
	p := newPlace(t)
	s := p.take(t)
	stop, ended, began := make(chan struct{}), make(chan error, 1), make(chan struct{})
	next := filepath.Join(t.TempDir(), "next") // outside the skill: the bytes are the only difference
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := errors.Join(os.WriteFile(next, []byte([]string{pwned, good}[n%2]), 0o644), os.Rename(next, p.file("run.py"))); err != nil {
				ended <- err
				return
			}
			if n == 0 {
				close(began)
			}
		}
	}()
	select {
	case <-began:
	case err := <-ended:
		t.Fatal(err)
	}
	end := sync.OnceValue(func() error { close(stop); return <-ended })
	defer end()
	stopped := false
	for i := range 2000 {
		if s.Verify("one") != nil {
			stopped = true
		}
		if stopped && !s.StoppedSkill("one") {
			t.Fatalf("read %d: taken back", i)
		}
		if got, err := os.ReadFile(filepath.Join(s.Dir("one"), "run.py")); err != nil || string(got) != good {
			t.Fatalf("read %d: a run would read %q (%v)", i, got, err)
		}
	}
	must(t, end())
	must(t, os.WriteFile(p.file("run.py"), []byte(pwned), 0o644)) // what the loop may have missed
	if s.Verify("one") == nil {
		t.Error("the last swap was not seen")
	}
	stopsOne(t, s)
}

// TestCase07CacheNeverInDir: whether it is there before the start or comes later, a cache of the source is not among
// what a run may read.
func TestCase07CacheNeverInDir(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after bool
		stops         bool
	}{
		{"before the start", true, false, true},
		{"after the start", false, true, true},
		{"none", false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			cache := func() {
				must(t, errors.Join(os.Mkdir(p.file("__pycache__"), 0o755), os.WriteFile(p.file("__pycache__/run.cpython-311.pyc"), []byte("forged"), 0o644)))
			}
			if c.before {
				cache()
			}
			s := p.take(t)
			if c.after {
				cache()
			}
			if err := s.Verify("one"); (err != nil) != c.stops || s.StoppedSkill("one") != c.stops {
				t.Errorf("Verify: %v, stopped %v; want stopped %v", err, s.StoppedSkill("one"), c.stops)
			}
			var got []string
			must(t, fs.WalkDir(os.DirFS(s.Dir("one")), ".", func(path string, d fs.DirEntry, err error) error {
				if err == nil {
					got = append(got, path)
				}
				return err
			}))
			if diff := cmp.Diff([]string{".", "SKILL.md", "data", "data/table.csv", "run.py", "xray.json"}, got); diff != "" {
				t.Errorf("in Dir (-want +got)\n%s", diff)
			}
		})
	}
}
