/*
 * shim: confines itself and becomes the program of one run. See ../doc.go for the design.
 *
 * usage:  shim PROGRAM [ARGUMENT...]     fd 3 = plan (sealed memfd), fd 4 = status pipe, "." = working folder
 *         shim --jail                    waits for runs in a room of namespaces (jail.c); fd 3 = the door
 *         shim --probe ...               tries what a layer must refuse (probe.c); never used by a script's run
 *
 * Everything that could be a decision is made by the parent and arrives in the plan: this program has no policy, reads
 * no environment and takes no option, so that it stays small enough to be read in one sitting.
 */
#ifndef XRAY_SHIM_H
#define XRAY_SHIM_H

#include <linux/filter.h>
#include <stdint.h>
#include <sys/types.h>

enum { FD_PLAN = 3, FD_STATUS = 4, FD_CGROUP = 5 };

/* The exit code of every failure before execve, as env(1) and timeout(1) use it. The parent does not rely on it: the
 * script may exit with 125 too. It relies on the status pipe, which the script never holds. */
enum { EXIT_SHIM = 125 };

/* Layers that the plan expects. One that is expected and cannot be had ends the run. */
enum {
	PLAN_OOM = 1 << 0,
	PLAN_LANDLOCK = 1 << 1,
	PLAN_SECCOMP = 1 << 2,
	PLAN_SUPERVISE = 1 << 3,
	PLAN_CGROUP = 1 << 4,
	PLAN_JAIL = 1 << 5,
	PLAN_CELL = 1 << 6, /* its filter answers EACCES to socket(2), not EPERM: see ../cell/run.c */
	PLAN_FORK = 1 << 7, /* of a cell: no execve follows */
	PLAN_NO_PROC = 1 << 8, /* in a jail: where no Landlock keeps it from /proc */
	PLAN_KNOWN = PLAN_OOM | PLAN_LANDLOCK | PLAN_SECCOMP | PLAN_SUPERVISE | PLAN_CGROUP | PLAN_JAIL | PLAN_CELL | PLAN_FORK | PLAN_NO_PROC,
};

/* The plan: header, rlimits, filters, then paths. Little-endian, every part a multiple of 8 bytes. plan.go writes it. */
struct plan_header {
	char magic[8]; /* "XRAYPLAN" */
	uint32_t version, size, flags, processes;
	uint64_t fs, net, scoped; /* what Landlock handles: everything that is not granted below is then refused */
	uint32_t rlimits, filters, paths, reserved;
};

struct plan_rlimit {
	uint32_t resource, reserved;
	uint64_t value;
};

/* Followed by `length` bytes of path: NUL-terminated, padded with NULs to a multiple of 8. */
struct plan_path {
	uint64_t access;
	uint32_t length, reserved;
};

enum { PLAN_VERSION = 1, PLAN_MAX = 64 * 1024 };

struct plan {
	struct plan_header head;
	const struct plan_rlimit *rlimits;
	struct sock_filter *filters; /* in our own copy of the plan: confine.c completes them */
	const struct plan_path *paths;
};

/* status.c */
_Noreturn void fail(const char *step);
_Noreturn void fail_at(const char *step, const char *detail);
void report_failure(const char *step);
void report_born(void);
void report_ready(void);
void report_started(void);
void report_end(int status, uint32_t flags, uint64_t leader_cpu_us);

/* plan.c */
void load_plan(struct plan *plan);
const struct plan_path *next_path(const struct plan_path *path);
const char *path_text(const struct plan_path *path);

/* confine.c, landlock.c */
void no_new_privs(void);
void confine(const struct plan *plan);
void landlock_confine(const struct plan *plan);
int landlock_scope_only(uint64_t scoped);

/* room.c */
struct room {
	const char *parent, *dir; /* the working folder, and the one that it is made in: a mount of its own */
	uint64_t disk_bytes, disk_files;
	uint32_t uid, gid, proc, links; /* proc: mount one of its own */
	char **link_texts;		/* of each link its name and where it leads */
};
void enter_room(const struct room *room, pid_t (*fork_first)(void)); /* returns in PID 1 of the new namespaces */

/* cgroup.c, jail.c */
void join_cgroup(int folder);
void jail(char ***arguments);

/* supervise.c, descend.c */
void supervise(const struct plan *plan);
int descendants(pid_t *pids, int max);

/* close.c */
void close_from(unsigned int first);

/* probe.c */
int probe(int argc, char **argv);

#endif
