// Package cost measures what the sandbox costs on this host: the same script, started bare and in the sandbox by turns,
// so that whatever else the machine does meets both alike. An operator runs it as `runner doctor --cost` in the very
// container that serves; scripts/bench measures the whole path, with HTTP, guard and record.
//
// What counts is the ratio of the medians. Milliseconds of a shared machine say little.
package cost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"xrayrunner/manifests"
	"xrayrunner/runner/internal/execute"
	"xrayrunner/runner/internal/sandbox"
)

// Config of Measure. All fields are required.
type Config struct {
	Box    sandbox.Sandbox // with cells, warm starts are measured too
	Dir    string          // an empty folder; working folders are made below Runs in it
	Python string          // the interpreter
	Rounds int             // how often each way is measured, at least 1
}

// Row is one way to start the script.
type Row struct {
	Name  string  `json:"name"`
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	Ratio float64 `json:"ratio"`           // of the medians, to the bare start
	Rate  float64 `json:"runs_per_second"` // with several at once
	Times float64 `json:"times_bare"`      // of the rate
}

// Jail is the making of what a skill's runs are started in; it is made once for a skill.
type Jail struct {
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	Ratio float64 `json:"ratio"` // of the medians, to the bare start
}

// Report has the bare start first.
type Report struct {
	Layers []string `json:"layers"`
	Rounds int      `json:"rounds"`
	Rows   []Row    `json:"rows"`
	Jail   *Jail    `json:"jail,omitempty"` // in the tier namespaces
	// Remarks say what was not measured, and why.
	Remarks []string `json:"remarks"`
}

// script does what the smallest useful skill does; it stands in a file, as skills do.
const script = "import json\nimport sys\n\njson.dump({\"keys\": len(json.load(sys.stdin))}, sys.stdout)\n"

const (
	input  = `{"n":1}`
	answer = `{"keys": 1}`
	// unmeasured rounds warm the page cache and what the runner keeps between runs.
	unmeasured = 5
	// several is how many processes the script of the last row may have: with more than one the run has a supervisor.
	several = 8
)

// Runs is the folder of the working folders below Config.Dir, and so the root of the cells.
const Runs = "runs"

// Measure runs the script bare and in the sandbox by turns. An error means that one of them did not give its answer.
func Measure(ctx context.Context, cfg Config) (Report, error) {
	path, err := layOut(cfg.Dir)
	if err != nil {
		return Report{}, err
	}
	ways := []way{
		{"bare python3 script.py", func() ([]byte, error) { return bare(ctx, cfg.Python, path) }},
		{"sandbox, cold", func() ([]byte, error) { return boxed(ctx, cfg, path, 1, nil) }},
		{"sandbox, cold, may fork", func() ([]byte, error) { return boxed(ctx, cfg, path, several, nil) }},
	}
	settle := func() {}
	if cells, ok := cfg.Box.(*sandbox.Cells); ok {
		ways = append(ways, way{"sandbox, warm", func() ([]byte, error) { return boxed(ctx, cfg, path, 1, warm) }})
		settle = cells.Settle
	}
	took, err := byTurns(ways, cfg.Rounds, settle)
	if err != nil {
		return Report{}, err
	}
	report := Report{Layers: cfg.Box.Posture().Names(), Rounds: cfg.Rounds, Remarks: []string{}}
	rates, err := together(ways, 1+cfg.Rounds/roundsOfTurn, settle)
	if err != nil {
		return Report{}, err
	}
	for i, w := range ways {
		r := row(w.name, took[i], took[0])
		r.Rate, r.Times = rates[i], rates[i]/rates[0]
		report.Rows = append(report.Rows, r)
	}
	report.Jail, err = jails(ctx, cfg, path, took[0])
	return report, err
}

// jails measures the making of jails, where there are any.
func jails(ctx context.Context, cfg Config, path string, base []time.Duration) (*Jail, error) {
	box, ok := cfg.Box.(interface {
		MakeJail(sandbox.Spec) (time.Duration, error)
	})
	if !ok || cfg.Box.Posture().Tier != sandbox.TierNamespaces {
		return nil, nil
	}
	var making []time.Duration
	for range cfg.Rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		took, err := box.MakeJail(spec(cfg, path, filepath.Join(cfg.Dir, Runs, "none"), 1))
		if err != nil {
			return nil, fmt.Errorf("make a jail: %w", err)
		}
		making = append(making, took)
	}
	r := row("", making, base)
	return &Jail{P50: r.P50, P95: r.P95, Ratio: r.Ratio}, nil
}

// layOut makes the folders and writes the script; it returns its path.
func layOut(dir string) (string, error) {
	path := filepath.Join(dir, "skill", "count.py")
	return path, errors.Join(os.Mkdir(filepath.Join(dir, Runs), 0o711), os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(script), 0o644))
}

