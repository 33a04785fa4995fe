/*
 * Landlock: what the program may touch (landlock(7)). The numbers are spelled out because the headers of the build
 * image (Linux 6.1) are older than the kernels this runs on; they are the same on every architecture.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NR_CREATE_RULESET = 444, NR_ADD_RULE = 445, NR_RESTRICT_SELF = 446 };
enum { RULE_PATH_BENEATH = 1 };

/* As large as ABI 6 made it. An older kernel accepts it as long as what it does not know is zero. */
struct ruleset_attr {
	uint64_t fs, net, scoped;
};

struct path_beneath_attr {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

static int create_ruleset(uint64_t fs, uint64_t net, uint64_t scoped)
{
	struct ruleset_attr attr = {fs, net, scoped};

	return (int)syscall(NR_CREATE_RULESET, &attr, sizeof attr, 0);
}

static void allow_path(int ruleset, const struct plan_path *path)
{
	struct path_beneath_attr rule = {.allowed = path->access};

	rule.parent = open(path_text(path), O_PATH | O_CLOEXEC);
	if (rule.parent < 0)
		fail_at("landlock_open", path_text(path));
	if (syscall(NR_ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0))
		fail_at("landlock_add_rule", path_text(path));
	close(rule.parent);
}

void landlock_confine(const struct plan *plan)
{
	const struct plan_path *path = plan->paths;
	int ruleset = create_ruleset(plan->head.fs, plan->head.net, plan->head.scoped);

	if (ruleset < 0)
		fail("landlock_create_ruleset");
	for (uint32_t i = 0; i < plan->head.paths; i++, path = next_path(path))
		allow_path(ruleset, path);
	if (syscall(NR_RESTRICT_SELF, ruleset, 0))
		fail("landlock_restrict_self");
	close(ruleset);
}

/*
 * The supervisor's own domain: it may signal nothing outside it, and the program's domain will be nested in it. That
 * makes kill(-1) mean "this run" (see sweep). Returns 1 only when it was seen to hold: our parent could be signalled
 * before and cannot be now. A kill(-1) on the strength of a version number would end the runner and all its runs.
 */
int landlock_scope_only(uint64_t scoped)
{
	pid_t parent = getppid();
	int ruleset;

	if (kill(parent, 0))
		return 0;
	ruleset = create_ruleset(0, 0, scoped);
	if (ruleset < 0)
		fail("landlock_scope_ruleset");
	if (syscall(NR_RESTRICT_SELF, ruleset, 0))
		fail("landlock_scope_restrict");
	close(ruleset);
	return kill(parent, 0) == -1 && errno == EPERM;
}
