package sandbox

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A cell is a Python interpreter that has imported what the scripts of one skill import and has compiled them, and has
// run no line of them nor seen an input. A warm run is a fork of it:
//
//	runner (Go)                              cell (shim, then Python with cell/*.c)
//	-----------                              --------------------------------------
//	start of the shim with the cell's plan -> confined: Landlock, filter and limits as wide as its runs need
//	modules, scripts by sealed memfd ------> imports, compiles; answers
//	rehearsal, a fork that is looked at ---> remembers which pages its forks will need (hot.go)
//	fork request: pipes, plan, folder -----> clone with CLONE_PARENT: the run is our child, not the cell's
//	                                         the run: session, parent-death signal, the plan of a cold start on top,
//	                                         read back, 'K'; waits at its gate
//	moved to a cgroup of its own
//	folder renamed, stdin filled, gate ----> environment; 'S'; the script
//
// From the gate on a run is as any other: the same pipes, watch, limits and end. Because it is our child, a cell that
// dies or hangs takes no run with it.

//go:embed zygote.py
var zygote string

// bootstrap runs the zygote in a namespace that is not the one of the script to come.
const bootstrap = `import sys; exec(sys.argv[2], {"__name__": "xraycell"})`

// pythonFlags must be those of a cold start: they are part of what a script sees (sys.flags, sys.orig_argv).
var pythonFlags = []string{"-E", "-s", "-B"}

// cellPatience is how long a cell may take for one thing. One that takes longer hangs, and is replaced.
const cellPatience = 5 * time.Second

var errCell = errors.New("cell")

// cell is one started interpreter.
type cell struct {
	process *os.Process
	dir     string    // its own empty working folder; "" in a jail, where it has none
	jail    *heldJail // nil outside
	leave   func(works bool)
	pss     uint64 // memory when it was ready
	ended   chan struct{}

	mu       sync.Mutex // one conversation at a time
	control  *os.File
	compiled []string // paths
	said     chan []byte
}

// cellLimits bound a cell as data. Its CPU time is that of all its forks together, so it has no limit; the others are
// the ceilings of what a run may have, since a run can only lower what it inherits.
var cellLimits = []rlimit{
	{unix.RLIMIT_FSIZE, 64 << 20}, {unix.RLIMIT_NOFILE, 256}, {unix.RLIMIT_CORE, 0}, {unix.RLIMIT_STACK, smallStack}, {unix.RLIMIT_AS, 1 << 30},
}

// startCell returns a cell that has confined itself and waits for its first request.
func (s *landlocked) startCell(library, root string, spec Spec) (*cell, error) {
	c := &cell{leave: func(bool) {}, ended: make(chan struct{}), said: make(chan []byte, 1)}
	var err error
	if s.jails != nil {
		c.jail, c.leave, err = s.jails.get(spec)
	} else {
		c.dir, err = os.MkdirTemp(root, "cell-")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCell, err)
	}
	if err := s.launchCell(c, library, root, spec); err != nil {
		if c.process == nil { // else kill has left it. What was asked for may still be born: it ends with its jail
			c.leave(false)
		}
		return nil, errors.Join(fmt.Errorf("%w: %w", errCell, err), c.removeFolder())
	}
	return c, nil
}

func (c *cell) removeFolder() error {
	if c.jail != nil {
		return nil
	}
	return ignoreMissing(os.Remove(c.dir))
}

func (s *landlocked) launchCell(c *cell, library, root string, spec Spec) error {
	own := Spec{
		Argv: append(append([]string{spec.Argv[0]}, pythonFlags...), "-c", bootstrap, library, zygote),
		Env:  spec.Env, Dir: c.dir, Readable: append([]string{library}, spec.Readable...), Limits: spec.Limits,
	}
	if c.jail != nil {
		own.Dir = filepath.Join(root, "cell") // not made: the folder of the working folders is what it stands in
	}
	p, err := s.force.cellPlan(own, root)
	if err != nil {
		return err
	}
	plan, err := sealed("xray-cell", p.encode())
	if err != nil {
		return err
	}
	defer plan.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return errors.Join(err, unix.Close(pair[0]))
	}
	c.control = os.NewFile(uintptr(pair[0]), "control")
	return errors.Join(s.exec(c, own, theirs, plan))
}

// exec starts the shim and waits until it has become the interpreter. Standard output and error are one pipe: a cell
// speaks only when something is wrong.
func (s *landlocked) exec(c *cell, own Spec, control, plan *os.File) error {
	ours, theirs, err := outputPipe()
	if err != nil {
		return err
	}
	open := outputPipe
	if c.jail != nil {
		open = statusSocket
	}
	status, told, err := open()
	if err != nil {
		return errors.Join(err, ours.Close(), theirs.Close())
	}
	defer status.Close()
	files := []*os.File{control, theirs, theirs, plan, told}
	if c.jail != nil {
		err = startCellIn(c.jail, own, files)
	} else {
		c.process, err = start(s.shim, own, files, nil, false)
	}
	err = errors.Join(err, theirs.Close(), told.Close())
	if err == nil && c.jail != nil {
		c.process, err = born(status, bornLimit)
	}
	if err != nil {
		return errors.Join(err, ours.Close(), c.control.Close())
	}
	go c.attend(ours)
	_ = status.SetReadDeadline(time.Now().Add(cellPatience))
	report, err := parseReport(readCapped(status, 4096, func() {}))
	switch {
	case err != nil:
	case report.fault != "":
		err = &stepError{report.fault, report.errno}
	case !report.ready:
		err = errors.New("the shim ended early")
	}
	if err != nil {
		return errors.Join(err, c.kill())
	}
	return nil
}

