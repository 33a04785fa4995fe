package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const envLacks = "XRAY_SANDBOX_LACKS"

// lacking are the calls that a kernel or an engine's profile may refuse (case 08), with the layers that go with them.
var lacking = map[string]struct {
	number uint32
	layers []string
}{
	"landlock": {unix.SYS_LANDLOCK_CREATE_RULESET, []string{layerLandlock, layerNet, layerScope}},
	"seccomp":  {unix.SYS_SECCOMP, []string{layerSeccomp}},
	"none":     {^uint32(0) - 1, nil},
}

// runOld probes where one call answers ENOSYS, runs a program, and prints what it found.
func runOld() int {
	runtime.LockOSThread()
	if err := answerENOSYS(lacking[os.Getenv(envLacks)].number); err != nil {
		return complain(err)
	}
	s, err := newLandlocked(Config{ShimPath: os.Getenv(envShim)})
	if err != nil {
		return complain(err)
	}
	dir, err := os.MkdirTemp("", "old-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir)
	exit, err := s.Run(context.Background(), Spec{
		Argv: []string{"/bin/true"}, Dir: dir,
		Limits: Limits{
			Wall: time.Minute, CPU: time.Minute, MemoryBytes: 64 << 20, FileBytes: 1 << 20, DiskBytes: 4 << 20, DiskFiles: 1000, OpenFiles: 64, Processes: 1,
			StdoutBytes: 1, StderrBytes: 1, Interpreter: Compiled,
		},
	})
	if err != nil || exit.Cause != Exited {
		return complain(fmt.Errorf("run: %s, %w", exit.Cause, err))
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.Posture().Layers); err != nil {
		return complain(err)
	}
	return 0
}

// answerENOSYS puts a filter on all threads of this process.
func answerENOSYS(number uint32) error {
	filter := []unix.SockFilter{
		load(offsetNumber), jump(unix.BPF_JEQ, number, 0, 1), give(refuse(unix.ENOSYS)), give(allow),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errors.Join(errors.New("filter"), errno)
	}
	return nil
}

// A layer that this kernel does not have is reported with its reason, the others stay in force, and runs are made with
// exactly those. Under another filter seccomp reads as on: only a refused call proves our own.
func TestPostureNamesWhatIsMissing(t *testing.T) {
	full(t)
	for name, missing := range lacking {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{envStage + "=" + stageOld, envLacks + "=" + name, envShim + "=" + os.Getenv(envShim), "TMPDIR=" + t.TempDir()}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var layers []Layer
		if err = errors.Join(err, json.Unmarshal(out, &layers)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(layers) < 10 {
			t.Errorf("%s: %d layers", name, len(layers))
		}
		for _, layer := range layers {
			if layer.Granted { // not this test's matter
				continue
			}
			expected := !strings.Contains(" "+strings.Join(missing.layers, " ")+" ", " "+layer.Name+" ")
			if layer.InForce != expected || (layer.Reason == "") != expected {
				t.Errorf("without %s: %+v", name, layer)
			}
			if (layer.Name == layerLandlock || layer.Name == layerSeccomp) && !expected && !strings.Contains(layer.Reason, "not implemented") {
				t.Errorf("without %s: reason %q", name, layer.Reason)
			}
			if (layer.Name == layerLandlock || layer.Name == layerSeccomp) && (layer.Errno == "ENOSYS") == expected {
				t.Errorf("without %s: errno %q", name, layer.Errno)
			}
			if layer.Means == "" || (layer.Cure == "") != expected {
				t.Errorf("without %s: means %q, cure %q", name, layer.Means, layer.Cure)
			}
		}
	}
}
