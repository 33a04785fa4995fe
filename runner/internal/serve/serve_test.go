package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"xrayrunner/runner/internal/serve"
)

// envStage makes this binary a runner or a healthcheck, as another user: the runner refuses to be root.
const envStage = "XRAY_SERVE_TEST"

// envABI is the doctor's option: on an older kernel.
const envABI = "XRAY_SERVE_TEST_ABI"

const testUID = 64002

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(envStage) {
	case "serve":
		ctx, stop := context.WithCancel(context.Background())
		go func() { _, _ = os.Stdin.Read(make([]byte, 1)); stop() }() // the test closes it, or has died
		err = serve.Serve(ctx, environ(), os.Stdout)
	case "doctor":
		var verdict serve.Verdict
		abi, _ := strconv.Atoi(os.Getenv(envABI))
		verdict, err = serve.Doctor(environ(), serve.DoctorOptions{JSON: abi == 0, LandlockABI: abi}, os.Stdout)
		fmt.Fprintf(os.Stderr, "verdict %s", verdict)
	case "cost":
		_, err = serve.Cost(context.Background(), environ(), serve.DoctorOptions{JSON: true, Rounds: 3}, os.Stdout)
	case "neighbour":
		_, err = serve.Neighbour(context.Background(), environ(), serve.DoctorOptions{JSON: true, Rounds: 1}, os.Stdout)
	case "healthcheck":
		err = serve.Healthcheck(context.Background(), environ(), os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// environ is the environment without what is the tests' own.
func environ() []string {
	var out []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "RUNNER_") {
			out = append(out, kv)
		}
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a folder that another user can work in, with this binary, the shim, the cell and the shipped skills.
type place struct {
	t        *testing.T
	dir, bin string
}

func newPlace(t *testing.T) place {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "xray-serve-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	p := place{t: t, dir: dir, bin: filepath.Join(dir, "serve.test")}
	self, err := os.ReadFile("/proc/self/exe") // the go tool's own folder is 0700
	must(t, err)
	manifest, err := os.ReadFile("../../manifest.json")
	must(t, err)
	must(t, errors.Join(os.WriteFile(p.bin, self, 0o755), os.WriteFile(filepath.Join(dir, "manifest.json"), manifest, 0o644), os.CopyFS(filepath.Join(dir, "skills"), os.DirFS("../../skills"))))
	if out, err := exec.Command("../sandbox/shim/build.sh", filepath.Join(dir, "xray-shim")).CombinedOutput(); err != nil {
		t.Fatalf("shim: %v\n%s", err, out)
	}
	if out, err := exec.Command("../sandbox/cell/build.sh", filepath.Join(dir, "xray-cell.so")).CombinedOutput(); err != nil {
		t.Fatalf("cell: %v\n%s", err, out)
	}
	program, err := xrayJail()
	must(t, errors.Join(err, os.WriteFile(filepath.Join(dir, "xray-jail"), program, 0o755)))
	for _, name := range []string{"work", "run"} {
		path := filepath.Join(dir, name)
		must(t, os.Mkdir(path, 0o755))
		if os.Getuid() == 0 {
			must(t, os.Chown(path, testUID, testUID))
		}
	}
	return p
}

// xrayJail is the program, built once.
var xrayJail = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "xray-serve-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "xray-jail")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/xray-jail").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(path)
})

// command runs a stage as a user that is not root.
func (p place) command(stage string, extra ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), p.bin)
	cmd.Env = append([]string{envStage + "=" + stage, "RUNNER_LISTEN=unix://" + filepath.Join(p.dir, "run", "s"), "RUNNER_SKILLS_DIR=" + filepath.Join(p.dir, "skills"),
		"RUNNER_MANIFEST=" + filepath.Join(p.dir, "manifest.json"), "RUNNER_WORK_DIR=" + filepath.Join(p.dir, "work"), "RUNNER_DEV=1"}, extra...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: testUID, Gid: testUID}
	}
	return cmd
}

func TestRefusesRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: run the tests as root")
	}
	err := serve.Serve(t.Context(), []string{"RUNNER_LISTEN=unix://" + filepath.Join(t.TempDir(), "s")}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "refusing to run as root") {
		t.Errorf("err = %v", err)
	}
}

