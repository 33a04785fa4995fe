package sandbox

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// Case 21: limits are each run's own. While one run holds as many sleepers as it may, another of the same kind starts its
// threads and processes as if it were alone.
func TestCase21OthersDoNotCount(t *testing.T) {
	s := full(t)
	up, ended := make(chan struct{}), make(chan Exit, 1)
	holder := script(t, `
import os, sys, time
for i in range(30):
    if os.fork() == 0: time.sleep(600)
print("up", file=sys.stderr, flush=True)
time.sleep(600)`)
	holder.Limits.Processes, holder.Limits.Wall = 32, time.Minute
	holder.OnStderr = func(string, time.Duration) { close(up) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		exit, _ := s.Run(ctx, holder)
		ended <- exit
	}()
	<-up
	other := script(t, `
import os, threading
threads = [threading.Thread(target=lambda: None) for _ in range(4)]
for x in threads: x.start()
for i in range(20):
    if os.fork() == 0: os._exit(0)
    os.wait()`)
	other.Limits.Processes = 32
	mustExit(t, s, other)
	cancel()
	if exit := <-ended; exit.Cause != Cancelled {
		t.Errorf("the holder ended with %s", exit.Cause)
	}
	noStrangers(t)
}

// Case 24: a run that fills its folder is ended for it, again and again, and leaves the others alone; where its folder is
// removed, as the caller does, nothing of it stays.
func TestCase24FillersHarmNobody(t *testing.T) {
	s := full(t)
	filler := script(t, `
import time
for i in range(40): open(f"f{i}", "wb").write(bytes(1 << 20))
time.sleep(600)`)
	filler.Limits.DiskBytes = 16 << 20
	var harmed, ended atomic.Int64
	workers(4, 24, func(i int) {
		spec := filler
		dir, err := os.MkdirTemp(filler.Dir, "run-")
		if err != nil {
			t.Error(err)
			return
		}
		defer os.RemoveAll(dir)
		spec.Dir = dir
		if i%2 == 0 {
			spec.Argv = []string{python3, "-I", "-S", "-c", "open('f', 'wb').write(bytes(4 << 20))"}
			if got, err := s.Run(t.Context(), spec); err != nil || got.Cause != Exited || got.ExitCode != 0 {
				harmed.Add(1)
			}
			return
		}
		if got, err := s.Run(t.Context(), spec); err == nil && got.Cause == DiskLimit {
			ended.Add(1)
		}
	})
	if harmed.Load() != 0 || ended.Load() != 12 {
		t.Errorf("%d of 12 harmed, %d of 12 fillers ended for it", harmed.Load(), ended.Load())
	}
	if left, err := os.ReadDir(filler.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Case 33: the filter lets every ordinary start through, under load: 500 of 500 in the long form (as root in CI), of
// Python with its large modules, of forked pools, and of bash.
func TestCase33ParallelStarts(t *testing.T) {
	s := full(t)
	runs := 500
	if raceEnabled || testing.Short() {
		runs = 100
	}
	specs := []Spec{
		base(t, python3, "-c", "import json, ssl, sqlite3, asyncio, threading; t = threading.Thread(target=asyncio.run, args=(asyncio.sleep(0),)); t.start(); t.join(); print('ok')"),
		limited(base(t, python3, "-c", "import subprocess, os\nfor _ in range(3):\n if os.fork() == 0: os._exit(0)\n os.wait()\nprint(subprocess.run(['/usr/bin/echo', 'ok'], capture_output=True, text=True).stdout.strip())"),
			func(l *Limits) { l.Processes = 8 }),
		shell(t, "echo ok | cat | sort"),
	}
	var good atomic.Int64
	workers(8*runtime.NumCPU(), runs, func(i int) {
		got, err := s.Run(t.Context(), specs[i%len(specs)])
		if err == nil && got.Cause == Exited && string(got.Stdout) == "ok\n" && len(got.Stderr) == 0 {
			good.Add(1)
			return
		}
		t.Logf("run %d: %s %d %v %q %q", i, got.Cause, got.ExitCode, err, got.Stdout, got.Stderr)
	})
	if good.Load() != int64(runs) {
		t.Errorf("%d of %d", good.Load(), runs)
	}
	noStrangers(t)
}

// The programs that may fork work on the kernels without a scope as well; what they lose is said in docs/skills.md.
func TestForkingProgramsOnOldKernels(t *testing.T) {
	for name, abi := range oldKernels {
		spec := base(t, python3, "-c", `
import concurrent.futures, multiprocessing, subprocess
print(subprocess.run(["/usr/bin/echo", "ok"], capture_output=True, text=True).stdout.strip())
children = [multiprocessing.get_context("fork").Process(target=int) for _ in range(3)]
for c in children: c.start()
for c in children: c.join()
print([c.exitcode for c in children])`)
		spec.Limits.Processes = 16
		if got := mustExit(t, old(t, abi), spec); string(got.Stdout) != "ok\n[0, 0, 0]\n" {
			t.Errorf("%s: %q %q", name, got.Stdout, got.Stderr)
		}
		if got := mustExit(t, old(t, abi), shell(t, "seq 3 | while read n; do echo $n; done | tail -n1; (exit 3) & wait $!; echo $?")); string(got.Stdout) != "3\n3\n" {
			t.Errorf("%s: bash: %q %q", name, got.Stdout, got.Stderr)
		}
	}
}
