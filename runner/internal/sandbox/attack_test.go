package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// attempts is the script's side: a name and what was answered, 0 for success.
const attempts = `
import ctypes, errno, json, os, socket, sys
import resource
other, port = sys.argv[1], int(sys.argv[2])
parent = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
result = {}

def attempt(name, function, *arguments):
    try:
        function(*arguments)
        result[name] = 0
    except OSError as e:
        result[name] = e.errno

def call(name, number, *arguments):
    words = [a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    result[name] = ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *words) == -1 else 0

def cat(path): os.close(os.open(path, os.O_RDONLY))
def overwrite(path): os.close(os.open(path, os.O_WRONLY))
def create(path): os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)); os.unlink(path)
`

// fileAttempts are Landlock's to refuse.
const fileAttempts = attempts + `
attempt("passwd", cat, "/etc/passwd")
attempt("list etc", os.listdir, "/etc")
attempt("list root", os.listdir, "/")
attempt("list proc", os.listdir, "/proc")
attempt("parent environ", cat, f"/proc/{parent}/environ")
attempt("init status", cat, "/proc/1/status")
attempt("sys", cat, "/sys/kernel/mm/transparent_hugepage/enabled")
attempt("other: read", cat, other + "/secret")
attempt("other: list", os.listdir, other)
attempt("other: write", overwrite, other + "/secret")
attempt("other: create", create, other + "/new")
attempt("other: truncate", os.truncate, other + "/secret", 0)
attempt("other: link here", os.link, other + "/secret", "linked")
attempt("other: move here", os.rename, other + "/moved", "moved")
attempt("other: mkdir", os.mkdir, other + "/folder")
attempt("tmp", create, "/tmp/left-by-a-run")
attempt("shm", create, "/dev/shm/left-by-a-run")
attempt("tcp connect", lambda: socket.create_connection(("127.0.0.1", port)))
attempt("tcp bind", lambda: socket.socket().bind(("127.0.0.1", 0)))
attempt("signal parent", os.kill, parent, 0)
attempt("trace parent", lambda: libc.ptrace(0x4206, parent, 0, 0) and cat("/proc/1/mem"))
attempt("read own folder", os.listdir, ".")
attempt("write own folder", create, "mine")
attempt("read program", cat, "/usr/bin/python3")
print(json.dumps(result))
`

func TestFiles(t *testing.T) {
	// Landlock alone: what it refuses it must refuse without help from the filter.
	arguments := arena(t)
	got := answers(t, weaker(t, withoutSeccomp), script(t, fileAttempts, arguments...))
	eacces := int(syscall.EACCES)
	want := map[string]int{
		"passwd": eacces, "list etc": eacces, "list root": eacces, "list proc": eacces, "parent environ": eacces,
		"init status": eacces, "sys": eacces, "other: read": eacces, "other: list": eacces, "other: write": eacces,
		"other: create": eacces, "other: truncate": eacces, "other: link here": int(syscall.EXDEV),
		"other: move here": eacces, "other: mkdir": eacces, "tmp": eacces, "shm": eacces,
		"tcp connect": eacces, "tcp bind": eacces, "signal parent": int(syscall.EPERM), "trace parent": eacces,
		"read own folder": 0, "write own folder": 0, "read program": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with Landlock (-want +got):\n%s", diff)
	}
	allPass(t, answers(t, weaker(t, unconfined), script(t, fileAttempts, arguments...)))
}

