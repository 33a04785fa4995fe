package sandbox

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// int80 makes a 32-bit call (getpid, 20) from a 64-bit program.
const int80 = `
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ|mmap.PROT_WRITE|mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000" "cd80" "c3"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())
`

// x32 makes getpid with bit 30 set in its number.
const x32 = `
import ctypes
ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 + 39))
`

const forever = "while True: pass"

func TestCauses(t *testing.T) {
	s := full(t)
	tests := []struct {
		name   string
		text   string
		change func(*Limits)
		want   Exit
	}{
		{name: "exit 0", text: "print('x')", want: Exit{Cause: Exited, Stdout: []byte("x\n")}},
		{name: "exit 7", text: "raise SystemExit(7)", want: Exit{Cause: Exited, ExitCode: 7}},
		{name: "the shim's own code", text: "raise SystemExit(125)", want: Exit{Cause: Exited, ExitCode: 125}},
		{
			name: "timeout", text: "import time; time.sleep(600)",
			change: func(l *Limits) { l.Wall = 200 * time.Millisecond },
			want:   Exit{Cause: Timeout, ExitCode: -1, Signal: "SIGKILL"},
		},
		{
			name: "cpu", text: forever, change: func(l *Limits) { l.CPU = time.Second },
			want: Exit{Cause: CPULimit, ExitCode: -1, Signal: "SIGKILL"},
		},
		{
			name: "own SIGKILL is not cpu", text: "import os; os.kill(os.getpid(), 9)",
			want: Exit{Cause: Signalled, ExitCode: -1, Signal: "SIGKILL"},
		},
		{
			name: "own SIGTERM", text: "import os; os.kill(os.getpid(), 15)",
			want: Exit{Cause: Signalled, ExitCode: -1, Signal: "SIGTERM"},
		},
		{name: "x32 call", text: x32, want: Exit{Cause: Blocked, ExitCode: -1, Signal: "SIGSYS"}},
		{
			name: "output", text: "print('x' * 101)", change: func(l *Limits) { l.StdoutBytes = 101 },
			want: Exit{Cause: OutputLimit, Stdout: []byte(strings.Repeat("x", 101))},
		},
	}
	for _, processes := range []int{1, 8} {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				spec := script(t, test.text)
				spec.Limits.Processes = processes
				if test.change != nil {
					test.change(&spec.Limits)
				}
				got := mustRun(t, s, spec)
				if got.Cause != OutputLimit { // there it is a race whether it ends by itself or by us
					if diff := cmp.Diff([]any{test.want.ExitCode, test.want.Signal}, []any{got.ExitCode, got.Signal}); diff != "" {
						t.Error(diff)
					}
				}
				if diff := cmp.Diff([]any{test.want.Cause, string(test.want.Stdout)}, []any{got.Cause, string(got.Stdout)}); diff != "" {
					t.Errorf("%s\nstderr: %s", diff, got.Stderr)
				}
			})
		}
	}
	noStrangers(t)
}

// A call by the 32-bit gate is refused, whatever its number means there. Not every virtual machine has the gate (PVM
// guests answer SIGSEGV): the control tells, and bpf_test.go checks the program for that arch everywhere.
func TestForeignArch(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("int 0x80 is amd64")
	}
	control := mustRun(t, weaker(t, withoutSeccomp), script(t, int80))
	if control.Signal == "SIGSEGV" {
		t.Skip("this machine has no int 0x80")
	}
	if control.Cause != Exited || control.ExitCode != 0 {
		t.Fatalf("control: %s %d", control.Cause, control.ExitCode)
	}
	got := mustRun(t, full(t), script(t, int80))
	if got.Cause != Blocked || got.Signal != "SIGSYS" {
		t.Errorf("got %s %s", got.Cause, got.Signal)
	}
}

func TestCancelled(t *testing.T) {
	s := full(t)
	for _, processes := range []int{1, 8} {
		ctx, cancel := context.WithCancel(t.Context())
		spec := script(t, "import sys, time; print('up', file=sys.stderr, flush=True); time.sleep(600)")
		spec.Limits.Processes = processes
		spec.OnStderr = func(string, time.Duration) { cancel() }
		got, err := s.Run(ctx, spec)
		if err != nil || got.Cause != Cancelled || got.ExitCode != -1 {
			t.Errorf("processes %d: got %+v, %v", processes, got, err)
		}
		again, err := s.Run(ctx, spec) // its context has ended: nothing may start
		if err != nil || again.Cause != Cancelled || again.Wall != 0 {
			t.Errorf("second: got %+v, %v", again, err)
		}
	}
	noStrangers(t)
}