// byTurns gives what each round of each way took. settle is waited for after each, unmeasured: the next fork is made
// after a warm run, and must not slow down the way that follows.
func byTurns(ways []way, rounds int, settle func()) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(ways))
	for round := range rounds + unmeasured {
		for i, w := range ways {
			begin := time.Now()
			out, err := w.run()
			passed := time.Since(begin)
			if err != nil || string(out) != answer {
				return nil, fmt.Errorf("%s: answered %q: %w", w.name, out, err)
			}
			if round >= unmeasured {
				took[i] = append(took[i], passed)
			}
			settle()
		}
	}
	return took, nil
}

// How many start at once for the rate, and how long. Each way has a turn for so many rounds.
const (
	atOnce       = 4
	stretch      = 1500 * time.Millisecond
	roundsOfTurn = 30
)

// together gives the runs a second of each way with several at once.
func together(ways []way, turns int, settle func()) ([]float64, error) {
	ended, took := make([]float64, len(ways)), make([]time.Duration, len(ways))
	for range turns {
		for i, w := range ways {
			n, passed, err := crowd(w)
			if err != nil {
				return nil, err
			}
			ended[i], took[i] = ended[i]+float64(n), took[i]+passed
			settle()
		}
	}
	for i := range ended {
		ended[i] /= took[i].Seconds()
	}
	return ended, nil
}

// crowd makes one run after the other, so many at once, and gives how many there were.
func crowd(w way) (int64, time.Duration, error) {
	var runs atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, atOnce)
	begin := time.Now()
	for range atOnce {
		all.Go(func() {
			for time.Since(begin) < stretch {
				out, err := w.run()
				if err != nil || string(out) != answer {
					failed <- fmt.Errorf("%s: answered %q: %w", w.name, out, err)
					return
				}
				runs.Add(1)
			}
		})
	}
	all.Wait()
	close(failed)
	return runs.Load(), time.Since(begin), <-failed
}

// warm is what the manifest would say of the script.
var warm = &sandbox.Warm{Skill: "cost", Modules: []string{"json", "sys"}, Text: func() ([]byte, error) { return []byte(script), nil }}

type way struct {
	name string
	run  func() ([]byte, error)
}

func bare(ctx context.Context, python, path string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, python, path)
	cmd.Env, cmd.Dir, cmd.Stdin = []string{"LC_ALL=C.UTF-8"}, filepath.Dir(path), bytes.NewReader([]byte(input))
	return cmd.Output()
}

// boxed is one run that gives its answer.
func boxed(ctx context.Context, cfg Config, path string, processes int, warm *sandbox.Warm) ([]byte, error) {
	exit, err := start(ctx, cfg, path, processes, warm)
	if err == nil && (exit.Cause != sandbox.Exited || exit.ExitCode != 0) {
		err = fmt.Errorf("%s, exit code %d: %.300s", exit.Cause, exit.ExitCode, exit.Stderr)
	}
	return exit.Stdout, err
}

// start is one run with a working folder of its own, made and removed within the measured time, as each run has.
func start(ctx context.Context, cfg Config, path string, processes int, warm *sandbox.Warm) (sandbox.Exit, error) {
	dir, err := os.MkdirTemp(filepath.Join(cfg.Dir, Runs), "run-")
	if err != nil {
		return sandbox.Exit{}, err
	}
	s := spec(cfg, path, dir, processes)
	s.Warm = warm
	exit, err := cfg.Box.Run(ctx, s)
	return exit, errors.Join(err, os.RemoveAll(dir))
}

func spec(cfg Config, path, dir string, processes int) sandbox.Spec {
	declared := manifests.DefaultLimits()
	declared.Processes = processes
	return sandbox.Spec{
		Argv: []string{cfg.Python, "-E", "-s", "-B", path}, Env: execute.Environment(dir), Dir: dir,
		Stdin: []byte(input), Readable: []string{filepath.Dir(path)}, Limits: execute.Limits(declared, sandbox.Python),
	}
}

func row(name string, took, base []time.Duration) Row {
	return Row{Name: name, P50: ms(at(took, 50)), P95: ms(at(took, 95)), Ratio: float64(at(took, 50)) / float64(at(base, 50))}
}

// at is the given percentile.
func at(took []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)-1)*percent/100]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Print writes a table for people.
func (r Report) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "START\tP50 MS\tP95 MS\tRATIO\tRUNS/S\tTIMES BARE")
	for _, row := range r.Rows {
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.2f\t%.0f\t%.2f\n", row.Name, row.P50, row.P95, row.Ratio, row.Rate, row.Times)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d rounds by turns, then %d at once; layers %v\n", r.Rounds, atOnce, r.Layers)
	if r.Jail != nil {
		fmt.Fprintf(out, "a jail is made in %.1f ms (p95 %.1f, %.2f of a bare start), once for a skill\n", r.Jail.P50, r.Jail.P95, r.Jail.Ratio)
	}
	for _, remark := range r.Remarks {
		fmt.Fprintln(out, "remark: "+remark)
	}
	return nil
}
