/*
 * The status pipe: what the parent is told. Records, each one write(2) below PIPE_BUF and therefore whole (pipe(7)):
 *
 *   'E' step ' ' errno '\n'    a step failed, the program was not started
 *   'P' pid                    a run that a cell or a jail forked is born: its own number, as 4 bytes. Where that is one of
 *                              a namespace (a jail), the socket adds the number that we know it by
 *   'K'                        every layer is on and was read back; execve comes next, or the gate of the cell
 *   'S'                        a run that a cell forked: the gate is open, the script's first line comes next
 *   'R' struct end             the supervisor: the run is over and swept
 *
 * The pipe is close-on-exec, and a cell's run closes it before its script, so nothing that a script does can forge a record.
 */
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct end {
	char tag[4]; /* "R\0\0\0" */
	uint32_t status; /* of the leader, as wait(2) gives it */
	uint32_t flags, reserved;
	uint64_t leader_cpu_us; /* of the leader: what RLIMIT_CPU counted */
	uint64_t cpu_us, max_rss_kib; /* of all processes of the run */
};

static void put(const void *bytes, size_t length)
{
	/* Nobody is left to be told when this fails: the parent has gone, and with it the reader. */
	ssize_t ignored = write(FD_STATUS, bytes, length);
	(void)ignored;
}

static void put_failure(const char *step, const char *detail)
{
	char line[512];
	int number = errno;
	int length = snprintf(line, sizeof line, "E%s%s%.300s %d\n", step, *detail ? " " : "", detail, number);

	put(line, (size_t)length);
}

void report_failure(const char *step)
{
	put_failure(step, "");
}

void fail_at(const char *step, const char *detail)
{
	put_failure(step, detail);
	_exit(EXIT_SHIM);
}

void fail(const char *step)
{
	fail_at(step, "");
}

void report_ready(void)
{
	put("K", 1);
}

void report_born(void)
{
	struct born {
		char tag;
		uint32_t pid;
	} __attribute__((packed)) born = {'P', (uint32_t)getpid()};

	put(&born, sizeof born);
}

void report_started(void)
{
	put("S", 1);
}

static uint64_t microseconds(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

void report_end(int status, uint32_t flags, uint64_t leader_cpu_us)
{
	struct rusage all;
	struct end end;

	memset(&end, 0, sizeof end);
	getrusage(RUSAGE_CHILDREN, &all);
	end.tag[0] = 'R';
	end.status = (uint32_t)status;
	end.flags = flags;
	end.leader_cpu_us = leader_cpu_us;
	end.cpu_us = microseconds(all.ru_utime) + microseconds(all.ru_stime);
	end.max_rss_kib = (uint64_t)all.ru_maxrss;
	put(&end, sizeof end);
}
