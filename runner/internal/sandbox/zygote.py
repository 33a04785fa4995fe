"""The Python part of a cell (cell/cell.h), executed in a namespace of its own by cells.go.

Nothing here may change what a script sees: no module is imported that a cold start would not have, beside those of the
skill, and no name is left behind. All of it runs in the cell, none in its forks.
"""

import atexit
import os
import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader, SourceFileLoader
from _imp import create_dynamic, exec_dynamic


def load(path):
    module = create_dynamic(ModuleSpec("xraycell", ExtensionFileLoader("xraycell", path), origin=path))
    exec_dynamic(module)
    del sys.modules["xraycell"], sys.modules["atexit"]
    return module


codes = {}  # by path; a script that is not here is compiled in its run, where its warnings and errors belong


def import_modules(names, _):
    """Imports what is there. What is not, or fails, is left to the run, which may have a way without it."""
    import gc

    for name in filter(None, os.fsdecode(names).split("\0")):
        try:
            __import__(name)
        except Exception:
            pass
    gc.collect()
    gc.freeze()


def compile_script(path, descriptor):
    """Compiles, once for all runs; a script that warns or fails at that must say so in each."""
    import warnings

    with open(descriptor, "rb", closefd=False) as source:
        source.seek(0)  # it stands where the runner stopped writing
        text = source.read()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            code = compile(text, os.fsdecode(path), "exec", dont_inherit=True)
        except Exception:
            code = None
    codes[path] = text, code


def become(path, _):
    """Makes this process look like a cold start of the script, once for all forks of it in a row: what is written here is
    shared by them, and each would have to copy it. Returns its code, or its text where it has none."""
    import gc

    # The collector of a run need not touch, and so copy, what is shared. What comes below is the run's own: in a namespace
    # that the collector leaves alone nothing that holds itself would ever be finalized.
    gc.collect()
    gc.freeze()
    text, code = codes[path]
    path = os.fsdecode(path)
    sys.argv[:] = [path]
    sys.orig_argv[:] = [*sys.orig_argv[:4], path]
    sys.path[:] = [os.path.dirname(path), *library]
    # A new module: the namespace of the old one is held by the frame that started the cell, and finalizers of what is in
    # it would never run.
    main = sys.modules["__main__"] = type(sys)("__main__")
    main.__dict__.update(
        __loader__=SourceFileLoader("__main__", path), __annotations__={}, __builtins__=sys.modules["builtins"],
        __file__=path, __cached__=None,
    )
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(name, None)
    return code or text


def enter(environment, _):
    """The run's environment, in its order, in place of the cell's. Forks in a row differ in values alone, which cell/environment.c
    replaces one by one."""
    entries = [entry.partition(b"=") for entry in environment.split(b"\0") if entry]
    for name in posix.environ.keys() - {name for name, _, _ in entries}:
        posix.unsetenv(name)
    data = os.environ._data  # os.environ itself would encode and decode each of them
    data.clear()
    posix.environ.clear()
    for name, _, value in entries:
        posix.putenv(name, value)
        posix.environ[name] = data[name] = value


cell = load(sys.argv[1])
cell.use(import_modules, compile_script, become, enter, atexit._run_exitfuncs, posix.environ, os.environ._data)
library = sys.path[1:]  # without the working folder, which -c puts there
sys.path[:] = library
sys.excepthook = cell.serve
raise RuntimeError
