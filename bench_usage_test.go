package xrayrunner_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"xrayrunner/manifests"
)

// makeGroups puts all that is measured into a cgroup: its CPU time is then that of the runner, the cells and the runs
// together, whoever is whose child.
func (lab *benchLab) makeGroups() {
	base := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(base, "cgroup.procs")); err != nil {
		base = filepath.Join(base, "unified")
	}
	group := filepath.Join(base, "xray-bench-"+rand.Text())
	bare := filepath.Join(group, "bare")
	if err := os.MkdirAll(bare, 0o755); err != nil {
		lab.b.Logf("CPU time and memory are not measured: %v", err)
		return
	}
	folder, err := os.Open(bare)
	if err != nil {
		lab.b.Fatal(err)
	}
	lab.group, lab.bare = group, folder
	lab.b.Cleanup(func() {
		for _, s := range lab.stacks {
			s.close()
		}
		_ = folder.Close()
		for _, dir := range []string{bare, lab.dir("api"), lab.dir("runner-landlock"), lab.dir("runner-namespaces"), group} {
			for range 100 { // the kernel takes its time to forget the dead
				if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	})
}

func (lab *benchLab) dir(name string) string { return filepath.Join(lab.group, name) }

// take moves a process that has no children yet.
func (lab *benchLab) take(name string, p *process) {
	if lab.group == "" {
		return
	}
	err := os.MkdirAll(lab.dir(name), 0o755)
	err = errors.Join(err, os.WriteFile(filepath.Join(lab.dir(name), "cgroup.procs"), []byte(strconv.Itoa(p.cmd.Process.Pid)), 0))
	if err != nil {
		lab.b.Fatal(err)
	}
}

// cpu is the time that was used until now, in milliseconds.
func (lab *benchLab) cpu() float64 {
	raw, _ := os.ReadFile(filepath.Join(lab.group, "cpu.stat"))
	for line := range strings.Lines(string(raw)) {
		if text, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return n / 1000
		}
	}
	return 0
}

// quiet waits until nothing of what is measured works any more.
func (lab *benchLab) quiet() {
	for last, end := lab.cpu(), time.Now().Add(time.Second); time.Now().Before(end); {
		time.Sleep(6 * time.Millisecond)
		now := lab.cpu()
		if now-last < 0.2 {
			return
		}
		last = now
	}
}

// pss is the memory of a runner, its cells and its runs, in MiB; what they share with others counts in parts.
func (lab *benchLab) pss(name string) float64 {
	procs, _ := os.ReadFile(filepath.Join(lab.dir(name), "cgroup.procs"))
	var sum float64
	for pid := range strings.FieldsSeq(string(procs)) {
		sum += shareOf(pid) / 1024
	}
	return sum
}

// memory looks at the runner of each tier before its first run, with four warm skills whose forks wait, and with eight
// skills in use by four clients. The skills are the shipped ones.
func (lab *benchLab) memory() map[string]float64 {
	out := map[string]float64{}
	if lab.group == "" {
		return out
	}
	calls := warmCalls(lab)
	for tier, s := range lab.stacks {
		name := "runner-" + tier
		out[tier+", before the first run"] = lab.pss(name)
		for _, body := range calls[:4] {
			for range 3 {
				lab.call(s, body)
				lab.quiet()
			}
		}
		out[tier+", 4 warm skills idle, a fork of each waiting"] = lab.pss(name)
		out[tier+", 8 skills in use by 4 clients, most"] = lab.busiest(s, name, calls)
	}
	out["api, idle"] = lab.pss("api")
	return out
}

func (lab *benchLab) busiest(s *stack, name string, calls []string) float64 {
	var most float64
	ctx, stop := context.WithTimeout(context.Background(), 6*time.Second)
	defer stop()
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := c; ctx.Err() == nil; i++ {
				lab.call(s, calls[i%len(calls)])
			}
		})
	}
	for ctx.Err() == nil {
		most = max(most, lab.pss(name))
		time.Sleep(20 * time.Millisecond)
	}
	clients.Wait()
	return most
}

func (lab *benchLab) call(s *stack, body string) {
	_, answer, err := s.post(context.Background(), fmt.Sprintf(`{"session":%q,"turn":"t",%s}`, rand.Text(), body))
	if err != nil || field(answer, "outcome") == "" {
		lab.b.Errorf("%v: %s", err, answer)
	}
}

// warmCalls are one example of each of eight skills, the shipped ones that have a script among them; warm scripts first.
func warmCalls(lab *benchLab) []string {
	raw, err := os.ReadFile("runner/manifest.json")
	if err != nil {
		lab.b.Fatal(err)
	}
	lock, err := manifests.Decode(raw)
	if err != nil {
		lab.b.Fatal(err)
	}
	warm, cold := []string{`"skill":"trivial","script":"trivial.py","input":{"a":1}`}, []string(nil)
	for _, name := range slices.Sorted(maps.Keys(lock.Skills)) {
		body, isWarm := "", false
		for key, script := range lock.Skills[name].Scripts {
			if len(script.Examples) == 0 || isWarm {
				continue
			}
			input, err := json.Marshal(script.Examples[0].Input)
			if err != nil {
				lab.b.Fatal(err)
			}
			body, isWarm = fmt.Sprintf(`"skill":%q,"script":%q,"input":%s`, name, key, input), script.Warm
		}
		switch {
		case body == "":
		case isWarm:
			warm = append(warm, body)
		default:
			cold = append(cold, body)
		}
	}
	if len(warm) < 4 || len(warm)+len(cold) < 8 {
		lab.b.Fatalf("%d warm and %d cold skills: too few", len(warm), len(cold))
	}
	return append(warm, cold...)[:8]
}
