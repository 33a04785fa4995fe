package server

import (
	"testing"
	"time"

	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/internal/approve"
	"xrayrunner/runner/protocol"
)

// TestTakeOnce: of two calls that were both judged before either ran, one takes the approval and the other is refused; when
// the first never started, it is there again. A dry run takes none.
func TestTakeOnce(t *testing.T) {
	script := map[string]*manifests.Script{"x.py": {DryRun: "dry"}}
	s := &Server{Approve: approve.New(sop.Keys{}, time.Now), Lock: &manifests.Lock{Skills: map[string]*manifests.Skill{"m": {Name: "m", Class: manifests.Mutating, Scripts: script}}}}
	req := &protocol.RunRequest{Skill: "m", Script: "x.py", Approval: &protocol.Approval{ID: "a", Expires: time.Now().Add(time.Minute)}}
	if _, p := s.takeApproval(req, []byte(`{"dry":true}`)); p != nil {
		t.Fatal(p)
	}
	undo, p := s.takeApproval(req, []byte(`{}`))
	if p != nil {
		t.Fatal(p)
	}
	if _, p := s.takeApproval(req, []byte(`{}`)); p == nil || p.Code != guard.ApprovalUsed {
		t.Errorf("taken twice: %+v", p)
	}
	undo()
	if _, p := s.takeApproval(req, []byte(`{}`)); p != nil {
		t.Errorf("given back: %+v", p)
	}
}
