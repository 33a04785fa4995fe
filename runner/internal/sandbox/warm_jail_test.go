package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCellHasNoNumberOfARun: OpenSSL, for one, knows by the number of the process that it was forked, and draws new random
// numbers. A run is number 2 in its namespace, and the same random numbers would come in all runs of a cell that is number 2
// of the jail. There the threads of libcontainer's init have used up that number, which the kernel gives once.
func TestCellHasNoNumberOfARun(t *testing.T) {
	w := warmBoxOn(t, jailed(t))
	s := w.spec(t, "import sys, time\nprint('up', file=sys.stderr, flush=True)\ntime.sleep(600)\n")
	if err := w.Prepare(s); err != nil {
		t.Fatal(err)
	}
	own := func(pid int) string {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(raw), "NSpid:")
		line, _, _ := strings.Cut(rest, "\n")
		numbers := strings.Fields(line)
		return numbers[len(numbers)-1]
	}
	cell := own(w.CellPID(s.Warm.Skill))
	w.inside(t, s, func(pid int) {
		if run := own(pid); run == cell {
			t.Errorf("run and cell are both number %s", run)
		}
	})
}

// TestNoCellThatSharesMemory: what a module maps to be shared at its import would be a way from one run to the next.
func TestNoCellThatSharesMemory(t *testing.T) {
	needKernel(t)
	for flag, shared := range map[string]bool{"MAP_SHARED": true, "MAP_PRIVATE": false} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(pair[0], true); err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
		like := exec.Command(python3, "-c", "import mmap, socket\nm = mmap.mmap(-1, 4096, mmap."+flag+")\ns = socket.socket(fileno=0)\ns.recv(9)\ns.send(b'I')\ns.recv(9)\n")
		like.Stdin = theirs
		if err := errors.Join(like.Start(), theirs.Close()); err != nil {
			t.Fatal(err)
		}
		c := &cell{process: like.Process, control: ours, said: make(chan []byte, 1)}
		if err := c.prepare(nil); (err != nil) != shared || shared && !strings.Contains(err.Error(), "share") {
			t.Errorf("%s: %v", flag, err)
		}
		if err := errors.Join(ours.Close(), like.Wait()); err != nil { // it ends with its control socket
			t.Error(err)
		}
	}
}

// TestFailedCellLeavesItsJailOnce: a jail whose users are miscounted is closed under a run.
func TestFailedCellLeavesItsJailOnce(t *testing.T) {
	w := warmBoxOn(t, jailed(t))
	s := w.spec(t, "print(1)\n")
	h, release, err := w.jails.get(s) // as a run that goes on
	if err != nil {
		t.Fatal(err)
	}
	defer release(true)
	weak := &landlocked{shim: w.shim, force: w.force, jails: w.jails}
	weak.force.jailCell = []unix.SockFilter{give(allow)}
	if _, err := weak.startCell(w.cfg.Library, w.root, s); err == nil || !strings.Contains(err.Error(), "read_back seccomp") {
		t.Fatal(err)
	}
	if h.runs != 1 {
		t.Errorf("%d are counted in the jail of one run", h.runs)
	}
}

// TestJailThatBearsNoCell is given up: what it was asked for could still come, without anybody who knows of it.
func TestJailThatBearsNoCell(t *testing.T) {
	needKernel(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	closed := 0
	s := &landlocked{jails: &jails{own: []string{os.Getenv(envShim)}, open: func(JailSpec) (Jail, error) {
		door := os.NewFile(uintptr(pair[0]), "door")
		return Jail{Door: door, Close: func() error { closed++; return door.Close() }}, nil
	}}}
	go func() { // takes the request and says nothing
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(pair[1]), Events: unix.POLLIN}}, -1)
		_ = unix.Close(pair[1])
	}()
	if _, err := s.startCell(os.Getenv(envShim)+".so", t.TempDir(), base(t, python3, "x.py")); !errors.Is(err, errCell) {
		t.Fatal(err)
	}
	if closed != 1 {
		t.Errorf("it was closed %d times", closed)
	}
}

// TestHangingCellInAJail: the run that waits for a fork goes cold as soon as in the other tier.
func TestHangingCellInAJail(t *testing.T) {
	w := warmBoxOn(t, jailed(t))
	s := w.spec(t, says)
	if err := w.Prepare(s); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(w.CellPID(s.Warm.Skill), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f, err := w.fork(w.skills[s.Warm.Skill].cell, s)
	if took := time.Since(began); err == nil || took >= bornLimit {
		t.Errorf("%v, %v after %s", f, err, took)
	}
}

// TestJailMayDie with all that is in it: what had begun is lost and said, what waited is started cold in a new jail, and the
// old one has no user left.
func TestJailMayDie(t *testing.T) {
	w := warmBoxOn(t, jailed(t))
	s := w.spec(t, "import sys, time\nif sys.stdin.read():\n    print('began', file=sys.stderr, flush=True)\n    time.sleep(600)\nprint('ok')\n")
	if err := w.Prepare(s); err != nil {
		t.Fatal(err)
	}
	cell := w.skills[s.Warm.Skill].cell
	old := cell.jail
	killed := w.again(t, s)
	killed.Stdin = []byte("wait")
	began := 0
	killed.OnStderr = func(string, time.Duration) {
		began++
		if err := syscall.Kill(parentOf(t, cell.process.Pid), syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if exit, err := w.Run(t.Context(), killed); !errors.Is(err, ErrSupervisor) || began != 1 {
		t.Errorf("began %d times: %v, %+v", began, err, exit)
	}
	w.Settle()
	if exit := w.run(t, w.again(t, s), false); string(exit.Stdout) != "ok\n" {
		t.Errorf("%+v", exit)
	}
	w.Settle()
	if exit := w.run(t, w.again(t, s), true); string(exit.Stdout) != "ok\n" {
		t.Errorf("%+v", exit)
	}
	w.Settle()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if old.runs != 0 {
		t.Errorf("%d are counted in the old jail", old.runs)
	}
	for _, h := range w.jails.byKey {
		if h == old || h.runs != 0 {
			t.Errorf("%d are counted in a jail; it is the old one: %t", h.runs, h == old)
		}
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	parent, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// libc's area for restartable sequences is known to the kernel in a warm run as it is in a cold one. Without register_rseq
// (cell/sibling.c) libc reads a number of the processor there that nobody keeps.
func TestProcessorNumber(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 309, "aarch64": 168}[os.uname().machine]
wrong = 0
for i in range(20):
    for cpu in os.sched_getaffinity(0) if i == 0 else (0, 1):
        try: os.sched_setaffinity(0, {cpu})
        except OSError: continue
        real = ctypes.c_uint(99)
        libc.syscall(number, ctypes.byref(real), None, None)
        wrong += libc.sched_getcpu() != real.value
print("wrong", wrong)
`, "ctypes", "os")
		cold, warm := w.both(t, s)
		if string(cold.Stdout) != "wrong 0\n" || string(warm.Stdout) != "wrong 0\n" {
			t.Errorf("cold %s%s, warm %s%s", cold.Stdout, cold.Stderr, warm.Stdout, warm.Stderr)
		}
	})
}

// A run in a jail that has ended before its process is looked for is no fault of ours.
func TestGone(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := gone(p); err != nil {
		t.Error(err)
	}
}
