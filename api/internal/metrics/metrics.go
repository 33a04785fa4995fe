// Package metrics holds the api's own series. Labels come from closed sets; anything else becomes "other".
package metrics

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// Metrics are the series. Make them with New.
type Metrics struct {
	Registry *prometheus.Registry
	calls    *prometheus.CounterVec
	runs     *prometheus.CounterVec
	store    *prometheus.HistogramVec
	states   snapshots
}

// New makes the series in a registry of their own.
func New() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "xray_api_calls_total", Help: "Calls of agents' tools, by decision."}, []string{"tool", "decision"}),
		runs:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "xray_api_runs_total", Help: "Runs that were started, by how they ended; lost ones too."}, []string{"outcome"}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "xray_api_store_seconds", Help: "What the two transactions of a call take.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 10}}, []string{"transaction"}),
	}
	m.Registry.MustRegister(m.calls, m.runs, m.store, &m.states)
	return m
}

// Ran counts one run that was started.
func (m *Metrics) Ran(o protocol.Outcome) {
	if !slices.ContainsFunc(protocol.Outcomes, func(row protocol.OutcomeRow) bool { return row.Outcome == o }) {
		o = "other"
	}
	m.runs.WithLabelValues(string(o)).Inc()
}

// The transactions of a call.
const (
	Begin = "begin"
	End   = "end"
)

// Stored notes what one transaction, Begin or End, took.
func (m *Metrics) Stored(transaction string, took time.Duration) {
	m.store.WithLabelValues(transaction).Observe(took.Seconds())
}

// Decided counts one call. decision is "allow" or a refusal's code.
func (m *Metrics) Decided(tool, decision string) {
	switch tool {
	case guard.ToolList, guard.ToolLoad, guard.ToolRun, "guard_check":
	default:
		tool = "other"
	}
	if decision != "allow" && protocol.RefusalOf(guard.Code(decision)).Code != guard.Code(decision) {
		decision = "other"
	}
	m.calls.WithLabelValues(tool, decision).Inc()
}

// Handler serves the text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, DisableCompression: true})
}
