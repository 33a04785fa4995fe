/* A room of namespaces that a run has to itself, made from within a jail (jail.c) or a cell in one (../cell/run.c). */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_at("write", path);
	close(fd);
}

/* One user and one group, with the numbers that they have outside: a script that asks is told the same in every tier.
 * In the jail they are 0, and to map that is for CAP_SETFCAP, the one capability that the jail has. */
static void map_ids(const struct room *room)
{
	int before = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
	char line[64];

	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* or the files were root's */
	put_text("/proc/self/setgroups", "deny");
	snprintf(line, sizeof line, "%u 0 1", room->gid);
	put_text("/proc/self/gid_map", line);
	snprintf(line, sizeof line, "%u 0 1", room->uid);
	put_text("/proc/self/uid_map", line);
	prctl(PR_SET_DUMPABLE, (unsigned long)before, 0, 0, 0);
}

/* Where the runner makes them for a run outside a jail: see LinksDir in ../sandbox.go. */
static void make_links(const struct room *room)
{
	char path[NAME_MAX + sizeof "mounts/"];

	if (room->links && mkdir("mounts", 0700))
		fail("links");
	for (uint32_t i = 0; i < room->links; i++) {
		int length = snprintf(path, sizeof path, "mounts/%s", room->link_texts[2 * i]);

		if (length >= (int)sizeof path || symlink(room->link_texts[2 * i + 1], path))
			fail("links");
	}
}

static void make_folder(const struct room *room)
{
	char options[96];

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		fail("mount_private");
	snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu,mode=0711", (unsigned long long)room->disk_bytes,
		 (unsigned long long)room->disk_files + 2 + (room->links ? 1 + room->links : 0)); /* itself, and the working folder */
	if (mount("tmpfs", room->parent, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options))
		fail("mount_tmpfs");
	/* A mount of its own, so that it cannot be moved away from below itself. */
	if (mkdir(room->dir, 0700) || mount(room->dir, room->dir, NULL, MS_BIND, NULL) || chdir(room->dir))
		fail("working_folder");
	make_links(room);
}

/* PID 1 of a namespace ignores what it neither holds back nor handles (pid_namespaces(7)): a stop that comes between our
 * birth and supervise would be lost. */
static void hold_stop(void)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &stop, NULL))
		fail("sigprocmask");
}

static void furnish(const struct room *room)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET))
		fail("unshare");
	map_ids(room);
	make_folder(room);
}

static void be_first(const struct room *room)
{
	if (setsid() < 0)
		fail("setsid");
	hold_stop();
	/* From within the namespace, or it would be the jail's: other runs of the skill are in that one. */
	if (room->proc && mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		fail("mount_proc");
	report_born();
}

void enter_room(const struct room *room, pid_t (*fork_first)(void))
{
	pid_t first;

	furnish(room);
	first = fork_first();
	if (first < 0)
		fail("fork");
	if (first)
		_exit(0);
	be_first(room);
}
