package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// inside looks at a run from outside while it waits in its script.
func (w *warmed) inside(t *testing.T, s Spec, look func(pid int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up := make(chan struct{})
	s.OnStderr = func(string, time.Duration) { close(up) }
	done := make(chan Exit, 1)
	go func() {
		exit, err := w.Run(ctx, s)
		if err != nil || exit.Cause != Cancelled {
			t.Errorf("%v: %+v", err, exit)
		}
		done <- exit
	}()
	select {
	case <-up:
	case exit := <-done:
		t.Fatalf("it has ended: %+v", exit)
	}
	w.Settle() // a fork that is being made looks like a run
	for _, line := range strangers(t) {
		var pid int
		var name string
		if _, err := fmt.Sscanf(line, "%d %s", &pid, &name); err == nil && w.isRun(pid) {
			look(pid)
		}
	}
	cancel()
	<-done
}

// isRun: neither a cell nor a fork that waits, nor what is around a run in a jail.
func (w *warmed) isRun(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(childrenOf(pid)) > 0 {
		return false
	}
	for _, at := range w.skills {
		if at.cell != nil && at.cell.process.Pid == pid {
			return false
		}
		for _, own := range at.lines {
			for _, f := range own.waiting {
				if f.process.Pid == pid || slices.Contains(descendants(f.process.Pid), pid) {
					return false
				}
			}
		}
	}
	return true
}

// posture is what the kernel says about a process.
func posture(t *testing.T, pid int) map[string]string {
	t.Helper()
	out := map[string]string{}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "NoNewPrivs", "Seccomp", "CapEff", "SigIgn", "SigBlk", "SigCgt", "Threads", "Umask", "TracerPid":
			out[name] = strings.TrimSpace(value)
		}
	}
	adjust, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	out["oom_score_adj"] = strings.TrimSpace(string(adjust))
	fds, err2 := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil {
			t.Error(err)
		}
		out["fd "+filepath.Base(fd)], _, _ = strings.Cut(target, ":")
	}
	cwd, err3 := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	out["cwd"] = filepath.Base(filepath.Dir(cwd))
	limits, err4 := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	out["limits"] = string(limits)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSamePosture: what the kernel says about a warm run is what it says about a cold one. Among it: no descriptor but
// the three, so no control socket, gate, plan or status pipe.
func TestSamePosture(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, "import sys, time\nprint('up', file=sys.stderr, flush=True)\ntime.sleep(600)\n")
		coldly := w.again(t, s)
		coldly.Warm = nil
		var cold, warm map[string]string
		w.inside(t, coldly, func(pid int) { cold = posture(t, pid) })
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		w.Settle()
		w.inside(t, s, func(pid int) { warm = posture(t, pid) })
		if diff := cmp.Diff(cold, warm); diff != "" {
			t.Errorf("-cold +warm:\n%s", diff)
		}
		if warm["Seccomp"] != "2" || warm["oom_score_adj"] != "1000" || len(warm) < 14 {
			t.Errorf("%v", warm)
		}
	})
}

// TestCellIsOutOfReach: a run tries every process near its cell, that one and waiting forks among them.
func TestCellIsOutOfReach(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		const text = `
import ctypes, json, os, signal
libc = ctypes.CDLL(None, use_errno=True)
reached = []
cell = int(input())
for pid in {-1, *range(1, 300), *range(max(1, cell - 50), cell + 300)}:
    if pid == os.getpid():
        continue
    for name, attempt in (
        ("kill", lambda: libc.kill(pid, 0)), ("stop", lambda: libc.kill(pid, signal.SIGSTOP)), ("ptrace", lambda: libc.ptrace(16, pid, 0, 0)),
        ("limits", lambda: libc.prlimit(pid, 7, None, ctypes.create_string_buffer(16))),
        ("affinity", lambda: libc.sched_setaffinity(pid, 8, ctypes.create_string_buffer(b"\1" * 8))),
        ("group", lambda: libc.kill(-pid, 0) if pid > 0 else -1),
    ):
        if attempt() == 0:
            reached.append([name, pid])
    for path in "mem", "environ", "fd", "cwd":
        try:
            os.open("/proc/%d/%s" % (pid, path), os.O_RDONLY)
            reached.append([path, pid])
        except OSError:
            pass
print(json.dumps(reached))
`
		s := w.spec(t, text, "ctypes")
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		cell := w.CellPID(s.Warm.Skill)
		s.Stdin = []byte(strconv.Itoa(cell))
		if exit := w.run(t, w.again(t, s), true); string(exit.Stdout) != "[]\n" {
			t.Errorf("reached %s%s", exit.Stdout, exit.Stderr)
		}
		if w.CellPID(s.Warm.Skill) != cell {
			t.Errorf("the cell was %d and is %d", cell, w.CellPID(s.Warm.Skill))
		}
	})
}

// TestRunsDoNotMeet: two runs of one cell, at once. Each has its folder, its memory and its session.
func TestRunsDoNotMeet(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, `
import json, os, sys
json.seen = getattr(json, "seen", 0) + 1
sys.path.append("x"); os.environ["LEFT"] = "y"
open("mine", "x").write("z")
try: others = os.listdir("..")
except OSError: others = "refused"
print(json.seen, sys.path.count("x"), os.listdir(), others)
`, "json")
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w.Settle()
			if exit := w.run(t, w.again(t, s), true); string(exit.Stdout) != "1 1 ['mine'] refused\n" {
				t.Errorf("%s%s", exit.Stdout, exit.Stderr)
			}
		}
	})
}

