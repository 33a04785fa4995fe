package sandbox

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// counted tells how often the script's first line ran: by what it says on stderr, as it happens.
func counted(s Spec) (Spec, *atomic.Int64) {
	n := &atomic.Int64{}
	s.OnStderr = func(line string, _ time.Duration) {
		if line == "began" {
			n.Add(1)
		}
	}
	return s, n
}

const says = "import sys\nprint('began', file=sys.stderr, flush=True)\n"

// TestCellsMayDie kills cells while runs come in from four sides. Every run must answer, and must have run once.
func TestCellsMayDie(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, says+"print(sys.stdin.read())\n", "json")
		s.Stdin = []byte("42")
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		kills, warm := killsWanted(t), atomic.Int64{}
		var done sync.WaitGroup
		var stop atomic.Bool
		for range 4 {
			done.Go(func() {
				for !stop.Load() {
					run, began := counted(w.again(t, s))
					exit, err := w.Run(context.Background(), run)
					if err != nil || string(exit.Stdout) != "42\n" || exit.ExitCode != 0 || began.Load() != 1 {
						t.Errorf("%v, began %d times: %+v", err, began.Load(), exit)
					}
					if exit.Warm {
						warm.Add(1)
					}
					_ = os.RemoveAll(run.Dir)
				}
			})
		}
		for killed, before := 0, int64(0); killed < kills && !t.Failed(); {
			for warm.Load() == before && !t.Failed() {
				time.Sleep(time.Millisecond) // a kill counts when runs come from the cell
			}
			before = warm.Load()
			if pid := w.CellPID(s.Warm.Skill); pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
				for w.CellPID(s.Warm.Skill) == pid {
					time.Sleep(time.Millisecond) // the kernel has still to tell us; only the rate of kills depends on it
				}
			}
			time.Sleep(time.Millisecond)
		}
		stop.Store(true)
		done.Wait()
		w.Settle()
		if warm.Load() == 0 {
			t.Error("no run was warm: nothing was tested")
		}
		t.Logf("%d kills, %d warm runs", kills, warm.Load())
	})
}

// killsWanted: XRAY_SOAK_CELLS is for the long version.
func killsWanted(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("XRAY_SOAK_CELLS"))
	if err != nil {
		return 15
	}
	t.Logf("XRAY_SOAK_CELLS=%d", n)
	return n
}

// TestLostForkStartsCold ends a fork that waits. Its run has not begun, so it is started cold, once.
func TestLostForkStartsCold(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, says)
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		f := w.skills[s.Warm.Skill].line(s).waiting[0]
		if err := f.process.Kill(); err != nil {
			t.Fatal(err)
		}
		f.untilGone(t)
		run, began := counted(w.again(t, s))
		exit := w.run(t, run, false)
		if exit.ExitCode != 0 || began.Load() != 1 {
			t.Errorf("began %d times: %+v", began.Load(), exit)
		}
		if !strings.Contains(w.logs.String(), "a fork was lost before its run began") {
			t.Errorf("it went cold without a word: %s", w.logs)
		}
	})
}

// untilGone waits without taking from the sandbox what it will wait for itself.
func (f *fork) untilGone(t *testing.T) {
	t.Helper()
	if f.jail == nil {
		if err := unix.Waitid(unix.P_PID, f.process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		return
	}
	for !errors.Is(syscall.Kill(f.process.Pid, 0), syscall.ESRCH) {
		time.Sleep(time.Millisecond)
	}
}

// TestForkThatFailsAtItsGate has not begun either: its run may be started cold. It fails at a name that it was not made for.
func TestForkThatFailsAtItsGate(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, says)
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		run, began := counted(w.again(t, s))
		f, at := w.take(run)
		defer w.release(at, run)
		run.Env = append(slices.Clip(run.Env), "=x")
		if _, err := w.dispatch(t.Context(), run, f); !errors.Is(err, errNotStarted) || !strings.Contains(err.Error(), "enter") || began.Load() != 0 {
			t.Errorf("began %d times: %v", began.Load(), err)
		}
	})
}

// TestStartedRunIsNotRepeated: what had begun is over when it dies, however it dies.
func TestStartedRunIsNotRepeated(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		for _, number := range []string{"SIGKILL", "SIGSEGV"} {
			s := w.spec(t, says+"import os, signal\nos.kill(os.getpid(), signal."+number+")\n")
			if err := w.Prepare(s); err != nil {
				t.Fatal(err)
			}
			run, began := counted(s)
			exit := w.run(t, run, true)
			if exit.Cause != Signalled || exit.Signal != number || began.Load() != 1 {
				t.Errorf("began %d times: %+v", began.Load(), exit)
			}
		}
	})
}

