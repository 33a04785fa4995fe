package operate

import (
	"context"
	"fmt"

	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/runner/protocol"
)

// ProcedureView is one stored procedure and whether it holds now, by the keys of this api. The runner has keys of its own.
type ProcedureView struct {
	sop.Document
	Holds bool   `json:"holds"`
	Why   string `json:"why,omitempty"` // when it does not
}

func (d *Desk) procedures(ctx context.Context, _ store.Actor, _ Args) (any, *protocol.Problem, error) {
	all, err := d.Store.Procedures(ctx)
	views := []ProcedureView{}
	for _, p := range all {
		views = append(views, d.judgeProcedure(p))
	}
	return map[string]any{"procedures": views}, nil, err
}

func (d *Desk) judgeProcedure(p store.Procedure) ProcedureView {
	v := ProcedureView{Holds: true}
	var err error
	if v.Document, err = sop.Parse(p.Document); err == nil {
		_, err = d.SOPKeys.Verify(p.Document, p.Signature, sop.Target{Skill: p.Skill, Script: p.Script, ScriptSHA256: d.digestOf(p.Skill, p.Script)}, d.now())
	}
	if err != nil {
		v.Holds, v.Why = false, err.Error()
	}
	return v
}

// digestOf is the digest of a script's bytes; "" when there is no such script.
func (d *Desk) digestOf(skill, script string) string {
	if s := d.lock().Skills[skill]; s != nil && s.Scripts[script] != nil {
		return s.ScriptDigest(script)
	}
	return ""
}

// sopPut takes a procedure that holds now; storing another would only delay the bad news.
func (d *Desk) sopPut(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	invalid := func(err error) (any, *protocol.Problem, error) {
		return nil, protocol.NewProblem(guard.SOPInvalid, err.Error()), nil
	}
	signature, err := sop.DecodeSignature(a.text("signature"))
	if err != nil {
		return invalid(err)
	}
	raw := []byte(a.text("document"))
	doc, err := sop.Parse(raw)
	if err != nil {
		return invalid(err)
	}
	digest := d.digestOf(doc.Skill, doc.Script)
	if digest == "" {
		return invalid(fmt.Errorf("%w: there is no script %s of a skill %s here", sop.ErrInvalid, doc.Script, doc.Skill))
	}
	if _, err := d.SOPKeys.Verify(raw, signature, sop.Target{Skill: doc.Skill, Script: doc.Script, ScriptSHA256: digest}, d.now()); err != nil {
		return invalid(err)
	}
	p := store.Procedure{Skill: doc.Skill, Script: doc.Script, Document: raw, Signature: signature}
	if err := d.Store.PutProcedure(ctx, who, p); err != nil {
		return nil, nil, err
	}
	return d.judgeProcedure(p), nil, nil
}

func (d *Desk) sopDelete(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	err := d.Store.DeleteProcedure(ctx, who, a.text("name"), a.text("script"))
	if isNotFound(err) {
		return nil, protocol.NewProblem(protocol.NotFound, "no procedure is stored for this script"), nil
	}
	return map[string]any{"skill": a.text("name"), "script": a.text("script"), "stored": false}, nil, err
}
