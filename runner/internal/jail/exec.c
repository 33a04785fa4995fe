/* Runs before nsexec and before Go, in every process of a program that has package jail.
 *
 * libcontainer starts the program that calls it once more, as the init of a jail. Of the runner that would be 15 ms of Go
 * packages that a jail has no use for: Go initialises them in the order of their import paths, ours last. So the runner
 * passes a sealed copy of xray-jail, a program that has nothing else, and what libcontainer has started becomes that one:
 * with its arguments, its environment and its descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libcontainer's Process.ExtraFiles begin at 3: the door, then the program. */
#define PROGRAM 4

static void fail(const char *what)
{
	const char *log = getenv("_LIBCONTAINER_LOGPIPE");

	dprintf(log ? atoi(log) : STDERR_FILENO, "{\"level\":\"error\",\"msg\":\"become xray-jail: %s: %s\"}\n", what, strerror(errno));
	_exit(1);
}

/* Constructors with a priority come before those without, as nsexec's is; below 101 is the C library's. */
__attribute__((constructor(101))) static void become_jail(int argc, char **argv)
{
	(void)argc;
	if (!getenv("_LIBCONTAINER_INITPIPE") || fcntl(PROGRAM, F_GET_SEALS) <= 0)
		return; /* not a jail's init, or already that program: nothing else there is sealed */
	if (setenv("GOMAXPROCS", "1", 1)) /* as libcontainer does later, when Go has made its threads */
		fail("setenv");
	if (fcntl(PROGRAM, F_SETFD, FD_CLOEXEC))
		fail("fcntl");
	fexecve(PROGRAM, argv, environ);
	fail("fexecve");
}
