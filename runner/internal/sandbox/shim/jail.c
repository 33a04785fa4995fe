/*
 * A jail is a room of namespaces that libcontainer made for one skill (../../jail), and this is the process in it that
 * starts the runs: the jail's PID 1. What a run needs comes over the door, a SEQPACKET socket: see struct request. For
 * each request:
 *
 *   jail ---fork---> a helper: own user, pid, mount, ipc, uts and network namespace, own working folder (room.c)
 *                      '--fork---> PID 1 of the run's namespace: the supervisor; from there on as any other run
 *
 * The helper ends at once: it is there because unshare(2) gives a new PID namespace to children alone, and clone(2) with such
 * flags is refused by the profile that a container has (deploy/). The end of a PID 1 is that of all in its namespace: the
 * kernel ends the others first. The runner waits for it by a pidfd.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FD_DOOR = 3, MOST_FDS = 6, MOST_TEXT = 64 * 1024, MOST_STRINGS = 512, AWAY = 32 };

/* Followed by NUL-terminated texts: the folder that the working folder is made in, the working folder, the arguments,
 * the environment, and for each link its name and where it leads. With it come stdin, stdout, stderr, the plan, the status socket, and the cgroup's folder or not. */
struct request {
	uint32_t arguments, variables;
	uint64_t disk_bytes, disk_files;
	uint32_t uid, gid, born, proc; /* born: in the cgroup; else the shim joins it. proc: mount one of its own */
	uint32_t links, cell; /* cell: not a run, but what runs are forked from. It is in the namespaces of the jail */
};

static struct {
	struct request head;
	char text[MOST_TEXT];
} message;

static char *strings[MOST_STRINGS + 3], **links;
static int fds[MOST_FDS], fd_count;

static int receive(void)
{
	char control[CMSG_SPACE(sizeof fds)];
	struct iovec part = {&message, sizeof message - 1};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *extra;
	ssize_t got;

	do
		got = recvmsg(FD_DOOR, &header, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < (ssize_t)sizeof message.head || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return 0; /* the runner has closed the door, or is not the runner we know */
	((char *)&message)[got] = 0;
	extra = CMSG_FIRSTHDR(&header);
	if (!extra || extra->cmsg_type != SCM_RIGHTS)
		return 0;
	fd_count = (int)((extra->cmsg_len - CMSG_LEN(0)) / sizeof fds[0]);
	memcpy(fds, CMSG_DATA(extra), (size_t)fd_count * sizeof fds[0]);
	return fd_count >= FD_STATUS + 1;
}

/* The texts in their order, with the NULLs that execve wants between and after. */
static void unpack(char ***arguments)
{
	const struct request *r = &message.head;
	char *at = message.text, *end = message.text + sizeof message.text;
	uint32_t most = MOST_STRINGS, n = 2 + r->arguments + r->variables + 2 * r->links, to = 0;

	if (r->arguments > most || r->variables > most || r->links > most || n > most || r->arguments < 1) {
		errno = EBADMSG;
		fail("request");
	}
	for (uint32_t i = 0; i < n && at < end; i++, at += strlen(at) + 1) {
		strings[to++] = at;
		if (i == 1 + r->arguments)
			strings[to++] = NULL;
		if (i == 1 + r->arguments + r->variables) /* the same place when there is none */
			strings[to++] = NULL;
	}
	strings[to] = NULL;
	*arguments = strings + 1; /* the working folder stands where the name of the shim would */
	environ = strings + 3 + r->arguments;
	links = environ + r->variables + 1;
}

static pid_t fork_into_cgroup(void)
{
	struct clone_args args = {.exit_signal = SIGCHLD};

	if (fd_count <= FD_CGROUP || !message.head.born)
		return fork();
	args.flags = CLONE_INTO_CGROUP;
	args.cgroup = (uint64_t)fds[FD_CGROUP];
	return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

/* Moved away first, so that none is overwritten before its turn. */
static void take_places(void)
{
	for (int i = 0; i < fd_count; i++)
		if (fcntl(fds[i], F_DUPFD_CLOEXEC, AWAY + i) != AWAY + i)
			_exit(EXIT_SHIM);
	for (int i = 0; i < fd_count; i++)
		if (dup2(AWAY + i, i) < 0)
			_exit(EXIT_SHIM);
	fcntl(FD_STATUS, F_SETFD, FD_CLOEXEC);
	close_from((unsigned int)fd_count);
}

/* A cell has the jail to itself, but for runs that are rooms further in. */
static void stand(void)
{
	if (chdir(strings[0]))
		fail("chdir");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || setsid() < 0)
		fail("pdeathsig");
	report_born();
}

/* Returns in PID 1 of the run's own namespace. */
static void enter(char ***arguments)
{
	const struct request *r = &message.head;

	signal(SIGCHLD, SIG_DFL);
	take_places();
	unpack(arguments);
	if (fd_count > FD_CGROUP && !r->born)
		join_cgroup(FD_CGROUP);
	if (r->cell) {
		stand();
		return;
	}
	enter_room(&(struct room){
		.parent = strings[0], .dir = strings[1], .disk_bytes = r->disk_bytes, .disk_files = r->disk_files,
		.uid = r->uid, .gid = r->gid, .proc = r->proc, .links = r->links, .link_texts = links,
	}, fork);
}

void jail(char ***arguments)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	close_from(FD_DOOR + 1); /* libcontainer closes from 5: the one between was xray-jail's (../../jail/exec.c) */
	signal(SIGCHLD, SIG_IGN); /* nobody waits for the helpers, nor for the PID 1 that they leave to us */
	while (receive()) {
		pid_t pid = fork_into_cgroup();

		if (pid == 0) {
			enter(arguments);
			return;
		}
		if (pid < 0) { /* told by the status socket, which then has no other writer */
			int number = errno;

			dup2(fds[FD_STATUS], FD_STATUS);
			errno = number;
			report_failure("jail_fork");
			close(FD_STATUS);
		}
		for (int i = 0; i < fd_count; i++)
			close(fds[i]);
	}
	_exit(0);
}