// callAttempts are seccomp's to refuse. The numbers are spelled in Go, for the architecture.
func callAttempts() string {
	text := attempts + `
attempt("unix", socket.socket, socket.AF_UNIX)
attempt("inet", socket.socket, socket.AF_INET)
attempt("udp", socket.socket, socket.AF_INET6, socket.SOCK_DGRAM)
attempt("netlink", socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)
attempt("pair", socket.socketpair)
attempt("datagram pair", socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
attempt("limit self", resource.prlimit, 0, resource.RLIMIT_CORE)
attempt("limit parent", resource.prlimit, parent, resource.RLIMIT_CORE)
attempt("pin self", os.sched_setaffinity, 0, os.sched_getaffinity(0))
attempt("pin parent", os.sched_setaffinity, parent, os.sched_getaffinity(0))
attempt("nice self", os.setpriority, os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))
attempt("nice uid", os.setpriority, os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0))
attempt("chown", os.chown, ".", -1, os.getgid())
attempt("memfd", os.memfd_create, "x")
`
	for _, call := range []struct {
		name      string
		number    int
		arguments string
	}{
		{"trace parent", unix.SYS_PTRACE, "0x4206, parent, 0, 0"},
		{"read parent", unix.SYS_PROCESS_VM_READV, "parent, 0, 0, 0, 0, 0"},
		{"pidfd", unix.SYS_PIDFD_OPEN, "parent, 0"},
		{"execveat", unix.SYS_EXECVEAT, `-1, b"", 0, 0, 0x1000`},
		{"inotify", unix.SYS_INOTIFY_INIT1, "0"},
		{"shm", unix.SYS_SHMGET, "0, 4096, 0o1600"},
		{"mq", unix.SYS_MQ_OPEN, `b"xray-test", 0o102, 0o600, 0`},
		{"mq unlink", unix.SYS_MQ_UNLINK, `b"xray-test"`},
		{"drop death signal", unix.SYS_PRCTL, "1, 0, 0, 0, 0"},
		{"own name", unix.SYS_PRCTL, `15, b"name", 0, 0, 0`},
		{"user namespace", unix.SYS_UNSHARE, "0x10000000"},
		{"landlock", unix.SYS_LANDLOCK_CREATE_RULESET, "0, 0, 1"},
	} {
		text += fmt.Sprintf("call(%q, %d, %s)\n", call.name, call.number, call.arguments)
	}
	return text + "print(json.dumps(result))\n"
}

func TestCalls(t *testing.T) {
	arguments := arena(t)
	got := answers(t, weaker(t, withoutLandlock), script(t, callAttempts(), arguments...))
	eperm, enosys := int(syscall.EPERM), int(syscall.ENOSYS)
	want := map[string]int{
		"unix": eperm, "inet": eperm, "udp": eperm, "netlink": eperm, "pair": 0, "datagram pair": eperm,
		"limit self": 0, "limit parent": eperm, "pin self": 0, "pin parent": eperm, "nice self": 0, "nice uid": eperm,
		"chown": eperm, "memfd": eperm, "trace parent": eperm, "read parent": eperm, "pidfd": eperm, "execveat": eperm,
		"inotify": enosys, "shm": eperm, "mq": eperm, "mq unlink": eperm, "drop death signal": eperm, "own name": 0, "user namespace": eperm,
		"landlock": enosys,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with seccomp (-want +got):\n%s", diff)
	}
	control := answers(t, weaker(t, unconfined), script(t, callAttempts(), arguments...))
	// A bad call on purpose: that it was looked at shows in its own errno.
	if control["execveat"] == int(syscall.EFAULT) || control["execveat"] == int(syscall.EBADF) {
		control["execveat"] = 0
	}
	allPass(t, control)
}

// allPass is the control: an attempt that fails without the protection proves nothing about it.
func allPass(t *testing.T, control map[string]int) {
	t.Helper()
	for name, number := range control {
		if number != 0 {
			t.Errorf("control: %s fails by itself: %s", name, syscall.Errno(number))
		}
	}
}

