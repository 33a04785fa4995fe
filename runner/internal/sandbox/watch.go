package sandbox

import (
	"context"
	"time"
)

// watchEvery is how often a run's sums are looked at. What grows faster than that is seen late: the layer is not strict.
const watchEvery = 50 * time.Millisecond

// The first looks come earlier and are for the peak alone: most runs are over before the first 50 ms, it can be seen only
// while they live (see peak in exit.go), and a whole look would be a noticeable part of a short run.
var firstLooks = []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond}

// watch looks at what all processes of one run use together, which no rlimit bounds: an rlimit is per process and per
// file.
type watch struct {
	pid        int // our child: the program, or its supervisor. It may be gone in the middle of a look: then it uses nothing
	dir        string
	limits     Limits
	supervised bool       // pid is a supervisor, and the run is below it
	peakUntold bool       // see peak in exit.go: of other runs the kernel tells the peak at the end
	group      *group     // nil without that layer
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
	for look := 0; ; look++ {
		wait := watchEvery
		if look < len(firstLooks) {
			wait = firstLooks[look]
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if look < len(firstLooks) {
			if w.peakUntold {
				peak = max(peak, peakMemory(w.pid))
			}
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

// sums are what a run uses at one moment.
type sums struct {
	memory uint64        // bytes of its own: anonymous and shared memory, and what of it is swapped out
	peak   uint64        // bytes: the largest resident set that one process had
	cpu    time.Duration // user and system, of all processes, ended ones too
	disk   diskUsage     // what is below the working folder, and files that were removed and are still open
}

// look adds up. A process that ends meanwhile counts for nothing, and is counted no more the next time either.
func (w *watch) look() sums {
	var now sums
	processes := []int{w.pid}
	if w.supervised {
		processes = descendants(w.pid)
		now.cpu = endedChildrenCPU(w.pid)
	}
	now.disk = treeUsage(w.dir, w.limits.DiskFiles)
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
	}
	return ""
}
