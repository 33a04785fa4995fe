package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// What a cell may become before it is replaced. Runs share its hash seed and its layout in memory, and what the kernel
// keeps for a process that forks grows.
const (
	cellRuns   = 10000
	cellAge    = time.Hour
	cellIdle   = 10 * time.Minute // without a run
	aheadIdle  = time.Minute      // after which no fork waits
	cellsGrown = 2                // times what it had when it was ready
	retryAfter = time.Minute      // when none could be made
)

// Guesses until something was measured.
const (
	cellGuess = 24 << 20
	forkGuess = 4 << 20
)

// place is what one skill has.
type place struct {
	cell    *cell // nil: none yet, or being made
	making  bool
	refused time.Time // when it did not fit the budget or could not be made; zero: never
	born    time.Time
	used    time.Time
	runs    int
	running int // now
	peak    int // most at once since the last look
	fork    uint64
	lines   map[lineKey]*line
}

// line is what one script has: forks that wait.
type line struct {
	spec    Spec // the first that asked: what a fork needs of it is the same for all
	waiting []*fork
	making  int
}

// lineKey: runs with equal plans, the same script, names in the environment, and bounds of their folder and cgroup can take each other's
// forks.
type lineKey struct {
	plan   planKey
	script string
	names  string // of its environment: a fork has those of the run that it was made for (cell/environment.c)
	disk   uint64
	files  int
}

func lineOf(spec Spec) lineKey {
	var names strings.Builder
	for _, entry := range spec.Env {
		name, _, _ := strings.Cut(entry, "=")
		names.WriteString(name + "=")
	}
	return lineKey{keyOf(spec), spec.Argv[len(spec.Argv)-1], names.String(), spec.Limits.DiskBytes, spec.Limits.DiskFiles}
}

// take gives a waiting fork, or asks for one; nil when there is no cell, and the run goes cold.
func (w *Cells) take(spec Spec) (*fork, *place) {
	w.mu.Lock()
	at := w.skills[spec.Warm.Skill]
	if at == nil || at.cell == nil || w.closed {
		w.mu.Unlock()
		return nil, nil
	}
	at.use(w.now())
	own := at.line(spec)
	for len(own.waiting) > 0 {
		f := own.waiting[0]
		own.waiting = own.waiting[1:]
		w.mu.Unlock()
		return f, at
	}
	c := at.cell
	w.mu.Unlock()
	f, err := w.fork(c, spec)
	if err != nil {
		w.lost(spec.Warm.Skill, at, c, err)
		return nil, nil
	}
	return f, at
}

func (at *place) use(now time.Time) {
	at.used = now
	at.runs++
	at.running++
	at.peak = max(at.peak, at.running)
}

func (at *place) line(spec Spec) *line {
	key := lineOf(spec)
	if at.lines[key] == nil {
		spec.Stdin, spec.OnStderr = nil, nil
		at.lines[key] = &line{spec: spec}
	}
	return at.lines[key]
}

// release has the next forks made: after the run, which needs the processors now.
func (w *Cells) release(at *place, spec Spec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at.running--
	if at.cell != nil {
		w.stock(at, at.line(spec))
	}
}

// fork compiles what is not compiled yet.
func (w *Cells) fork(c *cell, spec Spec) (*fork, error) {
	if err := c.compile(spec.Argv[len(spec.Argv)-1], spec.Warm.Text); err != nil {
		return nil, err
	}
	plan, release, err := w.forks.get(spec, w.force.forFork())
	if err != nil {
		return nil, err
	}
	defer release()
	return w.forkFrom(c, spec, plan)
}

// stock has forks made until as many wait as ran at once lately, within the budget. The caller holds the lock.
func (w *Cells) stock(at *place, own *line) {
	wanted := min(max(1, at.peak), 2*runtime.NumCPU())
	for len(own.waiting)+own.making < wanted && w.fits(at.forkSize()) && !w.closed {
		own.making++
		w.working.Add(1)
		go w.forkAhead(at, own, at.cell)
	}
}

