/*
 * Running a script and leaving as the interpreter's main does (pythonrun.c, pylifecycle.c of CPython 3.11 to 3.13): what
 * is printed for an exception, the exit code, what is flushed and in which order, threads, atexit, finalizers.
 *
 * What Py_FinalizeEx does beyond that is left out: it takes every module apart, and each object that it touches is a page
 * that the run shares with its cell and would have to copy first. That is most of what a run costs.
 */
#include "cell.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { EXIT_NOT_FLUSHED = 120 }; /* as Py_RunMain has it */

/* Calls a method without arguments; 0 when it is not there or raised something, which stays set. */
static int call(PyObject *object, const char *name)
{
	PyObject *answer = object ? PyObject_CallMethod(object, name, NULL) : NULL;

	Py_DecRef(answer);
	return answer != NULL;
}

static int usable(PyObject *stream)
{
	PyObject *closed;
	int open;

	if (!stream || stream == Py_None)
		return 0;
	closed = PyObject_GetAttrString(stream, "closed");
	open = closed && PyObject_IsTrue(closed) == 0;
	Py_DecRef(closed);
	PyErr_Clear();
	return open;
}

/* The exception that ended the script, if one did, is not disturbed. */
static void flush_quietly(const char *name)
{
	PyObject *type, *value, *trace;

	PyErr_Fetch(&type, &value, &trace);
	if (usable(PySys_GetObject(name)) && !call(PySys_GetObject(name), "flush"))
		PyErr_Clear();
	PyErr_Restore(type, value, trace);
}

static int flush_all(void)
{
	PyObject *out = PySys_GetObject("stdout"), *err = PySys_GetObject("stderr");
	int failed = 0;

	if (usable(out) && !call(out, "flush")) {
		PyErr_WriteUnraisable(out);
		failed = 1;
	}
	if (usable(err) && !call(err, "flush")) {
		PyErr_Clear();
		failed = 1;
	}
	return failed;
}

/* The exit code that a SystemExit asks for; what is no number is printed. */
static int exit_code(void)
{
	PyObject *type, *value, *trace, *code;
	int status = 1;

	PyErr_Fetch(&type, &value, &trace);
	PyErr_NormalizeException(&type, &value, &trace);
	code = value ? PyObject_GetAttrString(value, "code") : NULL;
	if (!code || code == Py_None) {
		status = 0;
	} else if (PyObject_IsInstance(code, &PyLong_Type) > 0) {
		status = (int)PyLong_AsLong(code);
	} else {
		PyObject *err = PySys_GetObject("stderr");

		if (err && err != Py_None)
			PyFile_WriteObject(code, err, Py_PRINT_RAW);
		PySys_WriteStderr("\n");
	}
	PyErr_Clear();
	return status;
}

static void forget(PyObject *names, const char *name)
{
	if (PyDict_DelItemString(names, name))
		PyErr_Clear();
}

/* The number of modules when the run was forked: those behind them in sys.modules are the run's own. */
static Py_ssize_t shared_modules;

void count_modules(void)
{
	shared_modules = PyDict_Size(PyImport_GetModuleDict());
}

/* PyDict_Next lends the names: a new reference to each would be a write to a shared page. */
static PyObject *own_modules(PyObject *modules)
{
	PyObject *own = PyList_New(0), *name, *module;
	Py_ssize_t position = 0, n = 0;

	while (own && PyDict_Next(modules, &position, &name, &module))
		if (n++ >= shared_modules)
			PyList_Append(own, name);
	return own;
}

/* Drops what the run has made, so that its finalizers run: first what only its modules hold, then what holds itself. */
static void let_go(void)
{
	PyObject *modules = PyImport_GetModuleDict(), *own = own_modules(modules);

	forget(modules, "__main__");
	for (Py_ssize_t i = 0; own && i < PyList_Size(own); i++)
		if (PyDict_DelItem(modules, PyList_GetItem(own, i)))
			PyErr_Clear();
	Py_DecRef(own);
	PyGC_Collect();
}

static _Noreturn void leave(int status, int interrupted)
{
	PyObject *threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading"), *done;

	if (threading && !call(threading, "_shutdown"))
		PyErr_WriteUnraisable(threading);
	done = PyObject_CallFunctionObjArgs(parts.leave, NULL); /* atexit's; it reports what they raise itself */
	if (!done)
		PyErr_Clear();
	Py_DecRef(done);
	if (flush_all())
		status = EXIT_NOT_FLUSHED;
	let_go();
	flush_quietly("stdout"); /* what finalizers have printed; an error has no reader any more */
	flush_quietly("stderr");
	fflush(NULL);
	if (interrupted) {
		signal(SIGINT, SIG_DFL);
		kill(getpid(), SIGINT);
	}
	_exit(status);
}

/* code is compiled, or the text of a script that warns or fails at being compiled, and must say so here. */
static PyObject *evaluate(PyObject *code, const char *path, PyObject *names)
{
	PyObject *result;

	if (PyObject_IsInstance(code, &PyBytes_Type) > 0) {
		code = Py_CompileString(PyBytes_AsString(code), path, Py_file_input);
		if (!code)
			return NULL;
	}
	result = PyEval_EvalCode(code, names, names);
	Py_DecRef(code);
	return result;
}

_Noreturn void run_script(PyObject *code, const char *path)
{
	PyObject *names = PyModule_GetDict(PyImport_AddModule("__main__")), *result;
	int interrupted = 0, status = 0;

	Py_IncRef(names);
	Py_LeaveRecursiveCall(); /* serve was entered by a call, which would be missing from what the script may nest */
	result = evaluate(code, path, names);
	flush_quietly("stderr");
	flush_quietly("stdout");
	if (!result && PyErr_ExceptionMatches(PyExc_SystemExit)) {
		status = exit_code();
	} else {
		if (!result) {
			interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
			PyErr_Print();
			status = 1;
		}
		forget(names, "__file__");
		forget(names, "__cached__");
	}
	Py_DecRef(result);
	Py_DecRef(names);
	leave(status, interrupted);
}
