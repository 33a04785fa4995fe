package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/internal/counts"
	"xrayrunner/runner/internal/execute"
	"xrayrunner/runner/internal/queue"
	"xrayrunner/runner/protocol"
)

// run answers POST /run. stop ends with the process: every run ends with it.
func (s *Server) run(stop context.Context, w http.ResponseWriter, r *http.Request) {
	req, refused := s.decode(w, r)
	if refused == nil {
		refused = s.sameManifest(r)
	}
	if refused == nil {
		refused = s.sameFolder(req)
	}
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(stop, cancel)()

	job, release, refused := s.admit(ctx, req)
	if refused != nil {
		refused.RunID = req.RunID
		s.logRefusal(req, refused)
		s.refuse(w, refused)
		return
	}
	defer release()
	s.answer(ctx, w, r, req, job)
}

// sameManifest refuses a caller that judged by another manifest than ours.
func (s *Server) sameManifest(r *http.Request) *protocol.Problem {
	theirs := r.Header.Get(protocol.HeaderManifest)
	if theirs == "" || theirs == s.Lock.Digest() {
		return nil
	}
	return protocol.NewProblem(protocol.ManifestMismatch, "the caller judged by another manifest than this runner enforces; deploy both images of one build")
}

// sameFolder refuses a caller that judged an external skill by another digest than the one that was loaded, or by none: what
// an operator has enabled is one digest, and a restart may have brought another.
func (s *Server) sameFolder(req *protocol.RunRequest) *protocol.Problem {
	skill, external := s.External.Skills[req.Skill]
	if !external || skill.Digest == req.SkillDigest {
		return nil
	}
	return protocol.NewProblem(guard.SkillDrift, "external skill "+req.Skill+" is another one than the caller judged by; an operator has to enable it again")
}

// decode reads the envelope once and strictly; what it returns is what is judged and what runs.
func (s *Server) decode(w http.ResponseWriter, r *http.Request) (*protocol.RunRequest, *protocol.Problem) {
	bad := func(detail string) (*protocol.RunRequest, *protocol.Problem) {
		return nil, protocol.NewProblem(protocol.BadRequest, detail)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != protocol.TypeJSON {
		return bad("send Content-Type: application/json")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return bad("send the body uncompressed")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, protocol.MaxRequestBytes))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, protocol.NewProblem(guard.InputTooLarge, "the request is longer than any allowed input")
	}
	if err != nil {
		return bad("the body could not be read: " + err.Error())
	}
	var req protocol.RunRequest
	if err := manifests.DecodeStrict(body, &req); err != nil {
		return nil, envelopeProblem(err)
	}
	req.Trace = protocol.TraceID(r.Header.Get(protocol.HeaderTrace))
	return &req, checkNames(&req)
}

// envelopeProblem gives a fault inside input the code that the guard gives it, and any other fault bad_request.
func envelopeProblem(err *manifests.JSONError) *protocol.Problem {
	code := protocol.BadRequest
	if strings.HasPrefix(err.Pointer, "/input/") {
		code = guard.InputInvalid
		if err.Kind == manifests.JSONControl {
			code = guard.ControlChars
		}
	}
	p := protocol.NewProblem(code, "at "+err.Place()+": "+err.Message)
	if code != protocol.BadRequest {
		p.Pointer = strings.TrimPrefix(err.Pointer, "/input") // as the guard gives it: into the input
	}
	return p
}

func checkNames(req *protocol.RunRequest) *protocol.Problem {
	switch {
	case !protocol.SessionName(req.Session):
		return protocol.NewProblem(protocol.BadRequest, "session must be 1 to 64 of A-Z a-z 0-9 _ -")
	case !protocol.TurnName(req.Turn):
		return protocol.BadTurn()
	case !protocol.Name(req.Skill):
		return protocol.NewProblem(protocol.BadRequest, "skill must be a name of 1 to 128 bytes")
	case !protocol.Name(req.Script):
		return protocol.NewProblem(protocol.BadRequest, "script must be a name of 1 to 128 bytes")
	case req.TimeoutMS < 0 || req.TimeoutMS > protocol.MaxTimeoutMS:
		return protocol.NewProblem(protocol.BadRequest, "timeout_ms must be from 0 to 120000")
	}
	return nil
}

