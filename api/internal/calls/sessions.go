package calls

import (
	"context"
	"sync"
	"time"

	"xrayrunner/api/internal/offer"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

const (
	// mcpIdle is after how long without a call an MCP client of a token gets a new session.
	mcpIdle = 30 * time.Minute
	// turnQuiet is how long after the end of its last call an MCP client without turns is taken to be in a new one.
	turnQuiet = 60 * time.Second
)

// inFlight counts what has not ended: runs by session, since while one runs there is no quiet, and waits by token.
type inFlight struct {
	mu sync.Mutex
	n  map[string]int
}

func (f *inFlight) add(session string, d int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == nil {
		f.n = map[string]int{}
	}
	if f.n[session] += d; f.n[session] == 0 {
		delete(f.n, session)
	}
}

// addBelow adds one unless there are most already.
func (f *inFlight) addBelow(key string, most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == nil {
		f.n = map[string]int{}
	}
	if f.n[key] >= most {
		return false
	}
	f.n[key]++
	return true
}

func (f *inFlight) any(session string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n[session] > 0
}

// NewSession makes a session with its first turn begun.
func (s *Service) NewSession(ctx context.Context, c Caller) (store.Session, error) {
	sess, err := s.Store.NewSession(ctx, c.Token.Name)
	if err != nil {
		return sess, err
	}
	return s.StartTurn(ctx, sess, "")
}

// StartTurn begins a turn: what is on offer now is what it will be offered. An empty name makes one.
func (s *Service) StartTurn(ctx context.Context, sess store.Session, turn string) (store.Session, error) {
	set, err := s.Offer(ctx)
	if err != nil {
		return sess, err
	}
	return s.Store.StartTurn(ctx, sess, turn, set.Names())
}

// Offer is what the store offers now, to a session whose turn begins now.
func (s *Service) Offer(ctx context.Context) (offer.Set, error) {
	rows, err := s.Store.Skills(ctx)
	if err != nil {
		return offer.Set{}, err
	}
	tools, err := s.Store.Tools(ctx)
	if err != nil {
		return offer.Set{}, err
	}
	return offer.Now(s.lock(ctx), rows, tools, s.Unlock), nil
}

// TooManyTurns is the refusal for store.ErrTooManyTurns.
func TooManyTurns() *protocol.Problem {
	return protocol.NewProblem(guard.QuotaSession, "this session has had all the turns that a session may have; do not retry")
}

// RESTSession finds a caller's own session and begins another turn when one is named that is not the current one.
func (s *Service) RESTSession(ctx context.Context, c Caller, id, turn string) (store.Session, error) {
	sess, err := s.Store.Session(ctx, c.Token.Name, id)
	if err != nil || turn == "" || turn == sess.Turn {
		return sess, err
	}
	return s.StartTurn(ctx, sess, turn)
}

// MCPSession is the token's one MCP session: reconnecting does not renew its runs. turn is _meta["xray/turn"], or
// empty for a client that has no turns.
func (s *Service) MCPSession(ctx context.Context, c Caller, turn string) (store.Session, error) {
	sess, err := s.Store.TokenSession(ctx, c.Token.Name, mcpIdle)
	if err != nil {
		return sess, err
	}
	if !s.newTurn(sess, turn) {
		return sess, nil
	}
	if turn != "" {
		return s.StartTurn(ctx, sess, turn)
	}
	set, err := s.Offer(ctx)
	if err != nil {
		return sess, err
	}
	return s.Store.NextTurn(ctx, sess, set.Names())
}

func (s *Service) newTurn(sess store.Session, named string) bool {
	switch {
	case sess.Turn == "":
		return true
	case named != "":
		return named != sess.Turn
	}
	return !sess.LastEnd.IsZero() && s.now().Sub(sess.LastEnd) > turnQuiet && !s.busy.any(sess.ID)
}
