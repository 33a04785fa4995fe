package sandbox

import (
	"bytes"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkAgainstBare starts Python by os/exec and in the sandbox by turns and reports the medians' ratio, so that the
// noise of the machine meets all alike. The aim is 1.15.
//
//	go test -run '^$' -bench AgainstBare -benchtime 200x ./runner/internal/sandbox
func BenchmarkAgainstBare(b *testing.B) {
	s := full(b)
	input := []byte(`{"n":1}`)
	const text = "import json, sys; print(json.dumps(json.load(sys.stdin)))"
	dir := b.TempDir()
	bare := func() {
		cmd := exec.Command(python3, "-c", text)
		cmd.Env, cmd.Dir, cmd.Stdin = []string{"LC_ALL=C.UTF-8"}, dir, bytes.NewReader(input)
		if out, err := cmd.Output(); err != nil || len(out) == 0 {
			b.Fatal(err)
		}
	}
	in := func(processes int) func() {
		spec := base(b, python3, "-c", text)
		spec.Env, spec.Stdin, spec.Limits.Processes = []string{"LC_ALL=C.UTF-8"}, input, processes
		return func() { mustExit(b, s, spec) }
	}
	cases := []func(){bare, in(1), in(8)}
	took := make([][]time.Duration, len(cases))
	for b.Loop() {
		for i, run := range cases {
			begin := time.Now()
			run()
			took[i] = append(took[i], time.Since(begin))
		}
	}
	median := func(i int) float64 {
		slices.Sort(took[i])
		return float64(took[i][len(took[i])/2])
	}
	b.ReportMetric(median(0)/1e6, "bare-ms")
	b.ReportMetric(median(1)/median(0), "run/bare")
	b.ReportMetric(median(2)/median(0), "supervised/bare")
}
