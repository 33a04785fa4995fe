/*
 * The layers, put on by the process that will run the program: nothing can move it to another thread in between, and
 * there is no other thread (go-landlock#5: a Go parent that restricts "itself" may exec from an unrestricted thread).
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Noreturn void not_in_force(const char *layer)
{
	errno = ENOTSUP;
	fail_at("read_back", layer);
}

/*
 * Makes the kernel's out-of-memory killer choose the script: without it the largest process goes, which may be the
 * runner (measured: facts/sandbox.md 5). A process that is not dumpable does not own its files in /proc, so it becomes
 * dumpable for this write, and then not again until execve resets it: no other run may trace what is not confined yet.
 */
static void become_oom_victim(const struct plan *plan)
{
	if (plan->head.flags & PLAN_OOM) {
		int fd;

		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
		fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "1000", 4) != 4)
			fail("oom_score_adj");
		close(fd);
	}
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		fail("dumpable");
}

/*
 * Soft and hard limit alike: a soft one could be raised again, and a process that is init of a PID namespace ignores
 * SIGXCPU. A hard limit that is lower already stays: only root could raise it, and lower protects as well.
 * There is no RLIMIT_NPROC: it counts all processes of the uid, so one run would starve another (case 21). A strict count
 * per run comes with the cgroup layer; until then seccomp refuses fork, or the supervisor counts.
 */
static void limit_resources(const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->head.rlimits; i++) {
		const struct plan_rlimit *wanted = &plan->rlimits[i];
		struct rlimit now;

		if (getrlimit((int)wanted->resource, &now))
			fail("getrlimit");
		if (now.rlim_max > wanted->value)
			now.rlim_max = wanted->value;
		now.rlim_cur = now.rlim_max;
		if (setrlimit((int)wanted->resource, &now))
			fail("setrlimit");
	}
}

void no_new_privs(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("no_new_privs");
}

/*
 * Comparisons with a mark are with a number that only this process knows: its own, or its group's as kill(2) takes it.
 * It is the process that becomes the program, so that the number stays true. (bpf.go sets the marks.)
 */
static void fill_in_own_number(struct sock_filter *filters, uint32_t count)
{
	enum { MARK_PID = 1 << 15, MARK_GROUP = 1 << 14 };

	for (uint32_t i = 0; i < count; i++) {
		if (filters[i].code & MARK_PID)
			filters[i].k = (uint32_t)getpid();
		else if (filters[i].code & MARK_GROUP)
			filters[i].k = (uint32_t)-getpid();
		filters[i].code &= (uint16_t)~(MARK_PID | MARK_GROUP);
	}
}

/* In a mount namespace of its own, as its supervisor needs /proc. */
static void hide_proc(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=2,mode=000"))
		fail("hide_proc");
	if (open("/proc/self", O_PATH | O_CLOEXEC) != -1 || errno != ENOENT)
		not_in_force("proc");
}

/* In a jail the run has all capabilities over its own namespaces until here: they made its folder. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof none);
	if (syscall(SYS_capset, &head, none))
		fail("capset");
	memset(none, 0xff, sizeof none);
	if (syscall(SYS_capget, &head, none) || none[0].permitted | none[1].permitted)
		not_in_force("capabilities");
}

static void filter_calls(const struct plan *plan)
{
	struct sock_fprog program = {
		.len = (unsigned short)plan->head.filters,
		.filter = plan->filters,
	};

	fill_in_own_number(plan->filters, plan->head.filters);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		fail("seccomp");
}

/*
 * Believes nothing: each layer is asked for its state, and where the state could be somebody else's (an engine's own
 * seccomp filter also reads as mode 2; Landlock cannot be asked at all) a refused call is made. "/" is never granted.
 */
static void read_back(const struct plan *plan)
{
	int answer = plan->head.flags & PLAN_CELL ? EACCES : EPERM;

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		not_in_force("no_new_privs");
	if (plan->head.flags & PLAN_LANDLOCK && plan->head.fs)
		if (open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) != -1 || errno != EACCES)
			not_in_force("landlock");
	if (plan->head.flags & PLAN_SECCOMP) {
		if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
			not_in_force("seccomp");
		if (socket(AF_UNIX, SOCK_STREAM, 0) != -1 || errno != answer)
			not_in_force("seccomp");
	}
}

void confine(const struct plan *plan)
{
	become_oom_victim(plan);
	limit_resources(plan);
	no_new_privs();
	if (plan->head.flags & PLAN_NO_PROC)
		hide_proc();
	if (plan->head.flags & PLAN_JAIL)
		drop_capabilities();
	if (plan->head.flags & PLAN_LANDLOCK)
		landlock_confine(plan);
	/* What execve does for the others. The watch reads its /proc; Landlock keeps other runs from doing so. */
	if (plan->head.flags & PLAN_FORK && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
		fail("dumpable");
	if (plan->head.flags & PLAN_SECCOMP)
		filter_calls(plan); /* last: it refuses the calls that the other layers need */
	read_back(plan);
}
