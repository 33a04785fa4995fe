/*
 * The environment of a run: that of libc, which its children inherit, and the dictionaries in which the script sees it. The
 * forks of a cell have the same names and differ in few values, such as the working folder: only these are replaced, as
 * each page that a fork writes to is one that it has to copy.
 */
#include "cell.h"
#include "../shim/shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "NAME=value" NUL ..., as this process has it. */
static struct {
	const char *text;
	size_t length;
} entered;

static size_t name_length(const char *entry)
{
	return strcspn(entry, "=");
}

static int same_names(const char *text, size_t length)
{
	const char *mine = entered.text, *my_end = entered.text + entered.length, *end = text + length;

	if (!entered.text)
		return 0;
	for (; mine < my_end && text < end; mine = next_text(mine), text = next_text(text))
		if (name_length(mine) != name_length(text) || memcmp(mine, text, name_length(text)))
			return 0;
	return mine >= my_end && text >= end;
}

/* In the cell, whose next message overwrites the text. */
void prepare_environment(const char *environment, size_t length)
{
	static char copy[MESSAGE_MAX + 1];

	if (same_names(environment, length))
		return;
	Py_DecRef(call_part(parts.enter, environment, length, 0, "enter"));
	memcpy(copy, environment, length + 1);
	entered.text = copy;
	entered.length = length;
}

static _Noreturn void failed(void)
{
	if (PyErr_Occurred())
		PyErr_Print();
	errno = ECANCELED;
	fail("enter");
}

/* putenv(3) keeps what it is given. */
static void replace(char *entry)
{
	size_t n = name_length(entry);
	PyObject *name = PyBytes_FromStringAndSize(entry, (Py_ssize_t)n), *value = PyBytes_FromString(entry + n + 1);

	if (!name || !value || putenv(entry) || PyDict_SetItem(parts.environ, name, value))
		failed();
	if (parts.environ_data != parts.environ && PyDict_SetItem(parts.environ_data, name, value))
		failed();
	Py_DecRef(name);
	Py_DecRef(value);
}

void enter_environment(char *environment, size_t length)
{
	const char *mine = entered.text, *end = environment + length;

	if (!same_names(environment, length)) {
		errno = EINVAL;
		fail("enter other names");
	}
	entered.text = environment;
	entered.length = length;
	for (; environment < end; mine = next_text(mine), environment = next_text(environment))
		if (strcmp(mine, environment))
			replace(environment);
}
