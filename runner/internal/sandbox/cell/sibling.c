/*
 * fork(2) whose child is our parent's. libc has no such call, so the few things that its fork does in the child of a
 * process with one thread are done here: the thread's own number is stored where libc keeps it, and the list of robust
 * mutexes is registered again.
 */
#include "cell.h"
#include "../shim/shim.h"

#include <errno.h>
#include <linux/prctl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
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

static pid_t fork_with(unsigned long more)
{
	const unsigned long flags = more | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#ifdef __x86_64__
	long pid = syscall(SYS_clone, flags, 0, NULL, thread_number, 0);
#else
	long pid = syscall(SYS_clone, flags, 0, NULL, 0, thread_number);
#endif
	if (pid == 0)
		syscall(SYS_set_robust_list, robust, robust_length);
	return (pid_t)pid;
}

pid_t fork_sibling(void)
{
	return fork_with(CLONE_PARENT);
}

/* libc's (2.35): where the thread's area for restartable sequences is, and 0 where it uses none. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* The kernel forgets that area in a child that has its parent's memory, and so in all that is forked from it, while libc goes
 * on reading from it (sched_getcpu(3)). 32 bytes are what every kernel takes (rseq(2)). */
static void register_rseq(void)
{
#ifdef __x86_64__
	const unsigned int signature = 0x53053053;
#else
	const unsigned int signature = 0xd428bc00;
#endif
	if (&__rseq_size && __rseq_size && syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, 32, 0, signature))
		fail("rseq");
}

pid_t fork_child(void)
{
	pid_t pid = fork_with(0);

	if (pid == 0)
		register_rseq();
	return pid;
}

/*
 * As vfork(2), and the child is our parent's: it has our memory, and we stand still until it ends. The return address must
 * not be on the stack meanwhile, where the child writes over it.
 */
#ifdef __x86_64__
__asm__(".text\n.hidden borrow_sibling\n.globl borrow_sibling\n.type borrow_sibling, @function\nborrow_sibling:\n"
	"	pop %r9\n	xor %esi, %esi\n	xor %edx, %edx\n	xor %r10d, %r10d\n	xor %r8d, %r8d\n"
	"	mov $56, %eax\n	syscall\n	push %r9\n	ret\n.size borrow_sibling, . - borrow_sibling\n");
_Static_assert(SYS_clone == 56, "clone");
#else
__asm__(".text\n.hidden borrow_sibling\n.globl borrow_sibling\n.type borrow_sibling, %function\nborrow_sibling:\n"
	"	mov x1, xzr\n	mov x2, xzr\n	mov x3, xzr\n	mov x4, xzr\n	mov x8, #220\n	svc #0\n	ret\n"
	".size borrow_sibling, . - borrow_sibling\n");
_Static_assert(SYS_clone == 220, "clone");
#endif
