package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// together is a script that does its work in n forked children and waits for them.
func together(n string, work string) string {
	return "import os, time, mmap\nfor i in range(" + n + "):\n    if os.fork() == 0:\n        " + work + "\n        time.sleep(600)\ntime.sleep(600)\n"
}

func limited(spec Spec, change func(*Limits)) Spec {
	change(&spec.Limits)
	return spec
}

// What no rlimit bounds: sums over the processes and files of one run, each with its own cause.
func TestSums(t *testing.T) {
	s := full(t)
	many := func(l *Limits) { l.Processes = 16 }
	for name, c := range map[string]struct {
		spec Spec
		want Cause
	}{
		"memory of several": {limited(script(t, together("4", "x = bytearray(40 << 20)")), many), MemoryLimit},
		"shared memory of several": {limited(script(t, together("4",
			"m = mmap.mmap(-1, 40 << 20); m.write(b'x' * (40 << 20))")), many), MemoryLimit},
		"cpu of several": {limited(script(t, together("4", "\n        while True: pass")), func(l *Limits) {
			l.Processes, l.CPU = 16, 2*time.Second
		}), CPULimit},
		"many files": {script(t, `
import time
for i in range(10): open(f"f{i}", "wb").write(bytes(8 << 20))
time.sleep(600)`), DiskLimit},
		"many empty files": {script(t, `
import time
for i in range(5000): open(f"f{i}", "w").close()
time.sleep(600)`), DiskLimit},
		"faster than the watch": {script(t, "for i in range(5): open(f'f{i}', 'wb').write(bytes(8 << 20))"), DiskLimit},
		"removed and still open": {script(t, `
import os, time
kept = []
for i in range(10):
    f = open("f", "wb", buffering=0); f.write(bytes(8 << 20)); os.unlink("f"); kept.append(f)
time.sleep(600)`), DiskLimit},
		"in a folder that nobody can list": {script(t, `
import os, time
os.mkdir("d", 0o300)
for i in range(10): open(f"d/f{i}", "wb").write(bytes(8 << 20))
time.sleep(600)`), DiskLimit},
		"too deep": {script(t, `
import os, time
for i in range(2000): os.mkdir("d"); os.chdir("d")
time.sleep(600)`), DiskLimit},
		"one file, by a program that does not handle it": {limited(shell(t, "head -c 20000000 /dev/zero > f; exit $?"), func(*Limits) {}), Exited},
		"one file, by a signal": {script(t, `
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
open("f", "wb").write(bytes(20 << 20))`), DiskLimit},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustRun(t, s, c.spec)
			if got.Cause != c.want {
				t.Errorf("got %s %d %s, stderr %s", got.Cause, got.ExitCode, got.Signal, got.Stderr)
			}
		})
	}
	noStrangers(t)
}

// The control of the sums: what is below the limits, and what only looks like more than it is, ends by itself.
func TestSumsThatFit(t *testing.T) {
	s := full(t)
	for name, text := range map[string]string{
		"forked copies of one memory": `
import os, time
x = bytearray(40 << 20)
for i in range(8):
    if os.fork() == 0: time.sleep(.3); os._exit(0)
for i in range(8): os.wait()`,
		"one file with many names": `
import os, time
open("f", "wb").write(bytes(8 << 20))
for i in range(20): os.link("f", f"g{i}")
time.sleep(.3)`,
		"a link to a large folder": `
import os, time
os.symlink("/usr", "usr"); time.sleep(.3)`,
		"files that came and went": `
import os, time
for i in range(20): open("f", "wb").write(bytes(8 << 20)); os.unlink("f")
time.sleep(.1)`,
	} {
		spec := script(t, text)
		spec.Limits.Processes = 16
		t.Run(name, func(t *testing.T) { mustExit(t, s, spec) })
	}
}

// A run that is over before anything is polled for long has its peak all the same (spec 5: usage).
func TestPeakOfSmallRuns(t *testing.T) {
	s := full(t)
	ballast := make([]byte, 256<<20) // our own peak is above any script's, as that of a runner after some time
	for i := range ballast {
		ballast[i] = 1
	}
	got := mustExit(t, s, script(t, "import time; x = bytearray(20 << 20); time.sleep(.2)"))
	if got.MaxRSSBytes < 20<<20 || got.MaxRSSBytes > 60<<20 {
		t.Errorf("peak is %d", got.MaxRSSBytes)
	}
	if ballast[1<<20] != 1 {
		t.Error("unused")
	}
}

func TestOOMKillsAreGivenOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.events")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("low 0\noom 4\noom_kill 3\noom_group_kill 9\n")
	kills := newOOMKills([]string{"/nonexistent", file})
	var got []bool
	for _, text := range []string{"oom_kill 3\n", "oom_kill 5\n", "oom_kill 5\n", "oom_kill 5\n", "nothing\n"} {
		write(text)
		got = append(got, kills.died())
	}
	want := []bool{false, true, true, false, false}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got, want)
			break
		}
	}
	none := newOOMKills(nil)
	if none.died() {
		t.Error("nothing counts and one died")
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
