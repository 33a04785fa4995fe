package xrayrunner_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"xrayrunner/guard"
	"xrayrunner/manifests"
)

// benchReport is what scripts/bench prints and draws.
type benchReport struct {
	Machine string             `json:"machine"`
	Ways    []benchResult      `json:"ways"`
	GuardMS float64            `json:"guard_p50_ms"`
	PSS     map[string]float64 `json:"pss_mib"`
}

// benchResult is one way alone, one call after the other, and with several clients at once.
type benchResult struct {
	Name  string        `json:"name"`
	Alone benchFigures  `json:"alone"`
	Load  []benchLoaded `json:"load"`
}

type benchFigures struct {
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
	Ratio float64 `json:"ratio"` // of p50 to that of the bare start
}

type benchLoaded struct {
	Clients int `json:"clients"`
	benchFigures
	Rate  float64 `json:"runs_per_second"`
	Times float64 `json:"times_bare"` // of the rate
	CPU   float64 `json:"cpu_ms"`     // of a run: the script and all that is ours; 0 where it is not known
	Other int     `json:"other_start"`
}

const trivial = "import json\nimport sys\n\nprint(json.dumps({\"keys\": len(json.load(sys.stdin))}))\n"

const benchScript = `{"description":"counts","warm":%s,"input":{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}}`

// benchClients are how many call at once.
var benchClients = []int{2, 4, 8, 16}

// BenchmarkSpeed is scripts/bench. All ways take turns in one run, so that a busy machine slows all of them. It writes its
// report to $XRAY_BENCH_OUT; $XRAY_BENCH_N is how often each is measured alone.
func BenchmarkSpeed(b *testing.B) {
	out := os.Getenv("XRAY_BENCH_OUT")
	if out == "" {
		b.Fatal("use scripts/bench")
	}
	n, err := strconv.Atoi(os.Getenv("XRAY_BENCH_N"))
	if err != nil {
		b.Fatal(err)
	}
	lab := newBenchLab(b, n)
	report := benchReport{Machine: machine(), PSS: lab.memory(), GuardMS: quantile(guardTimes(b), 0.5)}
	alone := lab.alone(n)
	loads := lab.loads(3)
	for i, way := range lab.ways {
		r := benchResult{Name: way.name, Alone: figures(alone[i]), Load: loads[i]}
		r.Alone.Ratio = r.Alone.P50 / quantile(alone[0], 0.5)
		report.Ways = append(report.Ways, r)
	}
	raw, err := json.MarshalIndent(report, "", " ")
	if err := errors.Join(err, os.WriteFile(out, raw, 0o644)); err != nil {
		b.Fatal(err)
	}
}

// benchLab is what is compared: a bare interpreter, other sandboxes of this machine, and a runner in each tier, one of them
// with an api.
type benchLab struct {
	b      *testing.B
	script string
	ways   []benchWay
	stacks map[string]*stack
	group  string   // cgroup of all that is measured, for its CPU time; "" where there is none
	bare   *os.File // that of the programs that we start
}

func newBenchLab(b *testing.B, n int) *benchLab {
	b.Helper()
	lab := &benchLab{b: b, stacks: map[string]*stack{}}
	lab.makeGroups()
	for _, tier := range []string{"landlock", "namespaces"} {
		lab.stacks[tier] = benchStack(b, tier)
		lab.take("runner-"+tier, lab.stacks[tier].runner)
	}
	full := lab.stacks["namespaces"]
	if err := full.startAPI(); err != nil {
		b.Fatal(err)
	}
	lab.take("api", full.api)
	openTrivial(b, full)
	lab.script = filepath.Join(full.dir, "skills", "trivial", "trivial.py")
	lab.ways = append([]benchWay{lab.program("bare python3 script.py", 1, "/usr/bin/python3", lab.script)}, lab.peers()...)
	for _, tier := range []string{"landlock", "namespaces"} {
		lab.ways = append(lab.ways, posts(lab.stacks[tier], "cold", tier), posts(lab.stacks[tier], "warm", tier))
	}
	lab.ways = append(lab.ways, restWay(full), mcpWay(full, agentTokens(b, full, n/10+500)))
	return lab
}

// alone measures each way in turns. The first rounds fill caches and make the cells, and are dropped.
func (lab *benchLab) alone(n int) [][]float64 {
	const dropped = 8
	out := make([][]float64, len(lab.ways))
	for round := range n + dropped {
		for i, way := range lab.ways {
			if round%way.every != 0 {
				continue
			}
			lab.quiet() // what a run leaves to be done after it is not the next one's
			began := time.Now()
			err := way.once()
			took := time.Since(began)
			if err != nil && (round >= dropped || !errors.Is(err, errOtherStart)) {
				lab.b.Fatal(err)
			}
			if round >= dropped {
				out[i] = append(out[i], ms(took))
			}
		}
	}
	return out
}

