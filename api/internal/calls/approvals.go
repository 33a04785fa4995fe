package calls

import (
	"context"
	"fmt"
	"slices"
	"time"

	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// Approving is what a caller says about the approval of a run. The zero value is a call that has none yet.
type Approving struct {
	ID          string
	WaitSeconds int // for a decision, before the call is judged; at most MaxWait
}

// MaxWait bounds a wait for a decision: below the 60 s after which many clients give a call up.
const MaxWait = 50

// DefaultApprovalLife is how long a request can be decided and used when the operator has set nothing else.
const DefaultApprovalLife = 15 * time.Minute

// waitStep is how often a waiting call looks.
const waitStep = 200 * time.Millisecond

// Wrong says what cannot be an approval at all.
func (a Approving) Wrong() *protocol.Problem {
	switch {
	case a.ID != "" && (len(a.ID) > 64 || !protocol.Name(a.ID)):
		return protocol.NewProblem(protocol.BadRequest, "approval_id must be the id that skill_run gave")
	case a.WaitSeconds < 0 || a.WaitSeconds > MaxWait:
		return protocol.NewProblem(protocol.BadRequest, fmt.Sprintf("wait_seconds must be from 0 to %d", MaxWait))
	case a.WaitSeconds > 0 && a.ID == "":
		return protocol.NewProblem(protocol.BadRequest, "wait_seconds needs an approval_id: call once without both to get one")
	}
	return nil
}

// maxWaiting is how many calls of one token wait at once; each looks into the store. One more does not wait.
const maxWaiting = 8

// await waits until the request is decided, has ended, or the time is up. What it saw decides nothing: the call is judged
// afterwards, in the store's transaction. The caller was let in before the wait, so it gives what he may do after it.
func (s *Service) await(ctx context.Context, c Caller, sess store.Session, a Approving) (store.Mode, error) {
	if a.WaitSeconds == 0 {
		return c.Token.Mode, nil
	}
	if s.waits.addBelow(c.Token.Name, maxWaiting) {
		defer s.waits.add(c.Token.Name, -1)
		s.look(ctx, c, sess, a)
	}
	now, err := s.Store.TokenMode(ctx, c.Token.Name, c.Token.Role)
	if err == nil && now.Ceiling().Rank() > c.Token.Mode.Ceiling().Rank() {
		now = c.Token.Mode
	}
	return now, err
}

func (s *Service) look(ctx context.Context, c Caller, sess store.Session, a Approving) {
	end := time.Now().Add(time.Duration(a.WaitSeconds) * time.Second)
	for time.Now().Before(end) {
		got, err := s.Store.Approval(ctx, a.ID)
		if err != nil || got.Session != sess.ID || got.Token != c.Token.Name || got.Status != store.Pending || !s.now().Before(got.Expires) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(waitStep):
		}
	}
}

// binding is what an approval of this call is for; "" when there is no such script.
func (s *Service) binding(call store.Call, skill *manifests.Skill) string {
	if skill == nil || skill.Scripts[call.Script] == nil {
		return ""
	}
	return protocol.Binding(call.Skill, call.Script, skill.ScriptDigest(call.Script), call.Input, s.Lock.Digest())
}

// judgeApproval says what the call's approval lacks: the guard's code and words, "" when nothing.
func (s *Service) judgeApproval(st store.State, call store.Call, skill *manifests.Skill) (guard.Code, string) {
	a := st.Approval
	switch {
	case skill == nil || skill.ClassOf(call.Script, call.Input) == manifests.Safe:
		return "", ""
	case call.Approval == "":
		return guard.ApprovalRequired, ""
	case a == nil:
		return guard.ApprovalVoid, "this session has no approval of that id; call again without approval_id to ask for one"
	case a.Binding != s.binding(call, skill):
		return guard.ApprovalVoid, "the approval is for another call: skill, script and input must be the same to the byte, and neither script nor manifest may have changed; call again without approval_id to ask anew"
	}
	return s.judgeState(*a, st.Procedure, skill)
}

func (s *Service) judgeState(a store.Approval, p store.Procedure, skill *manifests.Skill) (guard.Code, string) {
	switch {
	case a.Status == store.Used:
		return guard.ApprovalUsed, "the approval has been used and is good for one run; call again without approval_id to ask for another"
	case a.Status == store.Denied:
		return guard.ApprovalDenied, refusedBy(a) + "; do not retry, tell the user"
	case !s.now().Before(a.Expires):
		return guard.ApprovalExpired, "the approval ended at " + a.Expires.UTC().Format(time.RFC3339) + "; call again without approval_id to ask for another"
	case a.Status != store.Approved:
		return guard.ApprovalPending, fmt.Sprintf("%d of %d operators have approved it. %s", len(a.ApprovedBy()), a.Wanted, goOn(a))
	case skill.Class != manifests.Dangerous:
		return "", ""
	}
	return s.procedure(p, a, skill)
}

func refusedBy(a store.Approval) string {
	i := slices.IndexFunc(a.Decisions, func(d store.Decision) bool { return !d.Approve })
	if i < 0 {
		return "the token that asked for it was revoked"
	}
	return "operator " + a.Decisions[i].Operator + " has refused it (" + Visible(a.Decisions[i].Reason) + ")"
}

// procedure checks what the runner will check again with its own keys.
func (s *Service) procedure(p store.Procedure, a store.Approval, skill *manifests.Skill) (guard.Code, string) {
	t := sop.Target{Skill: a.Skill, Script: a.Script, ScriptSHA256: skill.ScriptDigest(a.Script)}
	if _, err := s.SOPKeys.Verify(p.Document, p.Signature, t, s.now()); err != nil {
		return guard.SOPInvalid, err.Error() + "; an operator has to bring a procedure that holds (sop_put)"
	}
	return "", ""
}

// goOn tells a model what to do next, so that it does not have to guess.
func goOn(a store.Approval) string {
	return fmt.Sprintf("Tell the user that it waits for an operator until %s. Then call skill_run again with the same skill, script and input and with \"approval_id\": %q; add \"wait_seconds\": %d to wait for the decision. Any change of the input makes it void",
		a.Expires.UTC().Format(time.RFC3339), a.ID, MaxWait)
}

// asked completes a refusal with the request that was made, or was open already.
func asked(p *protocol.Problem, a store.Approval) {
	switch {
	case p.Code != guard.ApprovalRequired:
	case a.ID == "":
		p.Detail += "; no request was made, because as many as may wait for one session, or for one token, wait already. Go on with one of those by its approval_id"
	default:
		p.ApprovalID = a.ID
		p.Detail += fmt.Sprintf("; %d of %d have approved. %s", len(a.ApprovedBy()), a.Wanted, goOn(a))
	}
}

// life is how long a request lives.
func (s *Service) life() time.Duration {
	if s.ApprovalLife == 0 {
		return DefaultApprovalLife
	}
	return s.ApprovalLife
}

// carried is what goes to the runner with an approved call.
func carried(st store.State, call store.Call, skill *manifests.Skill) *protocol.Approval {
	if st.Approval == nil || skill == nil || skill.ClassOf(call.Script, call.Input) == manifests.Safe {
		return nil
	}
	a := &protocol.Approval{ID: st.Approval.ID, Binding: st.Approval.Binding, ApprovedBy: st.Approval.ApprovedBy(), Expires: st.Approval.Expires}
	if skill.Class == manifests.Dangerous {
		a.SOP = &protocol.SOP{Document: st.Procedure.Document, Signature: st.Procedure.Signature}
	}
	return a
}
