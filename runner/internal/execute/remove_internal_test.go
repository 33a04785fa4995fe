package execute

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xrayrunner/manifests"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/snapshot"
	"xrayrunner/runner/protocol"
)

const nobody = 65534

// asOrdinary runs f in a folder of a user whom permissions hold up, as production's is: root is not, so for root the
// file system's view of this one thread is changed (setfsuid(2)), and put back.
func asOrdinary(t *testing.T, f func(dir string)) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ordinary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if os.Geteuid() != 0 {
		f(dir)
		return
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(nobody); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := unix.SetfsuidRetUid(0); err != nil {
			t.Error(err)
		}
	}()
	f(dir)
}

// takenAway are folders without the permissions that removing them needs. They are made as a script can make them:
// under sandbox chmod does nothing, but mkdir and umask do.
var takenAway = []struct {
	name string
	make func(dir string) error
}{
	{"unreadable with a file", func(dir string) error { return locked(dir, 0o300) }},
	{"unwritable", func(dir string) error { return locked(dir, 0o500) }},
	{"nothing", func(dir string) error { return locked(dir, 0) }},
	{"search only, in search only", func(dir string) error {
		return errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o700), locked(filepath.Join(dir, "a"), 0o100), os.Chmod(filepath.Join(dir, "a"), 0o100))
	}},
	{"the folder itself", func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0), os.Chmod(dir, 0))
	}},
	{"beside links out", func(dir string) error {
		return errors.Join(os.Symlink("/etc", filepath.Join(dir, "l")), locked(dir, 0), os.Symlink("..", filepath.Join(dir, "m")))
	}},
	{"deeper than a path can name", func(dir string) error {
		at, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		long := strings.Repeat("d", 200)
		for range 30 { // 6,000 bytes, and PATH_MAX is 4,096
			if err := at.Mkdir(long, 0o700); err != nil {
				return errors.Join(err, at.Close())
			}
			next, err := at.OpenRoot(long)
			if err := errors.Join(err, at.Close()); err != nil {
				return err
			}
			at = next
		}
		return errors.Join(at.Mkdir("x", 0o700), at.WriteFile("x/f", nil, 0o600), at.Chmod("x", 0o300), at.Close())
	}},
}

func locked(dir string, mode fs.FileMode) error {
	x := filepath.Join(dir, "x")
	return errors.Join(os.Mkdir(x, 0o700), os.WriteFile(filepath.Join(x, "f"), nil, 0o600), os.Chmod(x, mode))
}

// TestRemoveAllAsOrdinary: what took its own permissions away goes, and nothing outside is touched.
func TestRemoveAllAsOrdinary(t *testing.T) {
	for _, c := range takenAway {
		t.Run(c.name, func(t *testing.T) {
			asOrdinary(t, func(dir string) {
				run, beside := filepath.Join(dir, "run"), filepath.Join(dir, "beside")
				if err := errors.Join(os.Mkdir(run, 0o700), os.Mkdir(beside, 0o500), c.make(run)); err != nil {
					t.Fatal(err)
				}
				if err := removeAll(run); err != nil {
					t.Errorf("removeAll: %.300v", err)
				}
				if _, err := os.Lstat(run); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("it is still there (%v)", err)
				}
				if info, err := os.Lstat(beside); err != nil || info.Mode().Perm() != 0o500 {
					t.Errorf("the folder beside it was touched (%v)", err)
				}
			})
		})
	}
}

func TestRemoveAllOfNothing(t *testing.T) {
	if err := removeAll(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Error(err)
	}
}

// fakeSandbox does in the run's folder what a test wants, and ends as it wants.
type fakeSandbox struct {
	in   func(dir string) error
	exit sandbox.Exit
	err  error
	spec sandbox.Spec
}

func (f *fakeSandbox) Run(_ context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	f.spec = spec
	if err := f.in(spec.Dir); err != nil {
		return sandbox.Exit{}, err
	}
	return f.exit, f.err
}

func (f *fakeSandbox) Posture() sandbox.Posture { return sandbox.Posture{Tier: sandbox.TierLandlock} }

// TestRunAsOrdinaryLeavesNothing: the same through Run, for a run that ended well and for one whose sandbox failed.
func TestRunAsOrdinaryLeavesNothing(t *testing.T) {
	for _, c := range takenAway {
		for _, fails := range []error{nil, errors.New("no sandbox today")} {
			want, name := protocol.OK, c.name+", ended"
			if fails != nil {
				want, name = protocol.SandboxError, c.name+", sandbox failed"
			}
			t.Run(name, func(t *testing.T) {
				asOrdinary(t, func(dir string) {
					if _, err := Prepare(dir); err != nil {
						t.Fatal(err)
					}
					box := &fakeSandbox{in: c.make, err: fails, exit: sandbox.Exit{Cause: sandbox.Exited, Stdout: []byte("{}")}}
					var line string
					got := newInternal(dir, box).Run(t.Context(), Job{Skill: "s", Script: "run.py", OnStderr: func(l string, _ time.Duration) { line = l }})
					if box.spec.OnStderr("x", 0); line != "x" {
						t.Error("OnStderr is not the job's")
					}
					if got.Outcome != want || fails != nil && got.Detail != fails.Error() {
						t.Errorf("%s (%.300s), want %s", got.Outcome, got.Detail, want)
					}
					if left, err := os.ReadDir(filepath.Join(dir, RunsDir)); err != nil || len(left) > 0 {
						t.Errorf("left: %v (%v)", left, err)
					}
				})
			})
		}
	}
}

// newInternal has one script that needs no file.
func newInternal(dir string, box sandbox.Sandbox) *Executor {
	lock := &manifests.Lock{Skills: map[string]*manifests.Skill{"s": {Name: "s", Scripts: map[string]*manifests.Script{"run.py": {Interpreter: "python3"}}}}}
	return &Executor{Lock: lock, Snapshot: &snapshot.Snapshot{}, Sandbox: box, WorkDir: dir, Interpreters: Interpreters{"python3": "/usr/bin/python3"}}
}