// attend keeps what the cell says, and notes its end. In a jail it is not our child, and the end of its output is its end:
// a run that it forks has its own from the first moment.
func (c *cell) attend(output *os.File) {
	c.said <- readCapped(output, 4096, func() {})
	if c.jail != nil {
		_, _ = io.Copy(io.Discard, output)
	} else {
		_, _ = c.process.Wait() // how it ended is in what it said
	}
	_ = output.Close()
	close(c.ended)
}

// prepare makes it import. A cell with more than one thread cannot be forked safely: a lock that another thread holds
// would stay locked in the fork. Memory that a module has mapped to be shared would be shared by all runs.
func (c *cell) prepare(modules []string) error {
	if err := c.ask('I', strings.Join(modules, "\x00")); err != nil {
		return err
	}
	if n := len(tasksOf(c.process.Pid)); n != 1 {
		return fmt.Errorf("%w: it has %d threads", errCell, n)
	}
	if sharesMemory(c.process.Pid) {
		return fmt.Errorf("%w: a module has mapped memory that forks would share", errCell)
	}
	c.pss = proportional(c.process.Pid)
	return nil
}

// compile hands over the text of a script, once.
func (c *cell) compile(path string, text func() ([]byte, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.compiled, path) {
		return nil
	}
	content, err := text()
	if err != nil {
		return err
	}
	file, err := sealed("xray-script", content)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := c.converse('C', path+"\x00", file); err != nil {
		return err
	}
	c.compiled = append(c.compiled, path)
	return nil
}

func (c *cell) ask(kind byte, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.converse(kind, text)
}

// converse sends a request and waits for its echo.
func (c *cell) converse(kind byte, text string, files ...*os.File) error {
	if err := c.send(kind, text, files...); err != nil {
		return err
	}
	if err := c.control.SetReadDeadline(time.Now().Add(cellPatience)); err != nil {
		return fmt.Errorf("%w: %w", errCell, err)
	}
	answer := make([]byte, 2)
	n, err := c.control.Read(answer)
	if err == nil && (n != 1 || answer[0] != kind) {
		err = errors.New("no answer")
	}
	if err != nil {
		return fmt.Errorf("%w: request %c: %w%s", errCell, kind, err, c.words())
	}
	return nil
}

// words are what it said before it ended: a traceback, for the log.
func (c *cell) words() string {
	select {
	case said := <-c.said:
		return ": " + strings.TrimSpace(string(said))
	case <-time.After(100 * time.Millisecond):
		return ""
	}
}

// send passes descriptors along. The socket is not blocking; a full one means that the cell hangs.
func (c *cell) send(kind byte, text string, files ...*os.File) error {
	var fds []int
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	raw, err := c.control.SyscallConn()
	if err != nil {
		return fmt.Errorf("%w: %w", errCell, err)
	}
	var sendErr error
	err = raw.Control(func(fd uintptr) {
		sendErr = unix.Sendmsg(int(fd), append([]byte{kind}, text...), rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	})
	if err = errors.Join(err, sendErr); err != nil {
		return fmt.Errorf("%w: %w", errCell, err)
	}
	return nil
}

// kill ends the cell and waits until it is gone. Its runs go on.
func (c *cell) kill() error {
	_ = c.process.Kill() // it may have ended
	<-c.ended
	c.leave(true)
	if c.jail != nil {
		_ = c.process.Release() // nobody waits for it
	}
	return errors.Join(c.control.Close(), c.removeFolder())
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (c *cell) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// cellPlan is the confinement of a cell: what its runs may do and what it takes to fork and confine them, no more. root
// holds the working folders.
func (f inForce) cellPlan(spec Spec, root string) (plan, error) {
	f.joins = false // it stays in the runner's cgroup
	filter := f.cell
	if f.jailed { // see cell/cell.h: what it sees is bounded by the jail, and it must be able to mount
		f.jailed, f.landlock, filter = false, rights{}, f.jailCell
	}
	p, err := f.planFor(spec)
	if err != nil {
		return plan{}, err
	}
	p.rlimits = cellLimits
	if f.one != nil {
		p.filters = filter
		p.flags |= planCell
	}
	if f.landlock != (rights{}) {
		folder, err := filepath.EvalSymlinks(root)
		if err != nil {
			return plan{}, err
		}
		p.grants = append(p.grants, grant{folder, f.landlock.fs &^ never})
	}
	return p, nil
}

// forFork is for the plan of a run in a cell: its oom_score_adj is the cell's already, and nothing in /proc can be written
// any more; its cgroup is entered from outside (fork.join). Its filter is the part that its cell's does not have. All else is as
// in a cold run.
func (f inForce) forFork() inForce {
	f.oom, f.joins, f.forked = false, false, true
	switch {
	case f.one == nil:
	case f.jailed:
		f.one = f.overJailCell
	default:
		f.one = f.overCell
	}
	return f
}
