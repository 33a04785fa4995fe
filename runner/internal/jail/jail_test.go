package jail_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runc/libcontainer/exeseal"

	"xrayrunner/internal/nstest"
	"xrayrunner/runner/internal/jail"
	"xrayrunner/runner/internal/sandbox"
)

// program is xray-jail, which TestMain built.
func program() string { return nstest.Shim() + ".jail" }

const python3 = "/usr/bin/python3"

func open(t testing.TB) sandbox.Sandbox {
	t.Helper()
	nstest.Need(t)
	box, err := sandbox.New(sandbox.Config{ShimPath: nstest.Shim(), ProbeDir: t.TempDir(), Jail: jail.New(t.TempDir(), program()).Open})
	if err != nil {
		t.Fatal(err)
	}
	p := box.Posture()
	if i := slices.IndexFunc(p.Layers, func(l sandbox.Layer) bool { return l.Name == "namespaces" }); i < 0 || !p.Layers[i].InForce {
		t.Fatalf("not in force: %+v", p.Layers)
	}
	if p.Tier != sandbox.TierNamespaces {
		t.Fatalf("tier %s", p.Tier)
	}
	return box
}

// folders is where the runs of a test have their working folders.
func spec(t testing.TB, folders, text string) sandbox.Spec {
	t.Helper()
	dir, err := os.MkdirTemp(folders, "run-")
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Spec{
		Argv: []string{python3, "-I", "-S", "-c", text}, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir}, Dir: dir, Stdin: []byte("{}"),
		Limits: sandbox.Limits{
			Wall: 60 * time.Second, CPU: 30 * time.Second, MemoryBytes: 128 << 20, FileBytes: 16 << 20, DiskBytes: 8 << 20, DiskFiles: 100,
			OpenFiles: 64, Processes: 1, StdoutBytes: 64 << 10, StderrBytes: 16 << 10, Interpreter: sandbox.Python,
		},
	}
}