// admit takes a count, the run id and a place, in this order; release gives the place back. When it refuses,
// nothing stays taken.
func (s *Server) admit(ctx context.Context, req *protocol.RunRequest) (job execute.Job, release func(), refused *protocol.Problem) {
	input, refused := protocol.Judged(req.Input)
	if refused != nil {
		return job, nil, refused
	}
	decision, uncount, refused := s.reserve(req, input)
	if refused != nil {
		return job, nil, refused
	}
	if !decision.Allowed() {
		return job, nil, protocol.ProblemOf(decision)
	}
	unapprove, refused := s.takeApproval(req, input)
	if refused != nil {
		uncount()
		return job, nil, refused
	}
	id, forget, err := s.Counts.Claim(req.RunID)
	if err != nil {
		uncount()
		unapprove()
		return job, nil, countsProblem(err)
	}
	req.RunID = id.String()
	entered := time.Now()
	release, err = s.Queue.Acquire(ctx, uint64(s.Lock.Skills[req.Skill].Scripts[req.Script].Limits.MemoryMB)<<20)
	if err == nil {
		if verr := s.Snapshot.Verify(req.Skill); verr != nil {
			release()
			s.Log.Error("skill stopped", "skill", req.Skill, "reason", verr.Error())
			err = verr
		}
	}
	if err != nil {
		uncount()
		unapprove()
		forget()
		return job, nil, placeProblem(err, req.Skill)
	}
	return execute.Job{RunID: req.RunID, Skill: req.Skill, Script: req.Script, Input: input,
		Ceiling: time.Duration(req.TimeoutMS) * time.Millisecond, Queued: time.Since(entered)}, release, nil
}

func (s *Server) reserve(req *protocol.RunRequest, input []byte) (guard.Decision, func(), *protocol.Problem) {
	policy := s.policy(req.Skill)
	code, why := s.judgeApproval(req, input)
	var decision guard.Decision
	uncount, err := s.Counts.Reserve(req.Session, req.Turn, func(turnRuns, sessionRuns int) bool {
		decision = guard.Decide(policy, guard.Call{Tool: guard.ToolRun, Skill: req.Skill, Script: req.Script, Input: input, TurnRuns: turnRuns, SessionRuns: sessionRuns,
			Approved: code == "", Unapproved: code, UnapprovedWhy: why})
		return decision.Allowed()
	})
	if err != nil {
		return decision, nil, countsProblem(err)
	}
	return decision, uncount, nil
}

func countsProblem(err error) *protocol.Problem {
	switch {
	case errors.Is(err, counts.ErrMalformed):
		return protocol.NewProblem(protocol.BadRequest, err.Error())
	case errors.Is(err, counts.ErrDuplicate):
		return protocol.NewProblem(protocol.DuplicateRun, err.Error()+"; nothing was started; use a new run_id only if you mean a new run")
	}
	return protocol.NewProblem(protocol.Busy, err.Error())
}

func placeProblem(err error, skill string) *protocol.Problem {
	switch {
	case errors.Is(err, queue.ErrFull):
		return protocol.NewProblem(protocol.Busy, "all places to run and to wait are taken; nothing was started")
	case errors.Is(err, queue.ErrClosed):
		return protocol.NewProblem(protocol.Busy, "the runner is shutting down; nothing was started")
	case errors.Is(err, context.Canceled):
		return protocol.NewProblem(protocol.Busy, "the caller went away while waiting; nothing was started")
	}
	return protocol.NewProblem(guard.Integrity, "skill "+skill+" is stopped: its files changed after the build; an operator has to look at the runner")
}

// answer runs the job and writes its result, as one document or as lines while it runs.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, req *protocol.RunRequest, job execute.Job) {
	stream := r.Header.Get("Accept") == protocol.TypeNDJSON
	if stream {
		w.Header().Set("Content-Type", protocol.TypeNDJSON)
		lines := newLineWriter(w, s.Log)
		job.OnStderr = lines.stderr
		result := s.Executor.Run(ctx, job)
		s.finished(req, result)
		lines.result(result)
		return
	}
	result := s.Executor.Run(ctx, job)
	s.finished(req, result)
	s.write(w, http.StatusOK, protocol.TypeJSON, result)
}
