package xrayrunner_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xrayrunner/guard"
	"xrayrunner/manifests"
)

// benchRow is one line of scripts/bench. Ratio is to the bare start of the interpreter; 0 where that says nothing.
type benchRow struct {
	Name  string  `json:"name"`
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	Ratio float64 `json:"ratio"`
}

type benchReport struct {
	Rows   []benchRow         `json:"rows"`
	Memory map[string]float64 `json:"idle_rss_mib"`
	Rates  []benchRate        `json:"runs_per_second"`
}

// benchRate is what came through in a second, at so many clients.
type benchRate struct {
	Clients          int     `json:"clients"`
	Bare, Cold, Warm float64 // runs a second
	Ratio            float64 `json:"warm_to_bare"`
}

const trivial = "import json\nimport sys\n\nprint(json.dumps({\"keys\": len(json.load(sys.stdin))}))\n"

const benchScript = `{"description":"counts","warm":%s,"input":{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}}`

// BenchmarkSpeed is scripts/bench: A and B are interleaved in one run, so that a busy machine slows both. It writes its
// report to $XRAY_BENCH_OUT; $XRAY_BENCH_N is how often each is measured.
func BenchmarkSpeed(b *testing.B) {
	out := os.Getenv("XRAY_BENCH_OUT")
	if out == "" {
		b.Fatal("use scripts/bench")
	}
	n, err := strconv.Atoi(os.Getenv("XRAY_BENCH_N"))
	if err != nil {
		b.Fatal(err)
	}
	s := benchStack(b)
	idle := map[string]float64{"runner": rss(b, s.runner), "api": rss(b, s.api)}
	m := &measured{b: b, s: s, script: filepath.Join(s.dir, "skills", "trivial", "trivial.py")}
	for range n + 5 { // the first five warm the page cache and are dropped
		m.once()
	}
	raw, err := json.Marshal(benchReport{Rows: m.rows(), Memory: idle, Rates: m.rates()})
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(out, raw, 0o644); err != nil {
		b.Fatal(err)
	}
}

func benchStack(b *testing.B) *stack {
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
	if err := os.Chmod(manifest, 0o644); err != nil {
		b.Fatal(err)
	}
	if err := s.startRunner("RUNNER_ISOLATION=landlock"); err != nil { // where warm starts are
		b.Fatal(err)
	}
	if err := s.startAPI(); err != nil {
		b.Fatal(err)
	}
	openTrivial(b, s)
	return s
}

