"""Reviewer's list for the Python scripts of a skill (spec section 4.2).

Reads one JSON document on stdin:
  {"files": [{"path": "...", "egress": false, "forks": false, "local": ["helper"]}], "stdlib": ["json"], "pinned": ["numpy"]}
and prints {"files": [[{"line": 3, "column": 1, "severity": "error", "message": "...", "cure": "..."}]], "imports": [["json"]]}, in the
order of the files. "imports" are the modules that a cell may import ahead of the script.

It reads the syntax tree and never imports or runs a script. It is a lint, not a boundary: getattr() on a
computed name passes it. The sandbox is the boundary.
"""

import ast
import json
import sys
import warnings

STDIN_ONLY = "read everything from stdin"
NO_FORK = "do the work in this process"
NO_NETWORK = "a skill has no network; set network: egress if it must"
NO_DYNAMIC = "import by name at the top of the file"
STAY_INSIDE = "use a relative path: the working folder is empty and private"
REPEATABLE = "take it from the input: the same input must give the same output"

# Modules that a script does not import, and what to do instead.
MODULES = {
    "subprocess": NO_FORK, "multiprocessing": NO_FORK, "pty": NO_FORK, "popen2": NO_FORK, "_posixsubprocess": NO_FORK,
    "concurrent.futures.process": NO_FORK, "posix": NO_FORK, "asyncio.subprocess": NO_FORK,
    "socket": NO_NETWORK, "_socket": NO_NETWORK, "ssl": NO_NETWORK, "_ssl": NO_NETWORK, "http.client": NO_NETWORK,
    "http.server": NO_NETWORK, "urllib.request": NO_NETWORK, "socketserver": NO_NETWORK, "ftplib": NO_NETWORK,
    "smtplib": NO_NETWORK, "poplib": NO_NETWORK, "imaplib": NO_NETWORK, "nntplib": NO_NETWORK, "telnetlib": NO_NETWORK,
    "xmlrpc.client": NO_NETWORK, "xmlrpc.server": NO_NETWORK, "webbrowser": NO_NETWORK,
    "ctypes": "native code cannot be reviewed", "_ctypes": "native code cannot be reviewed",
    "importlib": NO_DYNAMIC, "imp": NO_DYNAMIC, "runpy": NO_DYNAMIC, "zipimport": NO_DYNAMIC, "pkgutil": NO_DYNAMIC,
    "code": NO_DYNAMIC, "codeop": NO_DYNAMIC, "pickle": "it runs code from its input; use json",
    "marshal": "it runs code from its input; use json", "shelve": "it runs code from its input; use json",
    "argparse": STDIN_ONLY, "optparse": STDIN_ONLY, "getopt": STDIN_ONLY, "fileinput": STDIN_ONLY,
    "secrets": REPEATABLE,
}
EGRESS_LIFTS = {"socket", "ssl", "http.client"}
FORKING = {"subprocess", "multiprocessing", "concurrent.futures.process", "asyncio.subprocess"}

# Names that a script does not use, by their full dotted name. A name that ends in "*" is a prefix.
NAMES = {
    "sys.argv": STDIN_ONLY, "sys.orig_argv": STDIN_ONLY, "os.environ": STDIN_ONLY, "os.environb": STDIN_ONLY,
    "os.getenv": STDIN_ONLY, "os.getenvb": STDIN_ONLY, "os.putenv": STDIN_ONLY,
    "os.system": NO_FORK, "os.popen": NO_FORK, "os.fork": NO_FORK, "os.forkpty": NO_FORK, "os.exec*": NO_FORK,
    "os.spawn*": NO_FORK, "os.posix_spawn*": NO_FORK, "os.startfile": NO_FORK,
    "asyncio.create_subprocess_*": NO_FORK, "concurrent.futures.ProcessPoolExecutor": NO_FORK,
    "eval": "parse the value yourself; ast.literal_eval for literals", "exec": NO_DYNAMIC, "compile": NO_DYNAMIC,
    "__import__": NO_DYNAMIC, "__builtins__": NO_DYNAMIC,
    "sys.modules": NO_DYNAMIC, "sys.path": NO_DYNAMIC, "sys.meta_path": NO_DYNAMIC, "sys.path_hooks": NO_DYNAMIC,
}
FORK_NAMES = ("os.fork", "os.system", "os.popen", "os.posix_spawn", "os.spawn", "os.exec", "asyncio.create_subprocess_",
              "concurrent.futures.ProcessPoolExecutor")

# What differs from run to run.
CHANGING = {
    "time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime", "time.monotonic", "time.monotonic_ns",
    "time.perf_counter", "time.perf_counter_ns", "time.process_time", "datetime.datetime.now", "datetime.datetime.utcnow",
    "datetime.datetime.today", "datetime.date.today", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom",
    "os.getpid", "random.SystemRandom",
}
WITH_ARGUMENT_FINE = {"time.localtime", "time.gmtime", "time.ctime"}  # they convert the time that is given
SEEDED_FINE = {"random.Random", "random.seed"}  # with an argument they repeat

# Calls that open a path: the first argument, or "mode" of it, is a place.
OPENS = {
    "open", "io.open", "os.open", "codecs.open", "os.listdir", "os.scandir", "os.walk", "os.stat", "os.chdir", "os.remove",
    "os.unlink", "os.mkdir", "os.makedirs", "os.rename", "os.path.exists", "os.path.isfile", "pathlib.Path",
    "pathlib.PurePath", "pathlib.PosixPath", "glob.glob", "glob.iglob", "shutil.copy", "shutil.copyfile", "shutil.move",
    "shutil.rmtree", "gzip.open", "bz2.open", "lzma.open", "zipfile.ZipFile", "tarfile.open", "sqlite3.connect",
}


