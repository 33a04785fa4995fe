package protocol

import (
	"net/http"

	"xrayrunner/guard"
)

// Retry is what a caller may do after a refusal.
type Retry string

const (
	RetryNo    Retry = "no"        // the same call will be refused again
	RetryAfter Retry = "after_ms"  // the same call may pass after retry_after_ms
	RetryFix   Retry = "fix_input" // another input, script or skill name may pass
)

// The codes that are not the guard's.
const (
	BadRequest        guard.Code = "bad_request"
	Unauthorized      guard.Code = "unauthorized"
	Forbidden         guard.Code = "forbidden"
	NotFound          guard.Code = "not_found"
	Busy                         = guard.Busy // given by the runner, too
	ManifestMismatch  guard.Code = "manifest_mismatch"
	DuplicateRun      guard.Code = "duplicate_run"
	ApprovalOwn       guard.Code = "approval_own"
	ApprovalTwice     guard.Code = "approval_twice"
	ApprovalClosed    guard.Code = "approval_closed"
	RunnerUnavailable guard.Code = "runner_unavailable"
)

// Refusal is one row of the table: why no run started.
type Refusal struct {
	Code   guard.Code
	Status int    // HTTP
	Retry  Retry  // advice
	Text   string // the title; the detail of a Problem says more
	Later  bool   // given by a later part only: no test can provoke it yet
}

// Refusals is the one table of codes. docs/codes.md and the tests are made from it.
var Refusals = []Refusal{
	{Code: BadRequest, Status: http.StatusBadRequest, Retry: RetryFix, Text: "the request is not well formed"},
	{Code: Unauthorized, Status: http.StatusUnauthorized, Retry: RetryNo, Text: "a valid bearer token is needed"},
	{Code: Forbidden, Status: http.StatusForbidden, Retry: RetryNo, Text: "this caller may not make this call"},
	{Code: NotFound, Status: http.StatusNotFound, Retry: RetryFix, Text: "there is no such call or thing"},
	{Code: guard.UnknownSkill, Status: http.StatusNotFound, Retry: RetryFix, Text: "there is no such skill"},
	{Code: guard.UnknownScript, Status: http.StatusNotFound, Retry: RetryFix, Text: "the skill has no such script"},
	{Code: guard.NotRunnable, Status: http.StatusUnprocessableEntity, Retry: RetryNo, Text: "the skill is text only"},
	{Code: guard.InputTooLarge, Status: http.StatusRequestEntityTooLarge, Retry: RetryFix, Text: "the input is longer than 4096 bytes"},
	{Code: guard.InputNotObject, Status: http.StatusUnprocessableEntity, Retry: RetryFix, Text: "the input is not one JSON object"},
	{Code: guard.InputInvalid, Status: http.StatusUnprocessableEntity, Retry: RetryFix, Text: "the input does not fit the script's schema"},
	{Code: guard.ControlChars, Status: http.StatusUnprocessableEntity, Retry: RetryFix, Text: "the input holds control characters"},
	{Code: guard.QuotaTurn, Status: http.StatusTooManyRequests, Retry: RetryNo, Text: "the turn has had its runs"},
	{Code: guard.QuotaSession, Status: http.StatusTooManyRequests, Retry: RetryNo, Text: "the session has had its runs"},
	{Code: guard.QuotaDaily, Status: http.StatusTooManyRequests, Retry: RetryNo, Text: "the day has had its runs"},
	{Code: Busy, Status: http.StatusServiceUnavailable, Retry: RetryAfter, Text: "all places are taken"},
	{Code: guard.WrongNetwork, Status: http.StatusConflict, Retry: RetryNo, Text: "the skill needs another runner"},
	{Code: guard.Integrity, Status: http.StatusServiceUnavailable, Retry: RetryNo, Text: "the skill's files are not the reviewed ones"},
	{Code: ManifestMismatch, Status: http.StatusConflict, Retry: RetryNo, Text: "api and runner hold different manifests"},
	{Code: DuplicateRun, Status: http.StatusConflict, Retry: RetryNo, Text: "this run id was seen before, or is not of this time"},
	{Code: guard.ClassNotAllowed, Status: http.StatusForbidden, Retry: RetryNo, Text: "the class is above the ceiling"},
	{Code: guard.AgentDisabled, Status: http.StatusForbidden, Retry: RetryNo, Text: "the skill is not open to agents"},
	{Code: guard.ToolDisabled, Status: http.StatusForbidden, Retry: RetryNo, Text: "the tool is switched off"},
	{Code: guard.SkillDrift, Status: http.StatusConflict, Retry: RetryNo, Text: "the published copy differs from the reviewed one"},
	{Code: guard.NotMounted, Status: http.StatusConflict, Retry: RetryNo, Text: "the skill needs a folder that the runner does not have"},
	{Code: guard.ApprovalRequired, Status: http.StatusForbidden, Retry: RetryAfter, Text: "an operator has to approve this call"},
	{Code: guard.ApprovalPending, Status: http.StatusForbidden, Retry: RetryAfter, Text: "no operator has decided yet"},
	{Code: guard.ApprovalDenied, Status: http.StatusForbidden, Retry: RetryNo, Text: "an operator has refused this call"},
	{Code: guard.ApprovalExpired, Status: http.StatusForbidden, Retry: RetryFix, Text: "the approval has expired"},
	{Code: guard.ApprovalUsed, Status: http.StatusForbidden, Retry: RetryFix, Text: "the approval has been used; it is good for one run"},
	{Code: guard.ApprovalVoid, Status: http.StatusForbidden, Retry: RetryFix, Text: "the approval is for another call than this one"},
	{Code: guard.SOPInvalid, Status: http.StatusForbidden, Retry: RetryNo, Text: "there is no signed procedure that holds for this script"},
	{Code: ApprovalOwn, Status: http.StatusForbidden, Retry: RetryNo, Text: "nobody approves a request of his own"},
	{Code: ApprovalTwice, Status: http.StatusConflict, Retry: RetryNo, Text: "this operator has decided already; another one is wanted"},
	{Code: ApprovalClosed, Status: http.StatusConflict, Retry: RetryNo, Text: "the request is not open any more"},
	{Code: RunnerUnavailable, Status: http.StatusServiceUnavailable, Retry: RetryAfter, Text: "the runner cannot be reached; nothing was started"},
	{Code: guard.GuardError, Status: http.StatusInternalServerError, Retry: RetryNo, Text: "the guard failed, so the call is refused"},
}

