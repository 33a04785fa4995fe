package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"xrayrunner/manifests"
)

// The tools that agents have.
const (
	ToolList = "skill_list"
	ToolLoad = "skill_load"
	ToolRun  = "skill_run"
)

// Tools are all of them.
var Tools = []string{ToolList, ToolLoad, ToolRun}

// Policy is what holds for one session at the moment of the call. The zero value allows nothing.
type Policy struct {
	Tools      map[string]bool        // rule 1: the session's set
	Skills     map[string]SkillPolicy // rule 2: every skill that is known here, by name
	MaxClass   manifests.Class        // rule 5: the ceiling; the zero value admits no class
	DailyLimit int                    // rule 4: runs a day of the whole deployment; 0: no limit
	TokenLimit int                    // rule 4: runs of one token that run or wait at once; 0: no limit
}

// SkillPolicy is one skill as this session may see it.
type SkillPolicy struct {
	Skill  *manifests.Skill
	Closed Code   // why it is not available; empty when it is
	Words  string // in place of the usual words for Closed, to follow "skill NAME "
}

// Call is one call, decoded once and strictly. What is judged here is what runs.
type Call struct {
	Tool, Skill, Script string
	Input               []byte // the JSON text that the script will read
	TurnRuns            int    // runs that this turn, session and day have already had
	SessionRuns         int
	DayRuns             int
	TokenHolds          int  // runs of this caller's token that run or wait now
	Approved            bool // an approval that is bound to exactly this call has been taken
	Unapproved          Code // when it has not been: why; empty means that there is none
	UnapprovedWhy       string
}

// Verdict is allow or deny; the zero value denies.
type Verdict int

const (
	Deny Verdict = iota
	Allow
)

// Decision is the answer, with a reason that a model can act on. The zero value denies.
type Decision struct {
	Verdict Verdict
	Code    Code // empty when allowed
	Rule    int  // 1 to 6; 0 when allowed
	Reason  string
	Pointer string // RFC 6901, the place in the input that is meant; "" otherwise
}

// Allowed reports whether the call may go ahead.
func (d Decision) Allowed() bool { return d.Verdict == Allow }

func deny(rule int, code Code, format string, args ...any) *Decision {
	return &Decision{Verdict: Deny, Code: code, Rule: rule, Reason: fmt.Sprintf(format, args...)}
}

// GuardErrorReason is the fixed text of rule 6: the cause of our own failure is not the caller's to read.
const GuardErrorReason = "the guard could not judge this call, so it is refused; report it to the operator"

// Decide applies the rules in order. It never panics: a panic inside is rule 6.
func Decide(p Policy, c Call) (d Decision) {
	defer func() {
		if recover() != nil {
			d = Decision{Verdict: Deny, Code: GuardError, Rule: 6, Reason: GuardErrorReason}
		}
	}()
	for _, rule := range []func(Policy, Call) *Decision{tool, skill, script, input, counts, class} {
		if refused := rule(p, c); refused != nil {
			return *refused
		}
	}
	return Decision{Verdict: Allow}
}

func tool(p Policy, c Call) *Decision {
	switch c.Tool {
	case ToolList, ToolLoad, ToolRun:
		if p.Tools[c.Tool] {
			return nil
		}
		return deny(1, ToolDisabled, "%s is switched off; do not retry, only an operator can switch it on", c.Tool)
	}
	// Also when the set names it: the rules below know these three, and would wave any other through.
	return deny(1, ToolDisabled, "there is no tool %q in this session", clip(c.Tool))
}

// closedReasons are the words for a skill that exists and is not available.
var closedReasons = map[Code]string{
	AgentDisabled: "is not open to agents; do not retry, only an operator can open it",
	SkillDrift:    "is not open to agents: its published copy differs from the reviewed one; an operator has to publish it again",
	Integrity:     "is stopped: its files changed after the build; an operator has to look at the runner",
	WrongNetwork:  "needs a network that this runner does not have",
	NotMounted:    "needs a folder that the runner's operator has not given to it",
	ToolDisabled:  "is not available: running skills is switched off or locked; do not retry",
}

func skill(p Policy, c Call) *Decision {
	if c.Tool == ToolList {
		return nil
	}
	s, known := p.Skills[c.Skill]
	if !known || s.Skill == nil {
		return deny(2, UnknownSkill, "there is no skill %q; skill_list names those that are open", clip(c.Skill))
	}
	if s.Closed == "" {
		return nil
	}
	words := s.Words
	if words == "" {
		words = closedReasons[s.Closed]
	}
	if words == "" {
		words = "is not open to agents"
	}
	return deny(2, s.Closed, "skill %s %s", c.Skill, words)
}

