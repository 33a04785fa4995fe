package nospawn

import "golang.org/x/sys/unix"

// denied are the calls that answer EPERM on every architecture. What makes a process differs (perArch). Besides
// those: what steers another process, what makes a program out of memory, and what runs calls behind the filter's back.
var denied = []uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_MEMFD_CREATE,
	unix.SYS_IO_URING_SETUP, // its workers make calls that no filter sees
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL,
}

// Offsets in struct seccomp_data; the low half of the first argument, on little-endian machines.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
)

const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
	eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// clone3 hides its flags behind a pointer, where no filter can look. ENOSYS makes libc fall back to clone.
	enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// program is the filter. A foreign architecture and numbers of a foreign table kill: no honest program does that, and
// everything below compares native numbers.
func program() []unix.SockFilter {
	out := []unix.SockFilter{
		load(offsetArch),
		jump(unix.BPF_JEQ, nativeArch, 1, 0), give(kill),
		load(offsetNumber),
		jump(unix.BPF_JGE, firstForeignCall, 0, 1), give(kill),
	}
	for _, number := range append(denied, deniedHere...) {
		out = append(out, jump(unix.BPF_JEQ, number, 0, 1), give(eperm))
	}
	return append(out,
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), give(enosys),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3),
		load(offsetArg0),
		jump(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0), give(eperm),
		give(allow),
	)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func give(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}
