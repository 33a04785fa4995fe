package server

import (
	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/internal/approve"
	"xrayrunner/runner/protocol"
)

// judgeApproval says what the call's approval lacks; "" when nothing, or when the guard refuses an unknown script anyway.
func (s *Server) judgeApproval(req *protocol.RunRequest, input []byte) (guard.Code, string) {
	skill := s.Lock.Skills[req.Skill]
	if skill == nil || skill.Scripts[req.Script] == nil {
		return guard.ApprovalRequired, ""
	}
	return s.Approve.Judge(req.Approval, approve.Call{Class: skill.ClassOf(req.Script, input), Skill: req.Skill, Script: req.Script,
		ScriptSHA256: skill.ScriptDigest(req.Script), Input: input, ManifestDigest: s.Lock.Digest()})
}

// takeApproval uses the approval up, when the class of the run needs one.
func (s *Server) takeApproval(req *protocol.RunRequest, input []byte) (undo func(), refused *protocol.Problem) {
	if s.Lock.Skills[req.Skill].ClassOf(req.Script, input) == manifests.Safe {
		return func() {}, nil
	}
	undo, ok := s.Approve.Take(req.Approval)
	if !ok {
		return nil, protocol.NewProblem(guard.ApprovalUsed, "the approval has been used")
	}
	return undo, nil
}
