package sandbox

import (
	"context"
	"time"
)

// watchEvery is how often a run's sums are looked at. What grows faster than that is seen late: the layer is not strict.
const watchEvery = 50 * time.Millisecond

// Before that come glances, at what cannot wait and costs little: a whole look would be a noticeable part of a short run.
// The first are for the peak, which can be seen only while a run lives (see peak in exit.go), and most are over within 50 ms.
// Of a run that may have several processes they go on: many at work are put back soon (share.go).
const glanceEvery = 10 * time.Millisecond

// watch looks at what all processes of one run use together, which no rlimit bounds: an rlimit is per process and per
// file.
type watch struct {
	pid        int // our child: the program, or its supervisor. It may be gone in the middle of a look: then it uses nothing
	dir        string
	limits     Limits
	supervised bool   // pid is a supervisor, and the run is below it
	peakUntold bool   // see peak in exit.go: of other runs the kernel tells the peak at the end
	group      *group // nil without that layer
	share      share
	exceeded   chan Cause // at most one
	peak       chan int64 // bytes, sent once when the watch ends
}

func newWatch(pid int, spec Spec, g *group, supervised, forked bool) *watch {
	return &watch{peakUntold: !supervised && !forked, pid: pid, dir: spec.Dir, limits: spec.Limits, group: g, supervised: supervised, exceeded: make(chan Cause, 1), peak: make(chan int64, 1)}
}

// run looks until ctx ends or something is above its limit.
func (w *watch) run(ctx context.Context) {
	var peak uint64
	defer func() { w.peak <- int64(peak) }()
	for elapsed := time.Duration(0); ; {
		wait := glanceEvery
		if elapsed >= watchEvery && w.limits.Processes == 1 {
			wait = watchEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if elapsed += wait; elapsed%watchEvery != 0 {
			peak = max(peak, w.glance())
			continue
		}
		now := w.look()
		peak = max(peak, now.peak)
		if w.group.outOfMemory() { // the kernel held the limit; what is left of the run ends with it
			w.exceeded <- MemoryLimit
			return
		}
		if cause := now.cause(w.limits); cause != "" {
			w.exceeded <- cause
			return
		}
	}
}

// glance gives the peak where it is looked for, else 0.
func (w *watch) glance() (peak uint64) {
	if w.limits.Processes > 1 {
		w.share.put(tasksOf(w.processes()...))
	}
	if w.peakUntold {
		return peakMemory(w.pid)
	}
	return 0
}

// processes of the run. A supervisor is not of it.
func (w *watch) processes() []int {
	if w.supervised {
		return descendants(w.pid)
	}
	return []int{w.pid}
}

// sums are what a run uses at one moment.
type sums struct {
	memory uint64        // bytes of its own: anonymous and shared memory, and what of it is swapped out
	peak   uint64        // bytes: the largest resident set that one process had
	cpu    time.Duration // user and system, of all processes, ended ones too
	disk   diskUsage     // what is below the working folder, and files that were removed and are still open
	tasks  int           // processes and threads
}

// look adds up. A process that ends meanwhile counts for nothing, and is counted no more the next time either.
func (w *watch) look() sums {
	var now sums
	if w.supervised {
		now.cpu = endedChildrenCPU(w.pid)
	}
	now.disk = treeUsage(w.dir, w.limits.DiskFiles)
	processes := w.processes()
	all := tasksOf(processes...)
	now.tasks = len(all)
	w.share.put(all)
	for _, pid := range processes {
		now.peak = max(now.peak, peakMemory(pid))
		now.disk.addRemoved(pid)
		if w.limits.sumsMemory() {
			now.memory += ownMemory(pid)
		}
		now.cpu += processCPU(pid)
	}
	return now
}

// sumsMemory: one process of Python or bash is bounded by its address space, which is stricter. The data limit of the
// others does not count shared memory.
func (l Limits) sumsMemory() bool {
	return l.Processes > 1 || l.Interpreter == Node || l.Interpreter == Compiled
}

// cause is the first limit that is passed, in the contract's order, or "".
func (s sums) cause(l Limits) Cause {
	switch {
	case s.memory > l.MemoryBytes:
		return MemoryLimit
	case l.Processes > 1 && s.cpu > l.CPU:
		return CPULimit // of one process the kernel keeps count
	case s.disk.above(l):
		return DiskLimit
	case s.tasks > l.Tasks():
		return ProcessLimit
	}
	return ""
}
