package sandbox

import (
	"maps"
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
// Only the low 32 bits are looked at, except in a pointer. Every other checked argument is an int, a pid_t or (clone)
// flags that the kernel truncates, so that the high half does not exist for it; a filter that compares all 64 bits is
// passed by setting one there (CVE-2019-7303: TIOCSTI in snapd).
type check struct {
	argument uint32
	mask     uint32
	values   []uint32
	own      []uint16 // markPID, markGroup: values that only the child knows
	not      bool
	half     uint32 // 4: the high 32 bits
}

const all = 0xffffffff

func oneOf(argument uint32, values ...uint32) check {
	return check{argument: argument, mask: all, values: values}
}

func noneOf(argument uint32, values ...uint32) check {
	return check{argument: argument, mask: all, values: values, not: true}
}

// masked holds when these bits of the argument are exactly value.
func masked(argument, mask, value uint32) check {
	return check{argument: argument, mask: mask, values: []uint32{value}}
}

// null holds for a pointer that is NULL: both halves are zero.
func null(argument uint32) []check {
	return []check{oneOf(argument, 0), {argument: argument, mask: all, values: []uint32{0}, half: 4}}
}

// pass allows the call when the checks hold and refuses it with EPERM when they do not.
func pass(checks ...check) rule { return rule{checks, allow, refuse(unix.EPERM)} }

// allowed are the calls that Python, node, bash and coreutils make in ordinary work (strace of three broad workloads;
// facts/hardening.md D2, D3), by family. A call is here because something needs it, not because it seems harmless.
const allowed = `
	read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range open openat openat2
	creat dup dup2 dup3 pipe pipe2 flock ftruncate fallocate fadvise64 readahead fsync fdatasync
	sync_file_range syncfs sendfile copy_file_range stat fstat lstat newfstatat statx statfs fstatfs access faccessat
	faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir rename renameat renameat2
	link linkat symlink symlinkat unlink unlinkat mknod mknodat fchown umask getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr

	mmap munmap mremap mprotect madvise msync mincore brk mlock munlock mlock2 membarrier pkey_alloc pkey_free
	pkey_mprotect map_shadow_stack mseal

	rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigpending rt_sigtimedwait sigaltstack pause signalfd signalfd4 restart_syscall

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

// pretended are not made and answer success (an errno of 0). Landlock does not check chmod and utime (landlock(7),
// "current limitations") and scripts share the runner's uid, so a script that knows the path could take the runner's
// socket or another skill's snapshot away from it, or date its files. EPERM would break shutil.copy, cp -p and tar; a
// mode or a time means nothing to a run that is alone in its folder. utimensat is made on an open file (see checked).
const pretended = `chmod fchmod fchmodat fchmodat2 utime utimes futimesat`

// namespaces are the CLONE_NEW* bits. CLONE_NEWTIME is among the bits of the exit signal (clone(2)).
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// prctl options that are in no libc header of the module we use.
const (
	prSetPtracer     = 0x59616d61
	prSetMemoryMerge = 67
	prSchedCore      = 62
)

// terms are what the table depends on beside the architecture.
type terms struct {
	processes bool // the run may fork
	scoped    bool // Landlock keeps its signals inside the run
	truncates bool // Landlock checks truncate(2)
}

// checked are the calls whose arguments decide.
func checked(on terms) map[string]rule {
	rules := map[string]rule{
		// Threads use clone too. clone3 passes its flags in memory, where a filter cannot read them; ENOSYS makes libc
		// use clone, EPERM would break thread start (moby#42680).
		"clone":  pass(masked(0, namespaces, 0), masked(0, unix.CLONE_THREAD, unix.CLONE_THREAD)),
		"clone3": {then: refuse(unix.ENOSYS)},
		"fork":   {then: refuse(unix.EPERM)},
		"vfork":  {then: refuse(unix.EPERM)},

		// asyncio and node need a pair for their own wake-up. A datagram one could send to any named socket, the engine's
		// log for example, although it was never created by socket(2) (unix(7)).
		"socketpair": pass(oneOf(0, unix.AF_UNIX), check{argument: 1, mask: 0xf, values: []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}}),

		// On another process these work for any process of the uid, the runner included; Landlock has no say.
		"prlimit64":          pass(oneOf(0, 0)),
		"sched_setaffinity":  pass(oneOf(0, 0)),
		"sched_setattr":      pass(oneOf(0, 0)),
		"sched_setparam":     pass(oneOf(0, 0)),
		"sched_setscheduler": pass(oneOf(0, 0)),
		// "which" too: PRIO_USER with 0 means all processes of our own uid.
		"setpriority": pass(oneOf(0, unix.PRIO_PROCESS), oneOf(1, 0)),
		"ioprio_set":  pass(oneOf(0, ioprioWhoProcess), oneOf(1, 0)),

		// Typing into a terminal that the runner may have been started from (CVE-2017-5226 and its kin). The last two
		// name who gets the signals of a socket, which a pair is too: a way to signal without kill.
		"ioctl": pass(noneOf(1, unix.TIOCSTI, unix.TIOCLINUX, fioSetOwn, unix.SIOCSPGRP)),

		// Times of an open file may be set: to open it was Landlock's to allow. By path it is pretended.
		"utimensat": {null(1), allow, refuse(0)},

		// A write lease on a file that the runner will open stalls it (fcntl(2): up to lease-break-time, 45 s); dnotify
		// watches what inotify may not; F_SETOWN sends signals to whom it names. The sizes of pipes are counted for all
		// of the uid together (pipe(7)): one run would use up those of the others.
		"fcntl": pass(noneOf(1, unix.F_SETLEASE, unix.F_NOTIFY, unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETPIPE_SZ)),

		// PR_SET_PDEATHSIG: a script must not outlive a killed runner. PR_SET_PTRACER opens it to tracing, PR_SET_MM and
		// PR_SCHED_CORE reach beyond it, merged memory is a side channel between runs, more filters are not ours to debug, and a
		// process that is not dumpable hides its files and memory from the watch.
		"prctl": pass(noneOf(0, unix.PR_SET_PDEATHSIG, unix.PR_SET_SECCOMP, unix.PR_SET_MM, prSetPtracer, prSchedCore,
			prSetMemoryMerge, unix.PR_SET_DUMPABLE)),
	}
	if on.processes {
		rules["clone"] = pass(masked(0, namespaces, 0))
		rules["fork"] = rule{then: allow}
		rules["vfork"] = rule{then: allow}
	}
	rules["truncate"] = rule{then: refuse(unix.EPERM)}
	if on.truncates {
		rules["truncate"] = rule{then: allow}
	}
	maps.Copy(rules, signals(on))
	return rules
}

// signals are the calls that send one. Scripts share the runner's uid, so the kernel's own check lets a run signal the
// runner and any other run. A run of one process has nobody to signal but itself, whatever the kernel can do. One with
// several is kept inside by Landlock's scope (Linux 6.12); on an older kernel the filter, made in the child, knows the
// number of the run's first process and its group, which a process that left the group may name too: the number stays
// taken as long as one process of the run is in the group or session.
func signals(on terms) map[string]rule {
	if on.processes && on.scoped {
		free := rule{then: allow}
		return map[string]rule{"kill": free, "tkill": free, "tgkill": free, "rt_sigqueueinfo": free, "rt_tgsigqueueinfo": free}
	}
	itself := pass(check{argument: 0, mask: all, own: []uint16{markPID}})
	return map[string]rule{
		// 0 is the caller's group. Each run is a session of its own, and a group cannot reach beyond its session.
		"kill": pass(check{argument: 0, mask: all, values: []uint32{0}, own: []uint16{markPID, markGroup}}),
		// By the number of a thread alone: only the first thread can be told (musl's raise in another one fails).
		"tkill":             itself,
		"tgkill":            itself,
		"rt_sigqueueinfo":   itself,
		"rt_tgsigqueueinfo": itself,
	}
}

// fioSetOwn is FIOSETOWN (asm/sockios.h), the same on both architectures.
const fioSetOwn = 0x8901

// ioprioWhoProcess is IOPRIO_WHO_PROCESS (ioprio_set(2)).
const ioprioWhoProcess = 1

// policy is the whole table by name.
func policy(on terms) map[string]rule {
	rules := checked(on)
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

// cellPolicy is the filter of a cell. It stays in force below that of each run, so it allows what any run may do, and
// what it takes to fork and to put a run's own confinement on. Two filters that both answer with an errno give that of
// the newer one: the answer to socket shows a run whether its own filter is on (cell/run.c).
func cellPolicy(on terms) map[string]rule {
	on.processes, on.scoped = true, true // it signals nobody; a run's filter says whom it may signal
	rules := policy(on)
	for _, name := range []string{"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp", "prctl"} {
		rules[name] = rule{then: allow}
	}
	rules["socket"] = rule{then: refuse(unix.EACCES)}
	return rules
}

// jailCellPolicy is that of a cell in a jail: a run's own namespaces and its working folder are made in its fork, below the
// cell's filter. What is made there has the rights of a user namespace over what it has itself made, and no others.
func jailCellPolicy(on terms) map[string]rule {
	rules := cellPolicy(on)
	for _, name := range []string{"unshare", "mount", "capset"} {
		rules[name] = rule{then: allow}
	}
	return rules
}
