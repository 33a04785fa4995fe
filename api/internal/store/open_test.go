package store_test

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"xrayrunner/api/internal/store"
)

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		dsn, want string // want "": it opens
	}{
		{"sqlite:" + filepath.Join(t.TempDir(), "x.db"), ""},
		{"sqlite:" + filepath.Join(t.TempDir(), "a ?#%b.db"), ""}, // not a parameter of ours
		{"sqlite:", "write sqlite:/path"},
		{"sqlite::memory:", "write sqlite:/path"}, // each connection would have one of its own
		{"/data/xray.db", "write sqlite:/path"},
		{"", "write sqlite:/path"},
		{"mysql://x", "write sqlite:/path"},
		{"postgres://u:hunter2@h:x/db", "invalid port"},
		{"postgresql://u:hunter2@h/db?sslmode=y", "sslmode"},
	} {
		db, err := store.Open(t.Context(), c.dsn, store.Options{})
		if c.want == "" {
			if err != nil {
				t.Errorf("%q: %v", c.dsn, err)
				continue
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(strings.TrimPrefix(c.dsn, "sqlite:")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%q: %v (%v), want a file of mode 0600", c.dsn, info, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid with %q", c.dsn, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the message holds the password: %v", c.dsn, err)
		}
	}
}

// TestOpenNewer: a store that a newer api has changed is refused after a rollback, and works again when it is put back.
func TestOpenNewer(t *testing.T) {
	dsn := place(t)
	db, err := store.Open(t.Context(), dsn, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ change, want string }{
		{`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, TRUE)`, "schema version 9999"},
		{`DELETE FROM goose_db_version WHERE version_id = 9999`, ""},
	} {
		if _, err := raw(t, dsn).ExecContext(t.Context(), step.change); err != nil {
			t.Fatal(err)
		}
		db, err := store.Open(t.Context(), dsn, store.Options{})
		switch {
		case step.want == "" && err != nil, step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)):
			t.Errorf("%s: %v, want %q", step.change, err, step.want)
		}
		if err == nil {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOpenUnwritable: the message says who cannot write what that belongs to whom (case 48).
func TestOpenUnwritable(t *testing.T) {
	dir := filepath.Dir(sqliteOnly(t))
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		filepath.Join(dir, "none", "x.db"): {"none does not exist", "x.db does not exist"},
		dir:                                {fmt.Sprintf("%s belongs to %d:", dir, os.Getuid()), "mode 0"},
		filepath.Join(plain, "x.db"):       {fmt.Sprintf("%s belongs to %d:", plain, os.Getuid()), "mode 0600"},
	} {
		_, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
		if err == nil {
			t.Errorf("%s: opened", path)
			continue
		}
		for _, w := range append(want, "cannot be written by uid", path) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want it to hold %q", path, err, w)
			}
		}
	}
}