// TestForkProvesItsOwnLayers takes each layer out of the plan of a run, while the cell has its own. That one would answer
// in its place if the proof could not tell them apart.
func TestForkProvesItsOwnLayers(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		const both = TierLandlock + TierNamespaces
		for name, tt := range map[string]struct {
			weaken func(*inForce, *Spec)
			tiers  Tier // in which it is wrong
			want   string
		}{
			"all as it is": {func(*inForce, *Spec) {}, both, ""},
			"a filter that allows everything": {func(f *inForce, _ *Spec) {
				f.one = []unix.SockFilter{give(allow)}
			}, both, "read_back seccomp"},
			"a rule for the folder of all runs": {func(_ *inForce, s *Spec) {
				s.Readable = append(s.Readable, filepath.Dir(s.Dir))
			}, both, "read_back landlock of a run"},
			"a cold plan":                    {func(f *inForce, _ *Spec) { f.forked = false }, both, "plan of another start"},
			"a plan that joins a cgroup":     {func(f *inForce, _ *Spec) { f.joins = true }, both, "plan of another start"},
			"a plan for the other tier":      {func(f *inForce, _ *Spec) { f.jailed = !f.jailed }, both, "plan of another start"},
			"a plan for several processes":   {func(_ *inForce, s *Spec) { s.Limits.Processes = 2 }, TierLandlock, "plan of another start"},
			"an oom_score_adj to be written": {func(f *inForce, _ *Spec) { f.oom = true }, TierLandlock, "oom_score_adj"},
		} {
			t.Run(name, func(t *testing.T) {
				w := warmBox(t)
				if !strings.Contains(string(tt.tiers), string(w.tier())) {
					return // allowed there
				}
				s := w.spec(t, "print(1)\n")
				if err := w.Prepare(s); err != nil {
					t.Fatal(err)
				}
				force := w.force.forFork()
				weak := s
				tt.weaken(&force, &weak)
				p, err := force.planFor(weak)
				if err != nil {
					t.Fatal(err)
				}
				file, err := sealed("plan", p.encode())
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				f, err := w.forkFrom(w.skills[s.Warm.Skill].cell, s, file)
				if tt.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					if err := f.discard(); err != nil {
						t.Error(err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			})
		}
	})
}

// TestCellIsConfined: the cell proves its own layers as any run does, and with one that is not in force there is none.
func TestCellIsConfined(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, "print(1)\n")
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		cell := w.CellPID(s.Warm.Skill)
		seen := posture(t, cell)
		if seen["Seccomp"] != "2" || seen["NoNewPrivs"] != "1" || seen["oom_score_adj"] != "1000" || seen["Threads"] != "1" {
			t.Errorf("%v", seen)
		}
		if w.jails != nil {
			w.seesItsJail(t, cell, s)
		}
		for name, weaken := range map[string]func(*inForce){
			"read_back seccomp":  func(f *inForce) { f.cell, f.jailCell = []unix.SockFilter{give(allow)}, []unix.SockFilter{give(allow)} },
			"read_back landlock": func(f *inForce) { f.system = append(f.system, grant{"/", read}) },
		} {
			if w.jails != nil && name == "read_back landlock" {
				continue // not its layer: see cell/cell.h
			}
			weak := &landlocked{shim: w.shim, force: w.force, jails: w.jails}
			weaken(&weak.force)
			c, err := weak.startCell(w.cfg.Library, w.root, s)
			if err == nil {
				t.Errorf("%s: it started", name)
				if err := c.kill(); err != nil {
					t.Error(err)
				}
				continue
			}
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want %q", err, name)
			}
		}
	})
}

// seesItsJail: what bounds a cell there is what is in sight, and that none of it can be changed. Its capability is over the
// jail's user alone.
func (w *warmed) seesItsJail(t *testing.T, cell int, s Spec) {
	t.Helper()
	root := fmt.Sprintf("/proc/%d/root", cell)
	if _, err := os.Stat(root + s.Readable[0]); err != nil {
		t.Errorf("its own skill: %v", err)
	}
	for _, path := range []string{"/home", "/root", "/etc/passwd", filepath.Dir(s.Readable[0]) + "/other"} {
		if _, err := os.Lstat(root + path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
		ours, err := os.Readlink("/proc/self/ns/" + name)
		its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", cell, name))
		if err := errors.Join(err, err2); err != nil || ours == its {
			t.Errorf("%s: ours %s, its %s, %v", name, ours, its, err)
		}
	}
	if seen := posture(t, cell); seen["CapEff"] != fmt.Sprintf("%016x", 1<<unix.CAP_SETFCAP) {
		t.Errorf("capabilities %s", seen["CapEff"])
	}
}

// A cell whose filter lets through what a run's short one leaves to it has no runs: they see that it is not there.
func TestCellWithoutItsFilter(t *testing.T) {
	w := warmBoxOn(t, full(t))
	whole := w.force.cell
	defer func() { w.force.cell = whole }() // other tests have this sandbox too
	w.force.cell = program(map[string]rule{"socket": {then: refuse(unix.EACCES)}}, allow)
	if err := w.Prepare(w.spec(t, says)); err == nil {
		t.Error("a cell was made")
	}
	if !strings.Contains(w.logs.String(), "seccomp of the cell") {
		t.Errorf("the log says: %s", w.logs)
	}
}
