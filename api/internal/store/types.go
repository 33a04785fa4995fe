package store

import (
	"encoding/json"
	"time"

	"xrayrunner/manifests"
)

// Role says which surfaces a token opens. The zero value opens none.
type Role string

const (
	RoleAgent    Role = "agent"
	RoleViewer   Role = "viewer"
	RoleOperator Role = "operator"
)

// Mode is the ceiling of what a token's calls may do (spec section 8). The zero value is not a mode.
type Mode string

const (
	ModeReadOnly Mode = "read-only"
	ModeMutating Mode = "mutating-with-confirm"
	ModeDualSign Mode = "dual-sign-required"
)

// Ceiling is the highest class that a token of this mode may run. What is no mode admits nothing.
func (m Mode) Ceiling() manifests.Class {
	switch m {
	case ModeReadOnly:
		return manifests.Safe
	case ModeMutating:
		return manifests.Mutating
	case ModeDualSign:
		return manifests.Dangerous
	}
	return ""
}

// Token is who calls. The secret is never stored: only its sha256.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Mode    Mode      `json:"permission_mode"`
	Created time.Time `json:"created"`
	Revoked bool      `json:"revoked"`
}

// Session is one conversation of one agent, bound to the token that made it.
type Session struct {
	ID        string    `json:"id"`
	TokenName string    `json:"-"`
	Turn      string    `json:"turn"`    // current turn id
	Offered   []string  `json:"offered"` // names available when the turn began, sorted: additions bind at the next turn
	Created   time.Time `json:"created"`
	LastEnd   time.Time `json:"-"` // end of its last call; zero before the first
}

// StoredSkill is the operator's row of one skill and the copy of its files that people see.
type StoredSkill struct {
	Name         string
	Published    bool
	AgentEnabled bool
	Digest       string                // of the folder of an external skill, as it was enabled; "" of any other
	Files        map[string]StoredFile // by path
}

// StoredFile carries the hash of the bytes as they were read back now, never one that was written beside them.
type StoredFile struct {
	SHA256 string // 64 hex
	Size   int64
	Exec   bool
}

// FileContent is one file to store.
type FileContent struct {
	Bytes []byte
	Exec  bool
}

// SandboxConfig is the one row of deployment-wide limits.
type SandboxConfig struct {
	DailyRunLimit  int `json:"daily_run_limit"`  // 0: none
	TotalTimeoutMS int `json:"total_timeout_ms"` // 5000..120000, default 30000
}

// Call identifies one call of a tool, as the record will show it.
type Call struct {
	ID       string // UUIDv7; the run's id when it is a run
	Session  string
	Turn     string
	Token    string // name
	Role     Role
	Mode     Mode
	Caller   string // "mcp", "rest"
	Tool     string // skill_list, skill_load, skill_run, guard_check, or an operator tool
	Skill    string
	Script   string
	Input    []byte // judged bytes; cut to 4 KiB in the record, with their digest
	Trace    string // W3C trace id: one for all that belongs to a turn, or the caller's own
	Approval string // id of the approval that the caller names
	Counts   bool   // an allowed call takes one place of turn, session and day (skill_run)
}

// State is what the store knows at the moment of judgement, inside the transaction that will reserve.
type State struct {
	Session     Session
	TurnRuns    int
	SessionRuns int
	DayRuns     int
	TokenHolds  int                    // counted calls of the token that are open at this api, which has a runner to itself
	Tools       map[string]bool        // switches: skill_load, skill_run
	Skills      map[string]StoredSkill // with files of Call.Skill only, or of all when Call.Skill is empty
	Sandbox     SandboxConfig
	Approval    *Approval // that the call names and is of its session; nil when there is none
	Procedure   Procedure // of the call's script, when the call names an approval
}

// Verdict is the judge's answer, as the record will show it.
type Verdict struct {
	Allowed bool
	Code    string // "" when allowed
	Rule    int    // the guard's rule number; 0 when allowed
	Reason  string

	Uses     bool     // when allowed: the approval that the call names is used up
	Request  *Request // when refused: ask operators; Begin fills Approval
	Approval Approval // the open request; the zero value when none was made
}

// Closing is how a call ended.
type Closing struct {
	Outcome  string // an outcome or a refusal's code
	Result   []byte // cut to 4 KiB, with its digest
	Stderr   string // the same
	Error    string
	Started  bool // false gives back the places that were reserved
	Duration time.Duration
	Details  json.RawMessage // usage, sandbox layers, digests
}

// Event is one line of the record. Hash = sha256 over Prev and the canonical JSON of all other fields.
type Event struct {
	Seq  int64           `json:"seq"`
	Time time.Time       `json:"time"`
	Kind string          `json:"kind"` // opened, closed, operator
	Call string          `json:"call"`
	Body json.RawMessage `json:"body"`
	Prev string          `json:"prev"`
	Hash string          `json:"hash"`
}
