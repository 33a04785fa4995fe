package sandbox

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStdoutLimit(t *testing.T) {
	s := full(t)
	for bytes, want := range map[int]Cause{65536: Exited, 65537: OutputLimit} {
		spec := script(t, "import sys; sys.stdout.write('x' * int(sys.argv[1]))", strconv.Itoa(bytes))
		got := mustRun(t, s, spec)
		if got.Cause != want || len(got.Stdout) != 65536 {
			t.Errorf("%d bytes: got %s with %d bytes", bytes, got.Cause, len(got.Stdout))
		}
	}
}

// Eight floods at once, of every kind: none holds more than its limits, and none keeps its run.
func TestFloods(t *testing.T) {
	s := full(t)
	flood := shell(t, "yes")
	line := script(t, "import sys\nwhile True: sys.stdout.write('x' * 1000000)")
	quiet := script(t, "import sys\nfor i in range(100000): sys.stderr.write('0123456789' * 10 + '\\n')")
	both := shell(t, "yes >&2 & yes")
	before := ownPeak()
	var wg sync.WaitGroup
	for i, spec := range []Spec{flood, line, quiet, both, flood, line, quiet, both} {
		wg.Go(func() {
			got, err := s.Run(t.Context(), spec)
			if err != nil {
				t.Errorf("flood %d: %v", i, err)
				return
			}
			want := OutputLimit
			if i%4 == 2 {
				want = Exited
			}
			if got.Cause != want {
				t.Errorf("flood %d: got %s %d", i, got.Cause, got.ExitCode)
			}
			if len(got.Stdout) > spec.Limits.StdoutBytes || len(got.Stderr) > spec.Limits.StderrBytes {
				t.Errorf("flood %d: kept %d and %d bytes", i, len(got.Stdout), len(got.Stderr))
			}
			if want == Exited && !got.StderrTruncated {
				t.Errorf("flood %d: stderr is not marked as cut", i)
			}
		})
	}
	wg.Wait()
	// Ten megabytes went through each of the quiet ones; with the race detector memory counts several times.
	if grown := ownPeak() - before; grown > 64<<10 {
		t.Errorf("our memory grew by %d KiB", grown)
	}
	noStrangers(t)
}

func TestStderrLines(t *testing.T) {
	s := full(t)
	spec := script(t, `
import sys
sys.stderr.write("one\n\ntwo\r\n" + "x" * 10000 + "\nlast")
`)
	var lines []string
	spec.OnStderr = func(line string, at time.Duration) {
		if at <= 0 {
			t.Errorf("line at %s", at)
		}
		lines = append(lines, line)
	}
	mustExit(t, s, spec)
	want := []string{"one", "", "two\r", strings.Repeat("x", maxLine), "last"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func TestInput(t *testing.T) {
	s := full(t)
	for _, size := range []int{0, 1, 4096} {
		spec := script(t, "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())")
		spec.Stdin = bytes.Repeat([]byte{0, 'x', 0xff}, size)[:size]
		if got := mustExit(t, s, spec); !bytes.Equal(got.Stdout, spec.Stdin) {
			t.Errorf("%d bytes came back as %d", size, len(got.Stdout))
		}
	}
}

// A child that has gone is not killed again, and a flood that ends at once is still a flood.
func TestFloodAndExit(t *testing.T) {
	s := full(t)
	for range 20 {
		spec := script(t, "import os; os.write(1, b'x' * 60000); os.write(2, b'x' * 60000); os._exit(3)")
		spec.Limits.StdoutBytes = 59999
		if got := mustRun(t, s, spec); got.Cause != OutputLimit {
			t.Fatalf("got %s", got.Cause)
		}
	}
}

func TestUsage(t *testing.T) {
	s := full(t)
	for _, processes := range []int{1, 8} {
		spec := script(t, "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nbytearray(30 << 20)")
		spec.Limits.Processes = processes
		got := mustExit(t, s, spec)
		if got.CPU < 300*time.Millisecond || got.CPU > 20*time.Second || got.Wall < 300*time.Millisecond {
			t.Errorf("processes %d: cpu %s, wall %s", processes, got.CPU, got.Wall)
		}
		if peak := got.MaxRSSBytes; processes > 1 && (peak < 30<<20 || peak > 128<<20) {
			t.Errorf("supervised peak %d", peak)
		}
	}
}

// The kernel would report our own peak as the child's (exit.go): it must not be passed on.
func TestPeakIsNotOurs(t *testing.T) {
	s := full(t)
	ballast := make([]byte, 256<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	for _, processes := range []int{1, 8} {
		spec := script(t, "pass")
		spec.Limits.Processes = processes
		if got := mustExit(t, s, spec); got.MaxRSSBytes > 128<<20 {
			t.Errorf("processes %d: peak %d of a program that may have 128 MiB", processes, got.MaxRSSBytes)
		}
	}
	runtime.KeepAlive(ballast)
}
