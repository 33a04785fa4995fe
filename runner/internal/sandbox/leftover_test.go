package sandbox

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What outlives its leader would live for a minute; Run must not wait for it, and nothing of it may be left.
func TestLeftovers(t *testing.T) {
	const fork = "import os, time\n"
	tests := map[string]Spec{}
	for name, text := range map[string]string{
		"background":         "sleep 60 & echo done",
		"subshell":           "(sleep 60 &) ; echo done",
		"pipe":               "sleep 60 | cat & echo done",
		"session":            "setsid sleep 60 & echo done",
		"session, own group": "setsid -f bash -c 'trap \"\" TERM HUP; sleep 60 & sleep 60'; echo done",
		"many":               "for i in 1 2 3 4 5 6 7 8; do setsid sleep 60 & done; echo done",
	} {
		tests[name] = shell(t, text)
	}
	tests["double fork"] = script(t, fork+`
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
print("done")
`)
	// Each generation leaves its session, makes the next one and ends: there is never a process to be found twice.
	tests["hopping"] = script(t, fork+`
if os.fork() == 0:
    while True:
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
print("done")
`)
	for name, s := range map[string]*landlocked{
		"kill(-1)": full(t),
		"walk":     weaker(t, withoutScope), // the supervisor may not use kill(-1) then
	} {
		for test, spec := range tests {
			t.Run(name+"/"+test, func(t *testing.T) {
				spec.Limits.Processes = 32
				got := mustExit(t, s, spec)
				if string(got.Stdout) != "done\n" {
					t.Errorf("stdout %q", got.Stdout)
				}
				if got.Wall > 30*time.Second {
					t.Errorf("took %s: waited for a leftover", got.Wall)
				}
				noStrangers(t)
			})
		}
	}
}

// The same shapes when the run is ended by us.
func TestLeftoversOfTimeout(t *testing.T) {
	for name, s := range map[string]*landlocked{"kill(-1)": full(t), "walk": weaker(t, withoutScope)} {
		spec := shell(t, "trap '' TERM HUP INT; setsid sleep 60 & (setsid sleep 60 &); sleep 60 | cat")
		spec.Limits.Wall = 300 * time.Millisecond
		if got := mustRun(t, s, spec); got.Cause != Timeout || got.Wall > 30*time.Second {
			t.Errorf("%s: got %s after %s", name, got.Cause, got.Wall)
		}
		noStrangers(t)
	}
}

func TestTooManyProcesses(t *testing.T) {
	s := full(t)
	spec := shell(t, "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 60 & done; wait")
	spec.Limits.Processes = 4
	if got := mustRun(t, s, spec); got.Cause != ProcessLimit || got.Signal != "SIGKILL" {
		t.Errorf("10 of 4: got %s %s", got.Cause, got.Signal)
	}
	noStrangers(t)
	bomb := shell(t, "f() { setsid -f bash -c true; f & f & }; f; sleep 60")
	if got := mustRun(t, s, bomb); got.Cause != ProcessLimit {
		t.Errorf("fork bomb: got %s %d", got.Cause, got.ExitCode)
	}
	noStrangers(t)
	mustExit(t, s, shell(t, "for i in 1 2 3; do true & done; wait")) // and the next run is not harmed
}

// 300 times exit code 7 while other runs leave orphans: nobody's reaping takes a code away (case 26).
func TestExitCodesAmongOrphans(t *testing.T) {
	s := full(t)
	const runs = 300
	var seven, orphans atomic.Int64
	orphan := shell(t, "(setsid sleep 60 &) ; exit 0")
	workers(4, runs, func(i int) {
		spec := Spec{Argv: []string{bash, "-c", "exit 7"}, Env: orphan.Env, Dir: orphan.Dir, Limits: orphan.Limits}
		spec.Limits.Processes = 1 + 7*(i%2)
		if got, err := s.Run(t.Context(), spec); err == nil && got.Cause == Exited && got.ExitCode == 7 {
			seven.Add(1)
		}
		if i%5 > 0 {
			return
		}
		if got, err := s.Run(t.Context(), orphan); err == nil && got.Cause == Exited && got.ExitCode == 0 {
			orphans.Add(1)
		}
	})
	if seven.Load() != runs || orphans.Load() != runs/5 {
		t.Errorf("exit code 7: %d of %d, beside %d of %d runs with orphans", seven.Load(), runs, orphans.Load(), runs/5)
	}
	noStrangers(t)
}

// When the supervisor itself is ended from outside the run counts as not swept: an error, never an exit.
func TestSupervisorKilled(t *testing.T) {
	s := full(t)
	spec := shell(t, "echo $PPID >&2; sleep 60")
	spec.OnStderr = func(line string, _ time.Duration) {
		var supervisor int
		if _, err := fmt.Sscan(line, &supervisor); err == nil {
			_ = syscall.Kill(supervisor, syscall.SIGKILL)
		}
	}
	_, err := s.Run(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), ErrSupervisor.Error()) {
		t.Errorf("got %v", err)
	}
}
