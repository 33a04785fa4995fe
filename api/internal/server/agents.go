package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

type sessionAnswer struct {
	store.Session
	Fingerprint string `json:"fingerprint"` // changes when what is offered changes
}

func (s *Server) newSession(c echo.Context) error {
	if c.Request().ContentLength != 0 {
		if err := bind(c, &struct{}{}); err != nil {
			return err
		}
	}
	sess, err := s.Calls.NewSession(c.Request().Context(), caller(c))
	if err != nil {
		return err
	}
	return s.showSession(c, sess)
}

func (s *Server) session(c echo.Context) error {
	sess, err := s.Calls.RESTSession(c.Request().Context(), caller(c), c.Param("id"), "")
	if err != nil {
		return err
	}
	return s.showSession(c, sess)
}

func (s *Server) showSession(c echo.Context, sess store.Session) error {
	set, err := s.Calls.Offer(c.Request().Context())
	if err != nil {
		return err
	}
	if sess.Offered == nil {
		sess.Offered = []string{}
	}
	return ok(c, sessionAnswer{sess, set.For(sess).Fingerprint()})
}

func (s *Server) newTurn(c echo.Context) error {
	var args struct {
		Turn string `json:"turn,omitempty"`
	}
	if c.Request().ContentLength != 0 {
		if err := bind(c, &args); err != nil {
			return err
		}
	}
	sess, err := s.Calls.RESTSession(c.Request().Context(), caller(c), c.Param("id"), "")
	if err != nil {
		return err
	}
	if args.Turn != "" && !protocol.TurnName(args.Turn) {
		return refused{protocol.BadTurn()}
	}
	if sess, err = s.Calls.StartTurn(c.Request().Context(), sess, args.Turn); err != nil {
		return err
	}
	return s.showSession(c, sess)
}

// availableSkills is the block for a system prompt.
func (s *Server) availableSkills(c echo.Context) error {
	sess, err := s.Calls.RESTSession(c.Request().Context(), caller(c), c.Param("id"), "")
	if err != nil {
		return err
	}
	block, err := s.Calls.Inject(c.Request().Context(), caller(c), sess)
	if err != nil {
		return err
	}
	return c.String(http.StatusOK, block)
}

type runBody struct {
	Session string          `json:"session"`
	Turn    string          `json:"turn,omitempty"`
	Script  string          `json:"script"`
	Input   json.RawMessage `json:"input"`

	ApprovalID  string `json:"approval_id,omitempty"`
	WaitSeconds int    `json:"wait_seconds,omitempty"`
}

type runAnswer struct {
	CallID string `json:"call_id"`
	*protocol.Result
}

func (s *Server) run(c echo.Context) error {
	var b runBody
	sess, err := s.bindSession(c, guard.ToolRun, &b, &b.Session, &b.Turn)
	if err != nil {
		return err
	}
	input, p := protocol.Judged(b.Input)
	if p != nil {
		_, err := s.Calls.Refuse(c.Request().Context(), caller(c), sess, guard.ToolRun, p)
		return or(err, refused{p})
	}
	a, err := s.Calls.RunApproved(c.Request().Context(), caller(c), sess, c.Param("name"), b.Script, input, calls.Approving{ID: b.ApprovalID, WaitSeconds: b.WaitSeconds})
	if err != nil {
		return err
	}
	if a.Refused != nil {
		return refused{a.Refused}
	}
	return ok(c, runAnswer{a.CallID, a.Result})
}

type checkBody struct {
	Session string          `json:"session"`
	Turn    string          `json:"turn,omitempty"`
	Tool    string          `json:"tool"`
	Skill   string          `json:"skill"`
	Script  string          `json:"script,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
}

// check answers 200 with the judgement either way: asking is not a fault.
func (s *Server) check(c echo.Context) error {
	var b checkBody
	sess, err := s.bindSession(c, "guard_check", &b, &b.Session, &b.Turn)
	if err != nil {
		return err
	}
	var input []byte
	if b.Tool == guard.ToolRun {
		var p *protocol.Problem
		if input, p = protocol.Judged(b.Input); p != nil {
			return refused{p}
		}
	}
	a, err := s.Calls.Check(c.Request().Context(), caller(c), sess, b.Tool, b.Skill, b.Script, input)
	if err != nil {
		return err
	}
	answer := map[string]any{"call_id": a.CallID, "block": a.Refused != nil}
	if a.Refused != nil {
		answer["code"], answer["reason"], answer["retry"] = a.Refused.Code, a.Refused.Detail, a.Refused.Retry
	}
	return ok(c, answer)
}

// load needs a session in the query: what is on offer depends on it.
func (s *Server) load(c echo.Context) error {
	if c.QueryParam("session") == "" {
		return refused{protocol.NewProblem(protocol.BadRequest, "add ?session=ID: what is on offer depends on the session")}
	}
	sess, err := s.Calls.RESTSession(c.Request().Context(), caller(c), c.QueryParam("session"), "")
	if err != nil {
		return err
	}
	a, err := s.Calls.Load(c.Request().Context(), caller(c), sess, c.Param("name"))
	if err != nil {
		return err
	}
	if a.Refused != nil {
		return refused{a.Refused}
	}
	return ok(c, map[string]string{"call_id": a.CallID, "text": a.Text})
}

// bindSession decodes the body and finds the session that it names; a turn in it begins that turn.
func (s *Server) bindSession(c echo.Context, tool string, body any, id, turn *string) (store.Session, error) {
	if err := bind(c, body); err != nil {
		var r refused
		if errors.As(err, &r) { // what cannot be decoded names no session, and is on the record all the same
			_, recordErr := s.Calls.Refuse(c.Request().Context(), caller(c), store.Session{}, tool, r.Problem)
			return store.Session{}, or(recordErr, err)
		}
		return store.Session{}, err
	}
	if *turn != "" && !protocol.TurnName(*turn) {
		return store.Session{}, refused{protocol.BadTurn()}
	}
	return s.Calls.RESTSession(c.Request().Context(), caller(c), *id, *turn)
}

func or(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
