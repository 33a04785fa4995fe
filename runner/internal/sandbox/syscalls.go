package sandbox

import (
	"strings"

	"golang.org/x/sys/unix"
)

// rule says what one system call answers: then, when all checks hold (or there are none), else otherwise.
type rule struct {
	checks    []check
	then      action
	otherwise action
}

// check looks at one argument: it holds when (argument & mask) is one of values, or with not when it is none of them.
//
// Only the low 32 bits are looked at. Every checked argument is an int, a pid_t or (clone) flags that the kernel
// truncates, so that the high half does not exist for it; a filter that compares all 64 bits is passed by setting one
// there (CVE-2019-7303: TIOCSTI in snapd).
type check struct {
	argument uint32
	mask     uint32
	values   []uint32
	not      bool
}

const all = 0xffffffff

func oneOf(argument uint32, values ...uint32) check  { return check{argument, all, values, false} }
func noneOf(argument uint32, values ...uint32) check { return check{argument, all, values, true} }

// pass allows the call when the checks hold and refuses it with EPERM when they do not.
func pass(checks ...check) rule { return rule{checks, allow, refuse(unix.EPERM)} }

// allowed are the calls that Python, node, bash and coreutils make in ordinary work (strace of three broad workloads;
// facts/hardening.md D2, D3), by family. A call is here because something needs it, not because it seems harmless.
const allowed = `
	read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range open openat openat2
	creat dup dup2 dup3 pipe pipe2 flock ftruncate truncate fallocate fadvise64 readahead fsync fdatasync
	sync_file_range syncfs sendfile copy_file_range stat fstat lstat newfstatat statx statfs fstatfs access faccessat
	faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir rename renameat renameat2
	link linkat symlink symlinkat unlink unlinkat mknod mknodat fchown umask utime utimes
	utimensat futimesat getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr

	mmap munmap mremap mprotect madvise msync mincore brk mlock munlock mlock2 membarrier pkey_alloc pkey_free
	pkey_mprotect map_shadow_stack mseal

	rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigpending rt_sigtimedwait rt_sigqueueinfo
	rt_tgsigqueueinfo sigaltstack kill tkill tgkill pause signalfd signalfd4 restart_syscall

	futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list set_tid_address rseq
	sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
	sched_rr_get_interval getcpu arch_prctl execve exit exit_group wait4 waitid getpid getppid gettid getuid geteuid
	getgid getegid getgroups getresuid getresgid getpgid getpgrp getsid setpgid setsid getrlimit setrlimit getrusage
	times sysinfo uname getpriority ioprio_get getrandom capget

	clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time alarm setitimer getitimer timer_create
	timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime poll ppoll
	select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2

	sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown getsockname getpeername getsockopt setsockopt`

// dangerous are refused with EPERM, which says "not for you". Everything that is in no list answers ENOSYS, which says
// "this kernel is too old" and lets libraries fall back: io_uring, landlock_*, splice, calls that do not exist yet.
const dangerous = `
	ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_open pidfd_send_signal
	pidfd_getfd execveat memfd_create memfd_secret unshare setns mount umount2 fsopen fsconfig fsmount fspick open_tree
	move_mount mount_setattr pivot_root chroot bpf perf_event_open userfaultfd keyctl add_key request_key
	name_to_handle_at open_by_handle_at fanotify_init fanotify_mark init_module finit_module delete_module kexec_load
	kexec_file_load reboot swapon swapoff acct syslog quotactl quotactl_fd sethostname setdomainname ioperm iopl
	modify_ldt clock_settime settimeofday adjtimex clock_adjtime vhangup personality seccomp setuid setgid setreuid
	setregid setresuid setresgid setfsuid setfsgid setgroups capset shmget shmat shmctl shmdt semget semop semctl
	semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
	chown lchown fchownat socket connect`

// Why some of them are there: memfd_create makes memory that no rlimit counts. chown by path reaches any file of the
// uid, Landlock does not check it (landlock(7), "current limitations"), and a script could change the group of the
// runner's own socket; an unprivileged program expects EPERM. connect is useless without socket, except on a datagram
// socket from socketpair (see below).

// noXattr: cp -a and sed -i print warnings on EPERM and are silent on "this file system has none".
const noXattr = `setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr`

