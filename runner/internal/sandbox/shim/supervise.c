/*
 * The supervisor of a run that may have several processes. It stays outside the program's confinement (its own domain
 * only scopes its signals) and does three things: wait, count, and end what is left when the leader has gone.
 */
#include "shim.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Why the supervisor ended the run. exit.go knows these numbers. */
enum { END_STOPPED = 1 << 0, END_CROWDED = 1 << 1, END_FULL = 1 << 2 };

enum { MAX_PIDS = 8192, REAPED_AT_ONCE = 256 };

/* Levels of nice(2). A run that may have several processes starts a little behind its supervisor: among a hundred equals that
 * are at work the one that counts them would wait its turn, and meanwhile there are a hundred more. */
enum { BEHIND = 5, LAST = 19 };

struct watch {
	pid_t leader;
	int leader_ended, status, scoped;
	uint64_t leader_cpu_us;
	uint32_t flags;
	sigset_t signals;
};

static pid_t found[MAX_PIDS];

/* Reaps what has ended, so many at most: a run can have its children end faster than that. Returns 0 when there is no child
 * at all any more: then the run is over, as every descendant becomes our child before it can become anybody else's. */
static int reap(struct watch *w)
{
	struct rusage usage;
	int status;
	pid_t pid = 1;

	for (int n = 0; n < REAPED_AT_ONCE && (pid = wait4(-1, &status, WNOHANG, &usage)) > 0; n++)
		if (pid == w->leader) {
			w->leader_ended = 1;
			w->status = status;
			w->leader_cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
					   (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
		}
	return pid >= 0 || errno != ECHILD;
}

enum { FOR_EVER = -1, MILLISECOND = 1000000, COUNT_EVERY = 2 * MILLISECOND }; /* what a fork bomb has to grow in */

static int await(struct watch *w, long nanoseconds)
{
	struct timespec limit = {0, nanoseconds};

	return sigtimedwait(&w->signals, NULL, nanoseconds == FOR_EVER ? NULL : &limit);
}

static int64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000LL * MILLISECOND + at.tv_nsec;
}

/*
 * Ends every process of the run. Where our signals are scoped kill(-1) is one step that no fork can slip through: the
 * kernel holds the task list, and a fork with a signal pending is refused. It is so too for PID 1 of a run's own PID
 * namespace, which sees nothing else. Without the scope the tree is walked: all
 * are stopped before any is killed, so that no parent sees its child go and makes another; processes that were born
 * during the walk are found by the next round.
 */
static void kill_all(const struct watch *w)
{
	int n;

	if (w->scoped) {
		kill(-1, SIGKILL);
		return;
	}
	n = descendants(found, MAX_PIDS);
	for (int i = 0; i < n; i++)
		kill(found[i], SIGSTOP);
	n = descendants(found, MAX_PIDS);
	for (int i = 0; i < n; i++)
		kill(found[i], SIGKILL);
}

/* A crowd has its end to itself: to take so many processes down is work that its neighbours need not wait for. What cannot be
 * put back has ended, or the cell's filter is on us, and then there is one process. */
static void put_back(const struct watch *w)
{
	int n = descendants(found, MAX_PIDS);

	setpriority(PRIO_PGRP, (id_t)w->leader, LAST); /* found has other numbers where /proc is of another PID namespace */
	for (int i = 0; i < n; i++)
		setpriority(PRIO_PROCESS, (id_t)found[i], LAST);
}

static void sweep(struct watch *w)
{
	if (w->flags & END_CROWDED)
		put_back(w);
	while (reap(w)) {
		kill_all(w);
		await(w, 5 * MILLISECOND);
	}
}

/* What has ended and was not reaped yet is no process of the run's any more. */
static int crowded(struct watch *w, int most)
{
	if (descendants(found, MAX_PIDS) <= most)
		return 0;
	reap(w);
	return descendants(found, MAX_PIDS) > most;
}

/* Until the leader has ended, the runner says stop, or there are too many. The count is a poll and can be outrun for
 * that long: the layer is named `watch` for that, a strict count needs a cgroup. A run that may have one process has no need
 * of it: the filter refuses fork. */
static void watch_run(struct watch *w, const struct plan *plan)
{
	int counted = plan->head.processes > 1 || !(plan->head.flags & PLAN_SECCOMP);
	int64_t next = now() + COUNT_EVERY;

	for (;;) {
		int64_t left = next - now(); /* by the clock: a run can have signals sent to us without end */
		int number = await(w, !counted ? FOR_EVER : left > 0 ? left : 0);

		reap(w);
		if (w->leader_ended)
			return;
		if (number == SIGTERM) {
			w->flags |= END_STOPPED;
			return;
		}
		if (!counted || now() < next)
			continue;
		if (crowded(w, (int)plan->head.processes)) {
			w->flags |= END_CROWDED;
			return;
		}
		next = now() + COUNT_EVERY;
	}
}

/* The child goes back to main to be confined. */
static void start_child(pid_t supervisor, int several)
{
	sigset_t none;

	if (setsid() < 0)
		fail("setsid");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		fail("pdeathsig");
	if (several && setpriority(PRIO_PROCESS, 0, BEHIND))
		fail("setpriority");
	if (getppid() != supervisor) /* it died before the call above: no signal will come */
		_exit(EXIT_SHIM);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* When the runner dies we must still sweep, so its death is a SIGTERM here and not the SIGKILL that Go arranged. */
static void survive_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0))
		fail("supervisor_pdeathsig");
	if (getppid() != parent)
		_exit(EXIT_SHIM);
}

/* In a jail we are PID 1 of the run's namespace: there is nobody else to sweep, and our end is the end of all. */
static void be_alone(struct watch *w)
{
	if (getpid() != 1) {
		errno = ENOTSUP;
		fail("pid_namespace");
	}
	w->scoped = 1;
}

static void be_subreaper(struct watch *w, const struct plan *plan, pid_t parent)
{
	survive_parent(parent);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		fail("subreaper");
	if (plan->head.scoped)
		w->scoped = landlock_scope_only(plan->head.scoped);
}

/* The working folder of a run in a jail has a size of its own: did it come to its end? */
static int folder_is_full(void)
{
	struct statvfs fs;

	return statvfs(".", &fs) == 0 && (fs.f_bavail == 0 || fs.f_favail == 0);
}

void supervise(const struct plan *plan)
{
	pid_t parent = getppid(), self = getpid();
	struct watch w = {0};

	sigemptyset(&w.signals);
	sigaddset(&w.signals, SIGCHLD);
	sigaddset(&w.signals, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &w.signals, NULL))
		fail("sigprocmask");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		fail("supervisor_dumpable");
	no_new_privs();
	if (plan->head.flags & PLAN_JAIL)
		be_alone(&w);
	else
		be_subreaper(&w, plan, parent);
	w.leader = fork();
	if (w.leader < 0)
		fail("fork");
	if (w.leader == 0) {
		start_child(self, plan->head.processes > 1);
		return;
	}
	/* The reader of stdout must see its end when the last process of the run is gone, not when we are. */
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	signal(SIGPIPE, SIG_IGN);
	watch_run(&w, plan);
	sweep(&w);
	if (plan->head.flags & PLAN_JAIL && folder_is_full())
		w.flags |= END_FULL;
	report_end(w.status, w.flags, w.leader_cpu_us);
	_exit(0);
}
