package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// errNotStarted: no line of the script has run, so that it may be started another way.
var errNotStarted = errors.New("run not started by its cell")

// forkPatience is how long a cell may take to fork: a run may be waiting for it, and goes cold instead.
const forkPatience = 2 * time.Second

// jailedFolder is the name of the working folder of a warm run in a jail: it is on a mount of the run's own, where nobody
// could give it another name afterwards.
const jailedFolder = "run"

// fork is a run that a cell has forked and that is confined and waits at its gate.
type fork struct {
	process     *os.Process // of a run in a jail its supervisor, which is not our child
	jail        *heldJail   // nil outside
	leave       func()      // of the jail
	pipes       *pipes
	dir         string // its working folder, until it gets the run's name; in a jail for good
	stdin, gate *os.File
	told        []byte // of the status pipe, so far
	group       *group // nil without that layer
}

// forkFrom asks the cell and waits until the run is confined. In a jail its cgroup is made before, as all of its processes
// are to be in it.
func (w *Cells) forkFrom(c *cell, spec Spec, plan *os.File) (_ *fork, err error) {
	f := &fork{jail: c.jail, leave: func() {}, dir: filepath.Join(w.cfg.Root, jailedFolder)}
	if f.jail != nil {
		f.leave = w.jails.hold(f.jail)
		if w.cgroups != nil {
			f.group, err = w.cgroups.make(spec.Limits)
		}
	} else {
		f.dir, err = os.MkdirTemp(w.cfg.Root, "ahead-")
	}
	if err == nil {
		err = f.request(c, spec, plan)
	}
	if err == nil {
		err = f.ready()
	}
	if err == nil && f.jail == nil && w.cgroups != nil {
		err = f.join(w.cgroups, spec.Limits)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: fork: %w", errCell, err), f.discard())
	}
	return f, nil
}

// room is what its cell must know to make namespaces for it: cell/run.c reads it.
func (f *fork) room(l Limits) string {
	if f.jail == nil {
		return ""
	}
	proc := 0
	if f.jail.freshProc {
		proc = 1
	}
	return fmt.Sprint(os.Getuid(), os.Getgid(), proc, l.DiskBytes, l.DiskFiles)
}

func (f *fork) request(c *cell, spec Spec, plan *os.File) error {
	stdin, input, err := blockingPipe()
	if err != nil {
		return err
	}
	gate, key, err := blockingPipe()
	if err != nil {
		return errors.Join(err, stdin.Close(), input.Close())
	}
	f.stdin, f.gate = input, key
	f.pipes, err = openOutputs(stdin, f.jail != nil)
	if err != nil {
		return errors.Join(err, gate.Close())
	}
	text := strings.Join([]string{spec.Argv[len(spec.Argv)-1], f.dir, f.room(spec.Limits), f.environment(spec)}, "\x00")
	child := f.pipes.child
	files := []*os.File{child[0], child[1], child[2], plan, child[3], gate}
	if f.group != nil {
		files = append(files, f.group.folder)
	}
	err = c.send('F', text, files...)
	return errors.Join(err, gate.Close(), f.pipes.closeChild())
}

// environment is the run's, for the folder that it has.
func (f *fork) environment(spec Spec) string {
	env := slices.Clone(spec.Env)
	for i, entry := range env {
		if name, value, _ := strings.Cut(entry, "="); f.jail != nil && value == spec.Dir {
			env[i] = name + "=" + f.dir
		}
	}
	return strings.Join(env, "\x00")
}

