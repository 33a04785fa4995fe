// Package calls carries one call of an agent from its decoded arguments to its record. REST and MCP are two doors to
// the same room: both decode strictly, and then everything happens here.
//
//	session and turn -> one transaction: state, guard, reserve, "opened" -> runner -> one transaction: "closed"
//
// The judged bytes are what goes to the runner. A place that was reserved is given back when, and only when, the run
// never started.
package calls

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"xrayrunner/api/internal/catalog"
	"xrayrunner/api/internal/metrics"
	"xrayrunner/api/internal/offer"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

// Service does the calls. All fields are required but Now.
type Service struct {
	Log       *slog.Logger
	Lock      *manifests.Lock
	Store     *store.DB
	Runner    *client.Client
	Metrics   *metrics.Metrics
	Unlock    bool   // XRAY_UNLOCK_DANGEROUS_TOOLS
	SkillsDir string // the reviewed skills that the api's image carries; publishing copies from here
	Now       func() time.Time

	Catalog      *catalog.Catalog // the external skills beside the manifest's; nil: none
	Functions    bool             // XRAY_FUNCTION_TOOLS
	SOPKeys      sop.Keys         // whose signed procedures count; none: nothing dangerous runs
	ApprovalLife time.Duration    // of a request; 0: DefaultApprovalLife

	busy  inFlight // runs by session
	waits inFlight // for a decision, by token
	space places
}

// Caller is who calls, and through which door.
type Caller struct {
	Token store.Token
	Via   string // "rest" or "mcp"
	Trace string // the caller's own trace id; "" when it sent none
}

// Answer is what a call gave. Refused is set when nothing was done; then the rest is empty.
type Answer struct {
	CallID  string
	Refused *protocol.Problem
	Skills  []Summary        // skill_list
	Text    string           // skill_load
	Result  *protocol.Result // skill_run; its outcome may be lost
}

// Summary is one skill as an agent sees it.
type Summary struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Kind        manifests.Kind `json:"kind"`
}

// Summaries are the skills that a set holds open, by name.
func Summaries(set offer.Set) []Summary {
	var open []Summary
	for _, name := range set.Names() {
		k := set.Policy.Skills[name].Skill
		open = append(open, Summary{Name: name, Description: k.Description, Kind: k.Kind})
	}
	return open
}

// List names the skills that are open to this session.
func (s *Service) List(ctx context.Context, c Caller, sess store.Session) (Answer, error) {
	call := s.call(c, sess, guard.ToolList)
	var set offer.Set
	answer, done, err := s.begin(ctx, call, call.Tool, func(_ store.State, now offer.Set) { set = now })
	if done || err != nil {
		return answer, err
	}
	answer.Skills = Summaries(set)
	return answer, s.end(ctx, call, closing(protocol.OK, nil))
}

// Load gives SKILL.md as it is stored, which is as it was reviewed, and what to call for a runnable skill.
func (s *Service) Load(ctx context.Context, c Caller, sess store.Session, skill string) (Answer, error) {
	if p := unnamed(skill); p != nil {
		return s.Refuse(ctx, c, sess, guard.ToolLoad, p)
	}
	call := s.call(c, sess, guard.ToolLoad)
	call.Skill = skill
	answer, done, err := s.begin(ctx, call, call.Tool, nil)
	if done || err != nil {
		return answer, err
	}
	known := s.lock(ctx).Skills[skill]
	if known.Kind == manifests.External {
		answer.Text = "# " + known.Name + "\n\n" + Visible(known.Description) + howToRun(known)
		return answer, s.end(ctx, call, closing(protocol.OK, nil))
	}
	text, err := s.Store.SkillFile(ctx, skill, "SKILL.md")
	if err != nil {
		return answer, errors.Join(err, s.end(ctx, call, closing(protocol.SandboxError, err)))
	}
	answer.Text = string(text) + howToRun(known)
	return answer, s.end(ctx, call, closing(protocol.OK, nil))
}

// Run is RunApproved of a call that has no approval.
func (s *Service) Run(ctx context.Context, c Caller, sess store.Session, skill, script string, input []byte) (Answer, error) {
	return s.RunApproved(ctx, c, sess, skill, script, input, Approving{})
}

