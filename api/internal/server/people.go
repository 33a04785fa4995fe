package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/operations"
	"xrayrunner/api/internal/store"
	"xrayrunner/runner/protocol"
)

// operations mounts every operation at its path: what reads for viewers too, what changes for operators alone.
func (s *Server) operations(e *echo.Echo) {
	for _, o := range operations.All {
		roles := []store.Role{store.RoleOperator}
		if o.Reads {
			roles = append(roles, store.RoleViewer)
		}
		handler := s.operation(o)
		if o.Name == operations.Export.Name {
			handler = s.export
		}
		e.Add(o.Method, echoPath.Replace(o.Path), handler, s.role(roles...), limitBody)
	}
}

// echoPath writes a path's arguments in echo's way.
var echoPath = strings.NewReplacer("{", ":", "}", "")

func (s *Server) operation(o operations.Operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		raw, err := arguments(c, o)
		if err != nil {
			return err
		}
		t := tokenOf(c)
		answer, p, err := s.Desk.Do(c.Request().Context(), store.Actor{Token: t.Name, Role: t.Role, Caller: "rest"}, o.Name, raw)
		switch {
		case err != nil:
			return err
		case p != nil:
			return refused{p}
		}
		return ok(c, answer)
	}
}

// arguments puts together what is in the path, in the query and in the body.
func arguments(c echo.Context, o operations.Operation) (json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if !o.InQuery() && c.Request().ContentLength != 0 {
		if err := bind(c, &args); err != nil {
			return nil, err
		}
	}
	kinds := map[string]operations.Arg{}
	for _, a := range o.Args {
		kinds[a.Name] = a
		if o.InPath(a.Name) {
			if _, twice := args[a.Name]; twice {
				return nil, refused{protocol.NewProblem(protocol.BadRequest, a.Name+" is in the path; leave it out of the body")}
			}
			args[a.Name] = a.FromText(c.Param(a.Name))
		}
	}
	for name, values := range c.QueryParams() {
		if len(values) != 1 || !o.InQuery() || o.InPath(name) {
			return nil, refused{protocol.NewProblem(protocol.BadRequest, "the query holds "+strconv.Quote(name)+" twice, or where it does not belong")}
		}
		args[name] = kinds[name].FromText(values[0])
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, refused{protocol.NewProblem(protocol.BadRequest, "a number or a flag in the query is not one")}
	}
	return raw, nil
}

// export streams the record. The lines are as they are stored, so that their hashes can be checked: they are for
// programs, and what people must not see raw is not escaped in them.
func (s *Server) export(c echo.Context) error {
	raw, err := arguments(c, operations.Export)
	if err != nil {
		return err
	}
	args, p := operate.Arguments(operations.Export, raw)
	if p != nil {
		return refused{p}
	}
	f, p := operate.Filter(args)
	if p != nil {
		return refused{p}
	}
	c.Response().Header().Set("Content-Type", "application/x-ndjson")
	e := json.NewEncoder(c.Response())
	e.SetEscapeHTML(false)
	err = s.Desk.Store.Each(c.Request().Context(), f, func(event store.Event) error { return e.Encode(event) })
	if err != nil && c.Response().Committed {
		panic(http.ErrAbortHandler) // the answer must not look whole
	}
	return err
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
