/*
 * cell: the Python extension that makes an interpreter a cell, a process in which runs are forked. ../cells.go starts it
 * and says how; ../zygote.py is the Python part.
 *
 * The cell has one thread, has imported what its skill imports and has compiled its scripts, and has run no line of
 * them. It reads one request after the other from its control socket, which is its descriptor 0:
 *
 *   'I' module NUL ...       import these                       answers 'I'
 *   'C' path NUL             compile it; + 1 fd: its text       answers 'C'
 *   'F' path NUL folder NUL environment
 *                            fork a run; + 6 fds                answers nothing: the run reports by its own status pipe
 *
 * A run is a sibling of the cell and not its child (CLONE_PARENT): the runner waits for it and kills it as any other, and
 * a cell that dies takes no run with it. The plan, the confinement and the status pipe are the shim's own code.
 */
#ifndef XRAY_CELL_H
#define XRAY_CELL_H

#include "python.h"

#include <sys/types.h>

/* The descriptors of a fork request, in their order in the message and in the run. */
enum { FD_GATE = 5, RUN_FDS = 6 };

enum { MESSAGE_MAX = 32 * 1024 };

/* What zygote.py does; cell.use() sets it. */
struct parts {
	PyObject *import, *compile, *become, *enter, *leave;
};
extern struct parts parts;

struct message {
	char text[MESSAGE_MAX + 1]; /* NUL after the end */
	size_t length;
	int fds[RUN_FDS], count;
};

/* receive.c */
int receive(struct message *message); /* 0 when the runner has closed the socket */
void acknowledge(char kind);
void close_all(struct message *message);

/* sibling.c */
void find_thread_pointer(void);
pid_t fork_sibling(void);

/* run.c */
_Noreturn void live(struct message *message, const char *folder, PyObject *code, const char *path);
_Noreturn void give_up(const char *what);

/* script.c */
void count_modules(void);
void rehearse(void);
_Noreturn void run_script(PyObject *code, const char *path);

#endif
