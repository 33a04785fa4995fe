package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// warmed is a sandbox with cells, and what one test needs to use it. What a cell does in the background is waited for
// with Settle, so that no test depends on time.
type warmed struct {
	*Cells
	root string
	logs *logs
}

type makeWarm func(t testing.TB) *warmed

// inTiers runs a test with the cells of each tier: what holds of them holds in both.
func inTiers(t *testing.T, test func(t *testing.T, warmBox makeWarm)) {
	for tier, box := range map[Tier]func(testing.TB) *landlocked{TierLandlock: full, TierNamespaces: jailed} {
		t.Run(string(tier), func(t *testing.T) {
			test(t, func(t testing.TB) *warmed { return warmBoxOn(t, box(t)) })
		})
	}
}

func warmBoxOn(t testing.TB, cold *landlocked) *warmed {
	t.Helper()
	root, written := privateFolder(t), &logs{}
	w, err := WithCells(cold, CellConfig{Library: os.Getenv(envShim) + ".so", Root: root, Budget: 1 << 30, Log: written.add})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if cold.jails != nil {
			if err := cold.jails.close(); err != nil {
				t.Error(err)
			}
		}
		left, err := filepath.Glob(root + "/*")
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
		if t.Failed() {
			t.Log(written.String())
		}
	})
	return &warmed{w, root, written}
}

func (w *warmed) tier() Tier {
	if w.jails != nil {
		return TierNamespaces
	}
	return TierLandlock
}

// spec is a run of a script that lies in a folder of its own, as a skill's does.
func (w *warmed) spec(t testing.TB, text string, modules ...string) Spec {
	t.Helper()
	folder := privateFolder(t)
	path := filepath.Join(folder, "script.py")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := base(t, python3, "-E", "-s", "-B", path)
	s.Readable = []string{folder}
	s.Warm = &Warm{Skill: folder, Modules: modules, Text: func() ([]byte, error) { return []byte(text), nil }}
	return w.again(t, s)
}

// again gives the same run a new folder.
func (w *warmed) again(t testing.TB, s Spec) Spec {
	t.Helper()
	dir, err := os.MkdirTemp(w.root, "run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.Dir = dir
	s.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
	return s
}

// run is one run that must be warm or cold.
func (w *warmed) run(t testing.TB, s Spec, warm bool) Exit {
	t.Helper()
	exit, err := w.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if exit.Warm != warm {
		t.Fatalf("warm is %t, wanted %t; %s", exit.Warm, warm, w.logs)
	}
	_ = os.RemoveAll(s.Dir)
	return exit
}

// both runs it cold and then warm.
func (w *warmed) both(t testing.TB, s Spec) (cold, warm Exit) {
	t.Helper()
	cold = w.run(t, s, false)
	w.Settle()
	return cold, w.run(t, w.again(t, s), true)
}

type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) add(message string, attributes ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSpace(message+" "+fmt.Sprintln(attributes...)))
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func TestWarmRunAnswers(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, "import sys, json\nprint(json.dumps(json.load(sys.stdin)['a'] + 1))\n", "json")
		s.Stdin = []byte(`{"a": 41}`)
		cold, warm := w.both(t, s)
		if string(cold.Stdout) != "42\n" || string(warm.Stdout) != "42\n" || warm.Cause != Exited || warm.ExitCode != 0 {
			t.Errorf("cold %+v\nwarm %+v", cold, warm)
		}
		began := time.Now()
		for range 20 {
			w.run(t, w.again(t, s), true)
		}
		t.Logf("%s a run", time.Since(began)/20)
	})
}

// BenchmarkStart compares the ways to start; A and B alternate, so that a busy machine slows both.
func BenchmarkStart(b *testing.B) {
	for tier, box := range map[Tier]func(testing.TB) *landlocked{TierLandlock: full, TierNamespaces: jailed} {
		b.Run(string(tier), func(b *testing.B) { benchmarkStart(b, warmBoxOn(b, box(b))) })
	}
}

func benchmarkStart(b *testing.B, w *warmed) {
	s := w.spec(b, "import sys, json\nprint(json.dumps(json.load(sys.stdin)['a'] + 1))\n", "json")
	s.Stdin = []byte(`{"a": 41}`)
	w.both(b, s)
	var took, cpu [2]time.Duration
	for b.Loop() {
		cold := w.again(b, s)
		cold.Warm = nil
		for i, spec := range []Spec{cold, w.again(b, s)} {
			began := time.Now()
			exit := w.run(b, spec, i == 1)
			took[i] += time.Since(began)
			cpu[i] += exit.CPU
		}
		w.Settle()
	}
	n := float64(b.N) * 1e6
	b.ReportMetric(float64(took[0])/n, "cold-ms")
	b.ReportMetric(float64(took[1])/n, "warm-ms")
	b.ReportMetric(float64(cpu[0])/n, "cold-cpu-ms")
	b.ReportMetric(float64(cpu[1])/n, "warm-cpu-ms")
}
