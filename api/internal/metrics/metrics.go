// Package metrics holds the api's own series. Labels come from closed sets; anything else becomes "other".
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// Metrics are the series. Make them with New.
type Metrics struct {
	Registry *prometheus.Registry
	calls    *prometheus.CounterVec
}

// New makes the series in a registry of their own.
func New() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "xray_api_calls_total", Help: "Calls of agents' tools, by decision."}, []string{"tool", "decision"})}
	m.Registry.MustRegister(m.calls)
	return m
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
