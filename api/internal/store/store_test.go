package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xrayrunner/api/internal/store"
)

func open(t testing.TB, path string, o ...store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path, append(o, store.Options{})[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func call(id string, s store.Session, turn string) store.Call {
	return store.Call{ID: id, Session: s.ID, Turn: turn, Token: "agent", Role: store.RoleAgent, Tool: "skill_run", Counts: true}
}

// judge denies by the counts that the state shows.
func judge(st store.State) store.Verdict {
	return store.Verdict{Allowed: st.TurnRuns < 3 && st.SessionRuns < 12 && (st.Sandbox.DailyRunLimit == 0 || st.DayRuns < st.Sandbox.DailyRunLimit), Code: "quota"}
}

// TestCase14ParallelBegin: two handles on one file stand for two processes; exactly as many are allowed as there are places.
func TestCase14ParallelBegin(t *testing.T) {
	path := place(t)
	handles := []*store.DB{open(t, path), open(t, path)}
	s, err := handles[0].NewSession(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	burst := func(turns int, sessions ...store.Session) int64 {
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				sess := sessions[i%len(sessions)]
				v, err := handles[i%2].Begin(context.Background(), call(fmt.Sprintf("%s-%d-%d-%d", sess.ID, turns, len(sessions), i), sess, fmt.Sprintf("t%d", i%turns)), judge)
				if err != nil {
					t.Error(err)
				}
				if v.Allowed {
					allowed.Add(1)
				}
			})
		}
		wg.Wait()
		return allowed.Load()
	}
	if got := burst(1, s); got != 3 {
		t.Errorf("one turn: %d allowed, want 3", got)
	}
	if got := burst(16, s); got != 9 {
		t.Errorf("the rest of the session: %d allowed, want 9", got)
	}
	if err := handles[0].SetSandbox(t.Context(), store.Actor{}, store.SandboxConfig{DailyRunLimit: 20, TotalTimeoutMS: 30000}); err != nil {
		t.Fatal(err)
	}
	var more []store.Session
	for range 8 {
		another, err := handles[1].NewSession(t.Context(), "agent")
		if err != nil {
			t.Fatal(err)
		}
		more = append(more, another)
	}
	if got := burst(16, more...); got != 8 {
		t.Errorf("the rest of the day: %d allowed, want 8", got)
	}
}

func TestPlacesAndClosing(t *testing.T) {
	db := open(t, place(t))
	s, err := db.NewSession(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	runs := func(id string) (turn int) {
		if _, err := db.Begin(t.Context(), call(id, s, "t"), func(st store.State) store.Verdict { turn = st.TurnRuns; return store.Verdict{} }); err != nil {
			t.Fatal(err)
		}
		return turn
	}
	for _, c := range []struct {
		name    string
		started bool
		want    int
	}{{"never started: given back", false, 0}, {"started: kept", true, 1}} {
		id := c.name
		if v, err := db.Begin(t.Context(), call(id, s, "t"), judge); err != nil || !v.Allowed {
			t.Fatal(v, err)
		}
		if err := db.End(t.Context(), call(id, s, "t"), store.Closing{Outcome: "x", Started: c.started}); err != nil {
			t.Fatal(err)
		}
		if got := runs("refused after " + id); got != c.want {
			t.Errorf("%s: %d runs, want %d (a refused call counts nothing)", c.name, got, c.want)
		}
		if err := db.End(t.Context(), call(id, s, "t"), store.Closing{}); !errors.Is(err, store.ErrNotOpen) {
			t.Errorf("second end: %v", err)
		}
	}
	v, err := db.Begin(t.Context(), call("panic", s, "t"), func(store.State) store.Verdict { panic("x") })
	if err != nil || v.Allowed || v.Code != "guard_error" || v.Rule != 6 {
		t.Errorf("a judge that panics: %+v %v", v, err)
	}
	foreign := call("foreign", s, "t")
	foreign.Token = "somebody"
	if _, err := db.Begin(t.Context(), foreign, judge); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another token's session: %v", err)
	}
	// A call that was open when the process ended is closed once, as lost.
	if _, err := db.Begin(t.Context(), call("open", s, "u"), judge); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		if n, err := db.CloseLost(t.Context()); err != nil || n != want {
			t.Errorf("CloseLost = %d, %v, want %d", n, err, want)
		}
	}
}