# Modules that are not imported ahead: to import them does something that is seen, and each run must do it itself.
NOT_AHEAD = {"this", "__future__", "antigravity", "idlelib", "test", "__main__"}


def imports(tree, modules, local):
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module)
    tops = set(modules) - NOT_AHEAD - set(local)
    return sorted(name for name in found if name.split(".")[0] in tops)


class Review(ast.NodeVisitor):
    def __init__(self, request, stdlib, pinned):
        self.egress = request["egress"]
        self.forks = request["forks"]
        self.modules = set(stdlib) | set(pinned) | set(request["local"]) | {"__future__"}
        self.names = {}  # local name -> full dotted name that it was imported as
        self.seeded = False
        self.findings = []

    def add(self, node, message, cure, severity="error"):
        self.findings.append({"line": node.lineno, "column": node.col_offset + 1, "severity": severity,
                              "message": message, "cure": cure})

    def importing(self, node, module):
        parts = module.split(".")
        if parts[0] not in self.modules:
            self.add(node, "imports %s, which is neither standard library nor pinned in requirements.txt" % module,
                     "use the standard library, or pin it by hash in runner/requirements.txt")
            return
        for prefix in (".".join(parts[: n + 1]) for n in range(len(parts))):
            if prefix in MODULES and not (self.egress and (prefix in EGRESS_LIFTS or MODULES[prefix] is REPEATABLE)):
                declared = self.forks and prefix in FORKING
                self.add(node, "imports %s" % module, MODULES[prefix], "warning" if declared else "error")
                return

    def visit_Import(self, node):
        for alias in node.names:
            self.importing(node, alias.name)
            if alias.asname:
                self.names[alias.asname] = alias.name
            else:
                root = alias.name.split(".")[0]
                self.names[root] = root

    def visit_ImportFrom(self, node):
        if node.level:
            return  # relative: a file of this skill, which is reviewed on its own
        self.importing(node, node.module)
        for alias in node.names:
            full = node.module + "." + alias.name
            if alias.name == "*":
                self.add(node, "imports every name of %s" % node.module, "import the names that are used")
                continue
            if full in MODULES:
                self.importing(node, full)
            self.names[alias.asname or alias.name] = full
            self.using(node, full)

    def full_name(self, node):
        """The dotted name that an expression stands for, or None."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.full_name(node.value)
            return base and base + "." + node.attr
        return None

    def using(self, node, name):
        for known, cure in NAMES.items():
            if name == known or (known.endswith("*") and name.startswith(known[:-1])):
                declared = self.forks and name.startswith(FORK_NAMES)
                self.add(node, "uses %s" % name, cure, "warning" if declared else "error")
                return True
        return False

    def visit_Attribute(self, node):
        name = self.full_name(node)
        if name is None or not self.imported(node):
            self.generic_visit(node)
            return
        if not self.using(node, name) and name in CHANGING and name not in WITH_ARGUMENT_FINE:
            self.changing(node, name)
        # os.environ.get is a use of os.environ: what stands before the last dot is looked at too.
        self.visit(node.value)

    def imported(self, node):
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.names

    def visit_Name(self, node):
        if node.id in self.names:
            if self.names[node.id] in CHANGING - WITH_ARGUMENT_FINE:
                self.changing(node, self.names[node.id])
        elif isinstance(node.ctx, ast.Load):
            self.using(node, node.id)

    def changing(self, node, name):
        if not self.egress:
            self.add(node, "uses %s, which differs from run to run" % name, REPEATABLE)

    def visit_Call(self, node):
        name = self.full_name(node.func)
        if name in WITH_ARGUMENT_FINE and not node.args:
            self.changing(node, name)
        if name and name.startswith("random.") and name not in CHANGING:
            self.randomness(node, name)
        if name == "hash":
            self.add(node, "uses hash(), which differs from run to run for texts", "use hashlib", "warning")
        if name in OPENS and node.args:
            self.opening(node, name)
        self.generic_visit(node)

    def randomness(self, node, name):
        if name in SEEDED_FINE and node.args:
            self.seeded = self.seeded or name == "random.seed"
        elif not self.seeded:
            self.changing(node, name + " without a seed")

    def opening(self, node, name):
        first = node.args[0]
        if isinstance(first, ast.JoinedStr) and first.values:
            first = first.values[0]
        text = first.value if isinstance(first, ast.Constant) else None
        if not isinstance(text, str):
            return
        if text.startswith(("/", "~")) or ".." in text.split("/"):
            self.add(node, "%s with the path %s, outside the working folder" % (name, ascii(text)), STAY_INSIDE)


def review(request, stdlib, pinned):
    try:
        with open(request["path"], "rb") as source:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source.read())
        checker = Review(request, stdlib, pinned)
        checker.visit(tree)
        return checker.findings, imports(tree, stdlib + pinned, request["local"])
    except SyntaxError as e:
        return [{"line": e.lineno or 0, "column": e.offset or 0, "severity": "error",
                 "message": "not valid Python: %s" % e.msg, "cure": "correct the syntax"}], []
    except (RecursionError, MemoryError, ValueError, OSError) as e:
        return [{"line": 0, "column": 0, "severity": "error",
                 "message": "cannot be read as Python: %s" % (e or type(e).__name__), "cure": "simplify the file"}], []


def main():
    job = json.load(sys.stdin)
    done = [review(f, job["stdlib"], job["pinned"]) for f in job["files"]]
    json.dump({"files": [findings for findings, _ in done], "imports": [names for _, names in done]}, sys.stdout)


main()
