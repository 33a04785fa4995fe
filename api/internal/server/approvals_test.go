package server_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
)

// TestOneApprovalOneRun: of calls that use one approval at one moment, at whatever api, one runs; when somebody refuses at that
// moment, either he was later, or none runs.
func TestOneApprovalOneRun(t *testing.T) {
	deployments(t, func(t *testing.T, apis []*apitest.Rig) {
		apis[0].Open(apitest.Writes)
		for _, r := range apis {
			r.Agent.Mode = store.ModeMutating
		}
		for round := range 6 {
			s := apis[0].Session()
			run := func(n int, by calls.Approving) calls.Answer {
				r := apis[n%len(apis)]
				a, err := r.Calls.RunApproved(t.Context(), r.Caller("rest"), s, apitest.Writes, apitest.Script, fmt.Appendf(nil, `{"n":%d}`, round), by)
				if err != nil {
					t.Error(err)
				}
				return a
			}
			id := run(0, calls.Approving{}).Refused.ApprovalID
			if _, err := apis[0].Store.Decide(t.Context(), apitest.Operator, id, true, ""); err != nil {
				t.Fatal(err)
			}
			before, ran := seen(apis), make([]bool, 8)
			var refusal error
			var all sync.WaitGroup
			for n := range ran {
				all.Go(func() {
					a := run(n, calls.Approving{ID: id})
					ran[n] = a.Refused == nil
					if p := a.Refused; p != nil && p.Code != guard.ApprovalUsed && p.Code != guard.ApprovalDenied {
						t.Errorf("%+v", p)
					}
				})
			}
			if round%2 == 1 {
				all.Go(func() {
					_, refusal = apis[len(apis)-1].Store.Decide(t.Context(), store.Actor{Token: "other", Role: store.RoleOperator}, id, false, "")
				})
			}
			all.Wait()
			runs, want := 0, 1
			for _, yes := range ran {
				if yes {
					runs++
				}
			}
			if round%2 == 1 && refusal == nil {
				want = 0
			} else if refusal != nil && !errors.Is(refusal, store.ErrClosed) {
				t.Error(refusal)
			}
			if runs != want || seen(apis)-before != want {
				t.Errorf("round %d: %d calls ran, the runners saw %d, want %d (refused: %v)", round, runs, seen(apis)-before, want, refusal)
			}
		}
	})
}

func seen(apis []*apitest.Rig) int {
	n := 0
	for _, r := range apis {
		n += len(r.Runner.Seen())
	}
	return n
}
