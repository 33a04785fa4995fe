package store_test

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"xrayrunner/api/internal/store"
)

// TestInstances: SQLite is for one api; on PostgreSQL the calls of a live api stay open, and those of one that has ended
// are closed by another.
func TestInstances(t *testing.T) {
	dsn := place(t)
	first, second := open(t, dsn), open(t, dsn)
	if err := first.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := second.Enter(t.Context())
	if !onPostgres {
		if !errors.Is(err, store.ErrExists) {
			t.Errorf("two apis on one file: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if err := second.Enter(t.Context()); err != nil {
			t.Errorf("after the first has ended: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := run(session(t, first, "agent", "one")), run(session(t, second, "agent", "one"))
	begin(t, first, mine, allow)
	begin(t, second, theirs, allow)
	if n, err := second.CloseLost(t.Context()); n != 0 || err != nil {
		t.Errorf("%d calls of live apis were closed (%v)", n, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := second.CloseLost(t.Context()); n != 1 || err != nil {
		t.Errorf("%d calls were closed (%v), want the one of the api that has ended", n, err)
	}
	end(t, second, theirs, store.Closing{Outcome: "ok", Started: true})
	if err := onceEach(events(t, second, store.Filter{})); err != nil {
		t.Error(err)
	}
}

// TestEightClients: 8 clients at once without one "database is locked". With XRAY_LOAD=1 for 10 s, and at least 200 calls
// a second on SQLite.
func TestEightClients(t *testing.T) {
	const clients = 8
	calls := 25
	load := os.Getenv("XRAY_LOAD") != ""
	if load {
		calls = 250
	}
	dsn := place(t)
	handles := []*store.DB{open(t, dsn), open(t, dsn)}
	var sessions []store.Session
	for range clients {
		sessions = append(sessions, session(t, handles[0], "agent", "one"))
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range calls {
				c := run(sessions[i])
				if _, err := handles[i%2].Begin(t.Context(), c, allow); err != nil {
					t.Error(err)
				}
				if err := handles[i%2].End(t.Context(), c, store.Closing{Outcome: "ok", Started: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rate := float64(clients*calls) / time.Since(began).Seconds()
	t.Logf("%.0f calls a second", rate)
	if load && !onPostgres && rate < 200 {
		t.Errorf("%.0f calls a second, want 200", rate)
	}
	if got := state(t, handles[0], sessions[0]).DayRuns; got != clients*calls {
		t.Errorf("%d runs are counted, want %d", got, clients*calls)
	}
}
