/*
 * fork(2) whose child is our parent's. libc has no such call, so the few things that its fork does in the child of a
 * process with one thread are done here: the thread's own number is stored where libc keeps it, and the list of robust
 * mutexes is registered again.
 */
#include "cell.h"

#include <errno.h>
#include <linux/prctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int *thread_number; /* where libc keeps it */
static void *robust;
static size_t robust_length;

/* libc has told the kernel where the number is, and the kernel tells us (CONFIG_CHECKPOINT_RESTORE). */
void find_thread_pointer(void)
{
	if (prctl(PR_GET_TID_ADDRESS, &thread_number, 0, 0, 0) || !thread_number || *thread_number != getpid())
		give_up("PR_GET_TID_ADDRESS");
	if (syscall(SYS_get_robust_list, 0, &robust, &robust_length))
		give_up("get_robust_list");
}

pid_t fork_sibling(void)
{
	const unsigned long flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#ifdef __x86_64__
	long pid = syscall(SYS_clone, flags, 0, NULL, thread_number, 0);
#else
	long pid = syscall(SYS_clone, flags, 0, NULL, 0, thread_number);
#endif
	if (pid == 0)
		syscall(SYS_set_robust_list, robust, robust_length);
	return (pid_t)pid;
}