// TestHangingCellIsReplaced stops a cell. The call that needs a fork of it goes cold, and a new cell is made behind it.
func TestHangingCellIsReplaced(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, says)
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		pid := w.CellPID(s.Warm.Skill)
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		w.run(t, w.again(t, s), true) // what waited is not the cell
		w.run(t, w.again(t, s), false)
		w.Settle()
		if now := w.CellPID(s.Warm.Skill); now == 0 || now == pid {
			t.Errorf("cell is %d, was %d; %s", now, pid, w.logs)
		}
		w.run(t, w.again(t, s), true)
	})
}

// TestWornCells: each reason to drop a cell, and that it comes back.
func TestWornCells(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		for name, tt := range map[string]struct {
			wear func(*place)
			want string
		}{
			"age":    {func(at *place) { at.born = at.born.Add(-2 * cellAge) }, "its age"},
			"unused": {func(at *place) { at.used = at.used.Add(-2 * cellIdle) }, "not used"},
			"runs":   {func(at *place) { at.runs = cellRuns }, "its number of runs"},
			"grown":  {func(at *place) { at.cell.pss /= 8 }, "it has grown"},
			"ended":  {func(at *place) { _ = at.cell.process.Kill(); <-at.cell.ended }, "it has ended"},
			"fine":   {func(*place) {}, ""},
		} {
			t.Run(name, func(t *testing.T) {
				w := warmBox(t)
				s := w.spec(t, says)
				if err := w.Prepare(s); err != nil {
					t.Fatal(err)
				}
				tt.wear(w.skills[s.Warm.Skill])
				w.look()
				if dropped := strings.Contains(w.logs.String(), "a cell is dropped"); dropped != (tt.want != "") || !strings.Contains(w.logs.String(), tt.want) {
					t.Errorf("want %q: %s", tt.want, w.logs)
				}
				w.run(t, w.again(t, s), tt.want == "")
				w.Settle()
				w.run(t, w.again(t, s), true)
			})
		}
	})
}

func TestForksDoNotWaitForNothing(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, says)
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		at := w.skills[s.Warm.Skill]
		at.used = at.used.Add(-2 * aheadIdle)
		w.look()
		if n := len(at.line(s).waiting); n != 0 || at.cell == nil {
			t.Errorf("%d forks wait, cell %v", n, at.cell)
		}
		w.run(t, w.again(t, s), true) // forked when asked for
	})
}

// TestBudget: what does not fit is not made, and the cell that was used last stays.
func TestBudget(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		first, second := w.spec(t, says), w.spec(t, says)
		for _, s := range []Spec{first, second, first} {
			if err := w.Prepare(s); err != nil {
				t.Fatal(err)
			}
			w.cfg.Budget = cellGuess + w.skills[s.Warm.Skill].cell.pss/2 // not for two
		}
		if w.CellPID(first.Warm.Skill) == 0 || w.CellPID(second.Warm.Skill) != 0 {
			t.Errorf("%s", w.logs)
		}
		w.mu.Lock()
		fits := w.fits(0)
		w.mu.Unlock()
		if !fits {
			t.Error("more than the budget is used")
		}
		w.cfg.Budget = cellGuess - 1
		third := w.spec(t, says)
		if err := w.Prepare(third); err == nil || !strings.Contains(w.logs.String(), "no cell: the budget is used") {
			t.Errorf("%v; %s", err, w.logs)
		}
		w.run(t, third, false)
		if w.CellPID(first.Warm.Skill) == 0 {
			t.Error("a cell was dropped for one that does not fit anyway")
		}
	})
}

func TestColdWhereItMustBe(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		for name, change := range map[string]func(*Spec){
			"not warm":          func(s *Spec) { s.Warm = nil },
			"several processes": func(s *Spec) { s.Limits.Processes = 2 },
			"other flags":       func(s *Spec) { s.Argv = []string{python3, "-I", "-B", s.Argv[4]} },
			"an argument":       func(s *Spec) { s.Argv = append(s.Argv, "x") },
		} {
			s := w.spec(t, says)
			change(&s)
			w.run(t, s, false)
			w.Settle()
			w.run(t, w.again(t, s), false)
			if len(w.skills) > 0 {
				t.Errorf("%s: a cell was made", name)
			}
		}
		broken := w.spec(t, says)
		broken.Warm.Text = func() ([]byte, error) { return nil, errors.New("differs from the manifest") }
		if err := w.Prepare(broken); err == nil || !strings.Contains(w.logs.String(), "differs from the manifest") {
			t.Errorf("%v; %s", err, w.logs)
		}
	})
}
