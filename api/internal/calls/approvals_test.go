package calls_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// TestApprovalLife: what an approval is good for, one step after the other, with a clock that moves only when told.
func TestApprovalLife(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	r.Agent.Mode = store.ModeMutating
	s := r.Session()
	run := func(input string, by calls.Approving) calls.Answer {
		t.Helper()
		a, err := r.Calls.RunApproved(t.Context(), r.Caller("rest"), s, apitest.Writes, apitest.Script, []byte(input), by)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	refused := func(a calls.Answer, want guard.Code) string {
		t.Helper()
		if a.Refused == nil || a.Refused.Code != want {
			t.Fatalf("%+v, want %s", a.Refused, want)
		}
		return a.Refused.ApprovalID
	}
	id := refused(run(`{"n":1}`, calls.Approving{}), guard.ApprovalRequired)
	if again := refused(run(`{"n":1}`, calls.Approving{}), guard.ApprovalRequired); again != id || id == "" {
		t.Errorf("asked twice: %q and %q, want one request", id, again)
	}
	by := calls.Approving{ID: id}
	refused(run(`{"n":1}`, by), guard.ApprovalPending)

	own := store.Actor{Token: r.Agent.Name, Role: store.RoleOperator}
	if _, err := r.Store.Decide(t.Context(), own, id, true, ""); !errors.Is(err, store.ErrOwn) {
		t.Errorf("own request: %v", err)
	}
	if _, err := r.Store.Decide(t.Context(), apitest.Operator, id, true, "fine"); err != nil {
		t.Fatal(err)
	}
	refused(run(`{"n":2}`, by), guard.ApprovalVoid)
	refused(run(`{"n": 1}`, by), guard.ApprovalVoid)

	// A run that never started gives the approval back, as it gives its places back.
	r.Runner.Refuse(protocol.Busy, "full")
	refused(run(`{"n":1}`, by), protocol.Busy)
	r.Runner.Answer(nil)
	if a := run(`{"n":1}`, by); a.Refused != nil {
		t.Fatalf("approved: %+v", a.Refused)
	}
	seen := r.Runner.Seen()
	sent := seen[len(seen)-1].Approval
	want := protocol.Binding(apitest.Writes, apitest.Script, r.Lock.Skills[apitest.Writes].Files[apitest.Script].SHA256, []byte(`{"n":1}`), r.Lock.Digest())
	if sent == nil || sent.ID != id || sent.Binding != want || len(sent.ApprovedBy) != 1 || sent.ApprovedBy[0] != "operator" || sent.SOP != nil {
		t.Errorf("sent to the runner: %+v", sent)
	}
	refused(run(`{"n":1}`, by), guard.ApprovalUsed)

	// It ends by time, also between the decision and the run.
	id = refused(run(`{"n":3}`, calls.Approving{}), guard.ApprovalRequired)
	if _, err := r.Store.Decide(t.Context(), apitest.Operator, id, true, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store.Decide(t.Context(), apitest.Operator, id, true, ""); !errors.Is(err, store.ErrTwice) {
		t.Errorf("the same operator again: %v", err)
	}
	r.Clock.Pass(calls.DefaultApprovalLife)
	refused(run(`{"n":3}`, calls.Approving{ID: id}), guard.ApprovalExpired)

	// Three may wait, the fourth is not made.
	for n, want := range []bool{true, true, true, false} {
		if id := refused(run(`{"n":`+string(rune('4'+n))+`}`, calls.Approving{}), guard.ApprovalRequired); (id != "") != want {
			t.Errorf("request %d: id %q", n, id)
		}
	}
	r.Closed()
}

// waiter is an agent whose token may change things, with a request that waits.
type waiter struct {
	*apitest.Rig
	id  string
	run func(calls.Approving) *protocol.Problem
}

func newWaiter(t *testing.T) *waiter {
	t.Helper()
	w := &waiter{Rig: apitest.New(t)}
	w.Open()
	w.mode(store.ModeMutating)
	w.Agent.Mode = store.ModeMutating
	s := w.Session()
	w.run = func(by calls.Approving) *protocol.Problem {
		a, err := w.Calls.RunApproved(t.Context(), w.Caller("rest"), s, apitest.Writes, apitest.Script, []byte(`{}`), by)
		if err != nil {
			t.Error(err)
		}
		return a.Refused
	}
	if p := w.run(calls.Approving{}); p == nil || p.ApprovalID == "" {
		t.Fatalf("%+v", p)
	} else {
		w.id = p.ApprovalID
	}
	return w
}

func (w *waiter) mode(m store.Mode) {
	w.T.Helper()
	if err := w.Store.PutToken(w.T.Context(), w.Agent.Name, store.RoleAgent, m, apitest.AgentToken); err != nil {
		w.T.Fatal(err)
	}
}

// waits makes a call that waits, and gives its answer when it has one.
func (w *waiter) waits() chan *protocol.Problem {
	w.T.Helper()
	done := make(chan *protocol.Problem, 1)
	go func() { done <- w.run(calls.Approving{ID: w.id, WaitSeconds: calls.MaxWait}) }()
	select {
	case p := <-done:
		w.T.Fatalf("did not wait: %+v", p)
	case <-time.After(500 * time.Millisecond):
	}
	return done
}

func (w *waiter) decide(operator, id string, approve bool) error {
	_, err := w.Store.Decide(w.T.Context(), store.Actor{Token: operator, Role: store.RoleOperator}, id, approve, "")
	return err
}

// TestWait ends with the decision, and not before.
func TestWait(t *testing.T) {
	w := newWaiter(t)
	done := w.waits()
	if err := w.decide("operator", w.id, true); err != nil {
		t.Fatal(err)
	}
	if p := <-done; p != nil {
		t.Errorf("approved: %+v", p)
	}
}

// TestWaitGivesNothing that was taken away while the call waited.
func TestWaitGivesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		take func(*waiter) error
		want guard.Code
	}{
		"the token's mode": {func(w *waiter) error { w.mode(store.ModeReadOnly); return w.decide("operator", w.id, true) }, guard.ClassNotAllowed},
		"the token":        {func(w *waiter) error { return w.Store.RevokeToken(t.Context(), apitest.Operator, w.Agent.Name) }, protocol.Unauthorized},
	} {
		w := newWaiter(t)
		done := w.waits()
		if err := c.take(w); err != nil {
			t.Fatal(err)
		}
		if p := <-done; p == nil || p.Code != c.want {
			t.Errorf("%s: %+v, want %s", name, p, c.want)
		}
		if n := len(w.Runner.Seen()); n != 0 {
			t.Errorf("%s: %d runs", name, n)
		}
	}
}

