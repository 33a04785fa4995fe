/*
 * What cell uses of Python: a part of its limited API, declared here so that no Python needs to be installed where the
 * library is built, and so that nothing else of it can be used. These declarations are the stable ABI (PEP 652; Python's
 * Misc/stable_abi.toml): they are the same in 3.11 and all later versions, but not in builds without the GIL, whose objects
 * begin differently; such an interpreter refuses the library (it has another name for it), and runs are cold.
 */
#ifndef XRAY_PYTHON_H
#define XRAY_PYTHON_H

#include <stddef.h>
#include <sys/types.h>

typedef ssize_t Py_ssize_t;

typedef struct PyObject {
	Py_ssize_t ob_refcnt;
	struct PyTypeObject *ob_type;
} PyObject;

typedef PyObject *(*PyCFunction)(PyObject *self, PyObject *args);

typedef struct {
	const char *name;
	PyCFunction function;
	int flags;
	const char *doc;
} PyMethodDef;

typedef struct {
	PyObject head;
	PyObject *(*init)(void);
	Py_ssize_t index;
	PyObject *copy;
	const char *name, *doc;
	Py_ssize_t size;
	PyMethodDef *methods;
	void *slots, *traverse, *clear, *free;
} PyModuleDef;

enum { METH_VARARGS = 1, Py_PRINT_RAW = 1, Py_file_input = 257, PYTHON_API_VERSION = 3 };

extern PyObject _Py_NoneStruct;
extern PyObject PyBytes_Type, PyLong_Type; /* types are objects too, and only compared here */
extern PyObject *PyExc_KeyboardInterrupt, *PyExc_SystemExit;

#define Py_None (&_Py_NoneStruct)

void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *); /* both take NULL */

int PyArg_ParseTuple(PyObject *, const char *, ...);
PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...);
PyObject *PyObject_CallMethod(PyObject *, const char *, const char *, ...);
PyObject *PyObject_GetAttrString(PyObject *, const char *);
int PyObject_IsInstance(PyObject *, PyObject *);
int PyObject_IsTrue(PyObject *);

PyObject *PyBytes_FromString(const char *);
PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t);
char *PyBytes_AsString(PyObject *);
PyObject *PyLong_FromLong(long);
long PyLong_AsLong(PyObject *);

PyObject *PyDict_GetItemString(PyObject *, const char *); /* borrowed */
int PyDict_SetItem(PyObject *, PyObject *, PyObject *);
int PyDict_DelItem(PyObject *, PyObject *);
int PyDict_DelItemString(PyObject *, const char *);
int PyDict_Next(PyObject *, Py_ssize_t *, PyObject **, PyObject **);
Py_ssize_t PyDict_Size(PyObject *);
PyObject *PyList_New(Py_ssize_t);
int PyList_Append(PyObject *, PyObject *);
PyObject *PyList_GetItem(PyObject *, Py_ssize_t); /* borrowed */
Py_ssize_t PyList_Size(PyObject *);

PyObject *PyModule_Create2(PyModuleDef *, int);
PyObject *PyModule_GetDict(PyObject *);		 /* borrowed */
PyObject *PyImport_AddModule(const char *);	 /* borrowed */
PyObject *PyImport_GetModuleDict(void);		 /* borrowed */
PyObject *PySys_GetObject(const char *);	 /* borrowed */
int PySys_SetObject(const char *, PyObject *);
void PySys_WriteStderr(const char *, ...);
int PyFile_WriteObject(PyObject *, PyObject *, int);

void PyErr_Clear(void);
int PyErr_ExceptionMatches(PyObject *);
void PyErr_Fetch(PyObject **, PyObject **, PyObject **);
void PyErr_NormalizeException(PyObject **, PyObject **, PyObject **);
PyObject *PyErr_Occurred(void);
void PyErr_Print(void);
void PyErr_Restore(PyObject *, PyObject *, PyObject *);
void PyErr_WriteUnraisable(PyObject *);

PyObject *PyEval_EvalCode(PyObject *, PyObject *, PyObject *);
PyObject *Py_CompileString(const char *, const char *, int);
void Py_LeaveRecursiveCall(void);
Py_ssize_t PyGC_Collect(void);
void PyOS_BeforeFork(void);
void PyOS_AfterFork_Parent(void);
void PyOS_AfterFork_Child(void);

#endif