func (w *Cells) forkAhead(at *place, own *line, c *cell) {
	defer w.working.Done()
	f, err := w.fork(c, own.spec)
	if err != nil {
		w.lost(own.spec.Warm.Skill, at, c, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	own.making--
	switch {
	case f == nil:
	case at.cell != c || w.closed:
		w.report(f.discard())
	default:
		if at.fork == 0 {
			at.fork = f.size()
		}
		own.waiting = append(own.waiting, f)
	}
}

// lost gives up a cell that failed at something. What it forked goes on; the next call to the skill is cold and has a
// new cell made.
func (w *Cells) lost(skill string, at *place, c *cell, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.cell != c {
		return // somebody else has seen it
	}
	w.cfg.Log("a cell was given up", "skill", skill, "reason", why.Error())
	w.report(w.drop(skill))
}

// drop ends a cell and what waits in it. The caller holds the lock.
func (w *Cells) drop(skill string) error {
	at := w.skills[skill]
	delete(w.skills, skill)
	if at == nil || at.cell == nil {
		return nil
	}
	var errs []error
	for _, own := range at.lines {
		for _, f := range own.waiting {
			errs = append(errs, f.discard())
		}
		own.waiting = nil
	}
	c := at.cell
	at.cell = nil
	return errors.Join(append(errs, c.kill())...)
}

// report is for what cannot be helped any more: a folder that could not be removed.
func (w *Cells) report(err error) {
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.cfg.Log("cleaning up after a cell", "reason", err.Error())
	}
}

// Prepare makes the cell of a run now, and a fork that waits, so that the run is warm unless something is wrong with it.
func (w *Cells) Prepare(spec Spec) error {
	if err := spec.validate(); err != nil {
		return err
	}
	if !spec.forkable() {
		return fmt.Errorf("%w: it can only start cold", ErrSpec)
	}
	w.want(spec)
	w.Settle()
	if w.CellPID(spec.Warm.Skill) == 0 {
		return fmt.Errorf("%w: none was made for %s", errCell, spec.Warm.Skill)
	}
	return nil
}

// Settle waits until the cells and forks that are being made are there.
func (w *Cells) Settle() { w.working.Wait() }

// CellPID is the process of a skill's cell; 0 when it has none that lives.
func (w *Cells) CellPID(skill string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.skills[skill]; at != nil && at.cell != nil && at.cell.alive() {
		return at.cell.process.Pid
	}
	return 0
}

// want has a cell made, once at a time.
func (w *Cells) want(spec Spec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.skills[spec.Warm.Skill]
	if at == nil {
		at = &place{lines: map[lineKey]*line{}, used: w.now()}
		w.skills[spec.Warm.Skill] = at
	}
	if at.cell != nil || at.making || w.closed || w.now().Sub(at.refused) < retryAfter {
		return
	}
	if !w.makeRoom(cellGuess, spec.Warm.Skill) {
		at.refused = w.now()
		w.cfg.Log("no cell: the budget is used", "skill", spec.Warm.Skill)
		return
	}
	at.making = true
	w.working.Add(1)
	go w.makeCell(at, spec)
}

func (w *Cells) makeCell(at *place, spec Spec) {
	defer w.working.Done()
	c, err := w.newCell(spec)
	w.mu.Lock()
	defer w.mu.Unlock()
	at.making = false
	if err != nil {
		at.refused = w.now()
		w.cfg.Log("no cell: runs of this skill stay cold", "skill", spec.Warm.Skill, "reason", err.Error())
		return
	}
	if w.closed {
		w.report(c.kill())
		return
	}
	if !w.makeRoom(c.pss, spec.Warm.Skill) {
		at.refused = w.now()
		w.cfg.Log("no cell: the budget is used", "skill", spec.Warm.Skill, "bytes", c.pss)
		w.report(c.kill())
		return
	}
	at.cell, at.born, at.runs = c, w.now(), 0
	w.cfg.Log("a cell is ready", "skill", spec.Warm.Skill, "pid", c.process.Pid, "bytes", c.pss)
	w.stock(at, at.line(spec))
}

func (w *Cells) newCell(spec Spec) (*cell, error) {
	c, err := w.startCell(w.cfg.Library, w.cfg.Root, spec)
	if err != nil {
		return nil, err
	}
	if err := c.prepare(spec.Warm.Modules); err != nil {
		return nil, errors.Join(err, c.kill())
	}
	if err := c.compile(spec.Argv[len(spec.Argv)-1], spec.Warm.Text); err != nil {
		return nil, errors.Join(fmt.Errorf("compile: %w", err), c.kill())
	}
	plan, release, err := w.forks.get(spec, w.force.forFork())
	if err != nil {
		return nil, errors.Join(err, c.kill())
	}
	defer release()
	if err := w.warmUp(c, spec, plan); err != nil {
		return nil, errors.Join(err, c.kill())
	}
	return c, nil
}
