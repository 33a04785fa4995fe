/*
 * A jail is a room of namespaces that libcontainer made for one skill (../../jail), and this is the process in it that
 * starts the runs: the jail's PID 1. What a run needs comes over the door, a SEQPACKET socket: see struct request. For
 * each request:
 *
 *   jail ---fork---> attendant: own user, pid, mount, ipc, uts and network namespace, own working folder
 *                      '--fork---> PID 1 of the run's namespace: the supervisor; from there on as any other run
 *
 * The attendant waits, and with its end the status socket ends too: then all of the run is gone, as the kernel ends a
 * PID namespace with its PID 1, and a PID 1 only after all the others.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FD_DOOR = 3, MOST_FDS = 6, MOST_TEXT = 64 * 1024, MOST_STRINGS = 512, AWAY = 32 };

/* Followed by NUL-terminated texts: the folder that the working folder is made in, the working folder, the arguments,
 * the environment, and for each link its name and where it leads. With it come stdin, stdout, stderr, the plan, the status socket, and the cgroup's folder or not. */
struct request {
	uint32_t arguments, variables;
	uint64_t disk_bytes, disk_files;
	uint32_t uid, gid, born, proc; /* born: in the cgroup; else the shim joins it. proc: mount one of its own */
	uint32_t links, reserved;
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

static void put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_at("write", path);
	close(fd);
}

/* One user and one group, with the numbers that they have outside: a script that asks is told the same in every tier.
 * In the jail they are 0, and to map that is for CAP_SETFCAP, the one capability that the jail has. */
static void map_ids(void)
{
	char line[64];

	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* or the files were root's */
	put_text("/proc/self/setgroups", "deny");
	snprintf(line, sizeof line, "%u 0 1", message.head.gid);
	put_text("/proc/self/gid_map", line);
	snprintf(line, sizeof line, "%u 0 1", message.head.uid);
	put_text("/proc/self/uid_map", line);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Where the runner makes them for a run outside a jail: see LinksDir in ../sandbox.go. */
static void make_links(void)
{
	char path[NAME_MAX + sizeof "mounts/"];

	if (message.head.links && mkdir("mounts", 0700))
		fail("links");
	for (uint32_t i = 0; i < message.head.links; i++) {
		int length = snprintf(path, sizeof path, "mounts/%s", links[2 * i]);

		if (length >= (int)sizeof path || symlink(links[2 * i + 1], path))
			fail("links");
	}
}

static void make_folder(const char *parent, const char *dir)
{
	char options[96];

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		fail("mount_private");
	snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu,mode=0711", (unsigned long long)message.head.disk_bytes,
		 (unsigned long long)message.head.disk_files + 2 + (message.head.links ? 1 + message.head.links : 0)); /* itself, and the working folder */
	if (mount("tmpfs", parent, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options))
		fail("mount_tmpfs");
	if (mkdir(dir, 0700) || chdir(dir))
		fail("working_folder");
	make_links();
}

static _Noreturn void attend(pid_t first)
{
	for (int fd = 0; fd <= FD_CGROUP; fd++)
		if (fd != FD_STATUS)
			close(fd);
	while (waitpid(first, NULL, 0) < 0 && errno == EINTR)
		;
	_exit(0);
}

/* Returns in PID 1 of the run's own namespace. */
static void enter(char ***arguments)
{
	pid_t first;

	signal(SIGCHLD, SIG_DFL);
	take_places();
	unpack(arguments);
	if (fd_count > FD_CGROUP && !message.head.born)
		join_cgroup();
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET))
		fail("unshare");
	map_ids();
	make_folder(strings[0], strings[1]);
	first = fork();
	if (first < 0)
		fail("fork");
	if (first)
		attend(first);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || setsid() < 0)
		fail("pdeathsig");
	/* From within the namespace, or it would be the jail's: other runs of the skill are in that one. */
	if (message.head.proc && mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		fail("mount_proc");
	report_born();
}

void jail(char ***arguments)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(SIGCHLD, SIG_IGN); /* nobody waits for the attendants */
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
