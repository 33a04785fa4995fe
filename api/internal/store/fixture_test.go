package store_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"xrayrunner/api/internal/store"
	"xrayrunner/internal/pgtest"
)

// onPostgres says which of the two stores this pass of the suite is on.
var onPostgres bool

// TestMain runs the whole suite twice: first on SQLite, then on PostgreSQL.
func TestMain(m *testing.M) {
	if dsn := os.Getenv(lifeFile); dsn != "" {
		live(dsn) // the child of TestKilledInTheMiddle
	}
	fmt.Println("on SQLite:")
	code := m.Run()
	fmt.Println("on PostgreSQL:")
	onPostgres = true
	code = max(code, m.Run())
	if err := pgtest.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// place is a new store's DSN.
func place(t testing.TB) string {
	t.Helper()
	if onPostgres {
		return pgtest.Database(t)
	}
	return "sqlite:" + filepath.Join(t.TempDir(), "xray.db")
}

// sqliteOnly is for what only SQLite has: a file.
func sqliteOnly(t testing.TB) string {
	t.Helper()
	if onPostgres {
		t.Skip("about SQLite's file; it ran in the first pass")
	}
	return filepath.Join(t.TempDir(), "xray.db")
}

// clock is a time that moves only when it is told to.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// session makes a session with one turn begun.
func session(t testing.TB, db *store.DB, token, turn string) store.Session {
	t.Helper()
	s, err := db.NewSession(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = db.StartTurn(t.Context(), s, turn, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// run is a call that takes places when it is allowed.
func run(s store.Session) store.Call {
	return store.Call{ID: newID(), Session: s.ID, Turn: s.Turn, Token: s.TokenName, Role: store.RoleAgent, Caller: "mcp",
		Tool: "skill_run", Skill: "text-lines", Script: "lines.sh", Input: []byte(`{}`), Counts: true}
}

func allow(store.State) store.Verdict { return store.Verdict{Allowed: true} }

// limits denies as the guard does, on the counts alone.
func limits(st store.State) store.Verdict {
	switch {
	case st.SessionRuns >= 12:
		return store.Verdict{Code: "quota_session", Rule: 4}
	case st.TurnRuns >= 3:
		return store.Verdict{Code: "quota_turn", Rule: 4}
	case st.Sandbox.DailyRunLimit > 0 && st.DayRuns >= st.Sandbox.DailyRunLimit:
		return store.Verdict{Code: "quota_daily", Rule: 4}
	}
	return store.Verdict{Allowed: true}
}

func begin(t testing.TB, db *store.DB, c store.Call, judge func(store.State) store.Verdict) store.Verdict {
	t.Helper()
	v, err := db.Begin(t.Context(), c, judge)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func end(t testing.TB, db *store.DB, c store.Call, cl store.Closing) {
	t.Helper()
	if err := db.End(t.Context(), c, cl); err != nil {
		t.Fatal(err)
	}
}

// state is what a judge sees now.
func state(t testing.TB, db *store.DB, s store.Session) store.State {
	t.Helper()
	var seen store.State
	c := run(s)
	c.Tool, c.Counts = "guard_check", false
	begin(t, db, c, func(st store.State) store.Verdict {
		seen = st
		return store.Verdict{Code: "looking", Rule: 1}
	})
	return seen
}

// raw opens the store beside itself, as somebody with a shell would.
func raw(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	driver, name := "pgx", dsn
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, name = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func verify(t testing.TB, db *store.DB, head string) store.VerifyReport {
	t.Helper()
	r, err := db.Verify(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// parallel runs f n times at once and gives the first error.
func parallel(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

func events(t testing.TB, db *store.DB, f store.Filter) []store.Event {
	t.Helper()
	if f.Limit == 0 {
		f.Limit = 100_000
	}
	all, err := db.Events(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// onceEach fails unless every opened call is closed, and none twice.
func onceEach(all []store.Event) error {
	opened, closed := map[string]int{}, map[string]int{}
	for _, e := range all {
		switch e.Kind {
		case "opened":
			opened[e.Call]++
		case "closed":
			closed[e.Call]++
		}
	}
	for id, n := range opened {
		if n != 1 || closed[id] != 1 {
			return fmt.Errorf("call %s was opened %d times and closed %d times", id, n, closed[id])
		}
	}
	if len(closed) != len(opened) {
		return fmt.Errorf("%d calls were opened and %d closed", len(opened), len(closed))
	}
	return nil
}

// body is an event's, decoded.
func body(t testing.TB, e store.Event) map[string]any {
	t.Helper()
	b := map[string]any{}
	if err := json.Unmarshal(e.Body, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func sha(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}
