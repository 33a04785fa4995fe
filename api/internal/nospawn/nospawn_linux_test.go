package nospawn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func buildProbe(t *testing.T) string {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "spawnprobe")
	build := exec.Command("go", "build", "-o", probe, "./spawnprobe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return probe
}

// try runs one way in a process of its own, and says how it ended in one word or errno.
func try(t *testing.T, probe string, args ...string) string {
	t.Helper()
	out, err := exec.Command(probe, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	status := syscall.WaitStatus(0)
	if exit != nil {
		status = exit.Sys().(syscall.WaitStatus)
	}
	switch {
	case status.Signaled():
		return "killed by " + unix.SignalName(status.Signal())
	case strings.Contains(string(out), "SIGSEGV"): // Go reports it before it ends
		return "killed by SIGSEGV"
	case status.ExitStatus() == 1:
		return "refused: " + strings.TrimSpace(string(out))
	case status.ExitStatus() == 0:
		return "worked"
	}
	return fmt.Sprintf("exit %d: %s", status.ExitStatus(), out)
}

// TestNothingStarts tries every way to start a program in a process that has put the filter on, and in one that has
// not: the control, which shows that the way works.
func TestNothingStarts(t *testing.T) {
	probe := buildProbe(t)
	list, err := exec.Command(probe, "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"start": "operation not permitted", "start-thread": "operation not permitted", "exec": "operation not permitted",
		"execveat": "operation not permitted", "fork": "operation not permitted", "vfork": "operation not permitted",
		"memfd": "operation not permitted", "clone3": "function not implemented", "int80": "killed by SIGSYS", "x32": "killed by SIGSYS",
	}
	ways := strings.Fields(string(list))
	if len(ways) != len(want) {
		t.Errorf("the probe has %d ways, this test knows %d", len(ways), len(want))
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			control := try(t, probe, way)
			switch {
			case strings.Contains(control, "no such call"), way == "int80" && control == "killed by SIGSEGV":
				t.Skipf("this machine has no %s", way)
			case way == "x32": // most kernels have no such table; that the filter kills is what counts
			case control != "worked":
				t.Errorf("the control gave %q: the attack does not work without the filter either", control)
			}
			if got := try(t, probe, "-filter", way); !strings.HasSuffix(got, want[way]) {
				t.Errorf("got %q, want %q", got, want[way])
			}
		})
	}
}

// TestProgram asks the filter as the kernel does, also about architectures that this machine cannot run.
func TestProgram(t *testing.T) {
	const auditI386, auditARM = 0x40000003, 0x40000028
	for _, row := range []struct {
		name         string
		arch, number uint32
		arg          uint32
		want         uint32
	}{
		{"read", nativeArch, unix.SYS_READ, 0, allow},
		{"execve", nativeArch, unix.SYS_EXECVE, 0, eperm},
		{"execve by another architecture's number (i386: 11)", auditI386, 11, 0, kill},
		{"read by i386", auditI386, 3, 0, kill},
		{"arm", auditARM, 11, 0, kill},
		{"no architecture", 0, unix.SYS_READ, 0, kill},
		{"thread", nativeArch, unix.SYS_CLONE, unix.CLONE_THREAD | unix.CLONE_VM | unix.CLONE_SIGHAND, allow},
		{"process", nativeArch, unix.SYS_CLONE, uint32(unix.SIGCHLD), eperm},
		{"process that shares memory", nativeArch, unix.SYS_CLONE, unix.CLONE_VM | unix.CLONE_VFORK | uint32(unix.SIGCHLD), eperm},
		{"clone3", nativeArch, unix.SYS_CLONE3, unix.CLONE_THREAD, enosys},
		{"ptrace", nativeArch, unix.SYS_PTRACE, 0, eperm},
		{"io_uring", nativeArch, unix.SYS_IO_URING_SETUP, 0, eperm},
		{"io_uring_enter, useless without", nativeArch, unix.SYS_IO_URING_ENTER, 0, allow},
		{"a number that nobody has yet", nativeArch, 9999, 0, allow},
	} {
		if got := evaluate(t, row.arch, row.number, row.arg); got != row.want {
			t.Errorf("%s: got %#x, want %#x", row.name, got, row.want)
		}
	}
	if runtime.GOARCH == "amd64" {
		for _, number := range []uint32{0x40000000, 0x40000000 | 520, 0xffffffff} {
			if got := evaluate(t, nativeArch, number, 0); got != kill {
				t.Errorf("x32 number %#x: got %#x", number, got)
			}
		}
	}
}

// evaluate runs the filter in another implementation of the machine. Its loads are big-endian, ours are words: the same.
func evaluate(t *testing.T, arch, number, arg uint32) uint32 {
	t.Helper()
	var code []bpf.Instruction
	for _, in := range program() {
		code = append(code, bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}.Disassemble())
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	for offset, v := range map[int]uint32{offsetNumber: number, offsetArch: arch, offsetArg0: arg} {
		binary.BigEndian.PutUint32(data[offset:], v)
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

// TestCheckSees: a process without the filter does not pass, and neither does a thread that lacks one of the two lines.
func TestCheckSees(t *testing.T) {
	if err := Check(); err == nil {
		t.Error("Check passes in this process, which has no filter")
	}
	for name, row := range map[string]struct {
		threads []string
		ok      bool
	}{
		"both threads":     {[]string{"Name:\ta\nNoNewPrivs:\t1\nSeccomp:\t2\nx\n", "Name:\tb\nNoNewPrivs:\t1\nSeccomp:\t2\nx\n"}, true},
		"one without":      {[]string{"Name:\ta\nNoNewPrivs:\t1\nSeccomp:\t2\nx\n", "Name:\tb\nNoNewPrivs:\t1\nSeccomp:\t0\nx\n"}, false},
		"privileges":       {[]string{"Name:\ta\nNoNewPrivs:\t0\nSeccomp:\t2\nx\n"}, false},
		"strict mode":      {[]string{"Name:\ta\nNoNewPrivs:\t1\nSeccomp:\t1\nx\n"}, false},
		"name of a thread": {[]string{"Name:\tSeccomp:\t2\nNoNewPrivs:\t1\nSeccomp:\t0\nx\n"}, false},
		"none":             {nil, false},
	} {
		folder := t.TempDir()
		for i, status := range row.threads {
			thread := filepath.Join(folder, fmt.Sprint(i))
			if err := os.Mkdir(thread, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(thread, "status"), []byte(status), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := checkThreads(folder); (err == nil) != row.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
