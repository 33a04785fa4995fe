package operate

import (
	"context"
	"errors"
	"time"

	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// ApprovalView is one request as a person decides on it: what would run, on which input, for whom. What the requester
// wrote is shown with its hidden characters escaped, so that nothing in it can pose as something else.
type ApprovalView struct {
	ID           string           `json:"id"`
	Status       string           `json:"status"` // pending, approved, denied, used, expired
	Class        manifests.Class  `json:"class"`
	Skill        string           `json:"skill"`
	Script       string           `json:"script"`
	Description  string           `json:"description"` // of the script, reviewed text
	ScriptSHA256 string           `json:"script_sha256"`
	Current      bool             `json:"current"` // script and manifest are still those that it was asked for
	Input        string           `json:"input"`
	RequestedBy  string           `json:"requested_by"` // token
	Session      string           `json:"session"`
	Created      time.Time        `json:"created"`
	Expires      time.Time        `json:"expires"`
	Wanted       int              `json:"wanted"` // different operators
	Decisions    []store.Decision `json:"decisions"`
	Run          string           `json:"run,omitempty"`       // the call that used it
	Procedure    string           `json:"procedure,omitempty"` // dangerous: the title of one that holds, or why none does
}

func (d *Desk) view(ctx context.Context, a store.Approval) (ApprovalView, error) {
	v := ApprovalView{ID: a.ID, Status: a.Status, Class: a.Class, Skill: a.Skill, Script: a.Script, Input: calls.Visible(a.Input), RequestedBy: a.Token,
		Session: a.Session, Created: a.Created, Expires: a.Expires, Wanted: a.Wanted, Decisions: a.Decisions, Run: a.Run}
	if (a.Status == store.Pending || a.Status == store.Approved) && !d.now().Before(a.Expires) {
		v.Status = "expired"
	}
	if v.Decisions == nil {
		v.Decisions = []store.Decision{}
	}
	if skill := d.lock().Skills[a.Skill]; skill != nil && skill.Scripts[a.Script] != nil {
		v.Description, v.ScriptSHA256 = calls.Visible(skill.Scripts[a.Script].Description), skill.ScriptDigest(a.Script)
		v.Current = a.Binding == protocol.Binding(a.Skill, a.Script, v.ScriptSHA256, []byte(a.Input), d.Lock.Digest())
	}
	if a.Class != manifests.Dangerous {
		return v, nil
	}
	doc, why, err := d.procedure(ctx, a.Skill, a.Script, v.ScriptSHA256)
	v.Procedure = calls.Visible(doc.Title)
	if why != "" {
		v.Procedure = "NONE THAT HOLDS: " + why
	}
	return v, err
}

// procedure gives the stored procedure of a script when it holds now, else why none does.
func (d *Desk) procedure(ctx context.Context, skill, script, digest string) (sop.Document, string, error) {
	p, err := d.Store.Procedure(ctx, skill, script)
	if err != nil {
		return sop.Document{}, "", err
	}
	if len(p.Document) == 0 {
		return sop.Document{}, "no procedure is stored for this script", nil
	}
	doc, err := d.SOPKeys.Verify(p.Document, p.Signature, sop.Target{Skill: skill, Script: script, ScriptSHA256: digest}, d.now())
	if err != nil {
		return doc, err.Error(), nil
	}
	return doc, "", nil
}

func (d *Desk) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

func (d *Desk) approvals(ctx context.Context, _ store.Actor, a Args) (any, *protocol.Problem, error) {
	all, more, err := d.Store.Approvals(ctx, a.flag("all"))
	views := []ApprovalView{}
	for _, one := range all {
		v, verr := d.view(ctx, one)
		views, err = append(views, v), errors.Join(err, verr)
	}
	answer := map[string]any{"approvals": views}
	if more {
		answer["more"] = true // older ones, which are not shown
	}
	return answer, nil, err
}

func (d *Desk) approval(ctx context.Context, _ store.Actor, a Args) (any, *protocol.Problem, error) {
	got, err := d.Store.Approval(ctx, a.text("id"))
	if isNotFound(err) {
		return nil, noApproval(a.text("id")), nil
	}
	if err != nil {
		return nil, nil, err
	}
	return answer(d.view(ctx, got))
}

func noApproval(id string) *protocol.Problem {
	return protocol.NewProblem(protocol.NotFound, "there is no request "+id+"; approvals_list names those that are open")
}

func (d *Desk) approve(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	got, refused, err := d.approval(ctx, who, a)
	if refused != nil || err != nil {
		return nil, refused, err
	}
	if p := d.pointless(ctx, got.(ApprovalView)); p != nil {
		return nil, p, nil
	}
	return d.decide(ctx, who, a, true)
}

// pointless refuses an approval that could not be used, so that nobody believes to have approved something.
func (d *Desk) pointless(ctx context.Context, v ApprovalView) *protocol.Problem {
	if !v.Current {
		return protocol.NewProblem(guard.ApprovalVoid, "script or manifest have changed since it was asked for; the agent has to ask anew")
	}
	if v.Class != manifests.Dangerous {
		return nil
	}
	if _, why, err := d.procedure(ctx, v.Skill, v.Script, v.ScriptSHA256); why != "" || err != nil {
		return protocol.NewProblem(guard.SOPInvalid, why+"; bring one that holds first (sop_put)")
	}
	return nil
}

func (d *Desk) deny(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	return d.decide(ctx, who, a, false)
}

func (d *Desk) decide(ctx context.Context, who store.Actor, a Args, approve bool) (any, *protocol.Problem, error) {
	got, err := d.Store.Decide(ctx, who, a.text("id"), approve, a.text("reason"))
	switch {
	case isNotFound(err):
		return nil, noApproval(a.text("id")), nil
	case errors.Is(err, store.ErrOwn):
		return nil, protocol.NewProblem(protocol.ApprovalOwn, "this request was made with your own token; another operator has to decide"), nil
	case errors.Is(err, store.ErrTwice):
		return nil, protocol.NewProblem(protocol.ApprovalTwice, "you have decided on this request already; another operator has to"), nil
	case errors.Is(err, store.ErrClosed):
		return nil, protocol.NewProblem(protocol.ApprovalClosed, "the request was decided, used, or has ended"), nil
	case err != nil:
		return nil, nil, err
	}
	return answer(d.view(ctx, got))
}
