// Package counts remembers what the runner must know itself about callers it does not trust: how many runs a turn
// and a session have had, and which run ids were used.
//
// Both tables are bounded. A full table refuses newcomers (busy); it never forgets an entry to make room, because
// being forgotten is what somebody who wants more runs would aim at. An hour of sessions and ten minutes of runs are
// most of what a runner remembers, so names are kept as 64-bit hashes with a secret seed: two sessions that met would share
// their counts, and of two runs the second would be refused. Both give fewer runs and never more.
package counts

import (
	"errors"
	"hash/maphash"
	"slices"
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
	stretch     = time.Minute // whose run ids are forgotten together
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
	seed  maphash.Seed

	mu       sync.Mutex
	sessions map[uint64]*session
	runs     []*claims // oldest first
	swept    time.Duration
}

// claims are the run ids of a minute. A map from which entries are deleted one by one grows now and then, although it never
// has more of them; one that is dropped as a whole gives all back.
type claims struct {
	first, last time.Duration // since start
	ids         map[uint64]struct{}
}

type session struct {
	runs  int
	turns []turn        // few: a session that has many is refused by its runs first
	last  time.Duration // since start
}

type turn struct {
	name uint64
	runs int
}

// of is the place of a turn, or where it would stand.
func (s *session) of(name uint64) (at int, runs int) {
	at = slices.IndexFunc(s.turns, func(t turn) bool { return t.name == name })
	if at < 0 {
		return len(s.turns), 0
	}
	return at, s.turns[at].runs
}

func (s *session) add(name uint64, n int) {
	at, runs := s.of(name)
	if at == len(s.turns) {
		s.turns = append(s.turns, turn{name: name})
	}
	if s.turns[at].runs = runs + n; s.turns[at].runs == 0 {
		s.turns = slices.Delete(s.turns, at, at+1)
	}
	s.runs += n
}

// New starts an empty table; ids stamped before now are refused.
func New(now func() time.Time) *Table {
	return &Table{now: now, start: now(), seed: maphash.MakeSeed(), sessions: map[uint64]*session{}}
}

func (t *Table) elapsed() time.Duration { return t.now().Sub(t.start) }

// Reserve asks judge with the counts as they are and, when it says yes, takes one place; all in one step, so that
// calls at once cannot both see the last free place. undo gives the place back; it is nil when judge said no.
func (t *Table) Reserve(sessionID, turnID string, judge func(turnRuns, sessionRuns int) bool) (undo func(), err error) {
	id, name := maphash.String(t.seed, sessionID), maphash.String(t.seed, turnID)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	s := t.sessions[id]
	if s == nil {
		s = &session{}
	}
	if _, runs := s.of(name); !judge(runs, s.runs) {
		return nil, nil
	}
	if t.sessions[id] == nil && len(t.sessions) >= maxSessions || len(s.turns) >= maxTurns {
		return nil, ErrFull
	}
	t.sessions[id] = s
	s.add(name, 1)
	s.last = t.elapsed()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		s.add(name, -1)
		if s.runs == 0 && t.sessions[id] == s { // nothing to remember: refused calls must not fill the table
			delete(t.sessions, id)
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
	name := maphash.Bytes(t.seed, id[:])
	known := 0
	for _, c := range t.runs {
		if _, seen := c.ids[name]; seen {
			return id, nil, ErrDuplicate
		}
		known += len(c.ids)
	}
	if known >= maxRunIDs {
		return id, nil, ErrFull
	}
	c := t.latest()
	c.ids[name] = struct{}{}
	return id, sync.OnceFunc(func() { // once: by then it may be another's
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(c.ids, name)
	}), nil
}

// latest are the claims of this minute.
func (t *Table) latest() *claims {
	now := t.elapsed()
	if n := len(t.runs); n == 0 || now-t.runs[n-1].first >= stretch {
		t.runs = append(t.runs, &claims{first: now, ids: map[uint64]struct{}{}})
	}
	c := t.runs[len(t.runs)-1]
	c.last = now
	return c
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
	now := t.elapsed()
	if now-t.swept < time.Second {
		return
	}
	t.swept = now
	for k, s := range t.sessions {
		if now-s.last > keepSession {
			delete(t.sessions, k)
		}
	}
	t.runs = slices.DeleteFunc(t.runs, func(c *claims) bool { return now-c.last > keepRunID })
}