// arena is another run's folder, and a server.
func arena(t *testing.T) []string {
	t.Helper()
	needKernel(t)
	other := privateFolder(t)
	for _, name := range []string{"secret", "moved"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte("another run's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return []string{other, strconv.Itoa(server.Addr().(*net.TCPAddr).Port)}
}

func TestForkAndThreads(t *testing.T) {
	const text = `
import json, os, threading
result = {}
def fork(name, f):
    try:
        if f() == 0: os._exit(0)
        os.wait()
        result[name] = 0
    except OSError as e:
        result[name] = e.errno
fork("fork", os.fork)
fork("spawn", lambda: os.posix_spawn("/usr/bin/true", ["true"], {}))
done = []
threads = [threading.Thread(target=done.append, args=(i,)) for i in range(20)]
for t in threads: t.start()
for t in threads: t.join()
result["threads"] = len(done)
print(json.dumps(result))
`
	s := full(t)
	eperm := int(syscall.EPERM)
	for processes, want := range map[int]map[string]int{
		1: {"fork": eperm, "spawn": eperm, "threads": 20},
		8: {"fork": 0, "spawn": 0, "threads": 20},
	} {
		spec := script(t, text)
		spec.Limits.Processes = processes
		if diff := cmp.Diff(want, answers(t, s, spec)); diff != "" {
			t.Errorf("processes %d: %s", processes, diff)
		}
	}
}

// kill(-1) reaches every process of the uid, this test and the other run included, were it not for the scope. (It answers
// 0 when all it found was refused.) The control is "signal parent" above: with this call it would end the tests.
func TestKillAll(t *testing.T) {
	for name, s := range map[string]*landlocked{"full": full(t), "without seccomp": weaker(t, withoutSeccomp)} {
		for _, processes := range []int{1, 8} {
			waiting := newWaiter(t, s, processes)
			spec := script(t, "import os\ntry: os.kill(-1, 9)\nexcept PermissionError: pass")
			spec.Limits.Processes = processes
			mustExit(t, s, spec)
			if got := waiting.release(t); got.Cause != Exited || got.ExitCode != 0 {
				t.Errorf("%s: the other run ended with %s %s", name, got.Cause, got.Signal)
			}
		}
	}
}

// The skill's files can be read and not changed; only what was named is there.
func TestReadable(t *testing.T) {
	s := full(t)
	skill := privateFolder(t)
	if err := os.WriteFile(filepath.Join(skill, "main.py"), []byte("print('ran')"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := base(t, python3, filepath.Join(skill, "main.py"))
	spec.Readable = []string{skill}
	if got := mustExit(t, s, spec); string(got.Stdout) != "ran\n" || len(got.Stderr) != 0 {
		t.Errorf("got %q, stderr %q", got.Stdout, got.Stderr)
	}
	if got := mustRun(t, s, base(t, python3, filepath.Join(skill, "main.py"))); got.ExitCode != 2 {
		t.Errorf("not granted: got %d, %q", got.ExitCode, got.Stderr)
	}
	writing := script(t, "import sys; open(sys.argv[1], 'a')", filepath.Join(skill, "main.py"))
	writing.Readable = spec.Readable
	if got := mustRun(t, s, writing); got.ExitCode != 1 {
		t.Errorf("write to the skill: got %d, %q", got.ExitCode, got.Stderr)
	}
}

// A mount is granted to a run by name of its path: written where it is writable, read where it is readable, and nothing else
// of it; a link in it leads nowhere that is not granted.
func TestMounts(t *testing.T) {
	s := full(t)
	mine, others, outside := privateFolder(t), privateFolder(t), privateFolder(t)
	for path, text := range map[string]string{filepath.Join(mine, "a"): "mine", filepath.Join(others, "b"): "others", filepath.Join(outside, "c"): "outside"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "c"), filepath.Join(mine, "link")); err != nil {
		t.Fatal(err)
	}
	const tries = `
import os, sys
mine, others = sys.argv[1:]
def what(f):
    try: return f() or "ok"
    except OSError as e: return e.strerror
print(what(lambda: open(mine + "/a").read()), "|", what(lambda: open(mine + "/a", "w").close()), "|", what(lambda: os.mkdir(mine + "/d")), "|",
      what(lambda: os.unlink(mine + "/a")), "|", what(lambda: open(mine + "/link").read()), "|", what(lambda: open(others + "/b").read()), "|", what(lambda: os.listdir(others)))
`
	for _, c := range []struct {
		name               string
		readable, writable []string
		want               string
	}{
		{"none", nil, nil, "Permission denied | Permission denied | Permission denied | Permission denied | Permission denied | Permission denied | Permission denied"},
		{"read", []string{mine}, nil, "mine | Permission denied | Permission denied | Permission denied | Permission denied | Permission denied | Permission denied"},
		{"write", nil, []string{mine}, "mine | ok | ok | ok | Permission denied | Permission denied | Permission denied"},
	} {
		spec := script(t, tries, mine, others)
		spec.Readable, spec.Writable = append(spec.Readable, c.readable...), c.writable
		if got := mustRun(t, s, spec); strings.TrimSpace(string(got.Stdout)) != c.want {
			t.Errorf("%s: %s\nwant %s\n%s", c.name, got.Stdout, c.want, got.Stderr)
		}
	}
}
