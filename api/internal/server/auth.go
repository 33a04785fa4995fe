package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"

	"xrayrunner/api/internal/agentmcp"
	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/store"
	"xrayrunner/runner/protocol"
)

const tokenKey = "token"

// role lets a request through when its bearer token is known and has one of the roles. There is no way in without
// a token.
func (s *Server) role(roles ...store.Role) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			secret, ok := bearer(c.Request())
			if !ok {
				return refused{protocol.NewProblem(protocol.Unauthorized, "send one header Authorization: Bearer TOKEN")}
			}
			token, known, err := s.Calls.Store.Authenticate(c.Request().Context(), secret)
			switch {
			case err != nil:
				return err
			case !known:
				return refused{protocol.NewProblem(protocol.Unauthorized, "this token is not known")}
			case !slices.Contains(roles, token.Role):
				return refused{protocol.NewProblem(protocol.Forbidden, "a token of role "+string(token.Role)+" may not make this call")}
			}
			c.Set(tokenKey, token)
			return next(c)
		}
	}
}

// bearer insists on exactly one header with exactly one token in it.
func bearer(r *http.Request) (string, bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", false
	}
	scheme, secret, ok := strings.Cut(headers[0], " ")
	return secret, ok && strings.EqualFold(scheme, "Bearer") && secret != "" && !strings.Contains(secret, " ")
}

func tokenOf(c echo.Context) store.Token {
	t, _ := c.Get(tokenKey).(store.Token) // the zero token has no role
	return t
}

func caller(c echo.Context) calls.Caller {
	return calls.Caller{Token: tokenOf(c), Via: "rest", Trace: protocol.TraceID(c.Request().Header.Get(protocol.HeaderTrace))}
}

// withToken hands our token to the MCP SDK in its own form; it then binds transport sessions to it.
func withToken(next http.Handler, t store.Token) http.Handler {
	info := agentmcp.TokenInfo(t)
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
	return auth.RequireBearerToken(verify, nil)(next)
}
