package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"xrayrunner/runner/protocol"
)

// finished writes the one log line of a run and counts it. Input, output and environment are never logged.
func (s *Server) finished(req *protocol.RunRequest, r *protocol.Result) {
	level := slog.LevelInfo
	if r.Outcome == protocol.SandboxError {
		level = slog.LevelError
	}
	s.Log.Log(context.Background(), level, "run finished", "run_id", r.RunID, "trace_id", req.Trace, "session", req.Session, "turn", req.Turn, "skill", req.Skill, "script", req.Script,
		"outcome", r.Outcome, "exit_code", r.ExitCode, "signal", r.Signal, "wall_ms", r.Usage.WallMS, "cpu_ms", r.Usage.CPUMS,
		"max_rss_bytes", r.Usage.MaxRSSBytes, "queued_ms", r.Usage.QueuedMS, "detail", r.Detail)
	s.metrics.runs.WithLabelValues(req.Skill, req.Script, string(r.Outcome)).Inc()
	s.metrics.seconds.Observe((time.Duration(r.Usage.WallMS * float64(time.Millisecond))).Seconds())
}

// logRefusal keeps names out of the log that are not the manifest's: they are the caller's text.
func (s *Server) logRefusal(req *protocol.RunRequest, p *protocol.Problem) {
	skill, script := "other", "other"
	if known, ok := s.Lock.Skills[req.Skill]; ok {
		skill = req.Skill
		if _, ok := known.Scripts[req.Script]; ok {
			script = req.Script
		}
	}
	s.Log.Warn("run refused", "run_id", req.RunID, "trace_id", req.Trace, "session", req.Session, "turn", req.Turn, "skill", skill, "script", script, "code", p.Code)
}

// metrics are the runner's own registry; labels come from closed sets only.
type metrics struct {
	handler  http.Handler
	runs     *prometheus.CounterVec
	refusals *prometheus.CounterVec
	seconds  prometheus.Histogram
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		runs:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "xray_runner_runs_total", Help: "Started runs."}, []string{"skill", "script", "outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "xray_runner_refusals_total", Help: "Calls that started nothing."}, []string{"code"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "xray_runner_run_seconds", Help: "Wall time of runs.",
			Buckets: []float64{.005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 120}}),
	}
	depth := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "xray_runner_queue_depth", Help: "Calls that wait for a place."},
		func() float64 { _, waiting := s.Queue.Load(); return float64(waiting) })
	layers := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "xray_runner_isolation_layer", Help: "1 when the layer is in force."}, []string{"layer"})
	for _, l := range s.Posture.Layers {
		value := 0.0
		if l.InForce {
			value = 1
		}
		layers.WithLabelValues(l.Name).Set(value)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.runs, m.refusals, m.seconds, depth, layers)
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
	return m
}