func openTrivial(b *testing.B, s *stack) {
	b.Helper()
	out, err := exec.Command("go", "run", "./scripts/mcpcall", "--url", s.url+"/mcp/operator", "--token-file", tokenFile(b, s, operatorToken),
		"skills_publish", `{"name":"trivial"}`, "skills_agent_set", `{"name":"trivial","enabled":true}`,
		"tool_config_set", `{"tool":"skill_load","enabled":true}`, "tool_config_set", `{"tool":"skill_run","enabled":true}`).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

func tokenFile(b *testing.B, s *stack, token string) string {
	b.Helper()
	path := filepath.Join(s.dir, "token")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// measured keeps what each round gave, in milliseconds.
type measured struct {
	b                        *testing.B
	s                        *stack
	script                   string
	session                  string
	n                        int
	bare, cold, warm, rest   []float64
	coldOverheads, overheads []float64 // less the run's own wall time
}

func (m *measured) once() {
	input := `{"a":1}`
	began := time.Now()
	m.startBare()
	took := time.Since(began)

	cold, answer := m.post("cold.py", "cold")
	coldWall := wall(m.b, answer)
	start := "warm"
	if m.n == 0 {
		start = "cold"
	}
	warm, _ := m.post("trivial.py", start)

	if m.n%12 == 0 {
		_, made, err := m.s.rest(context.Background(), agentToken, "POST", "/v1/sessions", "")
		if m.session = field(made, "id"); err != nil || m.session == "" {
			m.b.Fatal(made, err)
		}
	}
	body := fmt.Sprintf(`{"session":%q,"turn":"t%d","script":"trivial.py","input":%s}`, m.session, m.n%12/3, input)
	began = time.Now()
	_, answer, err := m.s.rest(context.Background(), agentToken, "POST", "/v1/skills/trivial/run", body)
	rest := time.Since(began)
	mustBeOK(m.b, answer, err)
	if m.n++; m.n <= 5 {
		return
	}
	m.bare, m.cold, m.rest = append(m.bare, ms(took)), append(m.cold, ms(cold)), append(m.rest, ms(rest))
	m.warm = append(m.warm, ms(warm))
	m.coldOverheads = append(m.coldOverheads, ms(cold)-coldWall)
	m.overheads = append(m.overheads, ms(rest)-wall(m.b, answer))
}

// post runs a script through POST /run and insists on how it was started. The first start is cold and has a cell made
// behind it; the next waits for that.
func (m *measured) post(script, start string) (time.Duration, string) {
	for {
		began := time.Now()
		_, answer, err := m.s.post(context.Background(), fmt.Sprintf(`{"session":"b%d","turn":"t","skill":"trivial","script":%q,"input":{"a":1}}`, began.UnixNano(), script))
		took := time.Since(began)
		mustBeOK(m.b, answer, err)
		if strings.Contains(answer, `"start":"`+start+`"`) {
			return took, answer
		}
		if m.n > 1 {
			m.b.Fatalf("round %d of %s was not %s: %s", m.n, script, start, answer)
		}
	}
}

func mustBeOK(b *testing.B, answer string, err error) {
	b.Helper()
	if err != nil || field(answer, "outcome") != "ok" {
		b.Fatal(answer, err)
	}
}

func wall(b *testing.B, answer string) float64 {
	var r struct {
		Usage struct {
			WallMS float64 `json:"wall_ms"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		b.Fatal(err)
	}
	return r.Usage.WallMS
}

func (m *measured) rows() []benchRow {
	bare := quantile(m.bare, 0.5)
	row := func(name string, v []float64, base float64) benchRow {
		r := benchRow{Name: name, P50: quantile(v, 0.5), P95: quantile(v, 0.95)}
		if base > 0 {
			r.Ratio = r.P50 / base
		}
		return r
	}
	return []benchRow{
		row("bare python3 script.py", m.bare, bare),
		row("POST /run, cold, landlock", m.cold, bare),
		row("POST /run, warm, landlock", m.warm, bare),
		row("POST /run, cold, minus the run's wall time", m.coldOverheads, 0),
		row("REST skill_run", m.rest, bare),
		row("REST skill_run minus the run's wall time", m.overheads, 0),
		row("guard alone", guardTimes(m.b), 0),
	}
}

// rates measures each way to start at each number of clients in turns, three times, and takes the medians.
func (m *measured) rates() []benchRate {
	var out []benchRate
	for _, clients := range []int{2, 4, 8} {
		var bare, cold, warm []float64
		for range 3 {
			bare = append(bare, m.rate(clients, m.startBare))
			cold = append(cold, m.rate(clients, func() { m.load("cold.py") }))
			warm = append(warm, m.rate(clients, func() { m.load("trivial.py") }))
		}
		r := benchRate{Clients: clients, Bare: quantile(bare, 0.5), Cold: quantile(cold, 0.5), Warm: quantile(warm, 0.5)}
		r.Ratio = r.Warm / r.Bare
		out = append(out, r)
	}
	return out
}

// rate is how many calls of one are done in a second by so many clients.
func (m *measured) rate(clients int, one func()) float64 {
	const window = 2 * time.Second
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			for time.Since(began) < window {
				one()
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

func (m *measured) startBare() {
	bare := exec.Command("/usr/bin/python3", m.script)
	bare.Stdin = strings.NewReader(`{"a":1}`)
	if out, err := bare.CombinedOutput(); err != nil {
		m.b.Errorf("%v: %s", err, out)
	}
}

func (m *measured) load(script string) {
	body := fmt.Sprintf(`{"session":%q,"turn":"t","skill":"trivial","script":%q,"input":{"a":1}}`, rand.Text(), script)
	if _, answer, err := m.s.post(context.Background(), body); err != nil || field(answer, "outcome") != "ok" {
		m.b.Errorf("%v: %s", err, answer)
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

func quantile(v []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func rss(b *testing.B, p *process) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return n / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
