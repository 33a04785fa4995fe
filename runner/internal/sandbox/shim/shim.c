/* The order of the steps; each is explained where it is defined. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Ignored signals and the mask survive execve (signal(7)): a runner started by nohup would change what scripts see. A
 * supervisor goes on holding back a stop that may have come already (room.c); its child resets the mask. */
static void reset_signals(int supervised)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL); /* EINVAL for SIGKILL, SIGSTOP and libc's own */
	sigemptyset(&none);
	if (!supervised)
		sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Go set it between fork and exec, when it could still notice that the parent was gone already. Here it is only seen
 * to have survived: execve of a set-user-ID file would have cleared it (prctl(2)). */
static void check_parent_death_signal(void)
{
	int number = 0;

	if (prctl(PR_GET_PDEATHSIG, &number, 0, 0, 0) || number != SIGKILL) {
		errno = ENOTSUP;
		fail("pdeathsig");
	}
}

int main(int argc, char **argv)
{
	struct plan plan;

	if (argc >= 2 && strcmp(argv[1], "--probe") == 0)
		return probe(argc - 2, argv + 2);
	if (argc == 2 && strcmp(argv[1], "--jail") == 0)
		jail(&argv); /* returns in a run */
	if (argc < 2 || fcntl(FD_STATUS, F_SETFD, FD_CLOEXEC))
		return EXIT_SHIM; /* not started by the runner: nobody to report to */
	load_plan(&plan);
	if (plan.head.flags & PLAN_CGROUP && !(plan.head.flags & PLAN_JAIL))
		join_cgroup(FD_CGROUP);
	close_from(FD_STATUS + 1);
	reset_signals(plan.head.flags & PLAN_SUPERVISE);
	umask(077);
	if (!(plan.head.flags & PLAN_JAIL)) /* where the kernel ends all of us with the jail's PID 1 */
		check_parent_death_signal();
	if (plan.head.flags & PLAN_SUPERVISE)
		supervise(&plan); /* returns in the child */
	confine(&plan);
	report_ready();
	execve(argv[1], argv + 1, environ);
	fail_at("execve", argv[1]);
}
