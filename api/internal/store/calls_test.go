package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"xrayrunner/api/internal/store"
)

// TestCase14Daily: the day's limit holds over all sessions and tokens; the one before it is allowed, the next is not.
func TestCase14Daily(t *testing.T) {
	for _, other := range []bool{false, true} {
		clock := newClock()
		path := place(t)
		handles := handles(t, path, other, store.Options{Now: clock.now})
		who := store.Actor{Token: "operator", Role: store.RoleOperator, Caller: "rest"}
		if err := handles[0].SetSandbox(t.Context(), who, store.SandboxConfig{DailyRunLimit: 20, TotalTimeoutMS: 30000}); err != nil {
			t.Fatal(err)
		}
		var sessions []store.Session
		for range 64 {
			sessions = append(sessions, session(t, handles[0], "agent", "one"))
		}
		burst := func() int32 {
			var allowed atomic.Int32
			if err := parallel(64, func(i int) error {
				v, err := handles[i%len(handles)].Begin(t.Context(), run(sessions[i]), limits)
				if v.Allowed {
					allowed.Add(1)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return allowed.Load()
		}
		if got := burst(); got != 20 {
			t.Errorf("two handles %v: %d of 64 were allowed, want 20", other, got)
		}
		clock.pass(11*time.Hour + 59*time.Minute) // 23:59 UTC
		if got := burst(); got != 0 {
			t.Errorf("two handles %v: %d more were allowed on the same day", other, got)
		}
		clock.pass(time.Minute)
		if got := burst(); got != 20 {
			t.Errorf("two handles %v: %d were allowed on the next day, want 20", other, got)
		}
	}
}

func handles(t *testing.T, path string, two bool, o ...store.Options) []*store.DB {
	t.Helper()
	o = append(o, store.Options{})
	out := []*store.DB{open(t, path, o[0])}
	if two {
		out = append(out, open(t, path, o[0]))
	}
	return out
}

// TestRefund: a place comes back when, and only when, the run never started. A refused call takes none.
func TestRefund(t *testing.T) {
	db := open(t, place(t), store.Options{})
	s := session(t, db, "agent", "one")
	for _, c := range []struct {
		name   string
		counts bool
		judge  func(store.State) store.Verdict
		cl     *store.Closing
		want   int // places taken by this row
	}{
		{"allowed and still open", true, allow, nil, 1},
		{"refused", true, func(store.State) store.Verdict { return store.Verdict{Code: "input_invalid", Rule: 3} }, nil, 0},
		{"the judge panics", true, func(store.State) store.Verdict { panic("x") }, nil, 0},
		{"started", true, allow, &store.Closing{Outcome: "ok", Started: true}, 1},
		{"started and lost", true, allow, &store.Closing{Outcome: "lost", Started: true}, 1},
		{"never started", true, allow, &store.Closing{Outcome: "runner_unavailable"}, 0},
		{"a call that does not count", false, allow, &store.Closing{Outcome: "ok", Started: true}, 0},
		{"a call that does not count, never started", false, allow, &store.Closing{Outcome: "sandbox_error"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := state(t, db, s)
			call := run(s)
			call.Counts = c.counts
			begin(t, db, call, c.judge)
			if c.cl != nil {
				end(t, db, call, *c.cl)
			}
			after := state(t, db, s)
			for _, n := range []struct {
				what        string
				before, now int
			}{{"turn", before.TurnRuns, after.TurnRuns}, {"session", before.SessionRuns, after.SessionRuns}, {"day", before.DayRuns, after.DayRuns}} {
				if got := n.now - n.before; got != c.want {
					t.Errorf("%s: %d places taken, want %d", n.what, got, c.want)
				}
			}
		})
	}
}

// TestRefundOverMidnight: the place goes back to the day that it was taken from.
func TestRefundOverMidnight(t *testing.T) {
	clock := newClock()
	db := open(t, place(t), store.Options{Now: clock.now})
	s := session(t, db, "agent", "one")
	c := run(s)
	begin(t, db, c, allow)
	clock.pass(24 * time.Hour)
	tomorrow := run(s)
	begin(t, db, tomorrow, allow)
	end(t, db, c, store.Closing{Outcome: "busy"})
	if got := state(t, db, s).DayRuns; got != 1 {
		t.Errorf("today has %d runs, want 1: yesterday's place was given to today", got)
	}
	clock.pass(-24 * time.Hour)
	if got := state(t, db, s).DayRuns; got != 0 {
		t.Errorf("yesterday has %d runs, want 0", got)
	}
}

func TestSecondEnd(t *testing.T) {
	path := place(t)
	db := open(t, path, store.Options{})
	s := session(t, db, "agent", "one")
	open := run(s)
	begin(t, db, open, allow)
	end(t, db, open, store.Closing{Outcome: "busy"})
	refused := run(s)
	begin(t, db, refused, func(store.State) store.Verdict { return store.Verdict{Code: "tool_disabled", Rule: 1} })
	for name, c := range map[string]store.Call{"closed": open, "refused, so closed at once": refused, "never begun": run(s)} {
		if err := db.End(t.Context(), c, store.Closing{Outcome: "ok", Started: true}); !errors.Is(err, store.ErrNotOpen) {
			t.Errorf("%s: got %v, want ErrNotOpen", name, err)
		}
	}
	if got := state(t, db, s).TurnRuns; got != 0 {
		t.Errorf("%d places taken, want 0: one was given back twice or not at all", got)
	}
	if err := onceEach(events(t, db, store.Filter{})); err != nil {
		t.Error(err)
	}
}

// TestEndOutlivesTheCaller: the record is closed although the caller has gone.
func TestEndOutlivesTheCaller(t *testing.T) {
	db := open(t, place(t), store.Options{})
	c := run(session(t, db, "agent", "one"))
	begin(t, db, c, allow)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.End(gone, c, store.Closing{Outcome: "cancelled", Started: true}); err != nil {
		t.Error(err)
	}
	if _, err := db.Begin(gone, run(session(t, db, "agent", "one")), allow); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin for a caller who has gone: %v, want context.Canceled", err)
	}
}

func TestJudgePanics(t *testing.T) {
	db := open(t, place(t), store.Options{})
	s := session(t, db, "agent", "one")
	c := run(s)
	v := begin(t, db, c, func(store.State) store.Verdict { panic("a secret of ours") })
	if v.Allowed || v.Code != "guard_error" || v.Rule != 6 {
		t.Errorf("got %+v, want guard_error by rule 6", v)
	}
	all := events(t, db, store.Filter{Session: s.ID})
	if len(all) != 2 || onceEach(all) != nil {
		t.Errorf("%d events, want opened and closed", len(all))
	}
	if begin(t, db, run(s), allow); !verify(t, db, "").OK {
		t.Error("the store does not go on after a panic")
	}
}

func TestForeignSession(t *testing.T) {
	db := open(t, place(t), store.Options{})
	s := session(t, db, "alice", "one")
	if _, err := db.Session(t.Context(), "alice", s.ID); err != nil {
		t.Errorf("her own: %v", err)
	}
	if _, err := db.Session(t.Context(), "bob", s.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another token's: %v, want ErrNotFound", err)
	}
	judged := false
	judge := func(store.State) store.Verdict { judged = true; return store.Verdict{Allowed: true} }
	stolen := run(s)
	stolen.Token = "bob"
	if _, err := db.Begin(t.Context(), stolen, judge); !errors.Is(err, store.ErrNotFound) || judged {
		t.Errorf("a call in it: %v (judged: %v), want ErrNotFound before any judgement", err, judged)
	}
	if got := state(t, db, s).SessionRuns; got != 0 {
		t.Errorf("it cost her %d runs", got)
	}
	if _, err := db.Session(t.Context(), "alice", "' OR 1=1 --"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such session: %v, want ErrNotFound", err)
	}
}

// TestClosedEventTellsAll: a line of the record can be read alone.
func TestClosedEventTellsAll(t *testing.T) {
	db := open(t, place(t), store.Options{})
	s := session(t, db, "agent", "one")
	c := run(s)
	begin(t, db, c, allow)
	end(t, db, c, store.Closing{Outcome: "ok", Result: []byte(`{"a":1}`), Started: true, Duration: 1500 * time.Microsecond, Details: json.RawMessage(`{"usage":{}}`)})
	all := events(t, db, store.Filter{Session: s.ID})
	if len(all) != 2 {
		t.Fatalf("%d events, want 2", len(all))
	}
	var got map[string]any
	if err := json.Unmarshal(all[1].Body, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"session": s.ID, "turn": "one", "tool": "skill_run", "skill": "text-lines", "script": "lines.sh", "decision": "allow",
		"token": "agent", "caller": "mcp", "role": "system", "user": 0.0, "outcome": "ok", "result": `{"a":1}`, "duration_ms": 1.5, "error": ""} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
	person := run(s)
	person.Role = store.RoleOperator
	begin(t, db, person, allow)
	last := events(t, db, store.Filter{Session: s.ID})[2]
	var opened map[string]any
	if err := json.Unmarshal(last.Body, &opened); err != nil {
		t.Fatal(err)
	}
	if _, has := opened["user"]; has || opened["role"] != "operator" {
		t.Errorf("an operator's call: user %v, role %v", opened["user"], opened["role"])
	}
}

func TestFilter(t *testing.T) {
	clock := newClock()
	db := open(t, place(t), store.Options{Now: clock.now})
	began := clock.now()
	a, b := session(t, db, "agent", "one"), session(t, db, "agent", "one")
	begin(t, db, run(a), allow)
	clock.pass(time.Hour)
	other := run(b)
	other.Skill = "csv-stats"
	begin(t, db, other, func(store.State) store.Verdict { return store.Verdict{Code: "quota_turn"} })
	for _, c := range []struct {
		name string
		f    store.Filter
		want int
	}{
		{"all", store.Filter{}, 3}, {"limit", store.Filter{Limit: 1}, 1}, {"after", store.Filter{AfterSeq: 1}, 2}, {"after all", store.Filter{AfterSeq: 3}, 0},
		{"a session", store.Filter{Session: a.ID}, 1}, {"another", store.Filter{Session: b.ID}, 2}, {"none", store.Filter{Session: "x"}, 0},
		{"skill", store.Filter{Skill: "csv-stats"}, 2}, {"skill of the other session", store.Filter{Skill: "csv-stats", Session: a.ID}, 0},
		{"denied", store.Filter{Decision: "deny"}, 2}, {"allowed", store.Filter{Decision: "allow"}, 1},
		{"tool", store.Filter{Tool: "skill_run"}, 3}, {"no tool", store.Filter{Tool: "skill_load"}, 0},
		{"since", store.Filter{Since: began.Add(time.Hour)}, 2}, {"until", store.Filter{Until: began.Add(time.Hour)}, 1}, {"until is open", store.Filter{Until: began}, 0},
	} {
		if got := len(events(t, db, c.f)); got != c.want {
			t.Errorf("%s: %d events, want %d", c.name, got, c.want)
		}
	}
}

// BenchmarkCall is the price of a call in the store: two write transactions.
func BenchmarkCall(b *testing.B) {
	db := open(b, place(b), store.Options{})
	s := session(b, db, "agent", "one")
	var took []time.Duration
	for b.Loop() {
		c := run(s)
		began := time.Now()
		begin(b, db, c, allow)
		end(b, db, c, store.Closing{Outcome: "ok", Started: true})
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*95/100].Seconds()*1000, "p95-ms")
}
