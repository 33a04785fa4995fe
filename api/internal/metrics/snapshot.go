package metrics

import (
	"encoding/hex"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Snapshot is what a scrape finds: states, not events.
type Snapshot struct {
	StoreUp, RunnerUp bool
	HeadSeq           int64
	HeadHash          string         // 64 hex, or "" for an empty record
	Skills            map[string]int // by SkillStates
	Switches          map[string]bool
	DayRuns, DayLimit int // limit 0: none
}

// SkillStates are what a skill can be to an operator; each skill is in one of them.
var SkillStates = []string{"available", "closed", "drift", "broken"}

// snapshots shows the last one. Before the first there is nothing to show, and after a failure no stale value.
type snapshots struct {
	mu   sync.Mutex
	last *Snapshot
}

// Observe is called with what a scrape has found, before Handler.
func (m *Metrics) Observe(s Snapshot) {
	m.states.mu.Lock()
	defer m.states.mu.Unlock()
	m.states.last = &s
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("xray_api_"+name, help, labels, nil)
}

var (
	storeUp  = desc("store_up", "1 when the store answers.")
	runnerUp = desc("runner_up", "1 when the runner answers, is ready and holds the same manifest.")
	events   = desc("record_events", "Number of the newest event of the record; it never goes down.")
	// The hash of the newest event, kept where the record's writer cannot reach: eight words of 32 bits, because a value
	// is a number and a label's values must be few.
	head     = desc("record_head", "The record's head as eight words of 32 bits, word 0 first.", "word")
	skills   = desc("skills", "Skills by state.", "state")
	switches = desc("switch", "1 when the switch is on.", "tool")
	dayRuns  = desc("day_runs", "Runs of this day (UTC) of the whole deployment.")
	dayLimit = desc("daily_run_limit", "Daily limit of runs; 0: none.")
)

func (s *snapshots) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storeUp, runnerUp, events, head, skills, switches, dayRuns, dayLimit} {
		out <- d
	}
}

func (s *snapshots) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(runnerUp, number(s.last.RunnerUp))
	gauge(storeUp, number(s.last.StoreUp))
	if !s.last.StoreUp {
		return // what follows is the store's
	}
	gauge(events, float64(s.last.HeadSeq))
	for i, word := range words(s.last.HeadHash) {
		gauge(head, float64(word), strconv.Itoa(i))
	}
	for _, state := range SkillStates {
		gauge(skills, float64(s.last.Skills[state]), state)
	}
	for tool, on := range s.last.Switches {
		gauge(switches, number(on), tool)
	}
	gauge(dayRuns, float64(s.last.DayRuns))
	gauge(dayLimit, float64(s.last.DayLimit))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// words are the 32 bytes of a hash, four at a time.
func words(hash string) []uint32 {
	raw, err := hex.DecodeString(hash)
	if err != nil {
		return nil
	}
	var out []uint32
	for ; len(raw) >= 4; raw = raw[4:] {
		out = append(out, uint32(raw[0])<<24|uint32(raw[1])<<16|uint32(raw[2])<<8|uint32(raw[3]))
	}
	return out
}
