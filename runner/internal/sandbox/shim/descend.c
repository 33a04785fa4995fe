/*
 * Finding the processes of a run: the descendants of this process. As it is their subreaper, a process whose parent
 * died becomes its child, so that setsid(2) and double forks do not lead out of the tree.
 */
#include "shim.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a small /proc file whole; returns its length, -1 when it is gone. */
static ssize_t slurp(const char *path, char *buffer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (got < size - 1 && (n = read(fd, buffer + got, size - 1 - got)) > 0)
		got += (size_t)n;
	close(fd);
	buffer[got] = 0;
	return (ssize_t)got;
}

/* Our own number as /proc has it, which may be that of a PID namespace above ours. */
static pid_t own_number(void)
{
	char text[32] = "";

	return readlink("/proc/self", text, sizeof text - 1) > 0 ? (pid_t)atoi(text) : getpid();
}

/* Adds the children of all threads of pid: each thread has its own list (proc_pid_children(5)). Returns the number
 * added; -1 when the kernel has no such file (CONFIG_PROC_CHILDREN). */
static int children_of(pid_t pid, pid_t *pids, int max)
{
	char path[300], list[32 * 1024];
	struct dirent *thread;
	int found = 0, readable = 0;
	DIR *threads;

	snprintf(path, sizeof path, "/proc/%d/task", pid);
	threads = opendir(path);
	if (!threads)
		return 0; /* it has ended, and its children are ours now: the next round finds them */
	while ((thread = readdir(threads))) {
		char *at = list, *end;

		if (!isdigit((unsigned char)thread->d_name[0]))
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%s/children", pid, thread->d_name);
		if (slurp(path, list, sizeof list) < 0)
			continue;
		readable = 1;
		for (long child; found < max && (child = strtol(at, &end, 10)) > 0; at = end)
			pids[found++] = (pid_t)child;
	}
	closedir(threads);
	return readable || pid != own_number() ? found : -1;
}

/* The parent of pid, from /proc/PID/stat: "pid (name) state ppid". The name may hold blanks and brackets, so the
 * last bracket counts. */
static pid_t parent_of(const char *pid)
{
	char path[300], stat[1024], *bracket;

	snprintf(path, sizeof path, "/proc/%s/stat", pid);
	if (slurp(path, stat, sizeof stat) < 0 || !(bracket = strrchr(stat, ')')) || strlen(bracket) < 5)
		return 0;
	return (pid_t)strtol(bracket + 4, NULL, 10);
}

/* The slow way: every process there is, one generation per call. */
static int scan_children_of(pid_t pid, pid_t *pids, int max)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int found = 0;

	if (!proc)
		return 0;
	while (found < max && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == pid)
			pids[found++] = (pid_t)atoi(entry->d_name);
	closedir(proc);
	return found;
}

/* PID 1 with a /proc of its own namespace: whatever is there is the run's, and one look has all of it. */
static int everyone(pid_t *pids, int max)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int found = 0;

	if (!proc)
		return 0;
	while (found < max && (entry = readdir(proc))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 1)
			pids[found++] = pid;
	}
	closedir(proc);
	return found;
}

/* Fills pids with all descendants, parents before their children where there are others too; returns their number. */
int descendants(pid_t *pids, int max)
{
	int (*list)(pid_t, pid_t *, int) = children_of;
	pid_t self = own_number();
	int found;

	if (self == 1 && getpid() == 1)
		return everyone(pids, max);
	found = list(self, pids, max);
	if (found < 0) {
		list = scan_children_of;
		found = list(self, pids, max);
	}
	for (int i = 0; i < found; i++)
		found += list(pids[i], pids + found, max - found);
	return found;
}
