package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestOwnCgroup(t *testing.T) {
	const v2 = "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct{ mounts, own, want, fails string }{
		"container":        {mounts: v2, own: "0::/\n", want: "/sys/fs/cgroup"},
		"host":             {mounts: v2, own: "0::/system.slice/xray.service\n", want: "/sys/fs/cgroup/system.slice/xray.service"},
		"hybrid":           {mounts: strings.ReplaceAll(v2, "/sys/fs/cgroup", "/sys/fs/cgroup/unified"), own: "4:memory:/a\n0::/b\n", want: "/sys/fs/cgroup/unified/b"},
		"bound subtree":    {mounts: strings.Replace(v2, " / ", " /a/b ", 1), own: "0::/a/b/c\n", want: "/sys/fs/cgroup/c"},
		"foreign subtree":  {mounts: strings.Replace(v2, " / ", " /a/b ", 1), own: "0::/a\n", fails: "not below"},
		"version 1":        {mounts: "", own: "4:memory:/a\n", fails: "no cgroup v2 here"},
		"nothing mounted":  {mounts: "", own: "0::/\n", fails: "no cgroup v2 is mounted"},
		"name of a cousin": {mounts: strings.Replace(v2, " / ", " /a ", 1), own: "0::/ab\n", fails: "not below"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ownCgroup(c.mounts, c.own)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("%q, %v", got, err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("%q, %v", got, err)
			}
		})
	}
}

// own opens the tests' cgroup once, with the controllers that there are: none where version 1 has them.
var own = sync.OnceValues(func() (*cgroups, error) {
	c, err := readCgroups()
	if err == nil {
		return c, nil
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	self, _ := os.ReadFile("/proc/self/cgroup")
	return openCgroups(string(mounts), string(self), nil)
})

func inGroups(t testing.TB, joins bool) *landlocked {
	t.Helper()
	s := full(t)
	if os.Getenv(envCgroup) == "" {
		t.Skip("no cgroup v2 here")
	}
	c, err := own()
	if err != nil {
		t.Fatal(err)
	}
	force := s.force
	force.joins = joins
	return &landlocked{shim: s.shim, force: force, posture: s.posture, cgroups: &cgroups{base: c.base, needed: c.needed, joins: joins}}
}

// runGroups are the cgroups of runs that are there.
func (c *cgroups) runGroups() []string {
	found, _ := filepath.Glob(filepath.Join(c.base, runPrefix+"*"))
	return found
}

// A run is in a cgroup of its own from its first instruction on, or moves there; when it is over the cgroup is gone.
func TestRunsInItsCgroup(t *testing.T) {
	for name, joins := range map[string]bool{"born": false, "joins": true} {
		t.Run(name, func(t *testing.T) {
			s := inGroups(t, joins)
			w := newWaiter(t, s, 4)
			groups := s.cgroups.runGroups()
			if len(groups) != 1 {
				t.Fatalf("there are %v", groups)
			}
			procs, err := os.ReadFile(filepath.Join(groups[0], "cgroup.procs"))
			if n := len(strings.Fields(string(procs))); err != nil || n != 2 {
				t.Errorf("%d processes in it (%v), not the shell and its supervisor", n, err)
			}
			if exit := w.release(t); exit.Cause != Exited {
				t.Errorf("%+v", exit)
			}
			if left := s.cgroups.runGroups(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// Without a supervisor and without the filter a run leaves processes behind, in a session of their own; its cgroup ends
// them. The control is the same run without one.
func TestCgroupEndsAllOfARun(t *testing.T) {
	orphan := func(t *testing.T, s *landlocked) int {
		t.Helper()
		s.force = inForce{joins: s.force.joins}
		spec := base(t, s.shim, "--probe", "orphan")
		spec.Limits.Interpreter = Compiled
		return parseFacts(mustExit(t, s, spec).Stdout)["orphan"]
	}
	t.Run("control", func(t *testing.T) {
		pid := orphan(t, weaker(t, unconfined))
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("nothing was left: %v", err)
		}
	})
	t.Run("cgroup", func(t *testing.T) {
		pid := orphan(t, inGroups(t, false))
		// It has left its cgroup, and is on its way to init, which reaps it when it comes to it.
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
			if _, state, _ := strings.Cut(string(stat), ") "); pid > 1 && (err != nil || strings.HasPrefix(state, "Z")) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d is left: %s", pid, stat)
			}
		}
	})
}

// A runner that was killed leaves cgroups behind; its successor removes them, and not those of a runner that lives.
func TestStaleCgroups(t *testing.T) {
	s := inGroups(t, false)
	stale, living := filepath.Join(s.cgroups.base, runPrefix+"999999-1"), filepath.Join(s.cgroups.base, runPrefix+"1-1")
	for _, dir := range []string{stale, living} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(dir)
	}
	s.cgroups.removeStale()
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", stale, err)
	}
	if _, err := os.Stat(living); err != nil {
		t.Error(err)
	}
}

// What it costs to be born in a cgroup of its own: at most 0.5 ms more (median of interleaved runs).
func TestCgroupEntryIsCheap(t *testing.T) {
	if os.Getenv("XRAY_BENCH") == "" {
		t.Skip("a measurement: XRAY_BENCH=1")
	}
	plain, grouped, joined := weaker(t, func(*inForce) {}), inGroups(t, false), inGroups(t, true)
	var took [3][]time.Duration
	for range 300 {
		for i, s := range []*landlocked{plain, grouped, joined} {
			spec := base(t, "/usr/bin/true")
			spec.Limits.Interpreter = Compiled
			begin := time.Now()
			mustExit(t, s, spec)
			took[i] = append(took[i], time.Since(begin))
		}
	}
	for i, name := range []string{"plain", "born", "joins"} {
		t.Logf("%s: median %v", name, median(took[i]))
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
