package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// grace is how long a read may go on after the run is over. Everything that could write is gone by then, so it only
// ever passes where the sweep is not in force and a process kept the pipe (golang/go#13155).
const grace = time.Second

// sweepLimit is how long a supervisor may take from being told to stop.
const sweepLimit = 5 * time.Second

// landlocked is the Sandbox of tier landlock: one cold start per run.
type landlocked struct {
	shim    string
	force   inForce
	posture Posture
	plans   planCache
	forks   planCache // of runs in cells
	oom     oomKills
	cgroups *cgroups // nil where that layer is not in force
	jails   *jails   // likewise
}

// Posture implements Sandbox.
func (s *landlocked) Posture() Posture { return s.posture }

// Run implements Sandbox.
func (s *landlocked) Run(ctx context.Context, spec Spec) (Exit, error) {
	if err := spec.validate(); err != nil {
		return Exit{}, err
	}
	if ctx.Err() != nil { // hung up while it waited: nothing is started
		return Exit{Cause: Cancelled, ExitCode: -1, Layers: s.posture.Names()}, nil
	}
	exit, _, err := s.run(ctx, spec)
	return exit, err
}

func (s *landlocked) run(ctx context.Context, spec Spec) (Exit, *run, error) {
	r, err := s.start(spec)
	if err != nil {
		return Exit{}, nil, err
	}
	return s.finish(ctx, r)
}

// finish attends a started run to its end.
func (s *landlocked) finish(ctx context.Context, r *run) (Exit, *run, error) {
	watching, unwatch := context.WithCancel(context.Background())
	go r.watch.run(watching)
	state, err := r.attend(ctx)
	unwatch()
	r.overMemory, r.crowded = r.group.outOfMemory(), r.group.crowded()
	err = errors.Join(err, r.group.close()) // first: what is left would hold the pipes
	output := r.collect()
	output.status = append(r.told, output.status...)
	err = errors.Join(err, r.pipes.close())
	if err != nil {
		r.leaveJail(false)
		return Exit{}, r, err
	}
	exit, err := r.exit(state, output, s.oom.died)
	r.leaveJail(err == nil)
	if err != nil {
		return Exit{}, r, err
	}
	exit.Layers = s.posture.Names()
	return exit, r, nil
}

// run is one started program.
type run struct {
	spec    Spec
	process *os.Process
	jailed  bool   // process is not our child: see leave
	forked  bool   // by a cell
	told    []byte // what the status pipe said before

	leaveJail func(works bool)
	watch     *watch
	pipes     *pipes
	begin     time.Time
	wall      time.Duration

	group               *group // nil without that layer
	overMemory, crowded bool   // what its counters said at the end

	status   []byte
	stdout   chan []byte
	stderr   chan *clip
	overflow atomic.Bool
	tooMuch  chan struct{} // closed with overflow
	stopped  map[Cause]bool
}

