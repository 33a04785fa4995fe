// Package server is the runner's HTTP surface: four calls over one unix socket.
//
//	peer ok? -> decode strictly -> guard and counts -> run id -> place in the queue -> verify bytes -> sandbox -> outcome
//
// Each step can refuse; what an earlier step took (count, run id, place) is given back when the run never starts.
// Nothing of a request reaches the sandbox but the name of a script and the judged bytes.
package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"time"

	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/internal/approve"
	"xrayrunner/runner/internal/counts"
	"xrayrunner/runner/internal/execute"
	"xrayrunner/runner/internal/queue"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/snapshot"
	"xrayrunner/runner/internal/socket"
	"xrayrunner/runner/protocol"
)

// Server answers calls. All fields but Token, AllowUIDs, Remarks and NetworkProblem are required.
type Server struct {
	Log      *slog.Logger
	Lock     *manifests.Lock
	LockRaw  []byte            // the bytes that both images carry
	External protocol.External // the external skills, which Lock holds too
	Snapshot *snapshot.Snapshot
	Executor *execute.Executor
	Queue    *queue.Queue
	Counts   *counts.Table
	Approve  *approve.Desk
	Posture  sandbox.Posture
	MaxClass manifests.Class
	Version  string
	Slots    int
	Places   int

	Token          string   // TCP only: then it is required, and peer credentials are not to be had
	Development    bool     // listens on TCP
	AllowUIDs      []uint32 // empty: whoever the socket's mode lets in
	Remarks        []string // shown in /healthz though it is ready
	NetworkProblem func() string

	metrics *metrics
}

// Handler is the whole surface. ctx ends all runs: it is the last step of a stop.
func (s *Server) Handler(ctx context.Context) http.Handler {
	s.metrics = newMetrics(s)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+protocol.PathHealthz, s.healthz)
	mux.HandleFunc("POST "+protocol.PathRun, s.peerOnly(func(w http.ResponseWriter, r *http.Request) { s.run(ctx, w, r) }))
	mux.HandleFunc("GET "+protocol.PathManifest, s.peerOnly(s.manifest))
	mux.HandleFunc("GET "+protocol.PathExternal, s.peerOnly(s.external))
	mux.HandleFunc("GET "+protocol.PathMetrics, s.peerOnly(s.metrics.handler.ServeHTTP))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, protocol.NewProblem(protocol.NotFound, "this runner knows POST /run, GET /healthz, /manifest, /external and /metrics"))
	})
	return mux
}

// peerOnly lets a call through from a peer that may call. The runner's own uid is the scripts' uid too, so it may
// ask for health alone, unless an operator has named it.
func (s *Server) peerOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if refused := s.peerRefused(r); refused != nil {
			s.refuse(w, refused)
			return
		}
		next(w, r)
	}
}

func (s *Server) peerRefused(r *http.Request) *protocol.Problem {
	forbidden := func(why string) *protocol.Problem { return protocol.NewProblem(protocol.Forbidden, why) }
	if s.Token != "" {
		got, want := sha256.Sum256([]byte(r.Header.Get("Authorization"))), sha256.Sum256([]byte("Bearer "+s.Token))
		if len(r.Header.Values("Authorization")) != 1 || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return protocol.NewProblem(protocol.Unauthorized, "this runner listens on TCP and wants its bearer token")
		}
		return nil
	}
	uid, ok := socket.Peer(r.Context())
	if !ok {
		return forbidden("the kernel did not say who is calling")
	}
	for _, allowed := range s.AllowUIDs {
		if uid == allowed {
			return nil
		}
	}
	switch {
	case uid == uint32(os.Getuid()):
		return forbidden("the runner's own user, which scripts share, may call /healthz only")
	case len(s.AllowUIDs) > 0:
		return forbidden("this user may not call; RUNNER_ALLOW_UIDS names those who may")
	}
	return nil
}

func (s *Server) manifest(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", protocol.TypeJSON)
	_, _ = w.Write(s.LockRaw) // the caller has gone: nobody is left to tell
}

func (s *Server) external(w http.ResponseWriter, _ *http.Request) {
	told := s.External
	if told.Skills == nil {
		told.Skills = map[string]protocol.ExternalSkill{}
	}
	s.write(w, http.StatusOK, protocol.TypeJSON, told)
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	h := s.Health()
	status := http.StatusOK
	if !h.Ready {
		status = http.StatusServiceUnavailable
	}
	s.write(w, status, protocol.TypeJSON, h)
}

// Health says whether a caller should send work here, and why not.
func (s *Server) Health() protocol.Health {
	h := protocol.Health{Ready: true, Reasons: []string{}, Tier: string(s.Posture.Tier), ManifestDigest: s.Lock.Digest(),
		Slots: s.Slots, Queue: s.Places, Version: s.Version, Development: s.Development}
	h.Running, h.Waiting = s.Queue.Load()
	h.Layers = Layers(s.Posture)
	for skill, why := range s.Snapshot.Stopped() {
		h.Ready = false
		h.Reasons = append(h.Reasons, "skill "+skill+" is stopped: "+why)
	}
	if why := s.NetworkProblem(); why != "" {
		h.Ready = false
		h.Reasons = append(h.Reasons, why)
	}
	h.Reasons = append(h.Reasons, s.Remarks...)
	return h
}

// Layers are a posture's as /healthz and doctor show them. What a layer is for is said where it is missing.
func Layers(p sandbox.Posture) []protocol.Layer {
	var out []protocol.Layer
	for _, l := range p.Layers {
		row := protocol.Layer{Name: l.Name, Detail: l.Detail, InForce: l.InForce, Reason: l.Reason, Errno: l.Errno, Cure: l.Cure, Granted: l.Granted}
		if !l.InForce {
			row.Means = l.Means
		}
		out = append(out, row)
	}
	return out
}

func (s *Server) refuse(w http.ResponseWriter, p *protocol.Problem) {
	p.ManifestDigest = s.Lock.Digest()
	s.metrics.refusals.WithLabelValues(string(p.Code)).Inc()
	s.write(w, p.Status, protocol.TypeProblem, p)
}

func (s *Server) write(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if err := encode(w, v); err != nil {
		s.Log.Debug("answer not delivered", "error", err.Error())
	}
}

// encode keeps the script's own characters: no HTML escaping.
func encode(w http.ResponseWriter, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// policy is what the runner can judge itself, about a caller that it does not trust.
func (s *Server) policy(skill string) guard.Policy {
	p := guard.Policy{Tools: map[string]bool{guard.ToolRun: true}, MaxClass: s.MaxClass, Skills: map[string]guard.SkillPolicy{}}
	if known, ok := s.Lock.Skills[skill]; ok {
		sp := guard.SkillPolicy{Skill: known}
		switch {
		case s.Snapshot.StoppedSkill(skill):
			sp.Closed = guard.Integrity
		case known.Network == manifests.NetworkEgress:
			sp.Closed = guard.WrongNetwork
		case s.Executor.Mounts.Missing(known.Mounts) != "":
			sp.Closed, sp.Words = guard.NotMounted, s.Executor.Mounts.Missing(known.Mounts)
		}
		p.Skills[skill] = sp
	}
	return p
}

// HTTPServer wraps the handler with limits: a slow or endless peer costs a connection for a bounded time. There is
// no write limit, since the answer comes after the run.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 16 << 10, ConnContext: socket.WithPeer, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