func script(p Policy, c Call) *Decision {
	if c.Tool != ToolRun {
		return nil
	}
	s := p.Skills[c.Skill].Skill
	if s.Kind == manifests.InjectOnly {
		return deny(3, NotRunnable, "skill %s has no scripts: read it with skill_load and follow it", c.Skill)
	}
	if _, ok := s.Scripts[c.Script]; !ok {
		names := slices.Sorted(maps.Keys(s.Scripts))
		return deny(3, UnknownScript, "skill %s has no script %q; it has %s", c.Skill, clip(c.Script), strings.Join(names, ", "))
	}
	return nil
}

func input(p Policy, c Call) *Decision {
	if c.Tool != ToolRun {
		return nil
	}
	if len(c.Input) > MaxInputBytes {
		return deny(3, InputTooLarge, "input is %d bytes of JSON, at most %d are allowed; send less", len(c.Input), MaxInputBytes)
	}
	if err := manifests.CheckJSON(c.Input, manifests.InputBounds); err != nil {
		return badJSON(err)
	}
	if !manifests.IsObject(c.Input) {
		return deny(3, InputNotObject, "input must be one JSON object, like {\"key\": \"value\"}")
	}
	if err := p.Skills[c.Skill].Skill.Scripts[c.Script].InputSchema().Validate(c.Input); err != nil {
		if err.Keyword == "validator" { // it could not judge, which is our failure and not the caller's
			return deny(6, GuardError, GuardErrorReason)
		}
		d := deny(3, InputInvalid, "input does not fit the schema of %s: %s", c.Script, err.Message)
		d.Pointer = err.Pointer
		return d
	}
	return nil
}

func badJSON(err *manifests.JSONError) *Decision {
	code := InputInvalid
	switch err.Kind {
	case manifests.JSONControl:
		code = ControlChars
	case manifests.JSONSyntax, manifests.JSONEncoding:
		code = InputNotObject
	}
	d := deny(3, code, "input at %s: %s", err.Place(), err.Message)
	d.Pointer = err.Pointer
	return d
}

func counts(p Policy, c Call) *Decision {
	if c.Tool != ToolRun {
		return nil
	}
	switch {
	case c.SessionRuns >= RunsPerSession:
		return deny(4, QuotaSession, "this session has had its %d runs; do not retry", RunsPerSession)
	case c.TurnRuns >= RunsPerTurn:
		return deny(4, QuotaTurn, "this turn has had its %d runs; answer the user with what you have; do not retry", RunsPerTurn)
	case p.DailyLimit > 0 && c.DayRuns >= p.DailyLimit:
		return deny(4, QuotaDaily, "the daily limit of %d runs is reached; it starts anew at 00:00 UTC; do not retry", p.DailyLimit)
	case p.TokenLimit > 0 && c.TokenHolds >= p.TokenLimit:
		return deny(4, Busy, "%d runs of this token run or wait already, which is half of all places; wait for one of them to end", c.TokenHolds)
	}
	return nil
}

func class(p Policy, c Call) *Decision {
	if c.Tool != ToolRun {
		return nil
	}
	k := p.Skills[c.Skill].Skill.ClassOf(c.Script, c.Input)
	switch {
	case k.Rank() == 0 || k.Rank() > p.MaxClass.Rank():
		return deny(5, ClassNotAllowed, "skill %s is of class %q, which is above what is allowed here; do not retry", c.Skill, k)
	case k == manifests.Safe || c.Approved:
		return nil
	}
	return unapproved(c, k)
}

func unapproved(c Call, k manifests.Class) *Decision {
	if slices.Contains(approvalCodes, c.Unapproved) {
		return deny(5, c.Unapproved, "skill %s is of class %q: %s", c.Skill, k, c.UnapprovedWhy)
	}
	return deny(5, ApprovalRequired, "skill %s is of class %q and needs an operator's approval", c.Skill, k)
}

// approvalCodes are what an approval can lack. Whatever else a caller says is missing, the answer stays a refusal.
var approvalCodes = []Code{ApprovalPending, ApprovalDenied, ApprovalExpired, ApprovalUsed, ApprovalVoid, SOPInvalid}

// clip bounds a caller's text inside a reason, so that a refusal cannot be used to carry a page.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
