package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests fork, flood and send signals to everything they can reach. So they run as a throw-away user in PID, mount
// and network namespaces of their own: TestMain starts this binary again, first as root and init of the namespaces
// (stageInit), then as that user (stageTests). Where that is not possible the tests that need the kernel are skipped and
// counted, or fail when they were asked for.
const (
	testUID      = 64002
	envStage     = "XRAY_SANDBOX_STAGE"
	envShim      = "XRAY_SANDBOX_SHIM"
	envCgroup    = "XRAY_SANDBOX_CGROUP" // the tests' own, where there is cgroup v2
	envRequire   = "XRAY_REQUIRE_PRIVILEGED"
	stageInit    = "init"
	stageTests   = "tests"
	stageRunner  = "runner" // a runner to be killed: death_test.go
	stageOld     = "old"    // a runner on a kernel that lacks something: old_unsafe_test.go
	maxProcesses = 1500     // of testUID: a fork bomb that gets away stays small
	needsRoot    = "needs root and namespaces of its own: run as root, or see main_test.go"
)

var skipped atomic.Int64

func TestMain(m *testing.M) { os.Exit(runStage(m)) }

func runStage(m *testing.M) int {
	switch os.Getenv(envStage) {
	case stageInit:
		return initNamespaces()
	case stageRunner:
		return runForever()
	case stageOld:
		return runOld()
	case "":
		if os.Geteuid() == 0 {
			return enterNamespaces()
		}
	}
	code := m.Run()
	if n := skipped.Load(); n > 0 {
		fmt.Printf("skipped %d tests: %s\n", n, needsRoot)
	}
	return code
}

// enterNamespaces builds the shim and a copy of this binary where the test user may execute them (the go tool's own
// folder is 0700), and runs that.
func enterNamespaces() int {
	dir, err := os.MkdirTemp("", "xray-sandbox-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir)
	binary, shim, profile := filepath.Join(dir, "sandbox.test"), filepath.Join(dir, "shim"), filepath.Join(dir, "cover")
	self, err := os.ReadFile("/proc/self/exe")
	build := exec.Command("sh", "-c", `shim/build.sh "$0" && cell/build.sh "$1"`, shim, shim+".so")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	err = errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(binary, self, 0o755), build.Run())
	err = errors.Join(err, os.WriteFile(profile, nil, 0o600), os.Chown(profile, testUID, testUID))
	if err != nil {
		return complain(err)
	}
	arguments, wanted := redirectProfiles(profile)
	cmd := exec.Command(binary, arguments...)
	cmd.Env = append(os.Environ(), envStage+"="+stageInit, envShim+"="+shim)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	if wanted != "" {
		content, readErr := os.ReadFile(profile)
		err = errors.Join(err, readErr, os.WriteFile(wanted, content, 0o644))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return complain(err)
	}
	return 0
}

// redirectProfiles rewrites the flags that name files in folders which only root may enter.
func redirectProfiles(profile string) (arguments []string, wanted string) {
	for _, argument := range os.Args[1:] {
		if path, ok := strings.CutPrefix(argument, "-test.coverprofile="); ok {
			wanted, argument = path, "-test.coverprofile="+profile
		}
		if !strings.HasPrefix(argument, "-test.testlogfile=") {
			arguments = append(arguments, argument)
		}
	}
	return arguments, wanted
}

// initNamespaces is init: it reaps orphans as a container's init does, and when it ends the kernel ends all the rest.
func initNamespaces() int {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		loopbackUp(),
		unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: maxProcesses, Max: maxProcesses}),
	)
	if err != nil {
		return complain(err)
	}
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, envStage+"=") {
			env = append(env, entry)
		}
	}
	attributes := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	if dir := delegate(); dir != nil {
		defer removeCgroups(dir.Name())
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(dir.Fd())
		env = append(env, envCgroup+"="+dir.Name())
	}
	process, err := os.StartProcess(os.Args[0], os.Args, &os.ProcAttr{
		Env:   append(env, envStage+"="+stageTests),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   attributes,
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
		case pid == process.Pid && status.Exited():
			return status.ExitStatus()
		case pid == process.Pid:
			return complain(fmt.Errorf("tests ended by %s", status.Signal()))
		}
	}
}

// delegate makes a cgroup that belongs to the test user, as an operator does; nil where there is no cgroup v2.
func delegate() *os.File {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	parent, err := ownCgroup(string(mounts), string(own))
	if err != nil {
		return nil
	}
	dir, err := os.MkdirTemp(parent, "xray-test-")
	if err != nil {
		return nil
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		_ = os.Chown(filepath.Join(dir, name), testUID, testUID)
	}
	folder, err := os.Open(dir)
	if err != nil {
		return nil
	}
	return folder
}

// removeCgroups is called when the tests are over: whatever is left there ends.
func removeCgroups(dir string) {
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	for range 100 {
		below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		for _, one := range below {
			_ = unix.Rmdir(filepath.Dir(one))
		}
		if unix.Rmdir(dir) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
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
	fmt.Fprintln(os.Stderr, "sandbox tests:", err)
	return 1
}

// needKernel is called by every test that starts something.
func needKernel(t testing.TB) {
	t.Helper()
	if os.Getenv(envStage) == stageTests {
		return
	}
	if os.Getenv(envRequire) == "1" {
		t.Fatal(needsRoot)
	}
	skipped.Add(1)
	t.Skip(needsRoot)
}
