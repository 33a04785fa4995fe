package sandbox

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ending is all that is known when a run is over; from it follows the Cause.
type ending struct {
	stopped  map[Cause]bool // what we ended it for; more than one may hold
	wait     syscall.WaitStatus
	leader   time.Duration // CPU of the leader, which RLIMIT_CPU counts
	full     bool          // a jail's working folder had nothing left
	overDisk bool          // what it left in its working folder is above its limit
	crowded  bool          // the supervisor ended it: too many processes
	overflow bool          // stdout had more than its limit, seen also after the end
	oomKill  func() bool   // the kernel ended a process of this container for memory
}

// cause is the first that holds; the order is the contract's (spec 5). What we did comes before what was seen, as a
// killed program looks the same whoever killed it.
func (e ending) cause(limits Limits) Cause {
	switch {
	case e.stopped[Cancelled]:
		return Cancelled
	case e.stopped[Timeout]:
		return Timeout
	case e.overflow:
		return OutputLimit
	case e.stopped[MemoryLimit]:
		return MemoryLimit
	case e.stopped[CPULimit]:
		return CPULimit
	case e.stopped[DiskLimit], e.overDisk:
		return DiskLimit
	case e.stopped[ProcessLimit], e.crowded:
		return ProcessLimit
	case e.full && (!e.wait.Exited() || e.wait.ExitStatus() != 0):
		return DiskLimit
	case e.wait.Exited():
		return Exited
	}
	switch e.wait.Signal() {
	case unix.SIGXCPU:
		return CPULimit
	case unix.SIGXFSZ:
		return DiskLimit
	case unix.SIGKILL:
		switch {
		case limits.reachedCPU(e.leader):
			return CPULimit
		case e.oomKill():
			return MemoryLimit
		}
		return Signalled
	case unix.SIGSYS:
		return Blocked
	default:
		return Signalled
	}
}

// code and signal of the leader, as Exit carries them.
func describeWait(w syscall.WaitStatus) (code int, signal string) {
	if w.Exited() {
		return w.ExitStatus(), ""
	}
	return -1, unix.SignalName(w.Signal())
}

func cpuTime(usage *syscall.Rusage) time.Duration {
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// ownPeak is our own peak of resident memory, in KiB.
func ownPeak() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return usage.Maxrss
}

// peakError: the kernel's counts of resident pages are exact to some batches for each processor only (percpu_counter), so
// that what a child inherits can be above what we are told of ourselves. In KiB.
const peakError = 4 << 10

// peak is the program's peak of resident memory in bytes, or 0 when that cannot be told. Go starts children with
// CLONE_VM, and at execve the kernel enters the peak of the memory that is left behind, which is ours, as the child's
// (fs/exec.c, exec_mmap): a figure that is not above it says nothing about the program, and then counts what the watch
// saw last. A supervised program is forked by the shim and a warm one by its cell: those have a true figure of their own,
// which is lost with a supervisor in a jail that is not our child: what was seen is the least that it can have been.
func (r *run) peak(usage *syscall.Rusage, seen int64) int64 {
	if !r.forked && usage.Maxrss <= ownPeak()+peakError {
		return seen
	}
	return max(usage.Maxrss*1024, seen)
}
