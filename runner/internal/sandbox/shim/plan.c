/*
 * Reading the plan. The bytes come from our own parent over a sealed memfd, and are checked as if they came from an
 * enemy all the same: a misread plan is a run with the wrong protection, so any oddity ends the run.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The alignment lets the records be used in place. */
static _Alignas(8) unsigned char bytes[PLAN_MAX];

static _Noreturn void odd(const char *what)
{
	errno = EBADMSG;
	fail_at("plan", what);
}

/* Without the seals another holder of the memfd could change the plan between our check and our use. pread(2) and not
 * read(2): the file position is shared by all runs that were given this plan. */
static size_t read_plan(void)
{
	const int sealed = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	int seals = fcntl(FD_PLAN, F_GET_SEALS);
	struct stat st;
	size_t got = 0;

	if (seals < 0)
		fail("plan");
	if ((seals & sealed) != sealed)
		odd("seals");
	if (fstat(FD_PLAN, &st))
		fail("plan");
	if (st.st_size < (off_t)sizeof(struct plan_header) || st.st_size > PLAN_MAX)
		odd("size");
	while (got < (size_t)st.st_size) {
		ssize_t n = pread(FD_PLAN, bytes + got, (size_t)st.st_size - got, (off_t)got);
		if (n <= 0)
			fail("plan");
		got += (size_t)n;
	}
	close(FD_PLAN);
	return got;
}

/* take returns the next `count` records of `size` bytes and moves on. The products cannot overflow: the counts are
 * 32 bits and the sizes are small constants. */
static void *take(size_t *at, size_t end, uint64_t count, uint64_t size)
{
	void *here = bytes + *at;

	if (count * size > end - *at)
		odd("truncated");
	*at += count * size;
	return here;
}

const struct plan_path *next_path(const struct plan_path *path)
{
	return (const void *)((const char *)(path + 1) + path->length);
}

const char *path_text(const struct plan_path *path)
{
	return (const char *)(path + 1);
}

static void check_paths(const struct plan *plan, size_t *at, size_t end)
{
	for (uint32_t i = 0; i < plan->head.paths; i++) {
		const struct plan_path *path = take(at, end, 1, sizeof *path);
		const char *text = take(at, end, path->length, 1);

		if (path->length == 0 || path->length % 8 || path->reserved || text[path->length - 1] != 0)
			odd("path");
		if (text[0] != '/' && strcmp(text, "."))
			odd("relative path");
	}
}

void load_plan(struct plan *plan)
{
	size_t end = read_plan(), at = sizeof plan->head;

	memcpy(&plan->head, bytes, sizeof plan->head);
	if (memcmp(plan->head.magic, "XRAYPLAN", 8) || plan->head.version != PLAN_VERSION)
		odd("version");
	if (plan->head.size != end || plan->head.reserved || plan->head.flags & ~(uint32_t)PLAN_KNOWN)
		odd("header");
	if (plan->head.processes < 1)
		odd("processes");
	plan->rlimits = take(&at, end, plan->head.rlimits, sizeof *plan->rlimits);
	plan->filters = take(&at, end, plan->head.filters, sizeof *plan->filters);
	plan->paths = (const void *)(bytes + at);
	check_paths(plan, &at, end);
	if (at != end)
		odd("trailing bytes");
	if (!(plan->head.flags & PLAN_SECCOMP) != !plan->head.filters)
		odd("filters");
	if (plan->head.filters > BPF_MAXINSNS)
		odd("filters");
}
