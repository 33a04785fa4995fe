package xrayrunner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// holdings is what the runner and all below it, cells and waiting forks, have between two runs.
type holdings struct {
	runner, below          float64 // KiB: of the runner its own memory, of those below it their share of all they map
	descriptors, processes int
}

// TestWarmSoak makes one warm run after the other, 4 at a time, through POST /run: all are answered and warm but for those
// at the change of a cell, and runner, cells and forks do not grow. scripts/soak is the long form.
func TestWarmSoak(t *testing.T) {
	runs := fromEnv(t, "XRAY_SOAK_WARM", 160)
	for _, tier := range []string{"landlock", "auto"} {
		t.Run(tier, func(t *testing.T) { warmSoak(t, tier, runs) })
	}
}

func warmSoak(t *testing.T, tier string, runs int) {
	const parts = 8
	s := soakStack(t, "RUNNER_ISOLATION="+tier)
	var held []holdings
	var busy time.Duration
	cold := 0
	// The first call of a skill is cold, and so is each that comes before its cell is ready, however long that takes.
	for i := runs; s.warmRuns(t, i, i+1) > 0; i++ {
		if i > runs+200 {
			t.Fatal("no run was warm")
		}
	}
	for part := range parts {
		began := time.Now()
		cold += s.warmRuns(t, part*runs/parts, (part+1)*runs/parts)
		busy += time.Since(began)
		s.untilIdle(t)
		held = append(held, s.holdings(t))
	}
	t.Logf("%d runs in %s, %.0f a second, %d of them cold", runs, busy.Round(time.Second), float64(runs)/busy.Seconds(), cold)
	for i, h := range held {
		t.Logf("after part %d: runner %.0f KiB and %d descriptors; below it %d processes with %.0f KiB", i+1, h.runner, h.descriptors, h.processes, h.below)
	}
	if cold > 8+runs/1000 { // the first of each client, and at the change of a cell (sandbox.cellRuns)
		t.Errorf("%d of %d runs were cold", cold, runs)
	}
	if runs < 100000 {
		return // what the runner must remember still grows: ten minutes of run ids, an hour of sessions
	}
	before, after := average(held[parts/2:3*parts/4]), average(held[3*parts/4:])
	if after.runner > before.runner*1.05 || after.below > before.below*1.05 || after.descriptors > before.descriptors || after.processes > before.processes {
		t.Errorf("it grows: from %+v to %+v", before, after)
	}
}

// average of the memory, and the most of what is counted.
func average(of []holdings) holdings {
	var m holdings
	for _, h := range of {
		n := float64(len(of))
		m = holdings{m.runner + h.runner/n, m.below + h.below/n, max(m.descriptors, h.descriptors), max(m.processes, h.processes)}
	}
	return m
}

// warmRuns makes the runs from first to before last, and gives how many were cold.
func (s *stack) warmRuns(t *testing.T, first, last int) int {
	t.Helper()
	var next, cold atomic.Int64
	next.Store(int64(first))
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(last); i = next.Add(1) - 1 {
				body := fmt.Sprintf(`{"session":"w%d","turn":"t%d","skill":"soak","script":"warm.py","input":{"do":"ok"}}`, i/12, i%12/3)
				_, answer, err := s.post(context.Background(), body)
				if err != nil || field(answer, "outcome") != "ok" {
					t.Errorf("run %d: %v %.300s", i, err, answer)
				}
				if !strings.Contains(answer, `"start":"warm"`) {
					cold.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return int(cold.Load())
}

// holdings waits until nothing is being made any more.
func (s *stack) holdings(t *testing.T) holdings {
	t.Helper()
	below := s.below()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		time.Sleep(200 * time.Millisecond)
		now := s.below()
		if slices.Equal(now, below) {
			break
		}
		below = now
	}
	h := holdings{runner: s.runnerRSS(t), descriptors: s.descriptors(t), processes: len(below)}
	for _, pid := range below {
		h.below += shareOf(strconv.Itoa(pid))
	}
	return h
}

// below are the processes that descend from the runner.
func (s *stack) below() []int {
	children := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		raw, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		after := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		parent, _ := strconv.Atoi(after[1])
		children[parent] = append(children[parent], pid)
	}
	var out []int
	for todo := children[s.runner.cmd.Process.Pid]; len(todo) > 0; todo = todo[1:] {
		out = append(out, todo[0])
		todo = append(todo, children[todo[0]]...)
	}
	slices.Sort(out)
	return out
}

// shareOf is a process's proportional share of what it has mapped, in KiB.
func shareOf(pid string) float64 {
	raw, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n
		}
	}
	return 0
}
