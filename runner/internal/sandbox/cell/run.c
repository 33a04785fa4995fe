/* One run, from the fork to its end. Until report_started no line of the script has run. */
#include "cell.h"
#include "../shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Descriptors 0 to 5 in the order of the message. They are moved away first, so that none is overwritten before its
 * turn. The control socket was 0 and is gone with that; whatever a module holds open goes too. */
static void take_places(const int *fds)
{
	enum { AWAY = 32 };

	for (int i = 0; i < RUN_FDS; i++)
		if (fcntl(fds[i], F_DUPFD_CLOEXEC, AWAY) < 0)
			_exit(EXIT_SHIM); /* there is no status pipe yet: the runner sees its end */
	for (int i = 0; i < RUN_FDS; i++)
		if (dup2(AWAY + i, i) < 0)
			_exit(EXIT_SHIM);
	close_from(FD_GATE + 1);
}

/* The runner's thread that started the cell is our parent too, and never ends before the runner. When it has gone
 * already, the gate says so. */
static void die_with_runner(void)
{
	if (setsid() < 0)
		fail("setsid");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		fail("pdeathsig");
}

static int may_list_neighbours(void)
{
	int fd = open("..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/*
 * The cell is confined itself, so a refusal proves nothing about what comes on top, unless the cell is allowed it. So it
 * may list the folder of the working folders, which a run may not, and its filter answers EACCES to socket(2), where
 * that of a run answers EPERM (confine reads that back; cells.go has both).
 */
static void narrow(const struct plan *plan)
{
	int landlocked = plan->head.flags & PLAN_LANDLOCK && plan->head.fs;

	if (landlocked && !may_list_neighbours())
		fail("cell_landlock");
	confine(plan);
	if (landlocked && (may_list_neighbours() || errno != EACCES)) {
		errno = ENOTSUP;
		fail_at("read_back", "landlock of a run");
	}
}

/* Waits for the runner to open the gate, by 'G' and the environment. Its end without a word means that this run is not
 * wanted any more. */
static PyObject *wait_at_gate(void)
{
	static char text[4096];
	ssize_t length;

	do
		length = read(FD_GATE, text, sizeof text);
	while (length < 0 && errno == EINTR);
	if (length <= 0 || text[0] != 'G')
		_exit(0);
	close(FD_GATE);
	return PyBytes_FromStringAndSize(text + 1, length - 1);
}

static void enter(PyObject *environment)
{
	PyObject *done = environment ? PyObject_CallFunctionObjArgs(parts.enter, environment, NULL) : NULL;

	if (!done) {
		PyErr_Print();
		errno = ECANCELED;
		fail("enter");
	}
	Py_DecRef(done);
	Py_DecRef(environment);
}

_Noreturn void live(struct message *message, const char *folder, PyObject *code, const char *path)
{
	const char *environment = folder + strlen(folder) + 1;
	struct plan plan;

	take_places(message->fds);
	report_born();
	die_with_runner();
	load_plan(&plan);
	if (!(plan.head.flags & PLAN_FORK) || plan.head.flags & (PLAN_SUPERVISE | PLAN_CGROUP | PLAN_JAIL)) {
		errno = EINVAL;
		fail("plan of another start");
	}
	if (chdir(folder))
		fail_at("chdir", folder);
	PyOS_AfterFork_Child();
	count_modules();
	narrow(&plan);
	/* What the end of the run will write to is copied now, while nobody waits. */
	enter(PyBytes_FromStringAndSize(environment, message->text + message->length - environment));
	rehearse();
	report_ready();
	enter(wait_at_gate());
	report_started();
	close(FD_STATUS);
	run_script(code, path);
}
