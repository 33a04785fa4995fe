package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"xrayrunner/api/internal/store"
)

// TestTokenSessionIdle: an MCP client's session is renewed by being idle, and by nothing else.
func TestTokenSessionIdle(t *testing.T) {
	const idle = 30 * time.Minute
	clock := newClock()
	db := open(t, place(t), store.Options{Now: clock.now})
	get := func() store.Session {
		t.Helper()
		s, err := db.TokenSession(t.Context(), "agent", idle)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := get()
	clock.pass(idle)
	if got := get(); got.ID != first.ID {
		t.Error("renewed at exactly the idle time")
	}
	started, err := db.StartTurn(t.Context(), get(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := run(started)
	begin(t, db, c, allow)
	clock.pass(time.Minute)
	end(t, db, c, store.Closing{Outcome: "ok", Started: true})
	clock.pass(idle)
	if got := get(); got.ID != first.ID {
		t.Error("idle is counted from before the end of the last call")
	}
	refused := run(started)
	begin(t, db, refused, func(store.State) store.Verdict { return store.Verdict{Code: "quota_session", Rule: 4} })
	clock.pass(time.Minute)
	if got := get(); got.ID != first.ID {
		t.Error("a refused call is a call: a client that hammers is not idle")
	}
	clock.pass(idle)
	renewed := get()
	if renewed.ID == first.ID {
		t.Error("not renewed after the idle time")
	}
	if got := get(); got.ID != renewed.ID {
		t.Error("the renewed one is not kept")
	}
	other, err := db.TokenSession(t.Context(), "another", idle)
	if err != nil || other.ID == renewed.ID {
		t.Errorf("another token got the same session (%v)", err)
	}
	if rest := session(t, db, "agent", ""); rest.ID == get().ID {
		t.Error("a REST session was taken for the MCP one")
	}
}

// TestTokenSessionAtOnce: many first calls of one client make one session.
func TestTokenSessionAtOnce(t *testing.T) {
	path := place(t)
	handles := []*store.DB{open(t, path, store.Options{}), open(t, path, store.Options{})}
	var mu sync.Mutex
	ids := map[string]bool{}
	if err := parallel(32, func(i int) error {
		s, err := handles[i%2].TokenSession(t.Context(), "agent", time.Minute)
		mu.Lock()
		defer mu.Unlock()
		ids[s.ID] = true
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 1 {
		t.Errorf("%d sessions, want 1", len(ids))
	}
}

// TestTurns: going back to a turn does not renew what it may run.
func TestTurns(t *testing.T) {
	db := open(t, place(t), store.Options{})
	s := session(t, db, "agent", "one")
	for range 3 {
		begin(t, db, run(s), limits)
	}
	back := func(turn string) store.Session {
		t.Helper()
		s, err := db.StartTurn(t.Context(), s, turn, []string{"csv-stats"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if v := begin(t, db, run(back("two")), limits); !v.Allowed {
		t.Errorf("a new turn: %+v", v)
	}
	if v := begin(t, db, run(back("one")), limits); v.Code != "quota_turn" {
		t.Errorf("the old turn named again: %+v, want quota_turn", v)
	}
	a, b := back(""), back("")
	if a.Turn == b.Turn || a.Turn == "" {
		t.Errorf("made-up turns %q and %q", a.Turn, b.Turn)
	}
	for name, ok := range map[string]bool{"user:1.a-b_C": true, strings.Repeat("t", 128): true, strings.Repeat("t", 129): false, "a b": false, "ä": false, "a\n": false, "a/b": false} {
		if _, err := db.StartTurn(t.Context(), s, name, nil); (err == nil) != ok || !ok && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("turn %q: %v, want accepted: %v", name, err, ok)
		}
	}
	stored, err := db.Session(t.Context(), "agent", s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if stored.Offered == nil {
		t.Error("a turn without an offer has no list: null is not an empty list to a client")
	}
	gone := s
	gone.ID = "none"
	if _, err := db.StartTurn(t.Context(), gone, "x", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a session that is not there: %v, want ErrNotFound", err)
	}
}

// TestTurnsAreBounded: the last turn that a session may have, and the one after it. An old one can still be gone back to.
func TestTurnsAreBounded(t *testing.T) {
	path := place(t)
	db := open(t, path, store.Options{})
	s := session(t, db, "agent", "first")
	exec(t, raw(t, path), fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i+1 FROM n WHERE i < %d) INSERT INTO turns (session, turn) SELECT '%s', 't' || i FROM n`, store.MaxTurns-1, s.ID))
	for _, c := range []struct {
		turn string
		want error
	}{{"last", nil}, {"one-more", store.ErrTooManyTurns}, {"", store.ErrTooManyTurns}, {"first", nil}} {
		if _, err := db.StartTurn(t.Context(), s, c.turn, nil); !errors.Is(err, c.want) {
			t.Errorf("turn %q: %v, want %v", c.turn, err, c.want)
		}
	}
}

// TestCase14NextTurn: of many who find a quiet session one begins the next turn; the others are in it.
func TestCase14NextTurn(t *testing.T) {
	path := place(t)
	handles := []*store.DB{open(t, path, store.Options{}), open(t, path, store.Options{})}
	for _, s := range []store.Session{session(t, handles[0], "agent", "one"), unturned(t, handles[0])} {
		var mu sync.Mutex
		turns := map[string]bool{}
		if err := parallel(32, func(i int) error {
			next, err := handles[i%2].NextTurn(t.Context(), s, []string{"a"})
			mu.Lock()
			defer mu.Unlock()
			turns[next.Turn] = true
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if len(turns) != 1 || turns[s.Turn] {
			t.Errorf("from turn %q: turns %v, want one other", s.Turn, turns)
		}
	}
}

func unturned(t *testing.T, db *store.DB) store.Session {
	t.Helper()
	s, err := db.NewSession(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
