package sandbox

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// rlimit is one setrlimit of the shim, soft and hard alike.
type rlimit struct {
	resource uint32
	value    uint64
}

// Stacks. A thread's stack is as large as RLIMIT_STACK and counts against the address space whether used or not: with
// the usual 8 MiB a Python of 128 MiB gets a handful of threads. node keeps 8 MiB, V8 takes that for granted.
const (
	smallStack = 2 << 20
	largeStack = 8 << 20
)

// rlimits translates the limits of a run. The address space bounds all memory of a process, shared maps too; node and
// Go programs reserve far more than they use (node does not start under 1 GiB), so that only their data is bounded
// (facts/sandbox.md 5: shared anonymous maps pass that; memfd_create is refused by seccomp).
func (l Limits) rlimits() []rlimit {
	memory, stack := uint32(unix.RLIMIT_AS), uint64(smallStack)
	switch l.Interpreter {
	case Python, Bash:
	case Node, Compiled:
		memory, stack = unix.RLIMIT_DATA, largeStack
	}
	return []rlimit{
		{unix.RLIMIT_CPU, l.cpuSeconds()},
		{unix.RLIMIT_FSIZE, l.FileBytes},
		{unix.RLIMIT_NOFILE, l.OpenFiles},
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_STACK, stack},
		{memory, l.MemoryBytes}, // last: after it the shim itself has to live with it
	}
}

func (l Limits) cpuSeconds() uint64 {
	return uint64(math.Ceil(l.CPU.Seconds()))
}

// reachedCPU: whether a program that was killed had used so much that the kernel did it for its limit. The kernel counts
// whole ticks against the limit, also those that a busy machine gave to somebody else, and rusage is finer: 0.80 s were
// seen for a limit of 1 s. A script that has used half of its limit and kills itself is said to have reached it.
func (l Limits) reachedCPU(used time.Duration) bool {
	return used >= time.Duration(l.cpuSeconds())*time.Second/2
}
