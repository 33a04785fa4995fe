/*
 * Trying what a layer must refuse, to see it refused. The runner starts this at its own start, once without the layer
 * (the control: it must succeed, else the attempt proves nothing) and once with it. One line "name number" on stdout
 * per attempt: an errno, 0 for success, or a value. It writes plain facts; probe.go judges them.
 *
 *   --probe CANARY ABSTRACT     a file outside the working folder, the name of a listening abstract unix socket
 *   --probe hog                 three processes of 8 MiB each, that wait to be ended
 *   --probe forks               start processes that wait, until no more can be had, and print their number
 *   --probe namespaces          make namespaces and mount in them, step by step
 *   --probe orphan              leave a process behind that left the session, print its pid
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int outcome(long result)
{
	return result < 0 ? errno : 0;
}

static int tcp(int (*try)(int, const struct sockaddr *, socklen_t))
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* Port 0: bind picks any, connect fails with ECONNREFUSED or the like. Landlock's answer would be EACCES. */
	return fd < 0 ? errno : outcome(try(fd, (struct sockaddr *)&address, sizeof address));
}

static int abstract_socket(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t length = strnlen(name, sizeof address.sun_path - 1);

	memcpy(address.sun_path + 1, name, length);
	length += offsetof(struct sockaddr_un, sun_path) + 1;
	return fd < 0 ? errno : outcome(connect(fd, (struct sockaddr *)&address, (socklen_t)length));
}

static int oom_score_adj(void)
{
	char text[16] = "";
	int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
		return -1;
	return atoi(text);
}

/* Our number as /proc has it: in a PID namespace of our own another one, unless /proc is that namespace's too. */
static int proc_self(void)
{
	char text[32] = "";

	return readlink("/proc/self", text, sizeof text - 1) < 0 ? -1 : atoi(text);
}

static int attempts(const char *canary, const char *name)
{
	struct rlimit files = {0, 0};

	getrlimit(RLIMIT_NOFILE, &files);
	printf("no_new_privs %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	printf("pid %d\nproc_self %d\n", getpid(), proc_self());
	printf("open_files %llu\n", (unsigned long long)files.rlim_max);
	printf("oom_score_adj %d\n", oom_score_adj());
	printf("read_outside %d\n", outcome(open(canary, O_RDONLY | O_CLOEXEC)));
	printf("write_outside %d\n", outcome(open(canary, O_WRONLY | O_CLOEXEC)));
	printf("write_inside %d\n", outcome(open("inside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
	printf("tcp_bind %d\n", tcp(bind));
	printf("tcp_connect %d\n", tcp(connect));
	printf("signal_self %d\n", outcome(kill(getpid(), 0)));
	printf("signal_parent %d\n", outcome(kill(getppid(), 0)));
	printf("abstract_socket %d\n", abstract_socket(name));
	printf("unix_socket %d\n", outcome(socket(AF_UNIX, SOCK_STREAM, 0)));
	printf("memfd_create %d\n", outcome(syscall(SYS_memfd_create, "probe", 0)));
	printf("seccomp %d\n", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
	return fflush(stdout) ? 1 : 0;
}

static int orphan(void)
{
	int born[2];
	char byte;

	if (pipe(born))
		return 1;
	if (fork() == 0) {
		setsid();
		if (fork() == 0) {
			signal(SIGTERM, SIG_IGN);
			dprintf(STDOUT_FILENO, "orphan %d\n", getpid());
			byte = 1;
			if (write(born[1], &byte, 1) == 1)
				for (;;)
					pause();
		}
		_exit(0);
	}
	close(born[1]);
	return read(born[0], &byte, 1) == 1 ? 0 : 1; /* the orphan lives before we end */
}

static int forks(void)
{
	int born = 0;
	pid_t pid;

	while (born < 1000 && (pid = fork()) >= 0) {
		if (pid == 0)
			for (;;)
				pause();
		born++;
	}
	printf("forks %d\n", born);
	return fflush(stdout) ? 1 : 0;
}

/* The steps by which an engine can refuse namespaces differ, and so do their errnos (layers.go). */
static int namespaces(void)
{
	printf("unshare_user %d\n", outcome(unshare(CLONE_NEWUSER)));
	printf("unshare_rest %d\n", outcome(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)));
	printf("mount %d\n", outcome(mount("tmpfs", ".", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k")));
	fflush(stdout);
	if (fork() == 0) { /* the first process of the PID namespace: proc cannot be mounted without one */
		printf("proc %d\n", outcome(mount("proc", ".", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)));
		_exit(fflush(stdout) ? 1 : 0);
	}
	wait(NULL);
	return 0;
}

static int hog(void)
{
	enum { SIZE = 8 << 20 };

	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			/* Not malloc and memset: a compiler sees that nobody reads it. */
			if (mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
				_exit(1);
			for (;;)
				pause();
		}
	pause();
	return 0;
}

int probe(int argc, char **argv)
{
	if (argc == 1 && strcmp(argv[0], "orphan") == 0)
		return orphan();
	if (argc == 1 && strcmp(argv[0], "namespaces") == 0)
		return namespaces();
	if (argc == 1 && strcmp(argv[0], "forks") == 0)
		return forks();
	if (argc == 1 && strcmp(argv[0], "hog") == 0)
		return hog();
	return argc == 2 ? attempts(argv[0], argv[1]) : EXIT_SHIM;
}
