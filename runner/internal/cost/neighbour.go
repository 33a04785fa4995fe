package cost

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"xrayrunner/runner/internal/sandbox"
)

// Bomb is one way to take what belongs to others, and what came of it.
type Bomb struct {
	Name      string  `json:"name"`
	Outcome   string  `json:"outcome"` // how its runs ended; several when they ended differently
	Right     bool    `json:"right"`
	Runs      int     `json:"runs"`
	Quiet     float64 `json:"quiet_p95_ms"` // of the neighbour without it
	Beside    float64 `json:"beside_p95_ms"`
	Median    float64 `json:"median_ratio"`
	Ratio     float64 `json:"ratio"`
	ToControl float64 `json:"ratio_to_control"` // Ratio by the larger of the two controls'
}

// Neighbours is what runs beside each bomb felt.
type Neighbours struct {
	Layers []string `json:"layers"`
	Rounds int      `json:"rounds"`
	Bombs  []Bomb   `json:"bombs"`
}

// Right: every bomb ended as it must, and runs go on as before.
func (n Neighbours) Right() bool {
	return !slices.ContainsFunc(n.Bombs, func(b Bomb) bool { return !b.Right })
}

// bombs end by themselves when they are held to nothing: who asks for this on a host without limits gets it back.
//
// The first two are the controls: two programs without a sandbox, of which one takes nothing but its own processor, or starts and
// ends, again and again, as every bomb does that has been ended. What the other feels of that is the machine's doing: on one
// whose hypervisor keeps the page tables, every start is slower beside anything. The next two are the same in the sandbox.
var bombs = []struct {
	name, text string
	processes  int // 0: without a sandbox
	want       []string
}{
	{"bare: computing", computing, 0, []string{string(sandbox.Exited)}},
	{"bare: starting", starting, 0, []string{string(sandbox.Exited)}},
	{"computing", computing, 1, []string{string(sandbox.Exited)}},
	{"starting", starting, 1, []string{string(sandbox.Exited)}},
	{"memory", "held = []\nfor _ in range(4096):\n    held.append(bytearray(1 << 20))\n", 1, []string{"MemoryError", string(sandbox.MemoryLimit)}},
	{"forks", "import os, time\nuntil = time.monotonic() + 5\nwhile time.monotonic() < until:\n    try:\n        os.fork()\n    except OSError:\n        pass\n", several,
		[]string{string(sandbox.ProcessLimit)}},
	{"many at work", "import os, time\nfor _ in range(7):\n    if os.fork() == 0:\n        break\nuntil = time.monotonic() + 1\nwhile time.monotonic() < until:\n    pass\n", several,
		[]string{string(sandbox.Exited)}},
	{"threads", "import _thread, time\n_thread.stack_size(1 << 15)\nuntil = time.monotonic() + 1\nwhile time.monotonic() < until:\n    try:\n        _thread.start_new_thread(time.sleep, (5,))\n    except RuntimeError:\n        pass\n", 1,
		[]string{string(sandbox.ProcessLimit), "MemoryError", string(sandbox.Exited)}},
	{"disk", "for name in range(4096):\n    with open(str(name), 'wb') as f:\n        f.write(bytes(1 << 20))\n", 1, []string{string(sandbox.DiskLimit)}},
	{"inodes", "for name in range(1 << 20):\n    open(str(name), 'w').close()\n", 1, []string{string(sandbox.DiskLimit)}},
}

const (
	computing = "import time\nuntil = time.monotonic() + 1\nwhile time.monotonic() < until:\n    pass\n"
	starting  = "pass\n"
)

// controls are how many come first.
const controls = 2

// block is how many runs of the neighbour are measured before it is quiet, or not, again.
const block = 20

// Disturb measures a neighbour that starts one run after the other, in turns alone and beside each bomb, which is started
// again whenever it has ended. An error means that the neighbour did not get its answer.
func Disturb(ctx context.Context, cfg Config) (Neighbours, error) {
	path, err := layOut(cfg.Dir)
	if err != nil {
		return Neighbours{}, err
	}
	out := Neighbours{Layers: cfg.Box.Posture().Names(), Rounds: cfg.Rounds}
	for _, b := range bombs {
		bomb := filepath.Join(filepath.Dir(path), b.name+".py")
		if err := os.WriteFile(bomb, []byte(b.text), 0o644); err != nil {
			return out, err
		}
		run := func() ([]byte, error) { return boxed(ctx, cfg, path, 1, nil) }
		if b.processes == 0 {
			run = func() ([]byte, error) { return bare(ctx, cfg.Python, path) }
		}
		measured := Bomb{Name: b.name}
		var quiet, beside []time.Duration
		var ends []string
		for len(beside) < cfg.Rounds {
			if quiet, err = neighbour(run, quiet); err != nil {
				return out, err
			}
			exploding, stop := context.WithCancel(ctx)
			done := make(chan []string, 1)
			go func() { done <- explode(exploding, cfg, bomb, b.processes) }()
			beside, err = neighbour(run, beside)
			stop()
			if ends = append(ends, <-done...); err != nil {
				return out, fmt.Errorf("beside %s: %w", b.name, err)
			}
		}
		measured.Runs, measured.Quiet, measured.Beside = len(ends), ms(at(quiet, 95)), ms(at(beside, 95))
		measured.Ratio, measured.Median = measured.Beside/measured.Quiet, ms(at(beside, 50))/ms(at(quiet, 50))
		measured.Right = len(ends) > 0 && !slices.ContainsFunc(ends, func(end string) bool { return !slices.Contains(b.want, end) })
		measured.Outcome = strings.Join(slices.Compact(slices.Sorted(slices.Values(ends))), ", ")
		out.Bombs = append(out.Bombs, measured)
	}
	machine := max(out.Bombs[0].Ratio, out.Bombs[controls-1].Ratio)
	for i := range out.Bombs {
		out.Bombs[i].ToControl = out.Bombs[i].Ratio / machine
	}
	return out, nil
}

func neighbour(run func() ([]byte, error), took []time.Duration) ([]time.Duration, error) {
	for range block {
		begin := time.Now()
		out, err := run()
		if err != nil || string(out) != answer {
			return took, fmt.Errorf("the neighbour answered %q: %w", out, err)
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

// explode runs a bomb again and again until ctx ends, and gives how each run ended. The last is not cut short: how it ends
// by itself is what is asked.
func explode(ctx context.Context, cfg Config, path string, processes int) []string {
	var ends []string
	for ctx.Err() == nil {
		if processes == 0 {
			if _, err := bare(ctx, cfg.Python, path); err == nil {
				ends = append(ends, string(sandbox.Exited))
			}
			continue
		}
		exit, err := start(context.Background(), cfg, path, processes, nil)
		end := string(exit.Cause)
		switch {
		case err != nil:
			end = err.Error()
		case exit.Cause == sandbox.Exited && strings.Contains(string(exit.Stderr), "MemoryError"):
			end = "MemoryError"
		}
		ends = append(ends, end)
	}
	return ends
}

// Print writes a table for people.
func (n Neighbours) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BESIDE\tRUNS\tENDED BY\tNEIGHBOUR P95 MS\tQUIET\tRATIO\tMEDIANS\tTO CONTROL")
	for _, b := range n.Bombs {
		wrong := ""
		if !b.Right {
			wrong = " (WRONG)"
		}
		fmt.Fprintf(table, "%s\t%d\t%s%s\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\n", b.Name, b.Runs, b.Outcome, wrong, b.Beside, b.Quiet, b.Ratio, b.Median, b.ToControl)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d runs of the neighbour in each; layers %v\n", n.Rounds, n.Layers)
	return err
}
