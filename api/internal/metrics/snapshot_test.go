package metrics_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"xrayrunner/api/internal/metrics"
)

// TestSnapshot: what a scrape finds is shown whole, the head in numbers from which it can be put together again; when the
// store is down nothing stale of it is shown.
func TestSnapshot(t *testing.T) {
	m := metrics.New()
	m.Observe(metrics.Snapshot{StoreUp: true, RunnerUp: true, HeadSeq: 7, HeadHash: "000000ff" + strings.Repeat("0", 48) + "deadbeef",
		Skills: map[string]int{"available": 2, "drift": 1}, Switches: map[string]bool{"skill_run": true}, DayRuns: 3, DayLimit: 20})
	got, _ := seriesOf(t, m, "")
	var lines []string
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	want := []string{"xray_api_daily_run_limit 20", "xray_api_day_runs 3", "xray_api_record_events 7",
		`xray_api_record_head{word="0"} 255`, `xray_api_record_head{word="1"} 0`, `xray_api_record_head{word="2"} 0`, `xray_api_record_head{word="3"} 0`,
		`xray_api_record_head{word="4"} 0`, `xray_api_record_head{word="5"} 0`, `xray_api_record_head{word="6"} 0`, `xray_api_record_head{word="7"} 3.735928559e+09`,
		"xray_api_runner_up 1", `xray_api_skills{state="available"} 2`, `xray_api_skills{state="broken"} 0`, `xray_api_skills{state="closed"} 0`, `xray_api_skills{state="drift"} 1`,
		"xray_api_store_up 1", `xray_api_switch{tool="skill_run"} 1`}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if problems, err := promlint.New(strings.NewReader(got)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v (%v)", problems, err)
	}
	m.Observe(metrics.Snapshot{HeadSeq: 7})
	if got, _ := seriesOf(t, m, ""); strings.Contains(got, "record_events") || !strings.Contains(got, "xray_api_store_up 0") {
		t.Errorf("the store is down:\n%s", got)
	}
}