// TestOpenTwiceAtOnce: two instances that start together both come up, on a new file and on an old one.
func TestOpenTwiceAtOnce(t *testing.T) {
	path := place(t)
	for range 3 {
		opened := make([]*store.DB, 6)
		err := parallel(len(opened), func(i int) (err error) {
			opened[i], err = store.Open(context.Background(), path, store.Options{})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		for _, db := range opened {
			if db == nil {
				continue
			}
			if v, err := db.SchemaVersion(t.Context()); err != nil || v != 3 {
				t.Errorf("schema version %d (%v), want 2", v, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	left, err := filepath.Glob(strings.TrimPrefix(path, "sqlite:") + ".probe*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// TestCase56Pragmas: every connection has the same settings, the replaced one too.
func TestCase56Pragmas(t *testing.T) {
	for _, c := range []struct {
		o    store.Options
		sync string
	}{{store.Options{}, "1"}, {store.Options{FullSync: true}, "2"}} {
		db := open(t, "sqlite:"+sqliteOnly(t), c.o)
		write, read := db.Pools()
		want := map[string]string{"busy_timeout": "10000", "journal_mode": "wal", "synchronous": c.sync, "foreign_keys": "1", "wal_autocheckpoint": "1000"}
		held := []*sql.Conn{hold(t, write)}
		for range 8 {
			held = append(held, hold(t, read))
		}
		for i, conn := range held {
			pragmas(t, fmt.Sprintf("connection %d", i), conn, want)
		}
		// Returning ErrBadConn makes the pool replace the connection.
		if err := held[0].Raw(func(any) error { return driver.ErrBadConn }); err == nil {
			t.Fatal("the connection was not given up")
		}
		for _, conn := range held[1:] {
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
		pragmas(t, "the replaced writer", hold(t, write), want)
		if got := write.Stats().MaxOpenConnections; got != 1 {
			t.Errorf("%d writers, want 1", got)
		}
	}
}

func hold(t *testing.T, pool *sql.DB) *sql.Conn {
	t.Helper()
	c, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func pragmas(t *testing.T, name string, c *sql.Conn, want map[string]string) {
	t.Helper()
	for pragma, value := range want {
		var got string
		if err := c.QueryRowContext(t.Context(), `PRAGMA `+pragma).Scan(&got); err != nil || got != value {
			t.Errorf("%s: %s = %q (%v), want %q", name, pragma, got, err, value)
		}
	}
}

// TestCase56Locked: 50 goroutines in two handles, with a reader that keeps a transaction open, see no "database is
// locked", and every count is exact.
func TestCase56Locked(t *testing.T) {
	const workers, calls = 50, 6
	path := place(t)
	handles := []*store.DB{open(t, path, store.Options{}), open(t, path, store.Options{})}
	_, read := handles[0].Pools()
	reader, err := read.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRowContext(t.Context(), `SELECT count(*) FROM events`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	sessions := make([]store.Session, workers)
	for i := range sessions {
		sessions[i] = session(t, handles[0], "agent", "one")
	}
	err = parallel(workers, func(i int) error {
		for k := range calls {
			db := handles[(i+k)%2]
			c := run(sessions[i])
			if _, err := db.Begin(context.Background(), c, allow); err != nil {
				return err
			}
			if _, _, err := db.Head(context.Background()); err != nil {
				return err
			}
			if err := handles[(i+k+1)%2].End(context.Background(), c, store.Closing{Outcome: "ok", Started: k%2 == 0}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got, want := state(t, handles[0], sessions[0]).DayRuns, workers*calls/2; got != want {
		t.Errorf("%d runs today, want %d", got, want)
	}
	for _, s := range sessions {
		if got := state(t, handles[1], s).SessionRuns; got != calls/2 {
			t.Errorf("a session has %d runs, want %d", got, calls/2)
		}
	}
	if r := verify(t, handles[0], ""); !r.OK {
		t.Errorf("the record is not whole: %+v", r)
	}
	if err := onceEach(events(t, handles[0], store.Filter{})); err != nil {
		t.Error(err)
	}
}

// lifeFile makes the test binary a child that does calls until it is killed.
const lifeFile = "XRAY_STORE_TEST_LIFE"

// live says "go" for each call that it has begun, so that the parent kills it in the middle of one.
func live(path string) {
	die := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	db, err := store.Open(ctx, path, store.Options{})
	die(err)
	for i := 0; ; i++ {
		s, err := db.NewSession(ctx, "agent")
		die(err)
		s, err = db.StartTurn(ctx, s, "one", nil)
		die(err)
		c := run(s)
		_, err = db.Begin(ctx, c, allow)
		die(err)
		fmt.Println("go", s.ID)
		if i%3 != 0 { // every third stays open
			die(db.End(ctx, c, store.Closing{Outcome: "ok", Started: true}))
		}
	}
}

// TestKilledInTheMiddle: kill -9 at any moment, several times on one file. Nothing that was said to have begun is
// missing, what was open is closed as lost exactly once, and the chain is whole.
func TestKilledInTheMiddle(t *testing.T) {
	path := place(t)
	var begun []string
	for round := range 3 {
		begun = append(begun, killed(t, path, 10+7*round)...)
		db, err := store.Open(t.Context(), path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lost, err := db.CloseLost(t.Context())
		if err != nil || lost < 3 {
			t.Errorf("closed %d (%v), want at least the 3 that were left open", lost, err)
		}
		if again, err := db.CloseLost(t.Context()); again != 0 || err != nil {
			t.Errorf("closed %d more (%v): a call was closed twice", again, err)
		}
		all := events(t, db, store.Filter{})
		if err := onceEach(all); err != nil {
			t.Error(err)
		}
		if r := verify(t, db, ""); !r.OK {
			t.Errorf("the record is not whole: %+v", r)
		}
		runs := 0
		for _, id := range begun {
			s, err := db.Session(t.Context(), "agent", id)
			if err != nil {
				t.Fatalf("a session whose call had begun is gone: %v", err)
			}
			runs += state(t, db, s).SessionRuns
		}
		if runs != len(begun) {
			t.Errorf("%d runs are counted of %d: the quota of a lost run is kept", runs, len(begun))
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killed lets a child live until it has begun n calls, kills it, and gives the sessions of those calls.
func killed(t *testing.T, path string, n int) []string {
	t.Helper()
	child := osexec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), lifeFile+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var begun []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "go "); ok {
			begun = append(begun, id)
		}
		if len(begun) == n {
			if err := child.Process.Kill(); err != nil { // that one process, by its id
				t.Error(err)
			}
		}
	}
	if err := child.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	if len(begun) < n {
		t.Fatalf("the child began %d calls, want %d", len(begun), n)
	}
	// A line that the kill cut is no session.
	if last := begun[len(begun)-1]; len(last) != len(begun[0]) {
		begun = begun[:len(begun)-1]
	}
	return begun
}