// RunApproved judges, reserves, posts and records one run.
func (s *Service) RunApproved(ctx context.Context, c Caller, sess store.Session, skill, script string, input []byte, by Approving) (Answer, error) {
	p := unnamed(skill, script)
	if p == nil {
		p = by.Wrong()
	}
	if p != nil {
		return s.Refuse(ctx, c, sess, guard.ToolRun, p)
	}
	call := s.call(c, sess, guard.ToolRun)
	call.Skill, call.Script, call.Input, call.Counts, call.Approval = skill, script, input, true, by.ID
	s.space.look(ctx, s.Runner, s.now())
	mode, err := s.await(ctx, c, sess, by)
	if errors.Is(err, store.ErrNotFound) {
		return s.Refuse(ctx, c, sess, guard.ToolRun, protocol.NewProblem(protocol.Unauthorized, "this token was revoked while the call waited"))
	}
	if err != nil {
		return Answer{}, err
	}
	call.Mode = mode
	var timeoutMS int
	var approval *protocol.Approval
	var folder string
	answer, done, err := s.begin(ctx, call, call.Tool, func(st store.State, set offer.Set) {
		timeoutMS, approval = st.Sandbox.TotalTimeoutMS, carried(st, call, set.Policy.Skills[skill].Skill)
		if known := set.Policy.Skills[skill].Skill; known != nil {
			folder = known.Folder
		}
	})
	if done || err != nil {
		return answer, err
	}
	s.busy.add(sess.ID, 1)
	defer s.busy.add(sess.ID, -1)
	started := s.now()
	// The record is closed whatever happens to the caller: context.WithoutCancel in Store.End.
	result, refused, err := s.post(ctx, call, timeoutMS, approval, folder)
	cl := store.Closing{Duration: s.now().Sub(started)}
	switch {
	case errors.Is(err, client.ErrUnavailable):
		answer.Refused = protocol.NewProblem(protocol.RunnerUnavailable, RunnerDown)
		cl.Outcome, cl.Error = string(protocol.RunnerUnavailable), err.Error()
	case err != nil:
		answer.Result = lost(call, s.Lock)
		cl.Outcome, cl.Error, cl.Started = string(protocol.Lost), err.Error(), true
	case refused != nil:
		answer.Refused = refused
		cl.Outcome, cl.Error = string(refused.Code), refused.Detail
	default:
		answer.Result = result
		cl.Outcome, cl.Error, cl.Started, cl.Result = string(result.Outcome), result.Detail, true, result.Result
		cl.Stderr, cl.Details = result.Stderr, details(result)
	}
	s.Metrics.Decided(call.Tool, decisionWord(answer.Refused))
	s.Log.Info("skill_run closed", "call", call.ID, "session", call.Session, "outcome", cl.Outcome, "duration_ms", cl.Duration.Milliseconds())
	if cl.Started {
		s.Metrics.Ran(protocol.Outcome(cl.Outcome))
	}
	if err := s.end(ctx, call, cl); err != nil {
		// The run is over, whatever became of its record: an error here would say that nothing was started. What stays
		// open is closed as lost at the next start.
		s.Log.Error("record not closed", "call", call.ID, "error", err.Error())
	}
	return answer, nil
}

// Check judges without running or reserving. Its row and the run's are found by the same skill, script and session.
func (s *Service) Check(ctx context.Context, c Caller, sess store.Session, tool, skill, script string, input []byte) (Answer, error) {
	for _, n := range []string{skill, script} { // a tool that needs none has none
		if n != "" && !protocol.Name(n) {
			return s.Refuse(ctx, c, sess, "guard_check", unnamed(n))
		}
	}
	call := s.call(c, sess, tool)
	call.Skill, call.Script, call.Input = skill, script, input
	recorded := call
	recorded.Tool = "guard_check"
	answer, done, err := s.begin(ctx, recorded, tool, nil)
	if done || err != nil {
		return answer, err
	}
	return answer, s.end(ctx, recorded, closing(protocol.OK, nil))
}

// RunnerDown is the one fixed text while the runner is not there.
const RunnerDown = "the runner is not there, so nothing was started; everything else works; tell the user, or try again later"

// wait is how long a call may wait for a place in the runner, beyond the run's own time.
const wait = 60 * time.Second

func (s *Service) post(ctx context.Context, call store.Call, timeoutMS int, approval *protocol.Approval, folder string) (*protocol.Result, *protocol.Problem, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(timeoutMS)*time.Millisecond+wait)
	defer cancel()
	return s.Runner.Run(ctx, protocol.RunRequest{
		RunID: call.ID, Session: call.Session, Turn: call.Turn, Skill: call.Skill, Script: call.Script,
		Input: protocol.TextInput(call.Input), TimeoutMS: int64(timeoutMS), Approval: approval, SkillDigest: folder, Trace: call.Trace,
	}, s.Lock.Digest())
}

func (s *Service) call(c Caller, sess store.Session, tool string) store.Call {
	return store.Call{ID: newID(), Session: sess.ID, Turn: sess.Turn, Token: c.Token.Name, Role: c.Token.Role, Mode: c.Token.Mode, Caller: c.Via, Tool: tool, Trace: traceOf(c, sess)}
}

// traceOf joins what belongs to one turn, also when the caller sends no trace of its own.
func traceOf(c Caller, sess store.Session) string {
	if c.Trace != "" || sess.ID == "" {
		return c.Trace
	}
	return protocol.TurnTrace(sess.ID, sess.Turn)
}

// newID is a UUIDv7, as the runner wants it: its time stamp is what lets a replay be refused after a restart.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic("BUG: no randomness: " + err.Error())
	}
	return id.String()
}

// Known is every skill that is known now, open or not.
func (s *Service) Known(ctx context.Context) *manifests.Lock { return s.lock(ctx) }

// lock is every skill that is known now.
func (s *Service) lock(ctx context.Context) *manifests.Lock {
	if s.Catalog == nil {
		return s.Lock
	}
	return s.Catalog.Lock(ctx)
}

func (s *Service) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// end closes the record of a call.
func (s *Service) end(ctx context.Context, call store.Call, cl store.Closing) error {
	began := time.Now()
	defer func() { s.Metrics.Stored(metrics.End, time.Since(began)) }()
	return s.Store.End(ctx, call, cl)
}

func closing(o protocol.Outcome, err error) store.Closing {
	cl := store.Closing{Outcome: string(o), Started: true}
	if err != nil {
		cl.Error = err.Error()
	}
	return cl
}

func lost(call store.Call, lock *manifests.Lock) *protocol.Result {
	return &protocol.Result{RunID: call.ID, Outcome: protocol.Lost, ExitCode: -1, Detail: protocol.OutcomeText(protocol.Lost), ManifestDigest: lock.Digest()}
}

func details(r *protocol.Result) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"usage": r.Usage, "sandbox": r.Sandbox, "script_sha256": r.ScriptSHA256,
		"manifest_digest": r.ManifestDigest, "exit_code": r.ExitCode, "signal": r.Signal, "dry_run": r.DryRun})
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return raw
}

func decisionWord(p *protocol.Problem) string {
	if p == nil {
		return "allow"
	}
	return string(p.Code)
}
