/* The module as Python sees it, and the loop. */
#include "cell.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct parts parts;

/* The runner reads the cell's stderr and logs it. */
_Noreturn void give_up(const char *what)
{
	if (PyErr_Occurred())
		PyErr_Print();
	fprintf(stderr, "cell: %s\n", what);
	_exit(1);
}

/* Calls a part with a text and a number. */
PyObject *call_part(PyObject *part, const char *text, size_t length, long number, const char *what)
{
	PyObject *bytes = PyBytes_FromStringAndSize(text, (Py_ssize_t)length), *count = PyLong_FromLong(number);
	PyObject *answer = bytes && count ? PyObject_CallFunctionObjArgs(part, bytes, count, NULL) : NULL;

	if (!answer)
		give_up(what);
	Py_DecRef(bytes);
	Py_DecRef(count);
	return answer;
}

static void import_modules(struct message *message)
{
	Py_DecRef(call_part(parts.import, message->text + 1, message->length - 1, 0, "import"));
	acknowledge('I');
}

static void compile_script(struct message *message)
{
	if (message->count != 1)
		give_up("compile request");
	Py_DecRef(call_part(parts.compile, message->text + 1, strlen(message->text + 1), message->fds[0], "compile"));
	acknowledge('C');
}

/* The script that this process looks like, and its code. */
static struct {
	char path[4096];
	PyObject *code;
} current;

static void become(const char *path)
{
	if (current.code && strcmp(current.path, path) == 0)
		return;
	if (strlen(path) >= sizeof current.path)
		give_up("long path");
	strcpy(current.path, path);
	Py_DecRef(current.code);
	current.code = call_part(parts.become, path, strlen(path), 0, "become");
}

static void fork_run(struct message *message)
{
	char *path = message->text + 1, *end = message->text + message->length;
	struct request request = {.path = current.path, .folder = next_text(path)};
	pid_t pid;

	request.room = request.folder < end ? next_text(request.folder) : end;
	request.environment = request.room < end ? next_text(request.room) : end;
	if (message->count < RUN_FDS || request.folder >= end || request.room >= end || request.environment > end)
		give_up("fork request");
	request.length = (size_t)(end - request.environment);
	become(path);
	prepare_environment(request.environment, request.length);
	PyOS_BeforeFork();
	pid = *request.room ? (pid_t)borrow_sibling(CLONE_VM | CLONE_VFORK | CLONE_PARENT | SIGCHLD) : fork_sibling();
	if (pid == 0)
		live(message, &request, current.code);
	PyOS_AfterFork_Parent();
	if (pid < 0)
		give_up("clone");
}

/*
 * serve never returns. It is called as sys.excepthook, and for that reason only: the exception that zygote.py raised has
 * unwound its frames, so that a script that is run from here finds no frame of ours below its own.
 */
static PyObject *serve(PyObject *self, PyObject *args)
{
	static struct message message;

	(void)self;
	(void)args;
	PySys_SetObject("excepthook", PySys_GetObject("__excepthook__"));
	find_thread_pointer();
	while (receive(&message)) {
		switch (message.text[0]) {
		case 'I':
			import_modules(&message);
			break;
		case 'C':
			compile_script(&message);
			break;
		case 'H':
			learn_hot(&message);
			acknowledge('H');
			break;
		case 'F':
			fork_run(&message);
			break;
		default:
			give_up("unknown request");
		}
		close_all(&message);
	}
	_exit(0);
}

static PyObject *use(PyObject *self, PyObject *args)
{
	(void)self;
	if (!PyArg_ParseTuple(args, "OOOOOOO", &parts.import, &parts.compile, &parts.become, &parts.enter, &parts.leave, &parts.environ,
			      &parts.environ_data))
		return NULL;
	Py_IncRef(parts.import);
	Py_IncRef(parts.compile);
	Py_IncRef(parts.become);
	Py_IncRef(parts.enter);
	Py_IncRef(parts.leave);
	Py_IncRef(parts.environ);
	Py_IncRef(parts.environ_data);
	Py_IncRef(Py_None);
	return Py_None;
}

static PyMethodDef methods[] = {
	{"use", use, METH_VARARGS, NULL},
	{"serve", serve, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyModuleDef module = {.head = {1, NULL}, .name = "xraycell", .size = -1, .methods = methods};

__attribute__((visibility("default"))) PyObject *PyInit_xraycell(void)
{
	return PyModule_Create2(&module, PYTHON_API_VERSION);
}