// loads measures each way at each number of clients, in turns, and so many times over.
func (lab *benchLab) loads(rounds int) [][]benchLoaded {
	out := make([][]benchLoaded, len(lab.ways))
	for _, clients := range benchClients {
		windows := make([][]window, len(lab.ways))
		for range rounds {
			for i, way := range lab.ways {
				lab.quiet()
				windows[i] = append(windows[i], lab.window(way, clients))
			}
		}
		bare := merge(clients, windows[0])
		for i := range lab.ways {
			l := merge(clients, windows[i])
			l.Ratio, l.Times = l.P50/bare.P50, l.Rate/bare.Rate
			out[i] = append(out[i], l)
		}
	}
	return out
}

// window is what came through in a moment, with so many clients.
type window struct {
	took  []float64
	rate  float64
	cpu   float64 // ms
	other int
}

func (lab *benchLab) window(way benchWay, clients int) window {
	const length = 1500 * time.Millisecond
	var w window
	var mu sync.Mutex
	var all sync.WaitGroup
	cpu, began := lab.cpu(), time.Now()
	for range clients {
		all.Go(func() {
			for time.Since(began) < length {
				start := time.Now()
				err := way.once()
				took := ms(time.Since(start))
				mu.Lock()
				w.took = append(w.took, took)
				if errors.Is(err, errOtherStart) {
					w.other++
				} else if err != nil {
					lab.b.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	w.rate = float64(len(w.took)) / time.Since(began).Seconds()
	w.cpu = (lab.cpu() - cpu) / float64(len(w.took))
	return w
}

func merge(clients int, windows []window) benchLoaded {
	var took, rates, cpus []float64
	out := benchLoaded{Clients: clients}
	for _, w := range windows {
		took, rates, cpus = append(took, w.took...), append(rates, w.rate), append(cpus, w.cpu)
		out.Other += w.other
	}
	out.benchFigures, out.Rate, out.CPU = figures(took), quantile(rates, 0.5), quantile(cpus, 0.5)
	return out
}

func figures(v []float64) benchFigures {
	return benchFigures{P50: quantile(v, 0.5), P95: quantile(v, 0.95), P99: quantile(v, 0.99)}
}

func benchStack(b *testing.B, tier string) *stack {
	b.Helper()
	s, err := newStack("")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.close)
	dir := filepath.Join(s.dir, "skills", "trivial")
	for path, text := range map[string]string{
		"SKILL.md":   "---\nname: trivial\ndescription: Counts the keys of its input.\n---\nFor measuring.\n",
		"trivial.py": trivial,
		"cold.py":    trivial,
		"xray.json":  `{"class":"safe","scripts":{"trivial.py":` + fmt.Sprintf(benchScript, "true") + `,"cold.py":` + fmt.Sprintf(benchScript, "false") + `}}`,
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	manifest := filepath.Join(s.dir, "manifest.json")
	if text, err := exec.Command(filepath.Join(binaries, "manifestgen"), "build", "--skills", filepath.Join(s.dir, "skills"), "--out", manifest).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	if err := errors.Join(os.Chmod(manifest, 0o644), s.startRunner("RUNNER_ISOLATION="+tier)); err != nil {
		b.Fatal(err)
	}
	return s
}

func openTrivial(b *testing.B, s *stack) {
	b.Helper()
	path := filepath.Join(s.dir, "token")
	if err := os.WriteFile(path, []byte(operatorToken), 0o600); err != nil {
		b.Fatal(err)
	}
	out, err := exec.Command("go", "run", "./scripts/mcpcall", "--url", s.url+"/mcp/operator", "--token-file", path,
		"skills_publish", `{"name":"trivial"}`, "skills_agent_set", `{"name":"trivial","enabled":true}`,
		"tool_config_set", `{"tool":"skill_load","enabled":true}`, "tool_config_set", `{"tool":"skill_run","enabled":true}`).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

func guardTimes(b *testing.B) []float64 {
	raw, err := os.ReadFile("runner/manifest.json")
	if err != nil {
		b.Fatal(err)
	}
	lock, err := manifests.Decode(raw)
	if err != nil {
		b.Fatal(err)
	}
	p := guard.Policy{Tools: map[string]bool{guard.ToolRun: true}, MaxClass: manifests.Safe, Skills: map[string]guard.SkillPolicy{"csv-stats": {Skill: lock.Skills["csv-stats"]}}}
	c := guard.Call{Tool: guard.ToolRun, Skill: "csv-stats", Script: "stats.py", Input: bytes.Join([][]byte{[]byte(`{"csv":"`), bytes.Repeat([]byte("1,2\\n"), 200), []byte(`"}`)}, nil)}
	var out []float64
	for range 2000 {
		began := time.Now()
		d := guard.Decide(p, c)
		out = append(out, float64(time.Since(began).Nanoseconds())/1e6)
		if !d.Allowed() {
			b.Fatal(d.Reason)
		}
	}
	return out
}

// quantile of no values is 0.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func machine() string {
	version, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	python, _ := exec.Command("/usr/bin/python3", "--version").Output()
	return fmt.Sprintf("%d CPUs, Linux %s, %s, load %s", runtime.NumCPU(), strings.TrimSpace(string(version)), strings.TrimSpace(string(python)),
		strings.Join(strings.Fields(string(load))[:3], " "))
}
