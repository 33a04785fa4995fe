package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	python3 = "/usr/bin/python3"
	bash    = "/usr/bin/bash"
)

// tested is probed once for all tests.
var tested = sync.OnceValues(func() (*landlocked, error) {
	return newLandlocked(Config{ShimPath: os.Getenv(envShim)})
})

// OpenJail is package jail's (jailed_test.go).
var OpenJail func(JailSpec) (Jail, error)

var testedJailed = sync.OnceValues(func() (*landlocked, error) {
	return newLandlocked(Config{ShimPath: os.Getenv(envShim), Jail: OpenJail})
})

// jailed is the sandbox with namespaces as well, with jails of its own that the test closes.
func jailed(t testing.TB) *landlocked {
	t.Helper()
	needKernel(t)
	s, err := testedJailed()
	if err != nil {
		t.Fatal(err)
	}
	if s.jails == nil {
		t.Fatalf("no namespaces: %+v", s.posture.Layers)
	}
	own := &jails{open: s.jails.open, own: slices.Clone(s.jails.own), system: s.jails.system, fresh: s.jails.fresh}
	return &landlocked{shim: s.shim, force: s.force, posture: s.posture, jails: own}
}

// full is the sandbox with all layers. The tests are about the full set, so a kernel without one of them fails here and
// not in a hundred places.
func full(t testing.TB) *landlocked {
	t.Helper()
	needKernel(t)
	s, err := tested()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range s.posture.Layers {
		if !layer.InForce && !layer.Granted {
			t.Fatalf("layer %s is not in force: %s", layer.Name, layer.Reason)
		}
	}
	return s
}

// weaker is the same sandbox with some layers left out of the plan: the control of a protection's test.
func weaker(t testing.TB, change func(*inForce)) *landlocked {
	t.Helper()
	s := full(t)
	force := s.force
	change(&force)
	return &landlocked{shim: s.shim, force: force, posture: s.posture}
}

func unconfined(f *inForce)      { f.landlock, f.one, f.many = rights{}, nil, nil }
func withoutSeccomp(f *inForce)  { f.one, f.many = nil, nil }
func withoutLandlock(f *inForce) { f.landlock = rights{} }
func withoutScope(f *inForce)    { f.landlock.scope = 0 }

// base is a spec with the product's default limits, in a folder of its own.
func base(t testing.TB, argv ...string) Spec {
	t.Helper()
	return Spec{
		Argv: argv,
		Env:  []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"},
		Dir:  privateFolder(t),
		Limits: Limits{
			Wall: 60 * time.Second, CPU: 30 * time.Second, MemoryBytes: 128 << 20, FileBytes: 16 << 20, DiskBytes: 32 << 20, DiskFiles: 4096, OpenFiles: 64,
			Processes: 1, StdoutBytes: 64 << 10, StderrBytes: 16 << 10, Interpreter: Python,
		},
	}
}

func privateFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func script(t testing.TB, text string, arguments ...string) Spec {
	t.Helper()
	return base(t, append([]string{python3, "-I", "-S", "-c", text}, arguments...)...)
}

// shell may have several processes.
func shell(t testing.TB, text string) Spec {
	t.Helper()
	spec := base(t, bash, "-c", text)
	spec.Limits.Interpreter, spec.Limits.Processes = Bash, 32
	return spec
}

func mustRun(t testing.TB, s Sandbox, spec Spec) Exit {
	t.Helper()
	exit, err := s.Run(t.Context(), spec)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return exit
}

// mustExit runs a program that is expected to end well.
func mustExit(t testing.TB, s Sandbox, spec Spec) Exit {
	t.Helper()
	exit := mustRun(t, s, spec)
	if exit.Cause != Exited || exit.ExitCode != 0 {
		t.Fatalf("ended with %s %d %s: %s", exit.Cause, exit.ExitCode, exit.Signal, exit.Stderr)
	}
	return exit
}

// answers runs a script that prints one JSON object of numbers.
func answers(t testing.TB, s Sandbox, spec Spec) map[string]int {
	t.Helper()
	exit := mustExit(t, s, spec)
	out := map[string]int{}
	if err := json.Unmarshal(exit.Stdout, &out); err != nil {
		t.Fatalf("%v in %q; stderr %s", err, exit.Stdout, exit.Stderr)
	}
	return out
}

// strangers are the processes in our namespace that are neither init nor we: zombies too.
func strangers(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) < 2 {
		t.Fatalf("cannot see processes: %v %v", dirs, err)
	}
	var out []string
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if slices.Contains([]int{1, os.Getpid()}, pid) {
			continue
		}
		if line, err := os.ReadFile(filepath.Join(dir, "stat")); err == nil {
			out = append(out, string(line))
		}
	}
	return out
}

func noStrangers(t testing.TB) {
	t.Helper()
	if left := strangers(t); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
}

// waiter is a run that is known to have started and ends when it is told to, and not by the clock.
type waiter struct {
	fifo string
	pid  int // of the script
	done chan Exit
	err  error
}

func newWaiter(t testing.TB, s Sandbox, processes int) *waiter {
	t.Helper()
	spec := shell(t, "echo $$ >&2; read line < fifo")
	spec.Limits.Processes = processes
	w := &waiter{fifo: filepath.Join(spec.Dir, "fifo"), done: make(chan Exit, 1)}
	if err := syscall.Mkfifo(w.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	spec.OnStderr = func(line string, _ time.Duration) { w.pid, _ = strconv.Atoi(line); close(up) }
	go func() {
		exit, err := s.Run(context.WithoutCancel(t.Context()), spec)
		w.err = err
		w.done <- exit
	}()
	select {
	case <-up:
	case exit := <-w.done: // it died before it could say so: release will report it
		w.done <- exit
	}
	return w
}

// release lets it end. Opening the pipe for reading too keeps this from blocking when the run is gone already.
func (w *waiter) release(t testing.TB) Exit {
	t.Helper()
	file, err := os.OpenFile(w.fifo, os.O_RDWR, 0)
	if err == nil {
		_, err = file.WriteString("go\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	exit := <-w.done
	if err := errors.Join(file.Close(), w.err); err != nil {
		t.Fatal(err)
	}
	return exit
}