// TestWaitsAreFew: each wait looks into the store, so one token has eight at once; the next is answered at once.
func TestWaitsAreFew(t *testing.T) {
	w := newWaiter(t)
	var all []chan *protocol.Problem
	for range 8 {
		all = append(all, w.waits())
	}
	began := time.Now()
	if p := w.run(calls.Approving{ID: w.id, WaitSeconds: calls.MaxWait}); p == nil || p.Code != guard.ApprovalPending || time.Since(began) > 10*time.Second {
		t.Errorf("one more: %+v after %v", p, time.Since(began))
	}
	if err := w.decide("operator", w.id, false); err != nil {
		t.Fatal(err)
	}
	for _, done := range all {
		if p := <-done; p == nil || p.Code != guard.ApprovalDenied {
			t.Errorf("%+v", p)
		}
	}
	w.id = w.run(calls.Approving{}).ApprovalID
	done := w.waits() // those that have ended make place
	if err := w.decide("operator", w.id, true); err != nil {
		t.Fatal(err)
	}
	if p := <-done; p != nil {
		t.Errorf("%+v", p)
	}
}

// TestTakenBack: until it is used, anybody who may decide can refuse what was approved, also who has approved it.
func TestTakenBack(t *testing.T) {
	for _, by := range []string{"operator", "other"} {
		w := newWaiter(t)
		if err := w.decide("operator", w.id, true); err != nil {
			t.Fatal(err)
		}
		if err := w.decide("operator", w.id, true); !errors.Is(err, store.ErrTwice) {
			t.Errorf("approved twice: %v", err)
		}
		if err := w.decide(w.Agent.Name, w.id, false); !errors.Is(err, store.ErrOwn) {
			t.Errorf("his own: %v", err)
		}
		if err := w.decide(by, w.id, false); err != nil {
			t.Fatalf("%s: %v", by, err)
		}
		p := w.run(calls.Approving{ID: w.id})
		if p == nil || p.Code != guard.ApprovalDenied || !strings.Contains(p.Detail, "operator "+by+" has refused it") {
			t.Errorf("taken back by %s: %+v", by, p)
		}
		for _, approve := range []bool{true, false} {
			if err := w.decide(by, w.id, approve); !errors.Is(err, store.ErrTwice) {
				t.Errorf("%s again: %v", by, err)
			}
		}
	}
	w := newWaiter(t)
	if err := w.decide("operator", w.id, true); err != nil {
		t.Fatal(err)
	}
	if p := w.run(calls.Approving{ID: w.id}); p != nil {
		t.Fatalf("%+v", p)
	}
	if err := w.decide("other", w.id, false); !errors.Is(err, store.ErrClosed) {
		t.Errorf("used, then refused: %v", err)
	}
}