// ready reads the status pipe up to the mark that it is confined. The number comes first, so that what was forked can
// always be waited for.
func (f *fork) ready() error {
	if f.jail != nil {
		var err error
		if f.process, err = born(f.pipes.status, forkPatience); err != nil {
			return err
		}
	}
	if err := f.pipes.status.SetReadDeadline(time.Now().Add(forkPatience)); err != nil {
		return err
	}
	one := make([]byte, 64)
	for {
		n, err := f.pipes.status.Read(one)
		f.told = append(f.told, one[:n]...)
		if f.process == nil && len(f.told) >= 5 && f.told[0] == recordBorn {
			pid := binary.LittleEndian.Uint32(f.told[1:])
			var findErr error
			if f.process, findErr = os.FindProcess(int(pid)); findErr != nil {
				return findErr
			}
		}
		told, parseErr := parseReport(f.told)
		switch {
		case err == nil && parseErr == nil && told.ready:
			return f.pipes.status.SetReadDeadline(time.Time{})
		case parseErr == nil && told.fault != "":
			return &stepError{told.fault, told.errno}
		case errors.Is(err, io.EOF):
			return errors.Join(errors.New("it ended early"), parseErr)
		case err != nil:
			return err
		}
	}
}

// join moves it to a cgroup of its own before anything of the run is in it. It cannot be born there, as clone3 alone does
// that and is refused to what is confined. What the fork copied until now stays counted to the runner.
func (f *fork) join(c *cgroups, l Limits) (err error) {
	if f.group, err = c.make(l); err != nil {
		return err
	}
	return f.group.take(f.process.Pid)
}

// open gives it the run's folder, input and environment. When it fails, nothing has run.
func (f *fork) open(spec Spec) error {
	environment := f.environment(spec)
	if len(environment) >= unix.PathMax {
		return fmt.Errorf("%w: %d bytes of environment do not pass the gate in one piece", errNotStarted, len(environment))
	}
	if err := f.rename(spec.Dir); err != nil {
		return fmt.Errorf("%w: %w", errNotStarted, err)
	}
	if len(spec.Stdin) > 0 {
		if _, err := f.stdin.Write(spec.Stdin); err != nil {
			return fmt.Errorf("%w: stdin: %w", errNotStarted, err)
		}
	}
	if err := f.stdin.Close(); err != nil {
		return fmt.Errorf("%w: stdin: %w", errNotStarted, err)
	}
	if _, err := f.gate.Write(append([]byte{'G'}, environment...)); err != nil {
		return fmt.Errorf("%w: gate: %w", errNotStarted, err)
	}
	return f.gate.Close()
}

// rename gives its folder the run's name. The run's own folder is empty: rename(2) puts ours in its place, in one step and
// without changing what the fork was granted, since Landlock's rule is on the folder and not on its name.
func (f *fork) rename(dir string) error {
	if f.jail != nil {
		return nil
	}
	if err := unix.Rename(f.dir, dir); err != nil {
		return err
	}
	f.dir = dir
	return nil
}

// end kills what waits, and waits for it.
func (f *fork) end() error {
	var errs []error
	for _, file := range []*os.File{f.stdin, f.gate} {
		if file != nil {
			if err := file.Close(); !errors.Is(err, os.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if f.process != nil {
		_ = f.process.Kill() // it may have ended
		errs = append(errs, f.wait())
	}
	errs = append(errs, f.group.close())
	if f.pipes != nil {
		errs = append(errs, f.pipes.close())
	}
	f.leave()
	return errors.Join(errs...)
}

// wait, in a room for its supervisor (see gone).
func (f *fork) wait() error {
	if f.jail == nil {
		_, err := f.process.Wait()
		return err
	}
	err := f.pipes.status.SetReadDeadline(time.Now().Add(forkPatience))
	readCapped(f.pipes.status, 4096, func() {})
	return errors.Join(err, gone(f.process))
}

// discard is end for a fork that never got a run: its folder goes too.
func (f *fork) discard() error {
	err := f.end()
	if f.jail == nil {
		err = errors.Join(err, ignoreMissing(os.Remove(f.dir)))
	}
	return err
}

// size is its memory, in bytes.
func (f *fork) size() uint64 {
	sum := proportional(f.process.Pid)
	if f.jail != nil {
		for _, pid := range descendants(f.process.Pid) {
			sum += proportional(pid)
		}
	}
	return sum
}

// blockingPipe: no deadline is needed on our end, as what is written fits the pipe.
func blockingPipe() (reader, writer *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}
