package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// descendants are the processes below pid, from the lists of children that each thread has (proc_pid_children(5)). As
// the supervisor is their subreaper, setsid and double forks do not lead out of the tree.
func descendants(pid int) []int {
	out := childrenOf(pid)
	for i := 0; i < len(out) && len(out) < maxSeen; i++ {
		out = append(out, childrenOf(out[i])...)
	}
	return out
}

// maxSeen bounds what one look costs; the supervisor ends a run long before it has so many.
const maxSeen = 1024

func childrenOf(pid int) []int {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil // it has ended: its children are the supervisor's now, and found by the next look
	}
	var out []int
	for _, thread := range threads {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for field := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// peakMemory is the most that was resident of this process, in bytes; 0 when it has ended.
func peakMemory(pid int) uint64 { return kilobytes(pid, "status", "VmHWM:") }

// ownMemory is what a process uses of its own, in bytes. Pages that several processes share count in parts
// (smaps_rollup), so that a pool of forked workers is not counted as so many copies. A process that made itself
// unreadable is counted in whole: it can only lose by it.
func ownMemory(pid int) uint64 {
	if n := kilobytes(pid, "smaps_rollup", "Pss_Anon:", "Pss_Shmem:", "SwapPss:"); n > 0 {
		return n
	}
	return kilobytes(pid, "status", "RssAnon:", "RssShmem:", "VmSwap:")
}

// kilobytes adds up lines such as "VmHWM:  9000 kB" of a file of the process, in bytes.
func kilobytes(pid int, file string, names ...string) uint64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	var sum uint64
	for line := range bytes.Lines(raw) {
		for _, name := range names {
			if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
				n, _ := strconv.ParseUint(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
				sum += n << 10
			}
		}
	}
	return sum
}

// Fields of /proc/PID/stat behind the name, from 0 (proc_pid_stat(5) numbers them from 3), in ticks of 10 ms.
const (
	statUser, statSystem, statChildrenUser, statChildrenSystem = 11, 12, 13, 14

	tick = 10 * time.Millisecond // USER_HZ is 100 on both architectures
)

// processCPU is the CPU time of a process and of the children that it has waited for.
func processCPU(pid int) time.Duration {
	return cpuFields(pid, statUser, statSystem, statChildrenUser, statChildrenSystem)
}

// endedChildrenCPU is the part of the children that have ended: of a supervisor, whose own time is not the run's.
func endedChildrenCPU(pid int) time.Duration {
	return cpuFields(pid, statChildrenUser, statChildrenSystem)
}

func cpuFields(pid int, wanted ...int) time.Duration {
	fields := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	var sum time.Duration
	for _, field := range wanted {
		if field < len(fields) {
			n, _ := strconv.ParseInt(fields[field], 10, 64)
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// statFields are those behind the name, which may hold blanks and brackets, so that the last bracket counts. nil when there is
// no such file any more.
func statFields(path string) []string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
}

// task is a thread, the first of a process too.
type task struct{ process, id int }

// tasksOf processes; one that has ended has none.
func tasksOf(pids ...int) []task {
	var out []task
	for _, pid := range pids {
		entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		for _, entry := range entries {
			if id, err := strconv.Atoi(entry.Name()); err == nil {
				out = append(out, task{pid, id})
			}
		}
	}
	return out
}

// running: it has a processor or waits for one.
func (t task) running() bool {
	fields := statFields(fmt.Sprintf("/proc/%d/task/%d/stat", t.process, t.id))
	return len(fields) > 0 && fields[0] == "R"
}

// proportional is the memory of a process, in bytes; pages that others share count in parts.
func proportional(pid int) uint64 { return kilobytes(pid, "smaps_rollup", "Pss:", "SwapPss:") }

// sharesMemory: whether what a process writes can be seen by its forks, or by others that have the same file mapped. True when
// that cannot be told.
func sharesMemory(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(raw)) {
		// 7f00-7f10 rw-s 00000000 00:01 1034 /dev/zero (deleted)
		if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[1], "s") && strings.Contains(f[1], "w") {
			return true
		}
	}
	return err != nil || len(raw) == 0
}
