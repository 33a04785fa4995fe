package calls

import (
	"context"

	"xrayrunner/api/internal/offer"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// begin judges inside the store's transaction. done means that the answer is a refusal, already recorded. seen is
// given what was on offer at that moment.
func (s *Service) begin(ctx context.Context, call store.Call, seen func(offer.Set)) (answer Answer, done bool, err error) {
	var decision guard.Decision
	verdict, err := s.Store.Begin(ctx, call, func(st store.State) store.Verdict {
		set := s.offered(st)
		if seen != nil {
			seen(set)
		}
		decision = guard.Decide(set.Policy, s.guardCall(call.Tool, call, st))
		return verdictOf(decision)
	})
	return s.opened(call, verdict, decision, err)
}

func (s *Service) beginRun(ctx context.Context, call store.Call, timeoutMS *int) (answer Answer, done bool, err error) {
	var decision guard.Decision
	verdict, err := s.Store.Begin(ctx, call, func(st store.State) store.Verdict {
		*timeoutMS = st.Sandbox.TotalTimeoutMS
		decision = guard.Decide(s.offered(st).Policy, s.guardCall(call.Tool, call, st))
		return verdictOf(decision)
	})
	return s.opened(call, verdict, decision, err)
}

// judgeOnly records a judgement of tool that has no consequence.
func (s *Service) judgeOnly(ctx context.Context, call store.Call, tool string) (Answer, error) {
	var decision guard.Decision
	verdict, err := s.Store.Begin(ctx, call, func(st store.State) store.Verdict {
		decision = guard.Decide(s.offered(st).Policy, s.guardCall(tool, call, st))
		return verdictOf(decision)
	})
	answer, done, err := s.opened(call, verdict, decision, err)
	if done || err != nil {
		return answer, err
	}
	return answer, s.end(ctx, call, closing(protocol.OK, nil))
}

// offered is what this moment offers to this session.
func (s *Service) offered(st store.State) offer.Set {
	set := offer.Now(s.Lock, st.Skills, st.Tools, s.Unlock).For(st.Session)
	set.Policy.DailyLimit = st.Sandbox.DailyRunLimit
	return set
}

func (s *Service) guardCall(tool string, call store.Call, st store.State) guard.Call {
	return guard.Call{Tool: tool, Skill: call.Skill, Script: call.Script, Input: call.Input,
		TurnRuns: st.TurnRuns, SessionRuns: st.SessionRuns, DayRuns: st.DayRuns}
}

func verdictOf(d guard.Decision) store.Verdict {
	return store.Verdict{Allowed: d.Allowed(), Code: string(d.Code), Rule: d.Rule, Reason: d.Reason}
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
	answer.Refused.RunID, answer.Refused.ManifestDigest = call.ID, s.Lock.Digest()
	s.Metrics.Decided(call.Tool, string(d.Code))
	s.Log.Warn("call refused", "call", call.ID, "session", call.Session, "tool", call.Tool, "code", d.Code, "rule", d.Rule)
	return answer, true, nil
}

func (s *Service) end(ctx context.Context, call store.Call, cl store.Closing) error {
	return s.Store.End(ctx, call, cl)
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
		if !Name(n) {
			return protocol.NewProblem(protocol.BadRequest, "skill and script must be names of 1 to 128 bytes without control characters")
		}
	}
	return nil
}
