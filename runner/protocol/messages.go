package protocol

import (
	"encoding/json"

	"xrayrunner/guard"
)

// Paths of the runner's calls.
const (
	PathRun      = "/run"
	PathHealthz  = "/healthz"
	PathManifest = "/manifest"
	PathExternal = "/external"
	PathMetrics  = "/metrics"
)

const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json" // RFC 9457
	TypeNDJSON  = "application/x-ndjson"

	// HeaderManifest carries the digest of the manifest that the caller judged by. The runner refuses a run whose
	// caller judged by another one: comparing on each call leaves no moment in which an upgrade can slip through.
	HeaderManifest = "Xray-Manifest-Digest"

	// MaxRequestBytes bounds the body of POST /run: 4 KiB of input in its string form (each byte at most 6
	// characters when escaped), a signed procedure in base64, and the envelope.
	MaxRequestBytes = 48 << 10
)

// RunRequest is the body of POST /run. Input is a JSON object, or a string that holds the text of one.
type RunRequest struct {
	RunID       string          `json:"run_id,omitempty"` // UUIDv7; made by the runner when absent
	Session     string          `json:"session"`
	Turn        string          `json:"turn"`
	Skill       string          `json:"skill"`
	Script      string          `json:"script"`
	Input       json.RawMessage `json:"input"`
	TimeoutMS   int64           `json:"timeout_ms,omitempty"`   // set by the api only; can shorten, never lengthen
	Trace       string          `json:"-"`                      // the id of HeaderTrace; "" when there is none
	SkillDigest string          `json:"skill_digest,omitempty"` // set by the api only; of the external skill that it judged
	Approval    *Approval       `json:"approval,omitempty"`     // set by the api only; for a class above safe
}

// TextInput puts judged bytes into the string form of RunRequest.Input. An encoder would fold the white space of
// the raw form, and then other bytes would run than were judged.
func TextInput(judged []byte) json.RawMessage {
	text, err := json.Marshal(string(judged))
	if err != nil {
		panic("BUG: a string does not marshal: " + err.Error())
	}
	return text
}

// Result is the answer to every started run.
type Result struct {
	RunID           string          `json:"run_id"`
	Outcome         Outcome         `json:"outcome"`
	ExitCode        int             `json:"exit_code"` // -1 when the script did not exit by itself
	Signal          string          `json:"signal"`
	Result          json.RawMessage `json:"result"` // the script's own bytes; null unless the outcome is ok
	Detail          string          `json:"detail,omitempty"`
	DryRun          bool            `json:"dry_run,omitempty"` // the run asked for no change, and could make none
	Stderr          string          `json:"stderr"`
	StderrTruncated bool            `json:"stderr_truncated"`
	Usage           Usage           `json:"usage"`
	Sandbox         SandboxInfo     `json:"sandbox"`
	ScriptSHA256    string          `json:"script_sha256"`
	ManifestDigest  string          `json:"manifest_digest"`
}

// Usage is what a run cost. Times in milliseconds, memory in bytes.
type Usage struct {
	WallMS      float64 `json:"wall_ms"`
	CPUMS       float64 `json:"cpu_ms"`
	MaxRSSBytes int64   `json:"max_rss_bytes"`
	QueuedMS    float64 `json:"queued_ms"`
}

// SandboxInfo says what was in force for this run.
type SandboxInfo struct {
	Tier   string   `json:"tier"`
	Layers []string `json:"layers"`
	Start  string   `json:"start"` // "cold" or "warm"
}

// Problem is the body of a refusal: RFC 9457 with our members. The zero value is no refusal.
type Problem struct {
	Type           string     `json:"type"`
	Title          string     `json:"title"`
	Status         int        `json:"status"`
	Detail         string     `json:"detail"` // what a model or an operator can act on
	Code           guard.Code `json:"code"`
	Retry          Retry      `json:"retry"`
	RetryAfterMS   int64      `json:"retry_after_ms,omitempty"` // with RetryAfter
	Pointer        string     `json:"pointer,omitempty"`        // RFC 6901 into the input
	RunID          string     `json:"run_id,omitempty"`
	ApprovalID     string     `json:"approval_id,omitempty"` // of the request that waits for an operator
	ManifestDigest string     `json:"manifest_digest,omitempty"`
}

// NewProblem fills a refusal from the table.
func NewProblem(code guard.Code, detail string) *Problem {
	r := RefusalOf(code)
	p := &Problem{Type: "urn:xray-runner:refusal:" + string(r.Code), Title: r.Text, Status: r.Status, Detail: detail, Code: r.Code, Retry: r.Retry}
	if r.Retry == RetryAfter {
		p.RetryAfterMS = 1000
	}
	return p
}

// ProblemOf turns a denied decision into a refusal.
func ProblemOf(d guard.Decision) *Problem {
	p := NewProblem(d.Code, d.Reason)
	p.Pointer = d.Pointer
	return p
}

// Event is one line of an application/x-ndjson answer: stderr lines as they come, then the result.
type Event struct {
	Event  string  `json:"event"` // "stderr" or "result"
	TMS    int64   `json:"t_ms,omitempty"`
	Line   string  `json:"line,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// Health is the answer of GET /healthz: 200 when ready, 503 when not.
type Health struct {
	Ready          bool     `json:"ready"`
	Reasons        []string `json:"reasons"` // why not, or what an operator should know
	Tier           string   `json:"tier"`
	Layers         []Layer  `json:"layers"`
	ManifestDigest string   `json:"manifest_digest"`
	Running        int      `json:"running"`
	Waiting        int      `json:"waiting"`
	Slots          int      `json:"slots"`
	Queue          int      `json:"queue"`
	Version        string   `json:"version"`
	Development    bool     `json:"development"` // listens on TCP
}

// Layer is one protection as the runner tried it at start.
type Layer struct {
	Name    string `json:"name"`
	Detail  string `json:"detail,omitempty"`
	InForce bool   `json:"in_force"`
	Reason  string `json:"reason,omitempty"`  // when not in force: what was tried and seen
	Errno   string `json:"errno,omitempty"`   // when that was one: "ENOSYS", …
	Means   string `json:"means,omitempty"`   // what a run could do without it
	Granted bool   `json:"granted,omitempty"` // it needs a grant: without it the tier below is whole
	Cure    string `json:"cure,omitempty"`    // when not in force: what an operator can do
}
