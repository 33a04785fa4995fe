package sandbox

import (
	"context"
	"slices"
	"time"
)

// lookEvery is how often cells are looked at.
const lookEvery = 5 * time.Second

// Tend looks after the cells until ctx ends: what is old, unused or has grown is dropped, and comes back with the next
// call to its skill.
func (w *Cells) Tend(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look()
		}
	}
}

func (w *Cells) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for skill, at := range w.skills {
		if at.cell == nil {
			continue
		}
		if why := at.worn(now); why != "" {
			w.cfg.Log("a cell is dropped", "skill", skill, "reason", why)
			w.report(w.drop(skill))
			continue
		}
		at.peak = at.running
		if now.Sub(at.used) > aheadIdle {
			w.thin(at)
		}
	}
}

// worn says why a cell is not kept, or "".
func (at *place) worn(now time.Time) string {
	switch {
	case !at.cell.alive():
		return "it has ended" + at.cell.words()
	case at.runs >= cellRuns:
		return "its number of runs"
	case now.Sub(at.born) > cellAge:
		return "its age"
	case now.Sub(at.used) > cellIdle:
		return "not used"
	case proportional(at.cell.process.Pid) > cellsGrown*at.cell.pss:
		return "it has grown"
	}
	return ""
}

// thin lets no fork wait for a skill that is not called.
func (w *Cells) thin(at *place) {
	for _, own := range at.lines {
		for _, f := range own.waiting {
			w.report(f.discard())
		}
		own.waiting = nil
	}
}

func (at *place) forkSize() uint64 {
	if at.fork == 0 {
		return forkGuess
	}
	return at.fork
}

// size is what a skill uses of the budget.
func (at *place) size() uint64 {
	var n uint64
	if at.making {
		n += cellGuess
	}
	if at.cell != nil {
		n += at.cell.pss
	}
	for _, own := range at.lines {
		n += uint64(len(own.waiting)+own.making) * at.forkSize()
	}
	return n
}

func (w *Cells) used() uint64 {
	var sum uint64
	for _, at := range w.skills {
		sum += at.size()
	}
	return sum
}

func (w *Cells) fits(more uint64) bool { return w.used()+more <= w.cfg.Budget }

// makeRoom drops the cells that were not used for the longest time, of which no run is going on, until more fits. When it
// cannot fit, none is dropped for it.
func (w *Cells) makeRoom(more uint64, except string) bool {
	var idle []string
	var freed uint64
	for skill, at := range w.skills {
		if skill != except && at.cell != nil && at.running == 0 {
			idle, freed = append(idle, skill), freed+at.size()
		}
	}
	if w.used()-freed+more > w.cfg.Budget {
		return false
	}
	slices.SortFunc(idle, func(a, b string) int { return w.skills[a].used.Compare(w.skills[b].used) })
	for _, skill := range idle {
		if w.fits(more) {
			break
		}
		w.cfg.Log("a cell is dropped", "skill", skill, "reason", "room for "+except)
		w.report(w.drop(skill))
	}
	return w.fits(more)
}
