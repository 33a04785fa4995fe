/* One run, from the fork to its end. Until report_started no line of the script has run. */
#include "cell.h"
#include "../shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Descriptors 0 to 5, or 6, in the order of the message. They are moved away first, so that none is overwritten before its
 * turn. The control socket was 0 and is gone with that; whatever a module holds open goes too. */
static void take_places(const struct message *message)
{
	enum { AWAY = 32 };

	for (int i = 0; i < message->count; i++)
		if (fcntl(message->fds[i], F_DUPFD_CLOEXEC, AWAY + i) != AWAY + i)
			_exit(EXIT_SHIM); /* there is no status pipe yet: the runner sees its end */
	for (int i = 0; i < message->count; i++)
		if (dup2(AWAY + i, i) < 0)
			_exit(EXIT_SHIM);
	close_from((unsigned int)message->count);
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

/* The two filters together are a run's: its own has only what differs (../bpf.go). So that of the cell is seen to be there
 * before it goes on top, and afterwards by a call that the cell's alone refuses. */
static void see_cell_filter(void)
{
	if (socket(AF_UNIX, SOCK_STREAM, 0) != -1 || errno != EACCES) {
		errno = ENOTSUP;
		fail("cell_seccomp");
	}
}

static void see_both_filters(void)
{
	if (syscall(SYS_memfd_create, "", 0) != -1 || errno != EPERM) {
		errno = ENOTSUP;
		fail_at("read_back", "seccomp of the cell");
	}
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
	if (plan->head.flags & PLAN_SECCOMP)
		see_cell_filter();
	confine(plan);
	if (plan->head.flags & PLAN_SECCOMP)
		see_both_filters();
	if (landlocked && (may_list_neighbours() || errno != EACCES)) {
		errno = ENOTSUP;
		fail_at("read_back", "landlock of a run");
	}
}

/* Waits for the runner to open the gate, by 'G' and the environment. Its end without a word means that this run is not
 * wanted any more. */
static void enter_by_gate(void)
{
	static char text[4096 + 1];
	ssize_t length;

	do
		length = read(FD_GATE, text, sizeof text - 1);
	while (length < 0 && errno == EINTR);
	if (length <= 0 || text[0] != 'G')
		_exit(0);
	close(FD_GATE);
	enter_environment(text + 1, (size_t)length - 1);
}

/* The kernel's number for the main thread is not that of the cell's. */
static void number_main_thread(void)
{
	PyObject *threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
	PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
	PyObject *done = thread ? PyObject_CallMethod(thread, "_set_native_id", NULL) : NULL;

	if (!done)
		PyErr_Clear();
	Py_DecRef(done);
	Py_DecRef(thread);
}

static _Noreturn void wrong_plan(void)
{
	errno = EINVAL;
	fail("plan of another start");
}

/* Outside a jail the run is what was forked. Its number is told first, so that it can be waited for whatever fails. */
static void be_sibling(const struct request *request, struct plan *plan)
{
	report_born();
	die_with_runner();
	load_plan(plan);
	if ((plan->head.flags & (PLAN_FORK | PLAN_SUPERVISE | PLAN_CGROUP | PLAN_JAIL)) != PLAN_FORK)
		wrong_plan();
	if (chdir(request->folder))
		fail_at("chdir", request->folder);
}

/*
 * Returns in the process of the run; its supervisor stays behind, and never comes near the interpreter. Up to fork_child this
 * is the cell's own memory, which a process that only makes namespaces need not copy; the cell stands still meanwhile.
 */
static void be_in_room(const struct request *request, struct plan *plan, int grouped)
{
	const int wanted = PLAN_FORK | PLAN_SUPERVISE | PLAN_JAIL;
	const char *name = strrchr(request->folder, '/');
	unsigned long long bytes, files;
	char parent[4096];
	struct room room = {.parent = parent, .dir = request->folder};

	load_plan(plan);
	if ((plan->head.flags & (wanted | PLAN_CGROUP)) != wanted || !name || name - request->folder >= (ptrdiff_t)sizeof parent ||
	    sscanf(request->room, "%u %u %u %llu %llu", &room.uid, &room.gid, &room.proc, &bytes, &files) != 5)
		wrong_plan();
	snprintf(parent, sizeof parent, "%.*s", (int)(name - request->folder), request->folder);
	room.disk_bytes = bytes;
	room.disk_files = files;
	if (grouped)
		join_cgroup(FD_GROUP);
	close_from(FD_GROUP);
	enter_room(&room, fork_child);
	supervise(plan);
}

_Noreturn void live(const struct message *message, const struct request *request, PyObject *code)
{
	struct plan plan;

	take_places(message);
	if (*request->room)
		be_in_room(request, &plan, message->count > FD_GROUP);
	else
		be_sibling(request, &plan);
	fetch_hot();
	PyOS_AfterFork_Child();
	number_main_thread();
	count_modules();
	narrow(&plan);
	enter_environment(request->environment, request->length);
	report_ready();
	enter_by_gate();
	report_started();
	close(FD_STATUS);
	run_script(code, request->path);
}
