package calls

import (
	"context"
	"time"

	"xrayrunner/api/internal/metrics"
	"xrayrunner/api/internal/offer"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// begin judges a call of tool inside the store's transaction. done means that the answer is a refusal, already
// recorded. seen, when given, gets the state of that moment and what it offers.
func (s *Service) begin(ctx context.Context, call store.Call, tool string, seen func(store.State, offer.Set)) (answer Answer, done bool, err error) {
	var decision guard.Decision
	lock := s.lock(ctx) // before the transaction: nobody writes while it is open
	began := time.Now()
	defer func() { s.Metrics.Stored(metrics.Begin, time.Since(began)) }()
	verdict, err := s.Store.Begin(ctx, call, func(st store.State) store.Verdict {
		set := s.offered(lock, st, call.Mode)
		if seen != nil {
			seen(st, set)
		}
		skill := set.Policy.Skills[call.Skill].Skill
		code, why := s.judgeApproval(st, call, skill)
		decision = guard.Decide(set.Policy, guard.Call{Tool: tool, Skill: call.Skill, Script: call.Script, Input: call.Input,
			TurnRuns: st.TurnRuns, SessionRuns: st.SessionRuns, DayRuns: st.DayRuns, TokenHolds: st.TokenHolds,
			Approved: code == "", Unapproved: code, UnapprovedWhy: why})
		return s.verdict(st, call, skill, decision)
	})
	return s.opened(call, verdict, decision, err)
}

// verdict is the decision in the store's words. A run that only lacks an approval asks for one in the same transaction; an
// allowed one uses its own up there.
func (s *Service) verdict(st store.State, call store.Call, skill *manifests.Skill, d guard.Decision) store.Verdict {
	v := store.Verdict{Allowed: d.Allowed(), Code: string(d.Code), Rule: d.Rule, Reason: d.Reason}
	if st.Approval != nil {
		v.Approval = *st.Approval
	}
	if !call.Counts {
		return v
	}
	v.Uses = d.Allowed() && skill.ClassOf(call.Script, call.Input) != manifests.Safe
	if d.Code == guard.ApprovalRequired {
		v.Request = &store.Request{Class: skill.Class, Binding: s.binding(call, skill), Life: s.life()}
	}
	return v
}

// offered is what this moment offers to this session.
func (s *Service) offered(lock *manifests.Lock, st store.State, mode store.Mode) offer.Set {
	set := offer.Now(lock, st.Skills, st.Tools, s.Unlock).For(st.Session)
	set.Policy.MaxClass = mode.Ceiling()
	set.Policy.DailyLimit, set.Policy.TokenLimit = st.Sandbox.DailyRunLimit, s.space.half()
	return set
}

func (s *Service) opened(call store.Call, v store.Verdict, d guard.Decision, err error) (Answer, bool, error) {
	answer := Answer{CallID: call.ID}
	if err != nil {
		return answer, false, err
	}
	if v.Allowed {
		if call.Tool != guard.ToolRun { // a run is counted when it is known how it ended
			s.Metrics.Decided(call.Tool, "allow")
		}
		return answer, false, nil
	}
	if v.Code != string(d.Code) { // the store had to answer for us: a panic in the judge
		d = guard.Decision{Code: guard.GuardError, Rule: 6, Reason: guard.GuardErrorReason}
	}
	answer.Refused = protocol.ProblemOf(d)
	asked(answer.Refused, v.Approval)
	answer.Refused.RunID, answer.Refused.ManifestDigest = call.ID, s.Lock.Digest()
	s.Metrics.Decided(call.Tool, string(d.Code))
	s.Log.Warn("call refused", "call", call.ID, "session", call.Session, "tool", call.Tool, "code", d.Code, "rule", d.Rule)
	return answer, true, nil
}

// Refuse records a call that could not even be judged: its arguments were not well formed.
func (s *Service) Refuse(ctx context.Context, c Caller, sess store.Session, tool string, p *protocol.Problem) (Answer, error) {
	call := s.call(c, sess, tool)
	_, err := s.Store.Begin(ctx, call, func(store.State) store.Verdict {
		return store.Verdict{Code: string(p.Code), Rule: 3, Reason: p.Detail}
	})
	p.RunID, p.ManifestDigest = call.ID, s.Lock.Digest()
	s.Metrics.Decided(tool, string(p.Code))
	return Answer{CallID: call.ID, Refused: p}, err
}

// unnamed refuses what cannot be the name of anything before it is looked up or recorded.
func unnamed(names ...string) *protocol.Problem {
	for _, n := range names {
		if !protocol.Name(n) {
			return protocol.NewProblem(protocol.BadRequest, "skill and script must be names of 1 to 128 bytes without control characters")
		}
	}
	return nil
}
