package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/store"
	"xrayrunner/runner/protocol"
)

func (s *Server) skills(c echo.Context) error {
	all, err := s.Desk.Status(c.Request().Context())
	if err != nil {
		return err
	}
	return ok(c, map[string]any{"skills": all})
}

// maxEvents is the most that one answer of the record holds; after_seq goes on from there.
const maxEvents = 500

func (s *Server) audit(c echo.Context) error {
	f := store.Filter{Session: c.QueryParam("session"), Tool: c.QueryParam("tool"), Skill: c.QueryParam("skill"), Decision: c.QueryParam("decision"), Limit: 100}
	for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		v := c.QueryParam(name)
		if v == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return refused{protocol.NewProblem(protocol.BadRequest, name+" must be a time like 2026-01-31T12:00:00Z")}
		}
		*to = t
	}
	if v := c.QueryParam("after_seq"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return refused{protocol.NewProblem(protocol.BadRequest, "after_seq must be a whole number")}
		}
		f.AfterSeq = n
	}
	if v := c.QueryParam("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxEvents {
			return refused{protocol.NewProblem(protocol.BadRequest, "limit must be from 1 to 500")}
		}
		f.Limit = n
	}
	events, err := s.Desk.Store.Events(c.Request().Context(), f)
	if err != nil {
		return err
	}
	if events == nil {
		events = []store.Event{}
	}
	return ok(c, map[string]any{"events": events})
}

func (s *Server) verify(c echo.Context) error {
	report, err := s.Desk.Store.Verify(c.Request().Context(), c.QueryParam("head"))
	if err != nil {
		return err
	}
	return ok(c, report)
}

// scrape gives our series and, over the socket, the runner's. A runner that is away costs its own series only.
func (s *Server) scrape(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
	defer cancel()
	theirs, err := s.Calls.Runner.Metrics(ctx)
	if err != nil {
		theirs = []byte("# the runner's series are missing: it cannot be reached\n")
	}
	s.observe(ctx)
	c.Request().Header.Del("Accept") // the runner's series follow as text, so ours may not be protobuf
	s.Calls.Metrics.Handler().ServeHTTP(c.Response(), c.Request())
	_, err = c.Response().Write(theirs)
	return err
}

func (s *Server) observe(ctx context.Context) {
	snapshot, err := s.Desk.Snapshot(ctx)
	if err != nil {
		s.Log.Error("store does not answer", "error", err.Error())
	}
	snapshot.RunnerUp = s.Desk.Ready(ctx).Runner == operate.RunnerReady
	s.Calls.Metrics.Observe(snapshot)
}

// readyz says whether calls can be served whole. It needs no token, so it names states and no details.
func (s *Server) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
	defer cancel()
	r := s.Desk.Ready(ctx)
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(c.Response(), status, protocol.TypeJSON, r)
	return nil
}
