package calls_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
)

func (f *fixture) mcp(t testing.TB, turn string) store.Session {
	t.Helper()
	s, err := f.MCPSession(t.Context(), f.caller, turn)
	must(t, err)
	return s
}

// call ends a call in the session now: quiet is counted from here.
func (f *fixture) call(t testing.TB, s store.Session) {
	t.Helper()
	_, err := f.List(t.Context(), f.caller, s)
	must(t, err)
}

// TestMCPQuietByTheClock: a client without turns is in the next one after more than 60 s without a call; a named turn
// is what it says.
func TestMCPQuietByTheClock(t *testing.T) {
	f := setup(t)
	first := f.mcp(t, "")
	if first.Turn == "" {
		t.Fatal("a session without a turn")
	}
	f.run(t, first, `{}`)
	last := first
	for _, c := range []struct {
		name  string
		pass  time.Duration
		turn  string
		fresh bool // another turn than the one before it
	}{
		{"at once", 0, "", false},
		{"after 60 s of quiet exactly", 60 * time.Second, "", false},
		{"after more", 60*time.Second + time.Microsecond, "", true},
		{"named", 0, "user-1", true},
		{"the same name", 0, "user-1", false},
		{"no name, not quiet", 59 * time.Second, "", false},
		{"the same name after a long quiet", 10 * time.Minute, "user-1", false},
		{"another name", 0, "user-2", true},
	} {
		f.clock.pass(c.pass)
		s := f.mcp(t, c.turn)
		if s.ID != first.ID {
			t.Fatalf("%s: another session", c.name)
		}
		if (s.Turn != last.Turn) != c.fresh || c.turn != "" && s.Turn != c.turn {
			t.Errorf("%s: turn %q after %q, want a fresh one: %v", c.name, s.Turn, last.Turn, c.fresh)
		}
		f.call(t, s)
		last = s
	}
	back := f.mcp(t, first.Turn)
	for range guard.RunsPerTurn - 1 {
		if a := f.run(t, back, `{}`); a.Refused != nil {
			t.Errorf("within the turn's places: %+v", a.Refused)
		}
	}
	if a := f.run(t, back, `{}`); a.Refused == nil || a.Refused.Code != guard.QuotaTurn {
		t.Errorf("an old turn named again has its places anew: %+v", a)
	}
}

// TestMCPNoQuietDuringARun: while a run is in flight there is no quiet, however long it takes; it is counted from the
// run's end.
func TestMCPNoQuietDuringARun(t *testing.T) {
	f := setup(t)
	s := f.mcp(t, "")
	f.call(t, s) // so that there is an end of a call to be quiet since
	arrived, release := make(chan struct{}), make(chan struct{})
	f.runner.does(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = w.Write([]byte(`{"outcome":"ok"}`))
	})
	done := make(chan error, 1)
	go func() {
		_, err := f.Run(t.Context(), f.caller, s, "echo", "echo.py", []byte(`{}`))
		done <- err
	}()
	<-arrived
	f.clock.pass(3 * time.Minute)
	during, err := f.MCPSession(t.Context(), f.caller, "")
	named, namedErr := f.MCPSession(t.Context(), f.caller, "by-name")
	back, backErr := f.MCPSession(t.Context(), f.caller, s.Turn)
	close(release)
	must(t, errors.Join(<-done, err, namedErr, backErr))
	if during.Turn != s.Turn {
		t.Error("a turn began while a run was in flight")
	}
	if named.Turn != "by-name" || back.Turn != s.Turn {
		t.Errorf("named turns during a run: %q and %q", named.Turn, back.Turn)
	}
	f.clock.pass(60 * time.Second)
	if f.mcp(t, "").Turn != s.Turn {
		t.Error("the quiet is not counted from the end of the run")
	}
	f.clock.pass(time.Microsecond)
	if f.mcp(t, "").Turn == s.Turn {
		t.Error("no turn began after the quiet")
	}
}

// TestMCPReconnectRenewsNothing: reconnecting does not renew what a token may run; more than 30 minutes without a call
// do, and another token has its own.
func TestMCPReconnectRenewsNothing(t *testing.T) {
	f := setup(t)
	s := f.mcp(t, "")
	f.run(t, s, `{}`)
	for range 5 {
		if f.mcp(t, "").ID != s.ID {
			t.Error("renewed by reconnecting")
		}
	}
	f.clock.pass(30 * time.Minute)
	if f.mcp(t, s.Turn).ID != s.ID {
		t.Error("renewed at 30 minutes")
	}
	f.clock.pass(time.Microsecond)
	fresh := f.mcp(t, "")
	if fresh.ID == s.ID || fresh.Turn == "" {
		t.Errorf("not renewed after 30 minutes: %+v", fresh)
	}
	other, err := f.MCPSession(t.Context(), calls.Caller{Token: store.Token{Name: "other", Role: store.RoleAgent}, Via: "mcp"}, "")
	if err != nil || other.ID == fresh.ID {
		t.Errorf("another token: %+v, %v", other, err)
	}
}

func TestRESTSessionTurns(t *testing.T) {
	f := setup(t)
	own := f.session(t)
	stranger := calls.Caller{Token: store.Token{Name: "stranger", Role: store.RoleAgent}, Via: "rest"}
	for _, c := range []struct {
		name   string
		caller calls.Caller
		id     string
		turn   string
		want   string // the turn
		err    error
	}{
		{"no turn named", f.caller, own.ID, "", own.Turn, nil},
		{"the current turn", f.caller, own.ID, own.Turn, own.Turn, nil},
		{"another turn", f.caller, own.ID, "t2", "t2", nil},
		{"a turn that cannot be a name", f.caller, own.ID, "a b", "", store.ErrInvalid},
		{"another token's session", stranger, own.ID, "", "", store.ErrNotFound},
		{"another token's session, a turn named", stranger, own.ID, "t3", "", store.ErrNotFound},
		{"no such session", f.caller, "none", "", "", store.ErrNotFound},
		{"it stays where it was", f.caller, own.ID, "", "t2", nil},
	} {
		got, err := f.RESTSession(t.Context(), c.caller, c.id, c.turn)
		if !errors.Is(err, c.err) || err == nil && got.Turn != c.want {
			t.Errorf("%s: turn %q, %v; want %q, %v", c.name, got.Turn, err, c.want, c.err)
		}
	}
	if _, err := f.Run(t.Context(), stranger, own, "echo", "echo.py", []byte(`{}`)); !errors.Is(err, store.ErrNotFound) || len(f.runner.requests()) != 0 {
		t.Errorf("a run in another token's session: %v", err)
	}
}