// RefusalOf finds a row. An unknown code is our own mistake and comes back as guard_error: never as an allow.
func RefusalOf(c guard.Code) Refusal {
	for _, r := range Refusals {
		if r.Code == c {
			return r
		}
	}
	return RefusalOf(guard.GuardError)
}

// Outcome is how a started run ended. The zero value is not an outcome.
type Outcome string

const (
	Cancelled      Outcome = "cancelled"
	Timeout        Outcome = "timeout"
	OutputLimit    Outcome = "output_limit"
	MemoryLimit    Outcome = "memory_limit"
	CPULimit       Outcome = "cpu_limit"
	DiskLimit      Outcome = "disk_limit"
	ProcessLimit   Outcome = "process_limit"
	BlockedSyscall Outcome = "blocked_syscall"
	Killed         Outcome = "killed"
	ScriptError    Outcome = "script_error"
	InvalidOutput  Outcome = "invalid_output"
	OK             Outcome = "ok"
	SandboxError   Outcome = "sandbox_error"
	Lost           Outcome = "lost"
)

// OutcomeRow explains one outcome.
type OutcomeRow struct {
	Outcome Outcome
	Text    string // for a model: what happened, and what to do
}

// Outcomes is the one table of outcomes, in the order in which the first that holds is given.
var Outcomes = []OutcomeRow{
	{Cancelled, "the caller went away, so the run was ended"},
	{Timeout, "the run took longer than its time limit and was ended; send less work"},
	{OutputLimit, "the script wrote more than 64 KiB and was ended; ask for less"},
	{MemoryLimit, "the script needed more memory than its limit; send less data"},
	{CPULimit, "the script used up its CPU time and was ended; simplify the request"},
	{DiskLimit, "the script wrote a larger file, or more files, than it may; send less data"},
	{ProcessLimit, "the script started more processes or threads than it may; the skill has to be changed"},
	{BlockedSyscall, "the script made a system call that the sandbox does not allow"},
	{Killed, "the script was ended by a signal"},
	{ScriptError, "the script ended with an error; stderr says why"},
	{InvalidOutput, "the script did not answer with exactly one JSON object that fits its output schema"},
	{OK, "the script answered; result holds its JSON"},
	{SandboxError, "the runner could not prepare the sandbox; this is not the script's fault; tell the operator"},
	{Lost, "the connection to the runner broke: the run may have happened; it is not repeated and it counts"},
}

// OutcomeText is the text of an outcome, "" when it is none.
func OutcomeText(o Outcome) string {
	for _, r := range Outcomes {
		if r.Outcome == o {
			return r.Text
		}
	}
	return ""
}
