package sandbox

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// env(1) prints what it was given; an interpreter may add to it.
func TestEnvironmentIsExact(t *testing.T) {
	s := full(t)
	t.Setenv("SECRET_OF_THE_RUNNER", "x")
	for _, env := range [][]string{nil, {"A=1", "B=two words", "EMPTY="}} {
		spec := base(t, "/usr/bin/env", "-0")
		spec.Env = env
		var got []string
		for entry := range strings.SplitSeq(string(mustExit(t, s, spec).Stdout), "\x00") {
			if entry != "" {
				got = append(got, entry)
			}
		}
		if diff := cmp.Diff(env, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestDescriptors(t *testing.T) {
	s := full(t)
	// Descriptors that are not close-on-exec, as a careless library opens them, at 3, 4 and above.
	for range 4 {
		file, err := os.Open("/etc/passwd")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		leaked, err := dupWithoutCloexec(file)
		if err != nil {
			t.Fatal(err)
		}
		defer leaked.Close()
	}
	const text = `
import os
open_ones = []
for fd in range(200):
    try: os.fstat(fd); open_ones.append(fd)
    except OSError: pass
print(open_ones, os.getcwd() == os.environ["EXPECTED"], oct(os.umask(0)), os.getsid(0) == os.getpid())
`
	for _, processes := range []int{1, 8} {
		spec := script(t, text)
		spec.Env = append(spec.Env, "EXPECTED="+spec.Dir)
		spec.Limits.Processes = processes
		if got := string(mustExit(t, s, spec).Stdout); got != "[0, 1, 2] True 0o77 True\n" {
			t.Errorf("processes %d: got %s", processes, got)
		}
	}
}

// What is ignored or blocked here must not be there. Go itself resets only what it handles.
func TestSignalsAreReset(t *testing.T) {
	needKernel(t)
	signal.Ignore(syscall.SIGUSR1)
	defer signal.Reset(syscall.SIGUSR1)
	const text = `
import signal
ignored = [s for s in range(1, 65) if s not in (32, 33) and signal.getsignal(s) == signal.SIG_IGN]
print(ignored, sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
`
	for _, processes := range []int{1, 8} {
		spec := script(t, text)
		spec.Limits.Processes = processes
		// Python itself ignores SIGPIPE (13) and SIGXFSZ (25).
		if got := string(mustExit(t, full(t), spec).Stdout); got != "[<Signals.SIGPIPE: 13>, <Signals.SIGXFSZ: 25>] []\n" && got != "[13, 25] []\n" {
			t.Errorf("got %s", got)
		}
	}
}

func TestLimitsInTheChild(t *testing.T) {
	spec := script(t, `
import resource as r
print(*[r.getrlimit(x) for x in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_NOFILE, r.RLIMIT_CORE, r.RLIMIT_STACK)])
`)
	got := string(mustExit(t, full(t), spec).Stdout)
	want := "(134217728, 134217728) (30, 30) (16777216, 16777216) (64, 64) (0, 0) (2097152, 2097152)\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Ordinary programs under the default limits, with nothing on stderr (case 22, 33, 37).
func TestOrdinaryPrograms(t *testing.T) {
	s := full(t)
	python := base(t, python3, "-c", `
import json, ssl, sqlite3, datetime, pathlib, tempfile, concurrent.futures, asyncio, hashlib, zoneinfo, random, shutil, logging
tempfile.mkstemp(dir=".")
sqlite3.connect("x.db").execute("create table t (a)")
with concurrent.futures.ThreadPoolExecutor(4) as pool: list(pool.map(str, range(10)))
async def main(): await asyncio.sleep(0)
asyncio.run(main())
pathlib.Path("a").write_text("x"); shutil.copy("a", "b"); ssl.create_default_context()
print(json.dumps("ok"))
`)
	tools := shell(t, `set -e; echo b a | tr ' ' '\n' | sort > f; cp -a f g; sed -i s/a/c/ g; awk '{print}' g >/dev/null; mktemp -p . >/dev/null; date >/dev/null; touch h; chmod +x h; find . | xargs ls -l >/dev/null; tar cf x.tar f; tail -n1 f >/dev/null; echo '"ok"'`)
	programs := map[string]Spec{"python": python, "bash": tools}
	if node, err := exec.LookPath("node"); err == nil && strings.HasPrefix(node, "/usr/") {
		spec := base(t, node, "-e", `require("fs").writeFileSync("x", "y"); setTimeout(() => console.log('"ok"'), 1)`)
		spec.Limits.Interpreter, spec.Limits.MemoryBytes = Node, 256<<20
		programs["node"] = spec
	}
	for name, spec := range programs {
		t.Run(name, func(t *testing.T) {
			got := mustExit(t, s, spec)
			if string(got.Stdout) != "\"ok\"\n" || len(got.Stderr) != 0 {
				t.Errorf("stdout %q, stderr %q", got.Stdout, got.Stderr)
			}
		})
	}
}
