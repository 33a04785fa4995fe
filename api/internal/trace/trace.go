// Package trace turns the record into the events that a person follows live: what an agent was told at the start of a
// turn, what it tried, what was decided and by whom, and how it ended.
//
// The record is the one source, so a trace can be taken up again anywhere, in any api of the deployment, and says nothing
// that the record does not. Events are summaries: no input, no output, no text of a skill is in them.
package trace

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
)

// The kinds of events (product contract, section 8).
const (
	BeforeAgentStart = "before_agent_start"
	ExecutionStart   = "tool_execution_start"
	ToolCall         = "tool_call"
	ToolResult       = "tool_result"
	ExecutionEnd     = "tool_execution_end"
)

// Event is one step.
type Event struct {
	ID       string    `json:"id"` // SEQ-PART: where to take the trace up again
	Event    string    `json:"event"`
	Time     time.Time `json:"time"`
	TraceID  string    `json:"trace_id"`
	Session  string    `json:"session"`
	Turn     string    `json:"turn"`
	Call     string    `json:"call"`
	Tool     string    `json:"tool,omitempty"`
	Skill    string    `json:"skill,omitempty"`
	Script   string    `json:"script,omitempty"`
	IsError  bool      `json:"isError,omitempty"`
	Outcome  string    `json:"outcome,omitempty"`
	MS       float64   `json:"duration_ms,omitempty"`
	Handlers []Handler `json:"handlers,omitempty"`
}

// Handler is the line of one who decided.
type Handler struct {
	Extension string         `json:"extension"`
	Returned  map[string]any `json:"returned"`
}

// body is what the record's events have of it.
type body struct {
	Session, Turn, Tool, Skill, Script, Trace string
	Decision, Code, Reason, Outcome, Result   string
	DurationMS                                float64 `json:"duration_ms"`
}

// maxReason is how much of a reason an event carries, in bytes.
const maxReason = 200

// Of gives the steps that one event of the record stands for; none for an operator's change.
func Of(e store.Event) ([]Event, error) {
	var b body
	if e.Kind == "operator" {
		return nil, nil
	}
	if err := json.Unmarshal(e.Body, &b); err != nil {
		return nil, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	var out []Event
	add := func(kind string) *Event {
		out = append(out, Event{ID: fmt.Sprintf("%d-%d", e.Seq, len(out)), Event: kind, Time: e.Time, TraceID: b.Trace, Session: b.Session, Turn: b.Turn, Call: e.Call,
			Tool: b.Tool, Skill: b.Skill, Script: b.Script})
		return &out[len(out)-1]
	}
	switch {
	case b.Tool == BeforeAgentStart && e.Kind == "closed":
		step := add(BeforeAgentStart)
		step.Tool, step.Handlers = "", []Handler{{"injector", returned(b.Result)}}
	case b.Tool == BeforeAgentStart:
	case e.Kind == "opened":
		add(ExecutionStart)
		add(ToolCall).Handlers = []Handler{{"guard", judgement(b)}}
	default:
		ended(add, b)
	}
	return out, nil
}

func judgement(b body) map[string]any {
	block := b.Decision != "allow"
	r := map[string]any{"block": block}
	if block {
		r["reason"], r["code"] = cut(b.Reason), b.Code
	}
	return r
}

// ended has a result only when something was done: a blocked call ends with isError and without one.
func ended(add func(string) *Event, b body) {
	failed := b.Outcome != "ok"
	if b.Decision == "allow" {
		r := add(ToolResult)
		r.IsError, r.Outcome = failed, b.Outcome
	}
	end := add(ExecutionEnd)
	end.IsError, end.Outcome, end.MS = failed, b.Outcome, b.DurationMS
	if b.Decision == "allow" && b.Tool == guard.ToolRun {
		end.Handlers = []Handler{{"runner", map[string]any{"outcome": b.Outcome}}}
	}
}

func returned(text string) map[string]any {
	r := map[string]any{}
	_ = json.Unmarshal([]byte(text), &r) // our own summary; one that was cut says nothing
	return r
}

// cut ends at a whole character.
func cut(s string) string {
	if len(s) <= maxReason {
		return s
	}
	s = s[:maxReason-len("…")]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// ParseID reads where a trace is to be taken up again: after which part of which event. ok is false for what is none.
func ParseID(id string) (seq int64, part int, ok bool) {
	a, b, found := strings.Cut(id, "-")
	seq, badSeq := strconv.ParseInt(a, 10, 64)
	part, badPart := strconv.Atoi(b)
	return seq, part, found && badSeq == nil && badPart == nil && seq >= 0 && part >= 0
}
