package sandbox

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// workers runs a task n times, some at a time.
func workers(atOnce, n int, task func(int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range atOnce {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				task(int(i))
			}
		})
	}
	wg.Wait()
}

// burn keeps the cores busy for as long as the test runs: the reported escapes came under load only (case 03).
func burn(t *testing.T) {
	var stop atomic.Bool
	t.Cleanup(func() { stop.Store(true) })
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for !stop.Load() {
			}
		}()
	}
}

// Every one of 500 children, 16 at a time, is confined: it says so itself, after execve, by trying.
func TestAllAreConfined(t *testing.T) {
	s := full(t)
	burn(t)
	canary := arena(t)
	want := facts{
		"no_new_privs": 1, "seccomp": 2, "open_files": probeFiles, "oom_score_adj": -1, // -1: /proc is out of reach
		"read_outside": 13, "write_outside": 13, "write_inside": 0, "tcp_bind": 1, "tcp_connect": 1,
		"abstract_socket": 1, "unix_socket": 1, "memfd_create": 1, "signal_parent": 1, "signal_self": 0,
	}
	var confined atomic.Int64
	const runs = 500
	specs := make(chan Spec, 16)
	for range 16 {
		spec := base(t, s.shim, "--probe", canary[0]+"/secret", "nobody")
		spec.Limits.OpenFiles, spec.Limits.Interpreter = probeFiles, Compiled
		specs <- spec
	}
	workers(16, runs, func(i int) {
		spec := <-specs
		defer func() { specs <- spec }()
		if i%4 == 0 {
			spec.Limits.Processes = 8
		}
		got, err := s.Run(t.Context(), spec)
		if err != nil || got.Cause != Exited || got.ExitCode != 0 {
			t.Errorf("run %d: %s %d, %v, %s", i, got.Cause, got.ExitCode, err, got.Stderr)
			return
		}
		seen := parseFacts(got.Stdout)
		delete(seen, "pid") // any
		delete(seen, "proc_self")
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("run %d: %s", i, diff)
			return
		}
		confined.Add(1)
	})
	if confined.Load() != runs {
		t.Errorf("confined: %d of %d", confined.Load(), runs)
	}
}

// The same from Python, by prctl(PR_GET_NO_NEW_PRIVS) and prctl(PR_GET_SECCOMP).
func TestPythonIsConfined(t *testing.T) {
	s := full(t)
	const text = `
import ctypes, socket
libc = ctypes.CDLL(None)
try: open("/etc/passwd"); read = True
except PermissionError: read = False
try: socket.socket(); connected = True
except PermissionError: connected = False
print(libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0), read, connected)
`
	spec := script(t, text)
	workers(16, 64, func(i int) {
		got, err := s.Run(t.Context(), spec)
		if err != nil || string(got.Stdout) != "1 2 False False\n" {
			t.Errorf("run %d: %q %v %s", i, got.Stdout, err, got.Stderr)
		}
	})
}

// Threads that end here must not take children along, which the parent-death signal would do if they had started them
// (case 34).
func TestEndingThreadsKillNobody(t *testing.T) {
	s := full(t)
	const runs = 50
	// Threads end while the runs are started too: later, the thread that forked may be hidden in the wait for its child.
	started, churned := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(churned)
		for {
			workers(8, 100, endThread)
			select {
			case <-started:
				return
			default:
			}
		}
	}()
	var waiting []*waiter
	for i := range runs {
		waiting = append(waiting, newWaiter(t, s, 1+7*(i%2)))
	}
	close(started)
	<-churned
	workers(50, 1000, endThread)
	for i, w := range waiting {
		if got := w.release(t); got.Cause != Exited || got.ExitCode != 0 {
			t.Errorf("run %d: %s %s", i, got.Cause, got.Signal)
		}
	}
	noStrangers(t)
}

// endThread ends an OS thread: a goroutine that is still locked to one takes it along.
func endThread(int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
	}()
	<-done
}

// Runs of other plans at the same time do not get each other's limits.
func TestPlansAreApart(t *testing.T) {
	s := full(t)
	workers(8, 64, func(i int) {
		spec := script(t, "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])")
		spec.Limits.OpenFiles = uint64(32 + i%16)
		spec.Limits.Wall = time.Minute
		got, err := s.Run(t.Context(), spec)
		if want := uint64(32 + i%16); err != nil || parseFacts([]byte("n " + string(got.Stdout)))["n"] != int(want) {
			t.Errorf("run %d: %q instead of %d, %v", i, got.Stdout, want, err)
		}
	})
}
