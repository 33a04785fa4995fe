package xrayrunner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// soakRow is one kind of run. Every so many runs one of it is made; what is not a row's turn is an ordinary run.
type soakRow struct {
	script, do string
	every      int
	timeoutMS  int           // 0: the script's own
	hangUp     time.Duration // the caller goes away after it; 0: it stays
	want       string        // outcome; "" when the caller is gone
}

// Rows with a wait in them are rarer, so that the soak is about runs and not about waiting.
var soakRows = []soakRow{
	{script: "one.py", do: "burn", every: 97, want: "cpu_limit"},
	{script: "one.py", do: "sleep", every: 41, timeoutMS: 60, want: "timeout"},
	{script: "one.py", do: "sleep", every: 43, hangUp: 50 * time.Millisecond},
	{script: "many.py", do: "sleep", every: 47, timeoutMS: 200, want: "timeout"},
	{script: "many.py", do: "sleep", every: 53, hangUp: 100 * time.Millisecond},
	{script: "one.py", do: "fill", every: 59, want: "disk_limit"},
	{script: "many.py", do: "crowd", every: 61, want: "process_limit"},
	{script: "many.py", do: "hoard", every: 67, want: "memory_limit"},
	{script: "many.py", do: "leave", every: 11, want: "ok"},
	{script: "many.py", do: "pool", every: 13, want: "ok"},
	{script: "one.py", do: "error", every: 17, want: "script_error"},
	{script: "one.py", do: "nonsense", every: 19, want: "invalid_output"},
	{script: "one.py", do: "flood", every: 23, want: "output_limit"},
	{script: "one.py", do: "noise", every: 29, want: "ok"},
	{script: "one.py", do: "memory", every: 31, want: "memory_limit"},
	{script: "one.py", do: "foreign call", every: 37, want: "blocked_syscall"},
	{script: "one.py", do: "signal", every: 7, want: "killed"},
	{script: "one.py", do: "litter", every: 5, want: "ok"},
}

var soakOrdinary = soakRow{script: "one.py", do: "ok", want: "ok"}

func soakRowOf(i int) soakRow {
	for _, r := range soakRows {
		if i%r.every == 0 {
			return r
		}
	}
	return soakOrdinary
}

// fromEnv is a size of the soak: small in the tests, large in scripts/soak.
func fromEnv(t *testing.T, name string, standard int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q", name, text)
	}
	return n
}

// soakStack is a runner with the soak's skill, and nothing else.
func soakStack(t *testing.T, runnerEnv ...string) *stack {
	t.Helper()
	s, err := newStack("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if err := os.CopyFS(filepath.Join(s.dir, "skills", "soak"), os.DirFS("testdata/soak")); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(s.dir, "manifest.json")
	if out, err := exec.Command(filepath.Join(binaries, "manifestgen"), "build", "--skills", filepath.Join(s.dir, "skills"), "--out", manifest).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.Chmod(manifest, 0o644), s.startRunner(runnerEnv...)); err != nil {
		t.Fatal(err)
	}
	s.untilIdle(t) // the socket is there before the folders are
	return s
}

// traces is what runs can leave on the machine: processes, files in their folders and in shared places, IPC objects. Of
// the shared ones only those of the runner's user: others work on this machine too.
func (s *stack) traces(t *testing.T) []string {
	t.Helper()
	out := s.processes(t)
	for _, dir := range []string{filepath.Join(s.dir, "work", "runs"), "/dev/shm"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.Sys().(*syscall.Stat_t).Uid == scriptsUID() {
				out = append(out, filepath.Join(dir, e.Name()))
			}
		}
	}
	// The user of an object stands in another column of each table (proc_sysvipc(5)).
	for kind, column := range map[string]int{"shm": 7, "sem": 4, "msg": 7} {
		raw, err := os.ReadFile("/proc/sysvipc/" + kind)
		if err != nil {
			continue // a kernel without
		}
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) > column && f[column] == strconv.Itoa(int(scriptsUID())) {
				out = append(out, kind+" "+f[0])
			}
		}
	}
	slices.Sort(out)
	return out
}

func scriptsUID() uint32 {
	if asRoot() {
		return runnerUID
	}
	return uint32(os.Getuid())
}

// processes are those of this stack's runs: each has the path of its script in its arguments, which children inherit.
func (s *stack) processes(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) == 0 {
		t.Fatal("cannot see processes", err)
	}
	var out []string
	for _, dir := range dirs {
		line, err := os.ReadFile(dir + "/cmdline")
		if err == nil && strings.Contains(string(line), filepath.Join(s.dir, "work", "snapshot")) {
			out = append(out, filepath.Base(dir)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

func (s *stack) soakRun(r soakRow, i int) (string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.hangUp > 0 {
		defer time.AfterFunc(r.hangUp, cancel).Stop()
	}
	limit := ""
	if r.timeoutMS > 0 {
		limit = fmt.Sprintf(`,"timeout_ms":%d`, r.timeoutMS)
	}
	_, answer, err := s.post(ctx, fmt.Sprintf(`{"session":"s%d","turn":"t%d","skill":"soak","script":%q,"input":{"do":%q}%s}`, i/12, i%12/3, r.script, r.do, limit))
	if r.hangUp > 0 {
		return "", nil // whether the answer or the hang-up came first
	}
	return answer, err
}

// runnerRSS is what the runner has of its own, in KiB: not the pages of its binary, which come and go with the cache.
func (s *stack) runnerRSS(t *testing.T) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.runner.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no RssAnon")
	return 0
}

func (s *stack) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.runner.cmd.Process.Pid))
	if errors.Is(err, os.ErrPermission) && !asRoot() {
		return 0 // the runner hides them from its own user
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// untilDescriptors waits: the last connection of a caller is closed by the runner after its answer has come.
func (s *stack) untilDescriptors(t *testing.T, most int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		now := s.descriptors(t)
		if now <= most {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the runner has %d descriptors, and had %d", now, most)
			return
		}
	}
}