// TestRevokedOperator: with a token goes what it has approved and asked for, and nothing else.
func TestRevokedOperator(t *testing.T) {
	for revoked, want := range map[string]guard.Code{"thief": guard.ApprovalDenied, "bystander": "", "agent": guard.ApprovalDenied} {
		w := newWaiter(t)
		for _, name := range []string{"thief", "bystander"} {
			if _, err := w.Store.CreateToken(t.Context(), apitest.Operator, name, store.RoleOperator, store.ModeReadOnly); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.decide("thief", w.id, true); err != nil {
			t.Fatal(err)
		}
		if err := w.Store.RevokeToken(t.Context(), apitest.Operator, revoked); err != nil {
			t.Fatal(err)
		}
		p := w.run(calls.Approving{ID: w.id}) // also by somebody who has the name anew
		if (p == nil) != (want == "") || p != nil && (p.Code != want || !strings.Contains(p.Detail, "was revoked")) {
			t.Errorf("%s: %+v, want %q", revoked, p, want)
		}
		got, err := w.Store.Approval(t.Context(), w.id)
		if err != nil || (got.Status == store.Used) != (want == "") || (len(got.ApprovedBy()) == 0) != (revoked == "thief") {
			t.Errorf("%s: %+v, %v", revoked, got, err)
		}
	}
}

// TestDryRun: it asks nobody, also with the lowest ceiling, and takes no approval along; without its word it is as any other.
func TestDryRun(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	run := func(input string, by calls.Approving) calls.Answer {
		t.Helper()
		a, err := r.Calls.RunApproved(t.Context(), r.Caller("rest"), s, apitest.Writes, apitest.Script, []byte(input), by)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := run(`{"dry":true}`, calls.Approving{}); a.Refused != nil {
		t.Fatalf("a dry run: %+v", a.Refused)
	}
	if a := run(`{"dry":false}`, calls.Approving{}); a.Refused == nil || a.Refused.Code != guard.ClassNotAllowed {
		t.Errorf("not dry, by a token that reads only: %+v", a.Refused)
	}
	r.Agent.Mode = store.ModeMutating
	id := run(`{"dry":false}`, calls.Approving{}).Refused.ApprovalID
	if _, err := r.Store.Decide(t.Context(), apitest.Operator, id, true, ""); err != nil || id == "" {
		t.Fatalf("%q, %v", id, err)
	}
	if a := run(`{"dry":true}`, calls.Approving{ID: id}); a.Refused != nil {
		t.Errorf("a dry run that names an approval: %+v", a.Refused)
	}
	for _, seen := range r.Runner.Seen() {
		if seen.Approval != nil {
			t.Errorf("a dry run took %+v along", seen.Approval)
		}
	}
	if a := run(`{"dry":false}`, calls.Approving{ID: id}); a.Refused != nil {
		t.Errorf("the dry run has used the approval up: %+v", a.Refused)
	}
	r.Closed()
}

// TestForeignApproval: an approval is its session's, though another session of the same token asks for the very same.
func TestForeignApproval(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	r.Agent.Mode = store.ModeMutating
	first, second := r.Session(), r.Session()
	run := func(s store.Session, by calls.Approving) *protocol.Problem {
		t.Helper()
		a, err := r.Calls.RunApproved(t.Context(), r.Caller("rest"), s, apitest.Writes, apitest.Script, []byte(`{}`), by)
		if err != nil {
			t.Fatal(err)
		}
		return a.Refused
	}
	id := run(first, calls.Approving{}).ApprovalID
	if _, err := r.Store.Decide(t.Context(), apitest.Operator, id, true, ""); err != nil {
		t.Fatal(err)
	}
	if p := run(second, calls.Approving{ID: id}); p == nil || p.Code != guard.ApprovalVoid {
		t.Errorf("from another session: %+v", p)
	}
	if p := run(first, calls.Approving{ID: id}); p != nil {
		t.Errorf("from its own: %+v", p)
	}
}

// TestDecidedTooLate: what has ended cannot be decided any more, nor what was decided already.
func TestDecidedTooLate(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	r.Agent.Mode = store.ModeMutating
	s := r.Session()
	ask := func(input string) string {
		t.Helper()
		a, err := r.Calls.Run(t.Context(), r.Caller("rest"), s, apitest.Writes, apitest.Script, []byte(input))
		if err != nil || a.Refused == nil || a.Refused.ApprovalID == "" {
			t.Fatalf("%+v, %v", a.Refused, err)
		}
		return a.Refused.ApprovalID
	}
	denied := ask(`{"n":1}`)
	if _, err := r.Store.Decide(t.Context(), apitest.Operator, denied, false, ""); err != nil {
		t.Fatal(err)
	}
	other := store.Actor{Token: "other", Role: store.RoleOperator}
	if _, err := r.Store.Decide(t.Context(), other, denied, true, ""); !errors.Is(err, store.ErrClosed) {
		t.Errorf("denied, then approved by another: %v", err)
	}
	ended := ask(`{"n":2}`)
	r.Clock.Pass(calls.DefaultApprovalLife)
	if _, err := r.Store.Decide(t.Context(), apitest.Operator, ended, true, ""); !errors.Is(err, store.ErrClosed) {
		t.Errorf("ended, then approved: %v", err)
	}
}

// TestTokenPilesUp: sessions are for the asking, so what waits for one token is bounded too, and another token's are not hidden.
func TestTokenPilesUp(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	r.Agent.Mode = store.ModeMutating
	other := r.Caller("rest")
	if _, err := r.Store.CreateToken(t.Context(), apitest.Operator, "other-agent", store.RoleAgent, store.ModeMutating); err != nil {
		t.Fatal(err)
	}
	other.Token.Name = "other-agent"
	ask := func(c calls.Caller, s store.Session, n int) string {
		t.Helper()
		a, err := r.Calls.Run(t.Context(), c, s, apitest.Writes, apitest.Script, fmt.Appendf(nil, `{"n":%d}`, n))
		if err != nil || a.Refused == nil || a.Refused.Code != guard.ApprovalRequired {
			t.Fatalf("%+v, %v", a.Refused, err)
		}
		return a.Refused.ApprovalID
	}
	made := 0
	for range 25 {
		s := r.Session()
		for n := range 3 {
			if ask(r.Caller("rest"), s, n) != "" {
				made++
			}
		}
	}
	if made != 50 {
		t.Errorf("%d requests of one token wait, want 50", made)
	}
	s, err := r.Calls.NewSession(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if ask(other, s, 1) == "" {
		t.Error("the flood of one token keeps another from asking")
	}
	list, more, err := r.Store.Approvals(t.Context(), false)
	if err != nil || len(list) != 51 || more {
		t.Errorf("listed %d, more %v, %v", len(list), more, err)
	}
	r.Clock.Pass(calls.DefaultApprovalLife) // those that have ended wait no more
	if ask(r.Caller("rest"), r.Session(), 1) == "" {
		t.Error("what has ended is counted")
	}
}
