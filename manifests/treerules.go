package manifests

import (
	"bytes"
	_ "embed"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// stdlibText is sys.stdlib_module_names of Python 3.11, 3.12 and 3.13 together, sorted, one a line.
//
//go:embed stdlib.txt
var stdlibText string

var stdlibNames = sync.OnceValue(func() []string { return strings.Fields(stdlibText) })

// StandardModules lists the top-level modules of Python's standard library (3.11 to 3.13), sorted.
func StandardModules() []string { return slices.Clone(stdlibNames()) }

// StandardModule reports whether a name is a top-level module of Python's standard library (3.11 to 3.13).
func StandardModule(name string) bool {
	_, found := slices.BinarySearch(stdlibNames(), name)
	return found
}

// compiled are extensions of code that no reviewer can read, and that Python prefers to the source.
var compiled = []string{".pyc", ".pyo", ".pyd", ".so"}

// allowedName refuses names through which code runs that nobody named (case 07): caches of bytecode,
// extension modules, modules that Python imports on its own, and modules that hide one of its own.
func (t *tree) allowedName(name string, info fs.FileInfo) bool {
	base := path.Base(name)
	extension := strings.ToLower(path.Ext(base))
	module := moduleName(name, info.IsDir())
	switch {
	case checkFilePath(name) != nil:
		t.refuse(name, "rename it", "%s", checkFilePath(name))
	case base == "__pycache__":
		t.refuse(name, "delete it, and set PYTHONDONTWRITEBYTECODE=1 when you try the skill", "a bytecode cache: Python runs it instead of the source")
	case slices.Contains(compiled, extension):
		t.refuse(name, "ship the source", "compiled code that nobody can review")
	case module == "sitecustomize" || module == "usercustomize":
		t.refuse(name, "remove it", "Python runs a module of this name by itself")
	case module != "" && StandardModule(module):
		t.refuse(name, "rename it", "it hides the module %q of Python's standard library", module)
	default:
		if strings.HasPrefix(base, ".") {
			t.note(Warning, name, 0, "remove it if the skill does not need it", "a hidden file is part of the skill and of its hash")
		}
		return true
	}
	return false
}

// moduleName is what Python would import a file as; "" for a file that it would not. A folder is a
// module only with __init__.py in it, which is met later and stands for its folder.
func moduleName(name string, isDir bool) string {
	base := path.Base(name)
	switch {
	case isDir:
		return ""
	case base == "__init__.py" && path.Dir(name) != ".":
		return path.Base(path.Dir(name))
	case strings.HasSuffix(base, ".py"):
		return strings.TrimSuffix(base, ".py")
	}
	return ""
}

// checkText refuses what Windows editors do to scripts: the kernel would look for an interpreter called
// "python3\r", or see no "#!" behind a byte-order mark (case 20).
func (t *tree) checkText(name string, content []byte) {
	extension := path.Ext(name)
	_, isScript := interpreters[extension]
	if !isScript && !bytes.HasPrefix(bytes.TrimPrefix(content, []byte(byteOrderMark)), []byte("#!")) {
		return
	}
	first, _, _ := bytes.Cut(content, []byte("\n"))
	switch {
	case bytes.HasPrefix(content, []byte(byteOrderMark)):
		t.note(Error, name, 1, "save it as UTF-8 without a byte-order mark", "the script starts with a byte-order mark")
	case foreignEncoding(content) != "":
		t.note(Error, name, 1, "save it as UTF-8", "the script is "+foreignEncoding(content))
	case bytes.HasPrefix(first, []byte("#!")) && bytes.HasSuffix(first, []byte("\r")):
		t.note(Error, name, 1, "save it with LF line ends", "the #! line ends in CRLF: no interpreter has a carriage return in its name")
	case extension == ".sh" && bytes.Contains(content, []byte("\r\n")):
		line := bytes.Count(content[:bytes.Index(content, []byte("\r\n"))], []byte("\n")) + 1
		t.note(Error, name, line, "save it with LF line ends", "the script has CRLF line ends: bash reads the carriage return as part of the command")
	}
}