// A program that asks for too much gets an error from its own allocator: exit 1 and a message, not a kill.
func TestMemory(t *testing.T) {
	s := full(t)
	for name, text := range map[string]string{
		"at once":    "bytearray(2 << 30)",
		"bit by bit": "a = []\nwhile True: a.append(bytearray(1 << 20))",
		"shared map": "import mmap; mmap.mmap(-1, 2 << 30)",
	} {
		got := mustRun(t, s, script(t, text))
		if got.Cause != Exited || got.ExitCode != 1 {
			t.Errorf("%s: got %s %d, stderr %s", name, got.Cause, got.ExitCode, got.Stderr)
		}
	}
	if got := mustRun(t, s, script(t, "bytearray(40 << 20)")); got.ExitCode != 0 {
		t.Errorf("40 MiB of 128: %s", got.Stderr)
	}
}

func TestFileSize(t *testing.T) {
	spec := script(t, `
import errno
open("small", "wb").write(bytes(1 << 20))
try:
    open("large", "wb", buffering=0).write(bytes(1 << 20)); open("large", "ab", buffering=0).write(b"x")
except OSError as e:
    print(errno.errorcode[e.errno])
`)
	spec.Limits.FileBytes = 1 << 20
	if got := mustExit(t, full(t), spec); string(got.Stdout) != "EFBIG\n" {
		t.Errorf("got %q", got.Stdout)
	}
}

func TestRefusedBeforeStart(t *testing.T) {
	s := full(t)
	for name, change := range map[string]func(*Spec){
		"no program":        func(s *Spec) { s.Argv = nil },
		"relative program":  func(s *Spec) { s.Argv[0] = "python3" },
		"root as folder":    func(s *Spec) { s.Dir = "/" },
		"relative folder":   func(s *Spec) { s.Dir = "work" },
		"unclean folder":    func(s *Spec) { s.Dir += "/../x" },
		"all readable":      func(s *Spec) { s.Readable = []string{"/"} },
		"all writable":      func(s *Spec) { s.Writable = []string{"/"} },
		"a link elsewhere":  func(s *Spec) { s.Links = []Link{{"../x", "/srv"}} },
		"a nameless link":   func(s *Spec) { s.Links = []Link{{"", "/srv"}} },
		"a link to all":     func(s *Spec) { s.Links = []Link{{"x", "/"}} },
		"too much input":    func(s *Spec) { s.Stdin = make([]byte, 4097) },
		"nameless variable": func(s *Spec) { s.Env = []string{"=x"} },
		"no wall":           func(s *Spec) { s.Limits.Wall = 0 },
		"no cpu":            func(s *Spec) { s.Limits.CPU = 0 },
		"no memory":         func(s *Spec) { s.Limits.MemoryBytes = 0 },
		"no file":           func(s *Spec) { s.Limits.FileBytes = 0 },
		"no open files":     func(s *Spec) { s.Limits.OpenFiles = 0 },
		"no processes":      func(s *Spec) { s.Limits.Processes = 0 },
		"no stdout":         func(s *Spec) { s.Limits.StdoutBytes = 0 },
		"no stderr":         func(s *Spec) { s.Limits.StderrBytes = 0 },
		"no interpreter":    func(s *Spec) { s.Limits.Interpreter = "" },
	} {
		spec := script(t, "pass")
		change(&spec)
		if _, err := s.Run(t.Context(), spec); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// What cannot be started is our failure and says which step it was (case 27: and leaves nothing behind).
func TestCannotStart(t *testing.T) {
	s := full(t)
	for _, processes := range []int{1, 8} {
		spec := script(t, "pass")
		spec.Limits.Processes = processes
		spec.Argv[0] = privateFolder(t) // a folder: Landlock lets it be opened, execve does not
		_, err := s.Run(t.Context(), spec)
		if !errors.Is(err, ErrConfine) || !strings.Contains(err.Error(), "execve") {
			t.Errorf("got %v", err)
		}
		spec = script(t, "pass")
		spec.Limits.Processes = processes
		spec.Readable = []string{privateFolder(t) + "/missing"}
		if _, err := s.Run(t.Context(), spec); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("missing readable path: got %v", err)
		}
	}
	noStrangers(t)
}