// TestRefusesToStart: each step of the start can refuse, and says why; then no socket is left.
func TestRefusesToStart(t *testing.T) {
	p := newPlace(t)
	must(t, os.WriteFile(filepath.Join(p.dir, "bad.json"), []byte(`{"version":1,"skills":{},"skills":{}}`), 0o644))
	alone := filepath.Join(p.dir, "alone", "xray-shim")
	shim, err := os.ReadFile(filepath.Join(p.dir, "xray-shim"))
	must(t, errors.Join(err, os.Mkdir(filepath.Dir(alone), 0o755), os.WriteFile(alone, shim, 0o755)))
	for _, c := range []struct{ name, env, want string }{
		{"no xray-jail", "RUNNER_SHIM=" + alone, "sandbox: xray-jail: unusable program"},
		{"a layer that is not there", "RUNNER_MIN_ISOLATION=landlock,cgroup", "RUNNER_MIN_ISOLATION wants cgroup"},
		{"no shim", "RUNNER_SHIM=/nowhere/shim", "sandbox:"},
		{"no manifest", "RUNNER_MANIFEST=/nowhere/manifest.json", "RUNNER_MANIFEST"},
		{"a manifest with a key twice", "RUNNER_MANIFEST=" + filepath.Join(p.dir, "bad.json"), "RUNNER_MANIFEST"},
		{"a work folder of somebody else", "RUNNER_WORK_DIR=/usr", "RUNNER_WORK_DIR /usr"},
		{"a misspelt setting", "RUNNER_MIN_ISOLATIN=landlock", "did you mean RUNNER_MIN_ISOLATION?"},
		{"a folder for the socket that is not there", "RUNNER_LISTEN=unix:///nowhere/s", "/nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := p.command("serve", c.env).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s; want %q", err, out, c.want)
			}
			if left, err := os.ReadDir(filepath.Join(p.dir, "run")); err != nil || len(left) > 0 {
				t.Errorf("left: %v (%v)", left, err)
			}
		})
	}
}

// TestServe starts the real thing, asks for its health, stops it, and looks that nothing stays. One skill is changed
// before the start: the others are served and health is not good.
func TestServe(t *testing.T) {
	for _, changed := range []bool{false, true} {
		t.Run(fmt.Sprintf("changed %v", changed), func(t *testing.T) {
			p := newPlace(t)
			if changed {
				must(t, os.WriteFile(filepath.Join(p.dir, "skills", "json-diff", "diff.py"), []byte("print('pwned')\n"), 0o644))
			}
			cmd := p.command("serve")
			stop, err := cmd.StdinPipe()
			must(t, err)
			log, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			text := &bytes.Buffer{}
			for b := make([]byte, 4096); !strings.Contains(text.String(), "ready to serve"); { // it says so when it listens
				n, err := log.Read(b)
				text.Write(b[:n])
				if err != nil {
					t.Fatalf("%v: %s", err, text)
				}
			}
			hidden(t, cmd.Process.Pid)
			out, healthErr := p.command("healthcheck").CombinedOutput()
			if changed != (healthErr != nil) || changed != strings.Contains(string(out), "skill json-diff is stopped") {
				t.Errorf("health: %v: %s", healthErr, out)
			}
			second, err := p.command("serve").CombinedOutput()
			if err == nil || !strings.Contains(string(second), "another runner is alive") {
				t.Errorf("a second one: %v: %s", err, second)
			}
			must(t, stop.Close())
			if _, err := text.ReadFrom(log); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil || !strings.Contains(text.String(), `"msg":"stopped"`) {
				t.Errorf("stop: %v: %s", err, text)
			}
			if left, err := os.ReadDir(filepath.Join(p.dir, "run")); err != nil || len(left) > 0 {
				t.Errorf("left: %v (%v)", left, err)
			}
		})
	}
}

// hidden: the kernel gives the files of a process that is not dumpable to root (proc(5)).
func hidden(t *testing.T, pid int) {
	t.Helper()
	owner := func(file string) uint32 {
		info, err := os.Stat(fmt.Sprintf("/proc/%d/%s", pid, file))
		must(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	for _, file := range []string{"environ", "mem", "fd", "maps"} {
		if uid := owner(file); uid != 0 {
			t.Errorf("/proc/PID/%s of the runner belongs to %d", file, uid)
		}
	}
}

// TestHealthcheckWithoutRunner fails and says so.
func TestHealthcheckWithoutRunner(t *testing.T) {
	err := serve.Healthcheck(t.Context(), []string{"RUNNER_LISTEN=unix://" + filepath.Join(t.TempDir(), "s")}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("err = %v", err)
	}
}
