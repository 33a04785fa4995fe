// Package server is the api's HTTP surface, and the only package that knows echo.
//
//	origin and host -> bearer token -> role -> body limit -> strict decoding -> calls or operate
//
// Everything under /v1 answers JSON, refusals as RFC 9457 problems with a code; /mcp and /mcp/operator are handed to
// the MCP servers with the caller's token.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"xrayrunner/api/internal/agentmcp"
	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// Server is the surface. All fields are required.
type Server struct {
	Log     *slog.Logger
	Calls   *calls.Service
	Desk    *operate.Desk
	Version string
	Closing <-chan struct{} // closed when the api stops: streams that never end by themselves end then; nil: never

	followers atomic.Int32
}

// maxBody bounds a request of /v1 and /mcp: 4 KiB of input, escaped, and an envelope.
const maxBody = 64 << 10

// Handler wires the routes.
func (s *Server) Handler() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.problem
	e.GET("/healthz", func(c echo.Context) error { return c.JSON(http.StatusOK, map[string]bool{"ok": true}) })
	e.GET("/readyz", s.readyz)
	e.GET("/metrics", s.scrape, s.role(store.RoleViewer, store.RoleOperator))

	// The roles stand at the routes: a group's middleware would also answer for unknown paths, with the last group's roles.
	v1 := e.Group("/v1")
	agents := []echo.MiddlewareFunc{s.role(store.RoleAgent, store.RoleOperator), limitBody}
	v1.POST("/sessions", s.newSession, agents...)
	v1.GET("/sessions/:id", s.session, agents...)
	v1.POST("/sessions/:id/turns", s.newTurn, agents...)
	v1.GET("/sessions/:id/available_skills", s.availableSkills, agents...)
	v1.POST("/guard/check", s.check, agents...)
	v1.POST("/skills/:name/run", s.run, agents...)
	v1.GET("/skills/:name", s.load, agents...)

	s.operations(e)
	v1.GET("/events", s.events, s.role(store.RoleViewer, store.RoleOperator))
	s.mount(e, "/mcp", agentmcp.Agent(s.Calls, s.Version), store.RoleAgent)
	s.mount(e, "/mcp/operator", agentmcp.Operator(s.Desk, s.Version, s.Log), store.RoleOperator)
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, protocol.NewProblem(protocol.Forbidden, "a page of another site may not call this"))
	}))
	return origins.Handler(hostCheck(e))
}

// mount serves one MCP server in both eras of the protocol: from 2026-07-28 on it is stateless, before that a
// client expects sessions, and one handler cannot do both.
func (s *Server) mount(e *echo.Echo, path string, server *mcp.Server, role store.Role) {
	get := func(*http.Request) *mcp.Server { return server }
	stateful := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{SessionTimeout: 30 * time.Minute, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true})
	stateless := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true})
	e.Any(path, func(c echo.Context) error {
		h := stateful
		if c.Request().Header.Get("MCP-Protocol-Version") >= "2026-07-28" {
			h = stateless
		}
		withToken(h, tokenOf(c)).ServeHTTP(c.Response(), c.Request())
		return nil
	}, s.role(role))
}

// hostCheck refuses a name that a browser was rebound to: on a loopback connection only loopback names are ours.
func hostCheck(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }); ok && isLoopback(local.String()) && !isLoopback(r.Host) {
			writeProblem(w, protocol.NewProblem(protocol.Forbidden, "this host name is not served here"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(hostport string) bool {
	host := hostport
	if i := strings.LastIndex(hostport, ":"); i > strings.LastIndex(hostport, "]") {
		host = hostport[:i]
	}
	switch strings.Trim(host, "[]") {
	case "127.0.0.1", "::1", "localhost":
		return true
	}
	return false
}

// refused carries a refusal through echo's handlers.
type refused struct{ *protocol.Problem }

func (r refused) Error() string { return string(r.Code) }

// problem writes every error: ours as they are, echo's as codes, anything else as a fixed text with its cause in
// the log (echo's own handler would send the cause to the client).
func (s *Server) problem(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	var r refused
	var h *echo.HTTPError
	switch {
	case errors.As(err, &r):
		writeProblem(c.Response(), r.Problem)
	case errors.As(err, &h) && (h.Code == http.StatusNotFound || h.Code == http.StatusMethodNotAllowed):
		writeProblem(c.Response(), protocol.NewProblem(protocol.NotFound, "there is no such call: "+c.Request().Method+" "+c.Request().URL.Path))
	case errors.Is(err, store.ErrNotFound):
		writeProblem(c.Response(), protocol.NewProblem(protocol.NotFound, "no such session for this token; POST /v1/sessions makes one"))
	case errors.Is(err, store.ErrTooManyTurns):
		writeProblem(c.Response(), calls.TooManyTurns())
	case errors.Is(err, context.Canceled):
	default:
		s.Log.Error("request failed", "path", c.Path(), "error", err.Error())
		writeProblem(c.Response(), protocol.NewProblem(guard.GuardError, guard.GuardErrorReason))
	}
}
