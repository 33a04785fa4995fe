package attack

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are the numbers, on this architecture, of the system calls that scripts make by number.
var calls = map[string]int{
	"renameat2": unix.SYS_RENAMEAT2, "inotify_init1": unix.SYS_INOTIFY_INIT1, "inotify_add_watch": unix.SYS_INOTIFY_ADD_WATCH,
	"name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "tkill": unix.SYS_TKILL, "tgkill": unix.SYS_TGKILL,
	"rt_sigqueueinfo": unix.SYS_RT_SIGQUEUEINFO, "rt_tgsigqueueinfo": unix.SYS_RT_TGSIGQUEUEINFO,
	"pidfd_open": unix.SYS_PIDFD_OPEN, "pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL, "pidfd_getfd": unix.SYS_PIDFD_GETFD,
	"ioprio_set": unix.SYS_IOPRIO_SET, "ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "kcmp": unix.SYS_KCMP,
	"prctl": unix.SYS_PRCTL, "io_uring_setup": unix.SYS_IO_URING_SETUP, "shmget": unix.SYS_SHMGET, "semget": unix.SYS_SEMGET,
	"msgget": unix.SYS_MSGGET, "mq_open": unix.SYS_MQ_OPEN, "add_key": unix.SYS_ADD_KEY, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
	"userfaultfd": unix.SYS_USERFAULTFD, "unshare": unix.SYS_UNSHARE, "clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3,
	"keyctl": unix.SYS_KEYCTL, "execveat": unix.SYS_EXECVEAT, "seccomp": unix.SYS_SECCOMP,
	"landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET, "personality": unix.SYS_PERSONALITY, "vmsplice": unix.SYS_VMSPLICE,
	"getpid": unix.SYS_GETPID,
}

// removeQueue reports whether there was a POSIX queue of that name.
func removeQueue(name string) bool {
	text, err := syscall.BytePtrFromString(name)
	if err != nil {
		return false
	}
	_, _, errno := syscall.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(text)), 0, 0)
	return errno == 0
}