func (s *landlocked) start(spec Spec) (*run, error) {
	plan, release, err := s.plans.get(spec, s.force)
	if err != nil {
		return nil, err
	}
	defer release()
	p, err := openPipes(spec.Stdin, s.jails != nil)
	if err != nil {
		return nil, err
	}
	r := newRun(spec, p)
	r.jailed = s.jails != nil
	c := p.child
	if s.cgroups != nil {
		if r.group, err = s.cgroups.make(spec.Limits); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	if err = s.launch(r, []*os.File{c[0], c[1], c[2], plan, c[3]}); err != nil {
		return nil, errors.Join(err, p.close(), r.group.close())
	}
	if err := p.closeChild(); err != nil {
		r.leaveJail(false)
		return nil, errors.Join(err, r.process.Kill(), p.close(), r.group.close())
	}
	r.follow()
	return r, nil
}

func newRun(spec Spec, p *pipes) *run {
	return &run{
		spec: spec, leaveJail: func(bool) {}, pipes: p, begin: time.Now(), stopped: map[Cause]bool{},
		stdout: make(chan []byte, 1), stderr: make(chan *clip, 1), tooMuch: make(chan struct{}),
	}
}

// follow reads what the started process writes.
func (r *run) follow() {
	p, spec := r.pipes, r.spec
	r.watch = newWatch(r.process.Pid, spec, r.group, r.supervised(), r.forked)
	go func() {
		r.stdout <- readCapped(p.stdout, spec.Limits.StdoutBytes, func() {
			r.overflow.Store(true)
			close(r.tooMuch)
		})
	}()
	go func() { r.stderr <- readStderr(p.stderr, spec.Limits.StderrBytes, spec.OnStderr, r.begin) }()
}

// launch starts the shim as our child, or a run in a jail.
func (s *landlocked) launch(r *run, files []*os.File) (err error) {
	joins := s.cgroups != nil && s.cgroups.joins
	if s.jails == nil {
		if err := r.spec.makeLinks(); err != nil {
			return err
		}
		r.process, err = start(s.shim, r.spec, files, r.group, joins)
		return err
	}
	for try := 0; ; try++ {
		jail, release, err := s.jails.get(r.spec)
		if err != nil {
			return err
		}
		r.leaveJail = release
		if r.process, err = startIn(jail, r.spec, files, r.pipes, r.group, joins); err != nil {
			release(false)
		}
		if try > 0 || !errors.Is(err, errJailEnded) {
			return err
		}
	}
}

func (r *run) supervised() bool { return r.jailed || r.spec.Limits.Processes > 1 }

type waited struct {
	state *os.ProcessState
	err   error
}

// attend waits for the end of the process and hastens it when there is a reason. It returns when the process has been
// reaped, or that of a jail has ended (gone), and never before: until then something of the run is left.
func (r *run) attend(ctx context.Context) (*os.ProcessState, error) {
	ended := make(chan waited, 1)
	go func() {
		if r.jailed {
			ended <- r.leave()
			return
		}
		state, err := r.process.Wait()
		ended <- waited{state, err}
	}()
	wall := time.NewTimer(r.spec.Limits.Wall)
	defer wall.Stop()
	cancelled, tooMuch := ctx.Done(), r.tooMuch
	var overdue <-chan time.Time
	for {
		select {
		case <-cancelled:
			cancelled = nil
			r.stopped[Cancelled] = true
		case <-wall.C:
			r.stopped[Timeout] = true
		case <-tooMuch:
			tooMuch = nil
		case cause := <-r.watch.exceeded: // at most once
			r.stopped[cause] = true
		case <-overdue:
			// The leader dies with its supervisor; what it left behind does not, and exit reports that.
			_ = r.process.Kill()
			continue
		case w := <-ended:
			r.wall = time.Since(r.begin)
			if w.err != nil {
				return nil, fmt.Errorf("wait: %w", w.err)
			}
			return w.state, nil
		}
		r.stop()
		if overdue == nil {
			overdue = time.After(sweepLimit)
		}
	}
}

// stop ends the run. A supervisor is asked, because only it can end the others. An error means that the process has
// ended already, which is what was wanted.
func (r *run) stop() {
	if r.supervised() {
		_ = r.process.Signal(syscall.SIGTERM)
		return
	}
	_ = r.process.Kill()
}

// output is what the run left in its pipes.
type output struct {
	stdout []byte
	stderr *clip
	status []byte
}

func (r *run) collect() output {
	deadline := time.Now().Add(grace)
	for _, file := range []*os.File{r.pipes.stdout, r.pipes.stderr, r.pipes.status} {
		_ = file.SetReadDeadline(deadline) // our own pipes are pollable: outputPipe
	}
	if !r.jailed {
		r.status = readCapped(r.pipes.status, 4096, func() {})
	}
	return output{<-r.stdout, <-r.stderr, r.status}
}

// exit puts together how the run ended, or says why it never began.
func (r *run) exit(state *os.ProcessState, out output, oomKill func() bool) (Exit, error) {
	told, err := parseReport(out.status)
	if err != nil {
		return Exit{}, err
	}
	wait, usage := syscall.WaitStatus(syscall.SIGKILL), &syscall.Rusage{} // of a jailed run that cannot tell any more
	if !r.jailed {
		wait, usage = state.Sys().(syscall.WaitStatus), state.SysUsage().(*syscall.Rusage)
	}
	stoppedByUs := len(r.stopped) > 0 || r.overflow.Load()
	switch {
	case r.forked && !told.started && !stoppedByUs:
		return Exit{}, fmt.Errorf("%w: %s", errNotStarted, cmp.Or(told.fault, state.String()))
	case told.fault != "":
		return Exit{}, &stepError{told.fault, told.errno}
	case !told.ready && !stoppedByUs:
		return Exit{}, fmt.Errorf("%w: the shim ended early: %s", ErrConfine, state)
	case r.supervised() && told.ended == nil && !r.overMemory && (told.ready || !stoppedByUs):
		return Exit{}, fmt.Errorf("%w: the supervisor ended early: %s", ErrSupervisor, state)
	}
	e := ending{stopped: r.stopped, wait: wait, leader: cpuTime(usage), overflow: r.overflow.Load(), oomKill: oomKill}
	if r.group != nil { // its own counter; the container's would take another run's for it
		e.oomKill = func() bool { return r.overMemory }
	}
	e.crowded = r.crowded && r.spec.Limits.Processes > 1 // threads alone end in the script's own error
	// A run that is faster than the watch is held to its limit all the same. In a jail its folder has a size of its own.
	e.overDisk = !r.jailed && !isEmpty(r.spec.Dir) && treeUsage(r.spec.Dir, r.spec.Limits.DiskFiles).above(r.spec.Limits)
	exit := Exit{Warm: r.forked, Stdout: out.stdout, Wall: r.wall, CPU: cpuTime(usage), MaxRSSBytes: r.peak(usage, <-r.watch.peak)}
	if s := told.ended; s != nil {
		e.wait, e.leader, e.crowded = syscall.WaitStatus(s.Wait), microseconds(s.LeaderCPU), e.crowded || s.Flags&endCrowded != 0
		e.full = s.Flags&endFull != 0
		exit.CPU, exit.MaxRSSBytes = microseconds(s.CPU), int64(s.MaxRSSBytes)
	}
	exit.Cause = e.cause(r.spec.Limits)
	exit.ExitCode, exit.Signal = describeWait(e.wait)
	exit.Stderr, exit.StderrTruncated = out.stderr.result()
	return exit, nil
}
