package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// CellConfig of WithCells. Library and Root are required.
type CellConfig struct {
	Library string // what cell/build.sh makes: an absolute path that nobody else may write to
	Root    string // the folder of the working folders
	Budget  uint64 // bytes for all cells and waiting forks
	// Log is told of every cell that is made, given up or cannot be made, and of every run that went cold for it.
	Log func(message string, attributes ...any)
}

// Cells is a Sandbox that forks runs from cells where it can. Any other run, and the first of each skill, is started cold
// by the sandbox below it.
type Cells struct {
	*landlocked
	cfg CellConfig

	mu      sync.Mutex
	skills  map[string]*place
	closed  bool
	working sync.WaitGroup // makers of cells and forks
	now     func() time.Time
}

// WithCells puts cells around a sandbox of New, before its first run. A cell that cannot be made later leaves its skill's
// runs cold, and is said.
func WithCells(s Sandbox, cfg CellConfig) (*Cells, error) {
	if err := checkLibrary(cfg.Library); err != nil {
		return nil, err
	}
	cold, ok := s.(*landlocked)
	if !ok {
		return nil, fmt.Errorf("BUG: no cells for %T", s)
	}
	if cold.jails != nil && !slices.Contains(cold.jails.own, cfg.Library) {
		cold.jails.own = append(cold.jails.own, cfg.Library)
	}
	return &Cells{landlocked: cold, cfg: cfg, skills: map[string]*place{}, now: time.Now}, nil
}

// Run implements Sandbox. A run whose fork was lost before its first line is started cold, once; one that had started
// is never repeated.
func (w *Cells) Run(ctx context.Context, spec Spec) (Exit, error) {
	if err := spec.validate(); err != nil {
		return Exit{}, err
	}
	if !spec.forkable() || ctx.Err() != nil {
		return w.landlocked.Run(ctx, spec)
	}
	if f, at := w.take(spec); f != nil {
		defer w.release(at, spec)
		exit, err := w.dispatch(ctx, spec, f)
		if !errors.Is(err, errNotStarted) {
			return exit, err
		}
		w.cfg.Log("a fork was lost before its run began; started cold", "skill", spec.Warm.Skill, "reason", err.Error())
		return w.landlocked.Run(ctx, spec)
	}
	exit, err := w.landlocked.Run(ctx, spec)
	w.want(spec) // after the run: making a cell must not slow down the call that asked for it
	return exit, err
}

// forkable: the rest is started cold, whatever its author wrote. A cell holds the rights of all its forks, so one that has
// folders of its own never comes from a cell.
func (s Spec) forkable() bool {
	n := len(s.Argv)
	return s.Warm != nil && len(s.Writable) == 0 && len(s.Links) == 0 && s.Limits.Processes == 1 && s.Limits.Interpreter == Python &&
		n == len(pythonFlags)+2 && slices.Equal(s.Argv[1:n-1], pythonFlags)
}

// dispatch opens the gate and attends the run.
func (w *Cells) dispatch(ctx context.Context, spec Spec, f *fork) (Exit, error) {
	r := newRun(spec, f.pipes)
	if err := f.open(spec); err != nil {
		if f.dir == spec.Dir { // which is its caller's to remove
			return Exit{}, errors.Join(err, f.end())
		}
		return Exit{}, errors.Join(err, f.discard())
	}
	r.forked, r.told, r.process, r.group = true, f.told, f.process, f.group
	r.jailed, r.leaveJail = f.jail != nil, func(bool) { f.leave() } // that a run was lost is no word against its jail
	r.follow()
	exit, _, err := w.finish(ctx, r)
	return exit, err
}

// Close ends all cells and what waits in them; runs go on. A run that comes later is cold.
func (w *Cells) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.working.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for skill := range w.skills {
		errs = append(errs, w.drop(skill))
	}
	return errors.Join(errs...)
}

// checkLibrary is as strict as with the shim: it is loaded into every cell.
func checkLibrary(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", errCell, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a file", errCell, path)
	}
	return checkOwner(path, info)
}
