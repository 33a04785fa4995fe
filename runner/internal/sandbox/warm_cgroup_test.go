package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestWarmRunIsInItsCgroup: also where cold runs are born in theirs a fork is moved, and the cell stays with the runner. In a
// jail the supervisor is in it too, as those of a cold run are.
func TestWarmRunIsInItsCgroup(t *testing.T) {
	for name, row := range map[string]struct {
		joins, jailed bool
		processes     int
	}{"born": {false, false, 1}, "joins": {true, false, 1}, "in a jail": {false, true, 2}} {
		t.Run(name, func(t *testing.T) {
			cold := inGroups(t, row.joins)
			if row.jailed {
				cold.jails, cold.force.jailed = jailed(t).jails, true
			}
			w := warmBoxOn(t, cold)
			s := w.spec(t, "import sys, time\nprint('up', file=sys.stderr, flush=True)\ntime.sleep(600)\n")
			if err := w.Prepare(s); err != nil {
				t.Fatal(err)
			}
			if in := cgroupOf(t, w.CellPID(s.Warm.Skill)); strings.HasPrefix(in, runPrefix) {
				t.Errorf("the cell is in %s", in)
			}
			seen := 0
			w.inside(t, s, func(pid int) {
				seen++
				group := cgroupOf(t, pid)
				raw, err := os.ReadFile(filepath.Join(cold.cgroups.base, group, "cgroup.procs"))
				procs := strings.Fields(string(raw))
				if !strings.HasPrefix(group, runPrefix) || len(procs) != row.processes || !slices.Contains(procs, strconv.Itoa(pid)) {
					t.Errorf("run %d is in %q, which has %q (%v)", pid, group, procs, err)
				}
			})
			if seen != 1 {
				t.Errorf("%d runs were seen", seen)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if left := cold.cgroups.runGroups(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func cgroupOf(t *testing.T, pid int) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Base(path)
		}
	}
	t.Fatalf("no cgroup v2 in %q", raw)
	return ""
}

// TestNoRunWithoutItsCgroup: where none can be made there is neither a warm run nor a cold one in its place.
func TestNoRunWithoutItsCgroup(t *testing.T) {
	cold := inGroups(t, false)
	w := warmBoxOn(t, cold)
	s := w.spec(t, "print(1)\n")
	cold.cgroups.base = filepath.Join(cold.cgroups.base, "missing")
	if err := w.Prepare(s); err == nil {
		t.Error("a fork waits that has no cgroup")
	}
	if exit, err := w.Run(t.Context(), s); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%+v %v", exit, err)
	}
}

// TestForkIsTakenOrRefused: the write and what is read back must both be right.
func TestForkIsTakenOrRefused(t *testing.T) {
	deaf := &group{dir: t.TempDir()}
	if err := os.Symlink("/dev/null", filepath.Join(deaf.dir, "cgroup.procs")); err != nil {
		t.Fatal(err)
	}
	if err := deaf.take(os.Getpid()); err == nil || !strings.Contains(err.Error(), "and not") {
		t.Errorf("a write without an effect was believed: %v", err)
	}
	c := inGroups(t, false).cgroups
	g, err := c.make(base(t, python3).Limits)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := g.take(1 << 22); err == nil {
		t.Error("a process that is not there was taken")
	}
}
