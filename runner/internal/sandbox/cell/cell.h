/*
 * cell: the Python extension that makes an interpreter a cell, a process in which runs are forked. ../cells.go starts it
 * and says how; ../zygote.py is the Python part.
 *
 * The cell has one thread, has imported what its skill imports and has compiled its scripts, and has run no line of
 * them. It reads one request after the other from its control socket, which is its descriptor 0:
 *
 *   'I' module NUL ...       import these                       answers 'I'
 *   'C' path NUL             compile it; + 1 fd: its text       answers 'C'
 *   'H' range ...            memory that its forks will use      answers 'H'
 *   'F' path NUL folder NUL room NUL environment
 *                            fork a run; + 6 or 7 fds           answers nothing: the run reports by its own status pipe
 *
 * A run is a sibling of the cell and not its child (CLONE_PARENT): the runner waits for it and kills it as any other, and
 * a cell that dies takes no run with it. The plan, the confinement and the status pipe are the shim's own code.
 *
 * In a jail (../shim/jail.c) what is forked is the PID 1 of a room of namespaces, and the run is forked in there, by it, which
 * supervises it as any other in a jail. Such a cell is not below Landlock, which refuses mounts to all
 * that it holds (landlock(7)): it sees no more than the jail has, and each run puts on its own.
 */
#ifndef XRAY_CELL_H
#define XRAY_CELL_H

#include "python.h"

#include <sys/types.h>

/* The descriptors of a fork request, in their order in the message and in the run; the last is there in a jail alone, and
 * only with a cgroup. */
enum { FD_GATE = 5, FD_GROUP = 6, RUN_FDS = 6, MOST_FDS = 7 };

enum { MESSAGE_MAX = 32 * 1024 };

/* What zygote.py does, and the dictionaries that a script sees its environment in; cell.use() sets them. */
struct parts {
	PyObject *import, *compile, *become, *enter, *leave, *environ, *environ_data;
};
extern struct parts parts;

struct message {
	char text[MESSAGE_MAX + 1]; /* NUL after the end */
	size_t length;
	int fds[MOST_FDS], count;
};

/* receive.c */
int receive(struct message *message); /* 0 when the runner has closed the socket */
char *next_text(const char *text); /* behind its NUL */
void acknowledge(char kind);
void close_all(struct message *message);

/* sibling.c */
void find_thread_pointer(void);
pid_t fork_sibling(void);
pid_t fork_child(void);
__attribute__((returns_twice)) long borrow_sibling(unsigned long flags);

/* environment.c */
void prepare_environment(const char *environment, size_t length); /* in the cell */
void enter_environment(char *environment, size_t length); /* in a fork; its text must stay where it is */

/* hot.c */
void learn_hot(const struct message *message);
void fetch_hot(void);

/* run.c */
struct request {
	const char *path;
	char *folder, *room, *environment; /* room: as live reads it; empty outside a jail */
	size_t length;				       /* of the environment */
};
_Noreturn void live(const struct message *message, const struct request *request, PyObject *code);

/* module.c */
PyObject *call_part(PyObject *part, const char *text, size_t length, long number, const char *what);
_Noreturn void give_up(const char *what);

/* script.c */
void count_modules(void);
_Noreturn void run_script(PyObject *code, const char *path);

#endif
