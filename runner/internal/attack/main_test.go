package attack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The controls really do what they try, so all this runs as a throw-away user in PID, mount, IPC and network namespaces
// of its own: this binary again, first as root and init of the namespaces, then as that user (see package sandbox).
const (
	testUID      = 64002
	envStage     = "XRAY_ATTACK_STAGE"
	envShim      = "XRAY_ATTACK_SHIM"
	envRequire   = "XRAY_REQUIRE_PRIVILEGED"
	stageInit    = "init"
	stageTests   = "tests"
	maxProcesses = 1500
	needsRoot    = "needs root and namespaces of its own: run as root"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envStage) == stageInit:
		os.Exit(initNamespaces())
	case os.Getenv(envStage) == "" && os.Geteuid() == 0:
		os.Exit(enterNamespaces())
	}
	os.Exit(m.Run())
}

func enterNamespaces() int {
	dir, err := os.MkdirTemp("", "xray-attack-test-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir)
	binary, shim := filepath.Join(dir, "attack.test"), filepath.Join(dir, "shim")
	self, err := os.ReadFile("/proc/self/exe")
	build := exec.Command("sh", "-c", `../sandbox/shim/build.sh "$0" && ../sandbox/cell/build.sh "$0.so"`, shim)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(binary, self, 0o755), build.Run()); err != nil {
		return complain(err)
	}
	var arguments []string
	for _, argument := range os.Args[1:] {
		if !strings.HasPrefix(argument, "-test.testlogfile=") && !strings.HasPrefix(argument, "-test.coverprofile=") {
			arguments = append(arguments, argument)
		}
	}
	cmd := exec.Command(binary, arguments...)
	cmd.Env = append(os.Environ(), envStage+"="+stageInit, envShim+"="+shim)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC, Pdeathsig: syscall.SIGKILL,
	}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		return complain(err)
	}
	return 0
}

// initNamespaces reaps orphans as a container's init does.
func initNamespaces() int {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777"),
		loopbackUp(),
		unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: maxProcesses, Max: maxProcesses}),
	)
	if err != nil {
		return complain(err)
	}
	if err := os.Unsetenv(envStage); err != nil { // the first of two with one name would count
		return complain(err)
	}
	process, err := os.StartProcess(os.Args[0], os.Args, &os.ProcAttr{
		Env:   append(os.Environ(), envStage+"="+stageTests),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}},
	})
	if err != nil {
		return complain(err)
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return complain(err)
		case pid == process.Pid:
			return status.ExitStatus()
		}
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "attack tests:", err)
	return 1
}

func needKernel(t testing.TB) {
	t.Helper()
	switch {
	case os.Getenv(envStage) == stageTests:
	case os.Getenv(envRequire) == "1":
		t.Fatal(needsRoot)
	default:
		t.Skip(needsRoot)
	}
}
