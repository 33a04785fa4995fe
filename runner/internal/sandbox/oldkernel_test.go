package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oldKernels are the kernels of the distributions that are common and older than 6.12, by their Landlock ABI.
var oldKernels = map[string]int{"Debian 12 (6.1)": 2, "Ubuntu 24.04 (6.8)": 4}

var olds sync.Map

// old is the sandbox as it is on an older kernel: probed once for each ABI.
func old(t testing.TB, abi int) *landlocked {
	t.Helper()
	full(t)
	probed, _ := olds.LoadOrStore(abi, sync.OnceValues(func() (*landlocked, error) {
		return newLandlocked(Config{ShimPath: os.Getenv(envShim), LandlockABI: abi})
	}))
	s, err := probed.(func() (*landlocked, error))()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What an older kernel lacks is named, and what does not depend on it holds.
func TestPostureOfOldKernels(t *testing.T) {
	for name, abi := range oldKernels {
		missing := map[string]bool{layerScope: true, layerNet: abi < 4}
		for _, layer := range old(t, abi).posture.Layers {
			if layer.InForce == missing[layer.Name] && !layer.Granted {
				t.Errorf("%s: %+v", name, layer)
			}
			if layer.Name == layerSignals && layer.Detail != "filter" {
				t.Errorf("%s: signals are held by %q", name, layer.Detail)
			}
		}
	}
}

// signalAttempts are sent with signal 0 or SIGURG, which do no harm where they arrive: the controls are real.
const signalAttempts = attempts + `
import signal, threading
attempt("parent", os.kill, parent, 0)
attempt("other run", os.kill, int(other), 0)
attempt("other group", os.kill, -int(other), 0)
attempt("init", os.kill, int(sys.argv[3]), 0)
call("thread of the other", TKILL, int(other), 0)
call("thread group of the other", TGKILL, int(other), int(other), 0)
call("queue to the other", QUEUE, int(other), 0, b"\0" * 128)
a, b = socket.socketpair()
import fcntl, struct
attempt("owner of a socket", fcntl.ioctl, a, 0x8901, struct.pack("i", int(other)))
attempt("self", os.kill, os.getpid(), 0)
attempt("own group", os.kill, 0, 0)
attempt("own group by number", os.killpg, os.getpgrp(), 0)
signal.signal(signal.SIGUSR1, lambda *_: None)
attempt("raise", signal.raise_signal, signal.SIGUSR1)
done = threading.Event()
worker = threading.Thread(target=done.wait); worker.start()
attempt("own thread", signal.pthread_kill, worker.ident, signal.SIGUSR1)
done.set(); worker.join()
print(json.dumps(result))
`

func signalScript(t *testing.T, other int) Spec {
	t.Helper()
	numbers := fmt.Sprintf("TKILL, TGKILL, QUEUE = %d, %d, %d\n", numbers["tkill"], numbers["tgkill"], numbers["rt_sigqueueinfo"])
	// Not init but this test stands for it in the control: init is root's here, so nobody may signal it.
	self := strconv.Itoa(os.Getpid())
	return script(t, numbers+signalAttempts, strconv.Itoa(other), "0", self)
}

// A run reaches only itself, on every kernel and with every number of processes. The control is the same without the
// filter and the scope.
func TestSignalsStayInTheRun(t *testing.T) {
	boxes := map[string]*landlocked{"this kernel": full(t)}
	for name, abi := range oldKernels {
		boxes[name] = old(t, abi)
	}
	waiting := newWaiter(t, full(t), 1)
	eperm := int(syscall.EPERM)
	want := map[string]int{
		"parent": eperm, "other run": eperm, "other group": eperm, "init": eperm, "thread of the other": eperm,
		"thread group of the other": eperm, "queue to the other": eperm, "owner of a socket": eperm,
		"self": 0, "own group": 0, "own group by number": 0, "raise": 0, "own thread": 0,
	}
	for name, s := range boxes {
		for _, processes := range []int{1, 8} {
			spec := signalScript(t, waiting.pid)
			spec.Limits.Processes = processes
			if diff := cmp.Diff(want, answers(t, s, spec)); diff != "" {
				t.Errorf("%s, %d processes (-want +got):\n%s", name, processes, diff)
			}
		}
	}
	control := answers(t, weaker(t, unconfined), signalScript(t, waiting.pid))
	delete(control, "queue to the other") // the kernel wants a code that it lets a stranger send: EPERM by itself
	allPass(t, control)
	if got := waiting.release(t); got.Cause != Exited || got.ExitCode != 0 {
		t.Errorf("the other run ended with %s %s", got.Cause, got.Signal)
	}
}

// kill(-1) from a run of several processes, where neither the scope nor a namespace would hold it: it reaches only itself.
func TestKillAllOnOldKernels(t *testing.T) {
	for name, abi := range oldKernels {
		waiting := newWaiter(t, old(t, abi), 8)
		for _, processes := range []int{1, 8} {
			spec := script(t, "import os\ntry: os.kill(-1, 9)\nexcept PermissionError: print('refused')")
			spec.Limits.Processes = processes
			if got := mustExit(t, old(t, abi), spec); string(got.Stdout) != "refused\n" {
				t.Errorf("%s: %q", name, got.Stdout)
			}
		}
		if got := waiting.release(t); got.Cause != Exited || got.ExitCode != 0 {
			t.Errorf("%s: the other run ended with %s %s", name, got.Cause, got.Signal)
		}
	}
}

// truncate(2) by path is Landlock's from ABI 3 on; before, a script could empty any file of the runner's uid.
func TestTruncateOnOldKernels(t *testing.T) {
	const text = "import os, sys\ntry: os.truncate(sys.argv[1], 0)\nexcept OSError as e: print(e.errno)"
	victim := filepath.Join(privateFolder(t), "file")
	for name, c := range map[string]struct {
		s    func() *landlocked
		left int
	}{
		"this kernel":     {func() *landlocked { return full(t) }, 3},
		"Debian 12 (6.1)": {func() *landlocked { return old(t, 2) }, 3},
		"the control":     {func() *landlocked { return weaker(t, unconfined) }, 0},
		"the control: 6.1 without the filter": {func() *landlocked {
			o := old(t, 2)
			return &landlocked{shim: o.shim, force: inForce{landlock: o.force.landlock, system: o.force.system}}
		}, 0},
	} {
		s := c.s()
		if err := os.WriteFile(victim, []byte("abc"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustExit(t, s, script(t, text, victim))
		if got, err := os.ReadFile(victim); err != nil || len(got) != c.left {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
