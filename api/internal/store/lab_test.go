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

	"github.com/google/go-cmp/cmp"

	"xrayrunner/api/internal/store"
)

// lab is a store in a temporary folder, with a clock that moves only when it is told to, in one handle or more.
type lab struct {
	t       testing.TB
	path    string
	handles []*store.DB
	db      *store.DB // the first handle
	mu      sync.Mutex
	time    time.Time
	ids     atomic.Int64
}

func newLab(t testing.TB, handles int) *lab {
	t.Helper()
	l := &lab{t: t, path: place(t), time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	for range handles {
		db, err := store.Open(t.Context(), l.path, store.Options{Now: l.now})
		l.must(err)
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		l.handles = append(l.handles, db)
	}
	l.db = l.handles[0]
	return l
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time
}

func (l *lab) session(turns ...string) store.Session {
	l.t.Helper()
	s, err := l.db.NewSession(context.Background(), "agent")
	l.must(err)
	for _, turn := range turns {
		s, err = l.db.StartTurn(context.Background(), s, turn, nil)
		l.must(err)
	}
	return s
}

// run is a call that takes places when it is allowed.
func (l *lab) run(s store.Session, turn string) store.Call {
	return store.Call{ID: fmt.Sprint("call-", l.ids.Add(1)), Session: s.ID, Turn: turn, Token: "agent", Role: store.RoleAgent, Caller: "mcp",
		Tool: "skill_run", Skill: "text-lines", Script: "lines.sh", Input: []byte(`{"a":"<&>"}`), Counts: true}
}

func (l *lab) begin(c store.Call, judge func(store.State) store.Verdict) store.Verdict {
	l.t.Helper()
	v, err := l.db.Begin(context.Background(), c, judge)
	l.must(err)
	return v
}

// carry begins and ends a call.
func (l *lab) carry(c store.Call, cl store.Closing) {
	l.t.Helper()
	if v := l.begin(c, allow); !v.Allowed {
		l.t.Fatalf("%+v", v)
	}
	l.must(l.db.End(context.Background(), c, cl))
}

// state is what a judge sees now.
func (l *lab) state(s store.Session, turn string) (st store.State) {
	l.t.Helper()
	l.begin(l.run(s, turn), func(now store.State) store.Verdict { st = now; return store.Verdict{Code: "looking"} })
	return st
}

// TestCase14ExactCounts: of 64 calls at once exactly as many are allowed as there are places, in one handle and in two.
func TestCase14ExactCounts(t *testing.T) {
	var sixteen []string
	for i := range 16 {
		sixteen = append(sixteen, fmt.Sprint("t", i))
	}
	for _, c := range []struct {
		name     string
		turns    []string
		sessions int
		daily    int
		want     int64
	}{{"turn", sixteen[:1], 1, 0, 3}, {"session", sixteen, 1, 0, 12}, {"day", sixteen, 8, 20, 20}, {"no daily limit", sixteen[:1], 8, 0, 24}} {
		for handles := 1; handles <= 2; handles++ {
			t.Run(fmt.Sprint(c.name, " in ", handles), func(t *testing.T) {
				l := newLab(t, handles)
				l.must(l.db.SetSandbox(t.Context(), store.Actor{}, store.SandboxConfig{DailyRunLimit: c.daily, TotalTimeoutMS: 30000}))
				var sessions []store.Session
				for range c.sessions {
					sessions = append(sessions, l.session(c.turns...))
				}
				var allowed atomic.Int64
				var wg sync.WaitGroup
				for i := range 64 {
					wg.Go(func() {
						v, err := l.handles[i%handles].Begin(context.Background(), l.run(sessions[i%c.sessions], c.turns[i/c.sessions%len(c.turns)]), limits)
						if err != nil {
							t.Error(err)
						}
						if v.Allowed {
							allowed.Add(1)
						}
					})
				}
				wg.Wait()
				if got := allowed.Load(); got != c.want {
					t.Errorf("%d of 64 were allowed, want %d", got, c.want)
				}
				if got := l.state(sessions[0], "t0").DayRuns; int64(got) != c.want {
					t.Errorf("%d runs today, want %d: a refused call counts nothing", got, c.want)
				}
			})
		}
	}
}

// TestTokensOfEachKind: what can be a token, and what cannot.
func TestTokensOfEachKind(t *testing.T) {
	l := newLab(t, 1)
	for _, c := range []struct {
		name string
		role store.Role
		mode store.Mode
		want error
	}{
		{"agent-1", store.RoleAgent, store.ModeReadOnly, nil},
		{"agent-1", store.RoleViewer, store.ModeReadOnly, store.ErrExists},
		{strings.Repeat("a", 64), store.RoleOperator, store.ModeDualSign, nil},
		{strings.Repeat("a", 65), store.RoleOperator, store.ModeDualSign, store.ErrInvalid},
		{"v", store.RoleViewer, store.ModeMutating, nil},
		{"", store.RoleAgent, store.ModeReadOnly, store.ErrInvalid},
		{"Agent", store.RoleAgent, store.ModeReadOnly, store.ErrInvalid},
		{"a b", store.RoleAgent, store.ModeReadOnly, store.ErrInvalid},
		{"x", "admin", store.ModeReadOnly, store.ErrInvalid},
		{"x", "Operator", store.ModeReadOnly, store.ErrInvalid},
		{"x", "", store.ModeReadOnly, store.ErrInvalid},
		{"x", store.RoleAgent, "", store.ErrInvalid},
	} {
		secret, err := l.db.CreateToken(t.Context(), store.Actor{}, c.name, c.role, c.mode)
		if !errors.Is(err, c.want) || (secret == "") != (c.want != nil) {
			t.Errorf("%q %q %q: a secret: %v, %v; want %v", c.name, c.role, c.mode, secret != "", err, c.want)
		}
		if err != nil {
			continue
		}
		got, ok, err := l.db.Authenticate(t.Context(), secret)
		want := store.Token{Name: c.name, Role: c.role, Mode: c.mode, Created: l.now()}
		if diff := cmp.Diff(want, got); err != nil || !ok || diff != "" {
			t.Errorf("%v, %v (-want +got):\n%s", ok, err, diff)
		}
		for _, wrong := range []string{"", " ", "undefined", secret[:len(secret)-1], secret + "A", secret + " ", " " + secret, strings.ToUpper(secret), c.name} {
			if _, ok, err := l.db.Authenticate(t.Context(), wrong); ok || err != nil {
				t.Errorf("%q opens (%v)", wrong, err)
			}
		}
		l.must(l.db.RevokeToken(t.Context(), store.Actor{}, c.name))
		if _, ok, err := l.db.Authenticate(t.Context(), secret); ok || err != nil {
			t.Errorf("revoked, and opens (%v)", err)
		}
		if err := l.db.RevokeToken(t.Context(), store.Actor{}, c.name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("revoked twice: %v", err)
		}
		if c.name == "agent-1" { // for the row after it
			_, err := l.db.CreateToken(t.Context(), store.Actor{}, c.name, c.role, c.mode)
			l.must(err)
		}
	}
}

// TestConfiguredSecrets: what a start does with them, time after time.
func TestConfiguredSecrets(t *testing.T) {
	const a, b = "configured-secret-a", "configured-secret-b"
	l := newLab(t, 1)
	for _, c := range []struct {
		what, name string
		role       store.Role
		secret     string
		want       error
		a, b       store.Role // what each opens afterwards
	}{
		{"empty", "agent", store.RoleAgent, "", store.ErrInvalid, "", ""},
		{"too short", "agent", store.RoleAgent, "0123456789abcde", store.ErrInvalid, "", ""},
		{"with a space", "agent", store.RoleAgent, "0123456789 abcdef", store.ErrInvalid, "", ""},
		{"with a newline", "agent", store.RoleAgent, a + "\n", store.ErrInvalid, "", ""},
		{"not ASCII", "agent", store.RoleAgent, "0123456789abcdéf", store.ErrInvalid, "", ""},
		{"good", "agent", store.RoleAgent, a, nil, store.RoleAgent, ""},
		{"the same again", "agent", store.RoleAgent, a, nil, store.RoleAgent, ""},
		{"an agent's secret for the operator", "operator", store.RoleOperator, a, store.ErrExists, store.RoleAgent, ""},
		{"another secret", "agent", store.RoleAgent, b, nil, "", store.RoleAgent},
		{"another role", "agent", store.RoleViewer, b, nil, "", store.RoleViewer},
		{"a secret that is free again", "operator", store.RoleOperator, a, nil, store.RoleOperator, store.RoleViewer},
	} {
		if err := l.db.PutToken(t.Context(), c.name, c.role, store.ModeReadOnly, c.secret); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		for secret, role := range map[string]store.Role{a: c.a, b: c.b} {
			if tok, ok, err := l.db.Authenticate(t.Context(), secret); err != nil || tok.Role != role || ok != (role != "") {
				t.Errorf("%s: %s opens %q, %v (%v); want %q", c.what, secret, tok.Role, ok, err, role)
			}
		}
	}
	l.must(l.db.RevokeToken(t.Context(), store.Actor{}, "operator"))
	if err := l.db.PutToken(t.Context(), "operator", store.RoleOperator, store.ModeReadOnly, a); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a start brings a revoked secret back: %v", err)
	}
	if _, ok, err := l.db.Authenticate(t.Context(), a); ok || err != nil {
		t.Errorf("the revoked secret opens (%v)", err)
	}
}

// BenchmarkBeginEnd is the price of a call in the store: two write transactions.
func BenchmarkBeginEnd(b *testing.B) {
	l := newLab(b, 1)
	s := l.session("t")
	for b.Loop() {
		l.carry(l.run(s, "t"), store.Closing{Outcome: "ok", Started: true})
	}
}