func TestTokenSession(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	db, err := store.Open(t.Context(), place(t), store.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	id := func() string {
		s, err := db.TokenSession(t.Context(), "agent", 30*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	first := id()
	if now = now.Add(30 * time.Minute); id() != first {
		t.Error("renewed by reconnecting within the time")
	}
	if now = now.Add(time.Second); id() == first {
		t.Error("not renewed after the time")
	}
}

// TestVerifyFindsTampering changes the record behind the store's back, each way once.
func TestVerifyFindsTampering(t *testing.T) {
	for _, c := range []struct{ name, statement, want string }{
		{"untouched", "SELECT 1", ""},
		{"a flipped byte", "UPDATE events SET body = replace(body, 'alpha', 'alphb') WHERE seq = 3", "event 3 was changed"},
		{"a changed column", "UPDATE events SET tool = 'x' WHERE seq = 2", "event 2 was changed"},
		{"a removed row", "DELETE FROM events WHERE seq = 2", "event 2 is missing"},
		{"a moved row", "UPDATE events SET seq = 99 WHERE seq = 2", "event 2 is missing"},
		{"two rows exchanged whole", "UPDATE events SET seq = CASE seq WHEN 3 THEN 103 WHEN 4 THEN 104 END WHERE seq IN (3, 4); UPDATE events SET seq = CASE seq WHEN 103 THEN 4 WHEN 104 THEN 3 END WHERE seq IN (103, 104)", "event 3 was moved here: it is event 4"},
		{"two bodies exchanged", "UPDATE events SET body = (SELECT body FROM events e WHERE e.seq = 7 - events.seq) WHERE seq IN (3, 4)", "event 3 was changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := place(t)
			db := open(t, path)
			s, err := db.NewSession(t.Context(), "agent")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				k := call(fmt.Sprint(i), s, "t")
				k.Input = []byte(fmt.Sprintf(`{"alpha":%d}`, i))
				if _, err := db.Begin(t.Context(), k, judge); err != nil {
					t.Fatal(err)
				}
				if err := db.End(t.Context(), k, store.Closing{Outcome: "ok", Started: true}); err != nil {
					t.Fatal(err)
				}
			}
			exec(t, raw(t, path), c.statement)
			r, err := db.Verify(t.Context(), "")
			if err != nil || r.OK != (c.want == "") || !strings.Contains(r.Reason, c.want) {
				t.Errorf("%+v %v, want %q", r, err, c.want)
			}
			if c.want != "" {
				return
			}
			if r, err := db.Verify(t.Context(), r.Head); err != nil || !r.OK {
				t.Errorf("with its head: %+v %v", r, err)
			}
			if r, err := db.Verify(t.Context(), strings.Repeat("0", 64)); err != nil || r.OK {
				t.Errorf("a head that does not occur: %+v %v", r, err)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	db := open(t, place(t))
	secret, err := db.CreateToken(t.Context(), store.Actor{}, "a", store.RoleAgent, store.ModeReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		secret string
		want   bool
	}{"right": {secret, true}, "one more": {secret + "x", false}, "one less": {secret[:len(secret)-1], false}, "empty": {"", false}, "undefined": {"undefined", false}, "with a space": {secret + " ", false}} {
		if _, ok, err := db.Authenticate(t.Context(), c.secret); err != nil || ok != c.want {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	for name, err := range map[string]error{
		"short":       db.PutToken(t.Context(), "b", store.RoleAgent, store.ModeReadOnly, "undefined"),
		"white space": db.PutToken(t.Context(), "b", store.RoleAgent, store.ModeReadOnly, "0123456789 0123456789"),
		"role":        db.PutToken(t.Context(), "b", "admin", store.ModeReadOnly, "0123456789-0123456789"),
	} {
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := db.RevokeToken(t.Context(), store.Actor{}, "a"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := db.Authenticate(t.Context(), secret); err != nil || ok {
		t.Errorf("revoked: %v %v", ok, err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for dsn, want := range map[string]string{
		"sqlite::memory:":        "sqlite:/path",
		"sqlite:/dev/null/x.db":  "cannot be written by uid",
		"/somewhere/without.one": "sqlite:/path",
	} {
		if _, err := store.Open(t.Context(), dsn, store.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dsn, err, want)
		}
	}
}

// FuzzStorable: whatever comes, every database takes what goes in, and good text is not touched.
func FuzzStorable(f *testing.F) {
	for _, s := range []string{"", "plain", "a\x00b", "\xff\xfe", "é😀", "'; --", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := store.Storable(s)
		if strings.ContainsRune(got, 0) || strings.ToValidUTF8(got, "") != got {
			t.Errorf("%q is not storable", got)
		}
		if strings.ToValidUTF8(s, "") == s && !strings.ContainsRune(s, 0) && got != s {
			t.Errorf("%q was changed to %q", s, got)
		}
	})
}
