// Package nstest runs the tests of a package that attack what is around them as a throw-away user in PID, mount, IPC and
// network namespaces of their own: the test binary starts itself again, first as root and init of the namespaces, then as
// that user. Where that is not possible such tests are skipped and counted, or fail when they were asked for.
package nstest

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

// UID is the throw-away user, and its group.
const UID = 64002

const (
	envStage     = "XRAY_NSTEST_STAGE"
	envShim      = "XRAY_NSTEST_SHIM"
	envRequire   = "XRAY_REQUIRE_PRIVILEGED"
	stageInit    = "init"
	stageTests   = "tests"
	maxProcesses = 1500 // of UID: a fork bomb that gets away stays small
	needsRoot    = "needs root and namespaces of its own: run as root"
)

// Main is for TestMain, and gives its exit code. build is a shell command that makes the shim at the path $0, and what
// belongs to it beside it; it runs in the package's folder.
func Main(m *testing.M, build string) int {
	switch {
	case os.Getenv(envStage) == stageInit:
		return initNamespaces()
	case os.Getenv(envStage) == "" && os.Geteuid() == 0:
		return enterNamespaces(build)
	}
	return m.Run()
}

// Shim is the path of what build made.
func Shim() string { return os.Getenv(envShim) }

// Need skips a test that is not in the namespaces, or fails it where they were asked for.
func Need(t testing.TB) {
	t.Helper()
	switch {
	case os.Getenv(envStage) == stageTests:
	case os.Getenv(envRequire) == "1":
		t.Fatal(needsRoot)
	default:
		t.Skip(needsRoot)
	}
}

func enterNamespaces(command string) int {
	dir, err := os.MkdirTemp("", "xray-test-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir)
	binary, shim := filepath.Join(dir, "tests"), filepath.Join(dir, "shim")
	self, err := os.ReadFile("/proc/self/exe")
	build := exec.Command("sh", "-c", command, shim)
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
		Sys:   &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: UID, Gid: UID}},
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
	fmt.Fprintln(os.Stderr, "tests in namespaces:", err)
	return 1
}
