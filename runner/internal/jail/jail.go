// Package jail makes the rooms of namespaces in which runs are started (tier namespaces), by libcontainer. It is the one
// package that imports libcontainer, whose maintainers promise nothing to outside users.
//
// A jail is made once per skill and holds one small process, the shim's --jail (sandbox/shim/jail.c). It is rootless: one
// user is mapped, ours, as 0; no capability but CAP_SETFCAP, which the runs' own user namespaces need; the root is an
// empty folder with binds of exactly the paths that Landlock grants a run, read-only but for the folders that it may change. /proc is a fresh one where the
// container lets us mount it, else the container's.
//
// libcontainer starts our own binary again as the jail's init. It copies the binary into memory for each, unless we
// already run from a sealed copy: see Seal. In the runner that init becomes a smaller program before Go starts, which has
// this package and nothing that the runner has beside it (exec.c, cmd/xray-jail): a jail is made in two thirds of the time.
// It gets no seccomp profile: compiling one takes 30 ms, and the runs have their own filter.
package jail

// #cgo CFLAGS: -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror
import "C"

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // the C part of Init, which runs before Go does
	"golang.org/x/sys/unix"

	"xrayrunner/runner/internal/sandbox"
)

// Before anything else of the program that does not need to be ready for it: this process may be a jail's init, in
// xray-jail, or in a test.
func init() {
	if len(os.Args) == 2 && os.Args[1] == "init" && os.Getenv("_LIBCONTAINER_INITPIPE") != "" {
		libcontainer.Init()
	}
}

// errorsOnly is a level of logrus; nsexec alone writes 40 lines for debugging else.
const errorsOnly = "2"

// Maker makes jails below one folder.
type Maker struct {
	dir     string
	program func() (*os.File, error)
}

// New makes jails below dir, which no other runner uses and which it makes when it is needed. program is the path of
// xray-jail; without one this very program is the init of its jails, which is for tests.
func New(dir, program string) *Maker {
	return &Maker{dir: dir, program: sync.OnceValues(func() (*os.File, error) { return sealedCopy(program) })}
}

// Open makes one jail.
func (m *Maker) Open(spec sandbox.JailSpec) (sandbox.Jail, error) {
	var made sandbox.Jail
	var err error
	onThread(func() { made, err = m.open(spec) })
	return made, err
}

func (m *Maker) open(spec sandbox.JailSpec) (sandbox.Jail, error) {
	id := rand.Text() // libcontainer keeps a folder of this name, which a runner that was killed may have left
	root := filepath.Join(m.dir, "root-"+id)
	if err := skeleton(root, spec); err != nil {
		return sandbox.Jail{}, errors.Join(err, os.RemoveAll(root))
	}
	ours, theirs, err := door()
	if err != nil {
		return sandbox.Jail{}, errors.Join(err, os.RemoveAll(root))
	}
	end, err := m.start(id, root, spec, theirs)
	err = errors.Join(err, theirs.Close())
	if err != nil {
		return sandbox.Jail{}, errors.Join(err, ours.Close(), end(), os.RemoveAll(root))
	}
	return sandbox.Jail{Door: ours, Close: func() error { return errors.Join(ours.Close(), end(), os.RemoveAll(root)) }}, nil
}

// start returns how to end it, also when it failed half-way.
func (m *Maker) start(id, root string, spec sandbox.JailSpec, door *os.File) (end func() error, err error) {
	nothing := func() error { return nil }
	program, err := m.program()
	if err != nil {
		return nothing, fmt.Errorf("xray-jail: %w", err)
	}
	c, err := libcontainer.Create(filepath.Join(m.dir, "state"), id, settings(id, root, spec))
	if err != nil {
		return nothing, fmt.Errorf("create: %w", err)
	}
	p := &libcontainer.Process{
		Args: []string{spec.Shim, "--jail"}, Env: []string{"PATH=/usr/bin:/bin"}, Cwd: "/", Init: true, LogLevel: errorsOnly,
		ExtraFiles: []*os.File{door},
	}
	if program != nil {
		p.ExtraFiles = append(p.ExtraFiles, program) // exec.c takes and closes it
	}
	if err := c.Run(p); err != nil {
		return c.Destroy, fmt.Errorf("run: %w", err)
	}
	return func() error {
		killed := c.Signal(unix.SIGKILL)
		if errors.Is(killed, libcontainer.ErrNotRunning) { // it ends by itself when its door is closed
			killed = nil
		}
		_, _ = p.Wait() // it was killed: that is no error
		return errors.Join(killed, c.Destroy())
	}, nil
}

func door() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "door"), os.NewFile(uintptr(fds[1]), "door"), nil
}

// skeleton is the empty root: links and mount points. libcontainer makes the mount points of binds itself.
func skeleton(root string, spec sandbox.JailSpec) error {
	for _, dir := range []string{"proc", "dev", spec.Folders} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for path, to := range spec.Links {
		at := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(to, at)); err != nil {
			return err
		}
	}
	return nil
}

// A jail's init dies with the OS thread that started it (prctl(2), PR_SET_PDEATHSIG), so they are all started by one
// that nothing else uses and that never ends.
var work = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

func onThread(job func()) {
	done := make(chan struct{})
	work() <- func() { defer close(done); job() }
	<-done
}