func run(t testing.TB, box sandbox.Sandbox, s sandbox.Spec) sandbox.Exit {
	t.Helper()
	exit, err := box.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

const look = `
import json, os, socket, sys
def try_(f, *a):
    try:
        f(*a)
        return 0
    except OSError as e:
        return e.errno
print(json.dumps({
    "pid": os.getpid(), "parent": os.getppid(), "uid": os.getuid(), "gid": os.getgid(), "name": os.uname().nodename,
    "stdin": sys.stdin.read(), "here": os.getcwd() == os.environ["HOME"], "write": try_(open, "f", "w"),
    "root": try_(os.listdir, "/"), "mkdir": try_(os.mkdir, "/usr/x"), "outside": try_(os.stat, OUTSIDE),
    "proc": try_(os.listdir, "/proc"), "unshare": try_(os.unshare, os.CLONE_NEWUSER) if hasattr(os, "unshare") else 1,
}))
`

// What a run sees of the world, in all layers. Its user has the same number as outside.
func TestWhatARunSees(t *testing.T) {
	box := open(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	exit := run(t, box, spec(t, t.TempDir(), strings.ReplaceAll(look, "OUTSIDE", `"`+outside+`"`)))
	var saw map[string]any
	if err := json.Unmarshal(exit.Stdout, &saw); err != nil {
		t.Fatalf("%v in %q; %+v", err, exit.Stdout, exit)
	}
	number := func(n int) any { return float64(n) }
	for name, want := range map[string]any{
		"pid": number(2), "parent": number(1), "uid": number(nstest.UID), "gid": number(nstest.UID), "name": "xray", "stdin": "{}", "here": true,
		"write": number(0), "root": number(13), "mkdir": number(30), "outside": number(2), "proc": number(13), "unshare": number(1),
	} {
		if saw[name] != want {
			t.Errorf("%s: %v, not %v", name, saw[name], want)
		}
	}
	if !slices.ContainsFunc(exit.Layers, func(l string) bool { return strings.HasPrefix(l, "namespaces:") }) || exit.MaxRSSBytes < 1<<20 || exit.CPU == 0 {
		t.Errorf("%+v", exit)
	}
}

const forks = `
import os, time
n = 0
try:
    while n < 2000:
        if os.fork() == 0:
            time.sleep(100)
        n += 1
except OSError as e:
    print(n, e.errno)
time.sleep(100)
`

// Each kind of flood has its own outcome, and the neighbour in the same jail sees nothing of it.
func TestFloods(t *testing.T) {
	box, folders := open(t), t.TempDir()
	for name, c := range map[string]struct {
		text   string
		change func(*sandbox.Limits)
		want   sandbox.Cause
	}{
		"disk":      {"f=open('f','wb')\nwhile True: f.write(bytes(65536)); f.flush()", func(*sandbox.Limits) {}, sandbox.DiskLimit},
		"files":     {"n=0\nwhile True: open(str(n),'w'); n+=1", func(l *sandbox.Limits) {}, sandbox.DiskLimit},
		"processes": {forks, func(l *sandbox.Limits) { l.Processes = 4 }, sandbox.ProcessLimit},
		"memory": {"import os,time\nfor i in range(3):\n  if os.fork()==0:\n    b=bytearray(30<<20); time.sleep(100)\ntime.sleep(100)",
			func(l *sandbox.Limits) { l.Processes, l.MemoryBytes = 8, 64<<20 }, sandbox.MemoryLimit},
		"time":   {"import time; time.sleep(100)", func(l *sandbox.Limits) { l.Wall = 300 * time.Millisecond }, sandbox.Timeout},
		"cpu":    {"while True: pass", func(l *sandbox.Limits) { l.CPU = time.Second }, sandbox.CPULimit},
		"output": {"while True: print('x'*1000)", func(*sandbox.Limits) {}, sandbox.OutputLimit},
		"signal": {"import os; os.kill(os.getpid(), 15)", func(*sandbox.Limits) {}, sandbox.Signalled},
		"fine":   {"print('{}')", func(*sandbox.Limits) {}, sandbox.Exited},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, folders, c.text)
			c.change(&s.Limits)
			if exit := run(t, box, s); exit.Cause != c.want {
				t.Errorf("%s %d %s\n%s\n%s", exit.Cause, exit.ExitCode, exit.Signal, exit.Stderr, exit.Stdout)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := spec(t, folders, "import sys,time; print('up',file=sys.stderr,flush=True); time.sleep(100)")
		s.OnStderr = func(string, time.Duration) { cancel() }
		if exit, err := box.Run(ctx, s); err != nil || exit.Cause != sandbox.Cancelled {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

// processes are those of our user that are neither we nor init.
func processes(t testing.TB) (pids []int, what []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		var pid int
		if err := json.Unmarshal([]byte(filepath.Base(dir)), &pid); err != nil || pid == 1 || pid == os.Getpid() {
			continue
		}
		if line, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
			pids, what = append(pids, pid), append(what, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return pids, what
}

// A jail that was killed costs at most the runs in it; the next run gets a new one.
func TestKilledJail(t *testing.T) {
	box, folders := open(t), t.TempDir()
	run(t, box, spec(t, folders, "print(1)"))
	pids, what := processes(t)
	for i, line := range what {
		if strings.HasSuffix(line, "--jail ") {
			if err := syscall.Kill(pids[i], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := box.Run(t.Context(), spec(t, folders, "print(2)"))
	t.Logf("the run that met it: %v", err)
	if exit := run(t, box, spec(t, folders, "print(3)")); string(exit.Stdout) != "3\n" {
		t.Errorf("%+v", exit)
	}
}

// A caller that goes away while its run starts: PID 1 of the run's namespace is told to stop before it has come to listen.
// Without hold_stop in shim/room.c it never hears of it, and its place is taken until it is killed after five seconds.
func TestHungUpAtTheStart(t *testing.T) {
	box, folders := open(t), t.TempDir()
	run(t, box, spec(t, folders, "pass")) // its jail is there now
	for i := range 60 {
		s := spec(t, folders, "import time; time.sleep(600)")
		s.Limits.Processes = 8
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*250*time.Microsecond, hangUp)
		exit, err := box.Run(ctx, s)
		if err != nil || exit.Cause != sandbox.Cancelled {
			t.Errorf("hung up after %d x 250 µs: %v %+v", i, err, exit)
		}
		if t.Failed() {
			break
		}
	}
}

// What a cold run costs, in the middle of interleaved ones. XRAY_BENCH=1.
func TestCost(t *testing.T) {
	if os.Getenv("XRAY_BENCH") == "" {
		t.Skip("a measurement: XRAY_BENCH=1")
	}
	box, folders := open(t), t.TempDir()
	plain, err := sandbox.New(sandbox.Config{ShimPath: nstest.Shim(), ProbeDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	const text = "import json,sys; print(json.dumps(json.load(sys.stdin)))"
	bare := func() {
		s := spec(t, folders, text)
		in, _ := os.Open("/dev/null")
		p, err := os.StartProcess(python3, []string{python3, "-I", "-S", "-c", "import json,sys; print(json.dumps({}))"}, &os.ProcAttr{Dir: s.Dir, Env: s.Env, Files: []*os.File{in, nil, nil}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = p.Wait()
		_ = in.Close()
	}
	took := map[string][]time.Duration{}
	run(t, box, spec(t, folders, text))
	for range 150 {
		for name, one := range map[string]func(){
			"bare": bare, "landlock": func() { run(t, plain, spec(t, folders, text)) }, "namespaces": func() { run(t, box, spec(t, folders, text)) },
		} {
			begin := time.Now()
			one()
			took[name] = append(took[name], time.Since(begin))
		}
	}
	for name, all := range took {
		slices.Sort(all)
		t.Logf("%s: p50 %v p95 %v", name, all[len(all)/2], all[len(all)*95/100])
	}
	var making, sealing []time.Duration
	maker := jail.New(t.TempDir(), program())
	timed, err := sandbox.New(sandbox.Config{ShimPath: nstest.Shim(), ProbeDir: t.TempDir(), Jail: func(s sandbox.JailSpec) (sandbox.Jail, error) {
		begin := time.Now()
		made, err := maker.Open(s)
		making = append(making, time.Since(begin))
		return made, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		run(t, timed, spec(t, t.TempDir(), "pass"))
		begin := time.Now()
		copied, err := exeseal.CloneSelfExe(t.TempDir())
		sealing = append(sealing, time.Since(begin))
		if err := errors.Join(err, copied.Close()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(making)
	slices.Sort(sealing)
	t.Logf("a jail is made in %v (median), with a sealed copy of this test program, which the runner is already: %v of that", making[len(making)/2], sealing[len(sealing)/2])
}

func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func countJails(t testing.TB) int {
	t.Helper()
	_, what := processes(t)
	return len(slices.DeleteFunc(what, func(line string) bool { return !strings.HasSuffix(line, "--jail ") }))
}

// Jails are made and dropped throughout: more of them than are held. Nothing is left of those that were dropped.
func TestJailsComeAndGo(t *testing.T) {
	box, base := open(t), t.TempDir()
	count, err := strconv.Atoi(os.Getenv("XRAY_SOAK_JAILS")) // scripts/soak
	if err != nil {
		count = 40
	}
	const held = 16 // sandbox: maxJails
	var places []string
	for range held + 8 {
		places = append(places, t.TempDir())
	}
	round := func(n int) {
		for i := range n {
			folder := places[i%len(places)]
			if i%10 != 0 {
				folder = base
			}
			if exit := run(t, box, spec(t, folder, "print('{}')")); exit.Cause != sandbox.Exited {
				t.Fatalf("%+v", exit)
			}
		}
	}
	round(10 * (held + 8))
	before, jailsBefore := descriptors(t), countJails(t)
	round(count)
	if after := descriptors(t); after > before+4 {
		t.Errorf("descriptors: %d, then %d", before, after)
	}
	if after := countJails(t); after > jailsBefore {
		t.Errorf("jails: %d, then %d", jailsBefore, after)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), base) {
		t.Errorf("mounts are left (%v):\n%s", err, mounts)
	}
}