// TestSoak mixes all outcomes, 4 at a time: each run ends as it must, nothing is left, and the runner does not grow.
// scripts/soak is the long form.
func TestSoak(t *testing.T) {
	runs := fromEnv(t, "XRAY_SOAK_RUNS", 160)
	s := soakStack(t)
	before := s.traces(t)
	if _, err := s.soakRun(soakOrdinary, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.soakRun(soakRow{script: "many.py", do: "pool"}, 0); err != nil { // both plans are held now
		t.Fatal(err)
	}
	descriptors := s.descriptors(t)
	seen, memory := map[string]int{}, make([]float64, runs)
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	began := time.Now()
	for range 4 {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(runs); i = next.Add(1) {
				row := soakRowOf(int(i))
				answer, err := s.soakRun(row, int(i)+12)
				rss := s.runnerRSS(t)
				mu.Lock()
				memory[i-1] = rss
				outcome := field(answer, "outcome")
				seen[outcome]++
				if err != nil || outcome != row.want {
					t.Errorf("run %d, %s %s: %q instead of %q: %v %.300s", i, row.script, row.do, outcome, row.want, err, answer)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d runs in %s: %v", runs, time.Since(began).Round(time.Second), seen)
	s.untilIdle(t)
	s.noFaults(t)
	if after := s.traces(t); !slices.Equal(before, after) {
		t.Errorf("left:\n%s\nbefore:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	s.untilDescriptors(t, descriptors)
	second, last := mean(memory[runs/4:runs/2]), mean(memory[runs*3/4:])
	t.Logf("memory of the runner: %.0f KiB in the second quarter, %.0f in the last (%+.1f%%)", second, last, 100*(last/second-1))
	if runs >= 5000 && last > second*1.05 { // a short soak is still warming up
		t.Errorf("the runner grows")
	}
	if len(seen) < len(soakOutcomes()) {
		t.Errorf("not all outcomes were met: %v", slices.Sorted(maps.Keys(seen)))
	}
}

// noFaults asks the runner itself: those of runs whose callers have gone are seen there alone.
func (s *stack) noFaults(t *testing.T) {
	t.Helper()
	status, metrics, err := send(t.Context(), s.socketClient(), "GET", "http://runner/metrics", "", "")
	if err != nil || status != 200 || !strings.Contains(metrics, `outcome="ok"`) {
		t.Fatalf("metrics: %d %v %.200s", status, err, metrics)
	}
	for line := range strings.Lines(metrics) {
		if strings.Contains(line, `outcome="sandbox_error"`) {
			t.Errorf("%s%s", line, s.runner.tail())
		}
	}
}

func soakOutcomes() map[string]bool {
	out := map[string]bool{soakOrdinary.want: true}
	for _, r := range soakRows {
		out[r.want] = true
	}
	return out
}

// untilIdle waits for runs whose callers have gone.
func (s *stack) untilIdle(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, answer, err := send(t.Context(), s.socketClient(), "GET", "http://runner/healthz", "", "")
		if err == nil && field(answer, "running") == "0" && field(answer, "waiting") == "0" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still busy: %s %v", answer, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// TestRunnerKilled: SIGKILL in the middle of runs, again and again. No script survives 2 s, the next runner starts on the
// stale socket without a hand, and a run that was in flight is not executed a second time.
func TestRunnerKilled(t *testing.T) {
	kills := fromEnv(t, "XRAY_SOAK_KILLS", 3)
	s := soakStack(t)
	before := s.traces(t)
	for i := range kills {
		ids := make([]string, 4)
		var callers sync.WaitGroup
		for j := range ids {
			id, err := uuid.NewV7()
			if err != nil {
				t.Fatal(err)
			}
			ids[j] = id.String()
			callers.Go(func() { _, _, _ = s.post(context.Background(), killedRun(i, j, ids[j])) }) // it breaks: that is the point
		}
		s.untilRunning(t, 2)
		if err := s.runner.end(syscall.SIGKILL); err == nil {
			t.Fatal("the runner ended by itself")
		}
		died := time.Now()
		for left := s.processes(t); len(left) > 0; left = s.processes(t) {
			if time.Since(died) > 2*time.Second {
				t.Fatalf("kill %d: alive after 2 s: %q", i, left)
			}
			time.Sleep(5 * time.Millisecond)
		}
		callers.Wait()
		if err := s.startRunner(); err != nil {
			t.Fatalf("kill %d: the next start: %v", i, err)
		}
		for j, id := range ids {
			if _, answer, err := s.post(t.Context(), killedRun(i, j, id)); err != nil || field(answer, "code") != "duplicate_run" {
				t.Errorf("kill %d: sent again: %s %v", i, answer, err)
			}
		}
	}
	if after := s.traces(t); !slices.Equal(before, after) {
		t.Errorf("left: %q, before: %q", after, before)
	}
}

func killedRun(i, j int, id string) string {
	script := []string{"one.py", "many.py"}[j%2]
	return fmt.Sprintf(`{"run_id":%q,"session":"k%d-%d","turn":"t","skill":"soak","script":%q,"input":{"do":"sleep"}}`, id, i, j, script)
}

// untilRunning waits until so many scripts are really there.
func (s *stack) untilRunning(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(s.processes(t)) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the runs do not start")
		}
	}
}
