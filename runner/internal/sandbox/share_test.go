package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestShare(t *testing.T) {
	for name, c := range map[string]struct{ seen, want []int }{
		"one":                       {[]int{1, 1, 1, 1}, []int{0, 0, 0, 0}},
		"none":                      {[]int{0, 0, 0}, []int{0, 0, 0}},
		"many, and one between":     {[]int{8, 8, 1, 8, 8}, []int{0, 0, 0, 0, 0}},
		"three in a row":            {[]int{2, 2, 2}, []int{0, 0, 10}},
		"as many as there are":      {[]int{9, 8, 9}, []int{0, 0, 16}},
		"more and more":             {[]int{2, 2, 2, 8, 8, 8}, []int{0, 0, 10, 10, 10, 16}},
		"never forward":             {[]int{8, 8, 8, 1, 1, 1, 1}, []int{0, 0, 16, 16, 16, 16, 16}},
		"no further than the last":  {[]int{500, 500, 500}, []int{0, 0, 19}},
		"the moment is in between":  {[]int{1, 8, 8, 8, 1}, []int{0, 0, 0, 16, 16}},
		"the least of them decides": {[]int{3, 2, 4}, []int{0, 0, 10}},
	} {
		var s share
		var got []int
		for _, n := range c.seen {
			got = append(got, s.see(n))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What is at work together is put back, and cannot come forward: in both tiers, processes and the threads of one.
func TestManyAtWorkArePutBack(t *testing.T) {
	const ends = `
while os.getpriority(os.PRIO_PROCESS, 0) < 10: pass
try:
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    back = 1
except PermissionError:
    back = 0
print(json.dumps({"before": before, "back": back}), flush=True)
os._exit(0)`
	const begins = "import json, os, time, hashlib, threading\nbefore = os.getpriority(os.PRIO_PROCESS, 0)\n"
	processes := begins + `
for i in range(3):
    if os.fork() == 0:
        while True: pass` + ends
	threads := begins + `
def work():
    block = bytes(1 << 20)
    while True: hashlib.sha256(block)
for i in range(3): threading.Thread(target=work, daemon=True).start()` + ends
	for name, s := range map[string]*landlocked{"landlock": full(t), "namespaces": jailedAlone(t)} {
		for what, c := range map[string]struct {
			spec   Spec
			before int
		}{
			"processes": {limited(script(t, processes), func(l *Limits) { l.Processes = 8 }), 5}, // behind its supervisor
			"threads":   {script(t, threads), 0},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				got := answers(t, s, c.spec)
				if got["before"] != c.before || got["back"] != 0 {
					t.Errorf("%v", got)
				}
			})
		}
	}
}

// jailedAlone is for runs that are cold: no cells close its jails.
func jailedAlone(t *testing.T) *landlocked {
	t.Helper()
	s := jailed(t)
	t.Cleanup(func() {
		if err := s.jails.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// flood starts up to n threads that wait for the end of the script, and says how many there were.
const flood = `
import _thread, time, sys
_thread.stack_size(1 << 15)
had = 0
for i in range(int(sys.argv[1])):
    try:
        _thread.start_new_thread(time.sleep, (600,))
        had += 1
    except RuntimeError:
        break
print(had, file=sys.stderr, flush=True)
`

// A run has no more threads than its limit: without a count of its own it is ended for more, with one it gets no more.
func TestTooManyThreads(t *testing.T) {
	most, spaces := Limits{Processes: 1}.Tasks(), jailedAlone(t)
	for name, c := range map[string]struct {
		s       *landlocked
		threads int
		want    Cause
	}{
		"landlock":                {full(t), most + 1, ProcessLimit},
		"landlock, not so many":   {full(t), most - 10, Exited},
		"namespaces":              {spaces, most + 1, Exited},
		"namespaces, not so many": {spaces, most - 10, Exited},
	} {
		t.Run(name, func(t *testing.T) {
			text := flood + "time.sleep(600 if had >= " + fmt.Sprint(most) + " else 0)"
			got := mustRun(t, c.s, script(t, text, fmt.Sprint(c.threads)))
			if got.Cause != c.want || got.Cause == Exited && got.ExitCode != 0 {
				t.Fatalf("got %s %d: %s", got.Cause, got.ExitCode, got.Stderr)
			}
			if had := strings.TrimSpace(string(got.Stderr)); c.want == Exited && (c.threads < most) != (had == fmt.Sprint(c.threads)) {
				t.Errorf("%d wanted, had %s", c.threads, had)
			}
		})
	}
}

// What the runner needs to start another run cannot be taken, faster than any watch: threads of a run end where the runner's
// part begins.
func TestRunnersPart(t *testing.T) {
	const room, wanted = 20, 50 // fewer than the watch ends a run for
	for name, c := range map[string]struct {
		bounded bool
		want    func(had int) bool
	}{
		"control": {false, func(had int) bool { return had == wanted }},
		"bounded": {true, func(had int) bool { return had <= room }},
	} {
		t.Run(name, func(t *testing.T) {
			s := weaker(t, func(f *inForce) {
				if f.tasks = 0; c.bounded {
					f.tasks = uint64(ownTasks(t) + room)
				}
			})
			spec := script(t, flood+"open('fifo').read()", fmt.Sprint(wanted))
			if err := unix.Mkfifo(spec.Dir+"/fifo", 0o600); err != nil {
				t.Fatal(err)
			}
			said, done := make(chan string, 1), make(chan Exit, 1)
			spec.OnStderr = func(line string, _ time.Duration) { said <- line }
			go func() {
				exit, err := s.Run(t.Context(), spec)
				if err != nil {
					t.Error(err)
				}
				done <- exit
			}()
			var had int
			if _, err := fmt.Sscan(<-said, &had); err != nil || !c.want(had) {
				t.Errorf("it had %d threads (%v)", had, err)
			}
			mustExit(t, s, script(t, "pass")) // beside it
			if err := os.WriteFile(spec.Dir+"/fifo", nil, 0); err != nil {
				t.Error(err)
			}
			if exit := <-done; exit.Cause != Exited {
				t.Errorf("%s: %s", exit.Cause, exit.Stderr)
			}
		})
	}
}

// It is tried when the sandbox is made: a bound that is passed already is none, and said.
func TestRunnersPartIsTried(t *testing.T) {
	needKernel(t)
	for name, c := range map[string]struct {
		tasks   uint64
		kept    uint64
		remarks int
	}{
		"no bound":          {0, 0, 0},
		"room":              {4000, 3000, 0},
		"used up by others": {4, 0, 1},
	} {
		s, err := newLandlocked(Config{ShimPath: os.Getenv(envShim), Tasks: c.tasks})
		if err != nil {
			t.Fatal(err)
		}
		if s.force.tasks != c.kept || len(s.posture.Remarks) != c.remarks {
			t.Errorf("%s: %d kept for scripts, %q", name, s.force.tasks, s.posture.Remarks)
		}
	}
}

// ownTasks are all processes and threads of the tests' user in sight: all but init.
func ownTasks(t *testing.T) int {
	t.Helper()
	return len(tasksOf(descendants(1)...))
}
