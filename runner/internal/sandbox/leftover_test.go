package sandbox

import (
	"fmt"
	"runtime"
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

// restless has two orphans, children of the supervisor, that do nothing but bear it more children that end at once: some ten
// thousand a second, each a signal to it. Beside them the script forks on and on.
const restless = `
import ctypes, mmap, os, time
CLONE_VM, CLONE_VFORK, CLONE_PARENT, SIGCHLD = 0x100, 0x4000, 0x8000, 17
loop = b"\xb8\x38\x00\x00\x00"                                                            # mov eax, SYS_clone
loop += b"\xbf" + (CLONE_VM | CLONE_VFORK | CLONE_PARENT | SIGCHLD).to_bytes(4, "little")  # mov edi, flags
loop += b"\x31\xf6\x31\xd2\x4d\x31\xd2\x4d\x31\xc0\x0f\x05"                            # no stack, no more; syscall
loop += b"\x85\xc0\x74\x02"                                                              # the child jumps over the next
loop += b"\xeb" + (256 - len(loop) - 2).to_bytes(1, "little")                              # jmp loop
loop += b"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05"                                          # exit(0)
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(loop)
bear = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
for _ in range(2):
    if os.fork() == 0:
        if os.fork() == 0:
            bear()
        os._exit(0)
    os.wait()
time.sleep(0.2)
for _ in range(200):
    if os.fork() == 0:
        time.sleep(600)
time.sleep(600)
`

// Whoever can keep the supervisor busy with signals and ends must not keep it from counting.
func TestCountedAmongSignals(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the script has machine code for amd64")
	}
	for name, s := range map[string]*landlocked{"landlock": full(t), "namespaces": jailedAlone(t)} {
		t.Run(name, func(t *testing.T) {
			spec := base(t, python3, "-I", "-c", restless)
			spec.Limits.Processes, spec.Limits.Wall = 8, 20*time.Second
			if got := mustRun(t, s, spec); got.Cause != ProcessLimit {
				t.Errorf("got %s %d after %s: %s", got.Cause, got.ExitCode, got.Wall, got.Stderr)
			}
		})
	}
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
