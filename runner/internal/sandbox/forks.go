package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// errNotStarted: no line of the script has run, so that it may be started another way.
var errNotStarted = errors.New("run not started by its cell")

// forkPatience is how long a cell may take to fork: a run may be waiting for it, and goes cold instead.
const forkPatience = 2 * time.Second

// fork is a run that a cell has forked and that is confined and waits at its gate.
type fork struct {
	process     *os.Process
	pipes       *pipes
	dir         string // its working folder, until it gets the run's name
	stdin, gate *os.File
	told        []byte // of the status pipe, so far
	group       *group // nil without that layer
}

// fork asks the cell and waits until the run is confined.
func (c *cell) fork(spec Spec, root string, plan *os.File) (*fork, error) {
	dir, err := os.MkdirTemp(root, "ahead-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCell, err)
	}
	f := &fork{dir: dir}
	if err := f.request(c, spec, plan); err != nil {
		return nil, errors.Join(err, f.discard())
	}
	if err := f.ready(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: fork: %w", errCell, err), f.discard())
	}
	return f, nil
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
	f.pipes, err = openOutputs(stdin, false)
	if err != nil {
		return errors.Join(err, gate.Close())
	}
	text := spec.Argv[len(spec.Argv)-1] + "\x00" + f.dir + "\x00" + strings.Join(spec.Env, "\x00")
	child := f.pipes.child
	err = c.send('F', text, child[0], child[1], child[2], plan, child[3], gate)
	return errors.Join(err, gate.Close(), f.pipes.closeChild())
}

// ready reads the status pipe up to the mark that it is confined. The number comes first, so that what was forked can
// always be waited for.
func (f *fork) ready() error {
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
	environment := strings.Join(spec.Env, "\x00")
	if len(environment) >= unix.PathMax {
		return fmt.Errorf("%w: %d bytes of environment do not pass the gate in one piece", errNotStarted, len(environment))
	}
	// The run's own folder is empty: rename(2) puts ours in its place, in one step and without changing what the fork
	// was granted, since Landlock's rule is on the folder and not on its name.
	if err := unix.Rename(f.dir, spec.Dir); err != nil {
		return fmt.Errorf("%w: %w", errNotStarted, err)
	}
	f.dir = spec.Dir
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
		_, err := f.process.Wait()
		errs = append(errs, err)
	}
	errs = append(errs, f.group.close())
	if f.pipes != nil {
		errs = append(errs, f.pipes.close())
	}
	return errors.Join(errs...)
}

// discard is end for a fork that never got a run: its folder goes too.
func (f *fork) discard() error { return errors.Join(f.end(), os.Remove(f.dir)) }

// blockingPipe: no deadline is needed on our end, as what is written fits the pipe.
func blockingPipe() (reader, writer *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}