// noInotify: a watch needs no Landlock right and tells the names in a folder that may not be listed, such as the working
// folders of other runs; the number of instances is per uid, so one run could use up the others'. tail -f, node and
// watchers in Python fall back to polling on ENOSYS.
const noInotify = `inotify_init inotify_init1 inotify_add_watch inotify_rm_watch`

// pretended are not made and answer success (an errno of 0). Landlock does not check chmod (landlock(7), "current
// limitations") and scripts share the runner's uid, so a script that knows the path could take the runner's socket or
// another skill's snapshot away from it. EPERM would break shutil.copy and tar; a mode means nothing to a run that is
// alone in its folder.
const pretended = `chmod fchmod fchmodat fchmodat2`

// namespaces are the CLONE_NEW* bits. CLONE_NEWTIME is among the bits of the exit signal (clone(2)).
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// prctl options that are in no libc header of the module we use.
const (
	prSetPtracer     = 0x59616d61
	prSetMemoryMerge = 67
	prSchedCore      = 62
)

// checked are the calls whose arguments decide.
func checked(processes bool) map[string]rule {
	rules := map[string]rule{
		// Threads use clone too. clone3 passes its flags in memory, where a filter cannot read them; ENOSYS makes libc
		// use clone, EPERM would break thread start (moby#42680).
		"clone":  pass(check{0, namespaces, []uint32{0}, false}, check{0, unix.CLONE_THREAD, []uint32{unix.CLONE_THREAD}, false}),
		"clone3": {then: refuse(unix.ENOSYS)},
		"fork":   {then: refuse(unix.EPERM)},
		"vfork":  {then: refuse(unix.EPERM)},

		// asyncio and node need a pair for their own wake-up. A datagram one could send to any named socket, the engine's
		// log for example, although it was never created by socket(2) (unix(7)).
		"socketpair": pass(oneOf(0, unix.AF_UNIX), check{1, 0xf, []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}, false}),

		// On another process these work for any process of the uid, the runner included; Landlock has no say.
		"prlimit64":          pass(oneOf(0, 0)),
		"sched_setaffinity":  pass(oneOf(0, 0)),
		"sched_setattr":      pass(oneOf(0, 0)),
		"sched_setparam":     pass(oneOf(0, 0)),
		"sched_setscheduler": pass(oneOf(0, 0)),
		// "which" too: PRIO_USER with 0 means all processes of our own uid.
		"setpriority": pass(oneOf(0, unix.PRIO_PROCESS), oneOf(1, 0)),
		"ioprio_set":  pass(oneOf(0, ioprioWhoProcess), oneOf(1, 0)),

		// Typing into a terminal that the runner may have been started from (CVE-2017-5226 and its kin).
		"ioctl": pass(noneOf(1, unix.TIOCSTI, unix.TIOCLINUX)),

		// A write lease on a file that the runner will open stalls it (fcntl(2): up to lease-break-time, 45 s); dnotify
		// watches what inotify may not; F_SETOWN sends signals to whom it names.
		"fcntl": pass(noneOf(1, unix.F_SETLEASE, unix.F_NOTIFY, unix.F_SETOWN, unix.F_SETOWN_EX)),

		// PR_SET_PDEATHSIG: a script must not outlive a killed runner. PR_SET_PTRACER opens it to tracing, PR_SET_MM and
		// PR_SCHED_CORE reach beyond it, merged memory is a side channel between runs, more filters are not ours to debug.
		"prctl": pass(noneOf(0, unix.PR_SET_PDEATHSIG, unix.PR_SET_SECCOMP, unix.PR_SET_MM, prSetPtracer, prSchedCore,
			prSetMemoryMerge)),
	}
	if processes {
		rules["clone"] = pass(check{0, namespaces, []uint32{0}, false})
		rules["fork"] = rule{then: allow}
		rules["vfork"] = rule{then: allow}
	}
	return rules
}

// ioprioWhoProcess is IOPRIO_WHO_PROCESS (ioprio_set(2)).
const ioprioWhoProcess = 1

// policy is the whole table by name: for a run with one process (threads pass), or with several.
func policy(processes bool) map[string]rule {
	rules := checked(processes)
	for names, answer := range map[string]action{
		allowed:   allow,
		dangerous: refuse(unix.EPERM),
		noXattr:   refuse(unix.EOPNOTSUPP),
		noInotify: refuse(unix.ENOSYS),
		pretended: refuse(0),
	} {
		for _, name := range strings.Fields(names) {
			rules[name] = rule{then: answer}
		}
	}
	return rules
}
