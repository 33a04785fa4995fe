// Package counts remembers what the runner must know itself about callers it does not trust: how many runs a turn
// and a session have had, and which run ids were used.
//
// Both tables are bounded. A full table refuses newcomers (busy); it never forgets an entry to make room, because
// being forgotten is what somebody who wants more runs would aim at.
package counts

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	keepSession = time.Hour
	maxSessions = 10_000
	maxTurns    = 1_000 // of one session; 12 runs can use no more than 12
	keepRunID   = 10 * time.Minute
	maxRunIDs   = 200_000
	clockSlack  = 5 * time.Minute
)

var (
	// ErrFull is returned when a table has no room: the refusal busy.
	ErrFull = errors.New("too many sessions or runs are remembered")
	// ErrDuplicate is returned for a run id that was seen, that is from before the start, or not of this time.
	ErrDuplicate = errors.New("run id was used before, or is not of this time")
	// ErrMalformed is returned for a run id that is not a UUIDv7.
	ErrMalformed = errors.New("run_id must be a UUIDv7")
)

// Table holds both. Make it with New.
type Table struct {
	now   func() time.Time
	start time.Time

	mu       sync.Mutex
	sessions map[string]*session
	runs     map[uuid.UUID]time.Time
	swept    time.Time
}

type session struct {
	runs  int
	turns map[string]int
	last  time.Time
}

// New starts an empty table; ids stamped before now are refused.
func New(now func() time.Time) *Table {
	return &Table{now: now, start: now(), sessions: map[string]*session{}, runs: map[uuid.UUID]time.Time{}, swept: now()}
}

// Reserve asks judge with the counts as they are and, when it says yes, takes one place; all in one step, so that
// calls at once cannot both see the last free place. undo gives the place back; it is nil when judge said no.
func (t *Table) Reserve(sessionID, turn string, judge func(turnRuns, sessionRuns int) bool) (undo func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	s := t.sessions[sessionID]
	if s == nil {
		s = &session{turns: map[string]int{}}
	}
	if !judge(s.turns[turn], s.runs) {
		return nil, nil
	}
	if t.sessions[sessionID] == nil && len(t.sessions) >= maxSessions || len(s.turns) >= maxTurns {
		return nil, ErrFull
	}
	t.sessions[sessionID] = s
	s.runs++
	s.turns[turn]++
	s.last = t.now()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		s.runs--
		if s.turns[turn]--; s.turns[turn] == 0 {
			delete(s.turns, turn)
		}
		if s.runs == 0 && t.sessions[sessionID] == s { // nothing to remember: refused calls must not fill the table
			delete(t.sessions, sessionID)
		}
	}), nil
}

// Claim takes a run id, or makes one when text is empty. undo forgets it again: for a run that never started.
func (t *Table) Claim(text string) (id uuid.UUID, undo func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	if id, err = t.parse(text); err != nil {
		return id, nil, err
	}
	if _, seen := t.runs[id]; seen {
		return id, nil, ErrDuplicate
	}
	if len(t.runs) >= maxRunIDs {
		return id, nil, ErrFull
	}
	t.runs[id] = t.now()
	return id, sync.OnceFunc(func() { // once: by then it may be another's
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.runs, id)
	}), nil
}

func (t *Table) parse(text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.NewV7()
	}
	id, err := uuid.Parse(text)
	if err != nil || id.Version() != 7 || id.String() != text {
		return id, ErrMalformed
	}
	stamp := time.Unix(id.Time().UnixTime())
	if off := t.now().Sub(stamp); off > clockSlack || off < -clockSlack || stamp.Before(t.start.Truncate(time.Millisecond)) {
		return id, ErrDuplicate
	}
	return id, nil
}

// sweep forgets what is older than it has to be kept; at most once a second.
func (t *Table) sweep() {
	now := t.now()
	if now.Sub(t.swept) < time.Second {
		return
	}
	t.swept = now
	for k, s := range t.sessions {
		if now.Sub(s.last) > keepSession {
			delete(t.sessions, k)
		}
	}
	for k, at := range t.runs {
		if now.Sub(at) > keepRunID {
			delete(t.runs, k)
		}
	}
}
