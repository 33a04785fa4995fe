package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// call is one struct seccomp_data.
type call struct {
	number uint32
	arch   uint32
	args   [6]uint64
}

// evaluate runs a filter as the kernel does, for the instructions that assemble makes. Anything else is an error.
func evaluate(program []unix.SockFilter, c call) (action, error) {
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[offsetNumber:], c.number)
	binary.LittleEndian.PutUint32(data[offsetArch:], c.arch)
	for i, value := range c.args {
		binary.LittleEndian.PutUint64(data[offsetArgs+8*i:], value)
	}
	var a uint32
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		branch := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.LittleEndian.Uint32(data[in.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			branch(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			branch(a >= in.K)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_RET | unix.BPF_K:
			return action(in.K), nil
		default:
			return 0, fmt.Errorf("instruction %d: code %#x", pc, in.Code)
		}
	}
	return 0, fmt.Errorf("ran off the end")
}

const high = 1 << 32 // a bit that the kernel does not look at in an int

var (
	eperm  = refuse(unix.EPERM)
	enosys = refuse(unix.ENOSYS)
)

type filterRow struct {
	name      string
	args      [6]uint64
	one, many action // with one process, with several
}

// Every allowed row has a refused neighbour that differs in one thing.
var filterRows = []filterRow{
	{"read", [6]uint64{}, allow, allow},
	{"ptrace", [6]uint64{}, eperm, eperm},
	{"execve", [6]uint64{}, allow, allow},
	{"execveat", [6]uint64{}, eperm, eperm},
	{"setxattr", [6]uint64{}, refuse(unix.EOPNOTSUPP), refuse(unix.EOPNOTSUPP)},
	{"getxattr", [6]uint64{}, allow, allow},
	{"inotify_init1", [6]uint64{}, enosys, enosys},
	{"eventfd2", [6]uint64{}, allow, allow},
	{"fchown", [6]uint64{}, allow, allow},
	{"fchownat", [6]uint64{}, eperm, eperm},
	{"socket", [6]uint64{unix.AF_UNIX}, eperm, eperm},
	{"connect", [6]uint64{}, eperm, eperm},
	{"sendto", [6]uint64{}, allow, allow},

	{"fork", [6]uint64{}, eperm, allow},
	{"vfork", [6]uint64{}, eperm, allow},
	{"clone3", [6]uint64{}, enosys, enosys},
	{"clone", [6]uint64{pthread}, allow, allow},
	{"clone", [6]uint64{uint64(unix.SIGCHLD)}, eperm, allow},
	{"clone", [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, eperm, allow},
	{"clone", [6]uint64{pthread | unix.CLONE_NEWUSER}, eperm, eperm},
	{"clone", [6]uint64{pthread | unix.CLONE_NEWTIME}, eperm, eperm},
	{"clone", [6]uint64{uint64(unix.SIGCHLD) | unix.CLONE_NEWNS}, eperm, eperm},
	{"clone", [6]uint64{uint64(unix.SIGCHLD) | unix.CLONE_NEWNET | high}, eperm, eperm},
	{"clone", [6]uint64{unix.CLONE_THREAD << 32}, eperm, allow}, // not a thread: the bit is where the kernel does not look

	{"socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow, allow},
	{"socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, allow, allow},
	{"socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, allow, allow},
	{"socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, eperm, eperm},
	{"socketpair", [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM}, eperm, eperm},

	{"prlimit64", [6]uint64{0}, allow, allow},
	{"prlimit64", [6]uint64{1}, eperm, eperm},
	{"prlimit64", [6]uint64{high}, allow, allow}, // is pid 0 to the kernel
	{"prlimit64", [6]uint64{high | 1}, eperm, eperm},
	{"sched_setaffinity", [6]uint64{0}, allow, allow},
	{"sched_setaffinity", [6]uint64{7}, eperm, eperm},
	{"sched_setscheduler", [6]uint64{7}, eperm, eperm},
	{"sched_setparam", [6]uint64{7}, eperm, eperm},
	{"sched_setattr", [6]uint64{7}, eperm, eperm},
	{"setpriority", [6]uint64{unix.PRIO_PROCESS, 0}, allow, allow},
	{"setpriority", [6]uint64{unix.PRIO_PROCESS, 1}, eperm, eperm},
	{"setpriority", [6]uint64{unix.PRIO_USER, 0}, eperm, eperm},
	{"ioprio_set", [6]uint64{ioprioWhoProcess, 0}, allow, allow},
	{"ioprio_set", [6]uint64{ioprioWhoProcess, 1}, eperm, eperm},
	{"ioprio_set", [6]uint64{3, 0}, eperm, eperm},

	{"fcntl", [6]uint64{0, unix.F_GETFD}, allow, allow},
	{"fcntl", [6]uint64{0, unix.F_SETLEASE}, eperm, eperm},
	{"fcntl", [6]uint64{0, unix.F_NOTIFY}, eperm, eperm},
	{"fcntl", [6]uint64{0, unix.F_SETOWN}, eperm, eperm},
	{"fcntl", [6]uint64{0, unix.F_SETOWN_EX}, eperm, eperm},
	{"fcntl", [6]uint64{0, unix.F_SETPIPE_SZ}, eperm, eperm},
	{"fcntl", [6]uint64{0, unix.F_GETPIPE_SZ}, allow, allow},
	{"fchmodat", [6]uint64{}, refuse(0), refuse(0)},
	{"fchmod", [6]uint64{}, refuse(0), refuse(0)},
	{"ioctl", [6]uint64{0, unix.TCGETS}, allow, allow},
	{"ioctl", [6]uint64{0, unix.TIOCSTI}, eperm, eperm},
	{"ioctl", [6]uint64{0, unix.TIOCSTI | high}, eperm, eperm}, // CVE-2019-7303
	{"ioctl", [6]uint64{0, unix.TIOCLINUX}, eperm, eperm},
	{"ioctl", [6]uint64{0, unix.SIOCSPGRP}, eperm, eperm},
	{"ioctl", [6]uint64{0, fioSetOwn}, eperm, eperm},
	{"ioctl", [6]uint64{0, unix.TIOCINQ}, allow, allow},

	{"kill", [6]uint64{childPID, 15}, allow, allow},
	{"kill", [6]uint64{childPID | high, 15}, allow, allow}, // is the same pid_t
	{"kill", [6]uint64{childPID + 1, 15}, eperm, allow},
	{"kill", [6]uint64{1, 15}, eperm, allow},
	{"kill", [6]uint64{0, 15}, allow, allow},
	{"kill", [6]uint64{1<<32 - childPID, 15}, allow, allow},
	{"kill", [6]uint64{1<<64 - childPID, 15}, allow, allow},
	{"kill", [6]uint64{1<<64 - 1, 15}, eperm, allow},
	{"kill", [6]uint64{1<<32 - 1, 15}, eperm, allow},
	{"tkill", [6]uint64{childPID, 15}, allow, allow},
	{"tkill", [6]uint64{1, 15}, eperm, allow},
	{"tgkill", [6]uint64{childPID, 4712, 15}, allow, allow},
	{"tgkill", [6]uint64{1, 1, 15}, eperm, allow},
	{"rt_sigqueueinfo", [6]uint64{childPID}, allow, allow},
	{"rt_sigqueueinfo", [6]uint64{1}, eperm, allow},
	{"rt_tgsigqueueinfo", [6]uint64{childPID}, allow, allow},
	{"rt_tgsigqueueinfo", [6]uint64{1}, eperm, allow},

	{"truncate", [6]uint64{}, allow, allow},
	{"ftruncate", [6]uint64{}, allow, allow},
	{"utimensat", [6]uint64{3, 0}, allow, allow},
	{"utimensat", [6]uint64{3, 8}, refuse(0), refuse(0)},
	{"utimensat", [6]uint64{3, high}, refuse(0), refuse(0)}, // a pointer has a high half
	{"utimes", [6]uint64{}, refuse(0), refuse(0)},
	{"prctl", [6]uint64{unix.PR_SET_NAME}, allow, allow},
	{"prctl", [6]uint64{unix.PR_GET_SECCOMP}, allow, allow},
	{"prctl", [6]uint64{unix.PR_SET_SECCOMP}, eperm, eperm},
	{"prctl", [6]uint64{unix.PR_SET_PDEATHSIG}, eperm, eperm},
	{"prctl", [6]uint64{unix.PR_SET_MM | high}, eperm, eperm},
	{"prctl", [6]uint64{prSetPtracer}, eperm, eperm},
	{"prctl", [6]uint64{unix.PR_SET_DUMPABLE}, eperm, eperm},
	{"prctl", [6]uint64{unix.PR_GET_DUMPABLE}, allow, allow},
	{"prctl", [6]uint64{prSchedCore}, eperm, eperm},
	{"prctl", [6]uint64{prSetMemoryMerge}, eperm, eperm},
}

// pthread are glibc's flags for a thread.
const pthread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
	unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID

// childPID is what the shim puts in place of the marks.
const childPID = 4711

// completed is the filter as the shim loads it: confine.c, fill_in_own_number.
func completed(program []unix.SockFilter) []unix.SockFilter {
	out := slices.Clone(program)
	for i := range out {
		switch {
		case out[i].Code&markPID != 0:
			out[i].K = childPID
		case out[i].Code&markGroup != 0:
			out[i].K = 1<<32 - childPID
		}
		out[i].Code &^= markPID | markGroup
	}
	return out
}

// The terms on a current kernel, with one process and with several.
var (
	single  = terms{scoped: true, truncates: true}
	several = terms{processes: true, scoped: true, truncates: true}
)

// A filter whose marks are still there is no filter: the kernel must not take it.
func TestMarksAreNoInstructions(t *testing.T) {
	program := assemble(policy(single))
	c := call{number: numbers["kill"], arch: nativeArch, args: [6]uint64{childPID}}
	if got, err := evaluate(program, c); err == nil {
		t.Errorf("evaluated to %#x", got)
	}
	if got, err := evaluate(completed(program), c); err != nil || got != allow {
		t.Errorf("completed: %#x, %v", got, err)
	}
}

// The same rows as they are without Landlock's scope and its check of truncate (Linux 6.1).
func TestFilterRowsOfOldKernels(t *testing.T) {
	many := completed(assemble(policy(terms{processes: true})))
	for _, row := range filterRows {
		number, ok := numbers[row.name]
		if !ok {
			continue
		}
		want := row.many
		switch row.name {
		case "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo":
			want = row.one // children share the filter of the first process
		case "truncate":
			want = eperm
		}
		if got, err := evaluate(many, call{number: number, arch: nativeArch, args: row.args}); err != nil || got != want {
			t.Errorf("%s %x: got %#x, want %#x, %v", row.name, row.args, got, want, err)
		}
	}
}

func TestFilterRows(t *testing.T) {
	one, many := completed(assemble(policy(single))), completed(assemble(policy(several)))
	for _, row := range filterRows {
		if _, ok := numbers[row.name]; !ok {
			continue // not on this architecture
		}
		c := call{number: numbers[row.name], arch: nativeArch, args: row.args}
		for program, want := range map[string]action{"one": row.one, "many": row.many} {
			filter := map[string][]unix.SockFilter{"one": one, "many": many}[program]
			got, err := evaluate(filter, c)
			if err != nil || got != want {
				t.Errorf("%s %x with %s: got %#x, want %#x, %v", row.name, row.args, program, got, want, err)
			}
		}
	}
	for name := range checked(single) {
		rows := slices.ContainsFunc(filterRows, func(row filterRow) bool { return row.name == name })
		if !rows {
			t.Errorf("%s has a rule of its own and no row", name)
		}
	}
}

// Every number there can be answers what its rule says, and the tree says the same as the table.
func TestFilterIsTheTable(t *testing.T) {
	for _, on := range []terms{single, several, {}, {processes: true}} {
		rules := policy(on)
		byNumber := map[uint32]rule{}
		for name, r := range rules {
			if number, ok := numbers[name]; ok {
				byNumber[number] = r
			}
		}
		program := completed(assemble(rules))
		if len(program) > 1000 {
			t.Errorf("%d instructions", len(program))
		}
		for number := range uint32(2000) {
			r, listed := byNumber[number]
			want := enosys
			if listed {
				if len(r.checks) > 0 {
					continue
				}
				want = r.then
			}
			if got, err := evaluate(program, call{number: number, arch: nativeArch}); err != nil || got != want {
				t.Errorf("%d: got %#x, want %#x, %v", number, got, want, err)
			}
		}
	}
}

// bothOf is what the kernel makes of two filters: the strictest answer, and of two alike that of the newer (seccomp(2)).
func bothOf(t *testing.T, older, newer []unix.SockFilter, c call) action {
	t.Helper()
	first, err1 := evaluate(older, c)
	second, err2 := evaluate(newer, c)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	rank := func(a action) int {
		return slices.Index([]action{kill, action(unix.SECCOMP_RET_ERRNO), allow}, a&action(unix.SECCOMP_RET_ACTION_FULL))
	}
	if rank(first) < 0 || rank(second) < 0 {
		t.Fatalf("unknown answers %#x %#x", first, second)
	}
	if rank(first) < rank(second) {
		return first
	}
	return second
}

// The short filter of a run in a cell decides every call as the whole one would on top of the cell's, and answers itself
// what the cell is allowed and a run is not. Without one of its rules a row fails.
func TestFilterOverThatOfACell(t *testing.T) {
	for name, cell := range map[string]map[string]rule{"cell": cellPolicy(several), "cell in a jail": jailCellPolicy(several)} {
		base, whole, short := completed(assemble(cell)), completed(assemble(policy(single))), completed(assembleOver(cell, policy(single)))
		if len(short) > len(whole)/3 {
			t.Errorf("%s: %d instructions, the whole filter has %d", name, len(short), len(whole))
		}
		var calls []call
		for number := range uint32(2000) {
			calls = append(calls, call{number: number, arch: nativeArch})
		}
		for _, row := range filterRows {
			if number, ok := numbers[row.name]; ok {
				calls = append(calls, call{number: number, arch: nativeArch, args: row.args})
			}
		}
		differ := 0
		for _, c := range calls {
			want := bothOf(t, base, whole, c)
			if got := bothOf(t, base, short, c); got != want {
				t.Errorf("%s: call %d %x: got %#x, want %#x", name, c.number, c.args, got, want)
			}
			if alone, err := evaluate(base, c); err == nil && alone != want {
				differ++
			}
		}
		if differ < 10 {
			t.Errorf("%s: the filter of a run changes only %d answers: nothing was compared", name, differ)
		}
	}
}

func TestForeignTablesKill(t *testing.T) {
	program := completed(assemble(policy(several)))
	for _, c := range []call{
		{number: numbers["read"], arch: unix.AUDIT_ARCH_I386},
		{number: numbers["read"], arch: unix.AUDIT_ARCH_ARM},
		{number: numbers["read"], arch: 0},
		{number: numbers["read"] | 0x40000000, arch: nativeArch},
		{number: 0xffffffff, arch: nativeArch},
	} {
		if got, err := evaluate(program, c); err != nil || got != kill {
			t.Errorf("%+v: got %#x, %v", c, got, err)
		}
	}
}

// A name in two lists would be decided by map order; one that no architecture has is a typing error.
func TestPolicyNames(t *testing.T) {
	seen := map[string]int{}
	for name := range checked(several) {
		seen[name]++
	}
	for _, list := range []string{allowed, dangerous, noXattr, noInotify, pretended} {
		for name := range strings.FieldsSeq(list) {
			seen[name]++
		}
	}
	for name, times := range seen {
		if times > 1 {
			t.Errorf("%s is in %d lists", name, times)
		}
		if _, ok := numbers[name]; !ok && !slices.Contains(notOnARM64, name) {
			t.Errorf("%s has no number", name)
		}
	}
	// A cell's filter has more calls than any run's.
	for name := range cellPolicy(several) {
		seen[name]++
	}
	for name := range maps.Keys(numbers) {
		if seen[name] == 0 {
			t.Errorf("%s has a number and no rule", name)
		}
	}
}

// notOnARM64 are calls that newer architectures never had.
var notOnARM64 = strings.Fields(`access alarm arch_prctl chmod chown creat dup2 epoll_create epoll_wait eventfd fork
	futimesat getdents getpgrp inotify_init ioperm iopl lchown link lstat mkdir mknod modify_ldt open pause pipe poll
	readlink rename rmdir select signalfd stat symlink time unlink utime utimes vfork`)
