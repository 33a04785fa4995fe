//go:build deploy

package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"xrayrunner/manifests"
)

func labManifest(t *testing.T) []byte {
	t.Helper()
	lock, findings, err := manifests.Build("testdata/skills")
	if err != nil || manifests.HasErrors(findings) {
		t.Fatal(err, findings)
	}
	raw, err := manifests.Encode(lock)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestDrain: stop with runs in flight. What can end, ends; what cannot is cut below the grace; a newcomer is refused;
// each has its row, and the exit code is 0.
func TestDrain(t *testing.T) {
	if testing.Short() {
		t.Skip("tried with the first base image")
	}
	d := install(t, "18182")
	d.must("sed", "-i", "s/^XRAY_UNLOCK_DANGEROUS_TOOLS=.*/XRAY_UNLOCK_DANGEROUS_TOOLS=1/", ".env")
	lab(t, d)
	t.Run("four at once", func(t *testing.T) { d.t = t; testFourAtOnce(t, d) })
	t.Run("stop", func(t *testing.T) { d.t = t; testStopInFlight(t, d) })
	d.t = t
}

func wait(seconds int) string {
	return fmt.Sprintf(`{"skill":"waits","script":"wait.py","input":{"seconds":%d}}`, seconds)
}

// running is how many scripts of ours the runner has now.
func (d *deployment) running() int {
	out := d.must("docker", "compose", "exec", "-T", runnerService, "sh", "-c", `n=0; for c in /proc/[0-9]*/cmdline; do case $(tr '\0' ' ' <$c 2>/dev/null) in *wait[.]py*) n=$((n+1));; esac; done; echo $n`)
	n, err := strconv.Atoi(out)
	if err != nil {
		d.t.Fatal(out)
	}
	return n
}

func testFourAtOnce(t *testing.T, d *deployment) {
	var all sync.WaitGroup
	for i := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			if said, ok := d.agent("four"+strconv.Itoa(i), "skill_run", wait(3)); !ok || !strings.Contains(said, `"outcome":"ok"`) {
				t.Errorf("run %d: %s", i, said)
			}
		}()
	}
	d.eventually("four at once", 90*time.Second, func() bool { return d.running() == 4 })
	all.Wait()
	most := memoryPeak(t, d.pid(runnerService))
	t.Logf("figure: runner's container at most %.0f MiB with 4 runs at once (each holds 20 MiB)", float64(most)/(1<<20))
	if most > 384<<20 {
		t.Error("more than 384 MiB")
	}
	if d.inspect(runnerService, ".State.OOMKilled") != "false" {
		t.Error("out of memory")
	}
}

// memoryPeak is the most that the container of a process has used, by cgroup v2 or v1.
func memoryPeak(t *testing.T, pid string) uint64 {
	t.Helper()
	groups, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, path := range []string{filepath.Join("/sys/fs/cgroup/memory", f[2], "memory.max_usage_in_bytes"), filepath.Join("/sys/fs/cgroup", f[2], "memory.peak")} {
			raw, err := os.ReadFile(path)
			if err != nil || f[1] != "memory" && f[1] != "" {
				continue
			}
			n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no memory account of %s: %s", pid, groups)
	return 0
}

func testStopInFlight(t *testing.T, d *deployment) {
	answers := make(chan string, 2)
	for _, seconds := range []int{6, 28} {
		go func() {
			said, _ := d.agent("stop"+strconv.Itoa(seconds), "skill_run", wait(seconds))
			answers <- fmt.Sprintf("%d s: %s", seconds, said)
		}()
	}
	d.eventually("two in flight", 90*time.Second, func() bool { return d.running() == 2 })
	stopped := make(chan time.Duration)
	go func() {
		begun := time.Now()
		d.must("docker", "compose", "stop", runnerService)
		stopped <- time.Since(begun)
	}()
	d.eventually("the drain", 90*time.Second, func() bool { return strings.Contains(d.logs(runnerService), "stopping: no new runs") })
	if said, ok := d.agent("late", "skill_run", wait(0)); ok {
		t.Errorf("a newcomer: %s", said)
	} else {
		t.Logf("said: a newcomer during the drain: %s", said)
	}
	got := []string{<-answers, <-answers}
	took := <-stopped
	t.Logf("figure: stop with runs in flight took %.1f s", took.Seconds())
	short, long := got[0], got[1] // the short one ends first
	if !strings.HasPrefix(short, "6 s") || !strings.Contains(short, `"outcome":"ok"`) {
		t.Errorf("the run that could end: %s", short)
	}
	if !strings.HasPrefix(long, "28 s") || !strings.Contains(long, `"outcome":"cancelled"`) {
		t.Errorf("the run that could not: %s", long)
	}
	if code := d.inspect(runnerService, ".State.ExitCode"); code != "0" {
		t.Errorf("exit code %s", code)
	}
	d.must("docker", "compose", "start", runnerService)
	d.eventually("ready", 90*time.Second, func() bool { return d.get("/readyz", nil) == 200 })
	checkRecord(t, d)
}
