package guard

// Code is the stable name of a refusal. All codes of the product are of this type; the table with their HTTP
// status, text and retry advice is in runner/protocol. The empty Code is no refusal's name.
type Code string

// The codes that the guard itself gives.
const (
	ToolDisabled     Code = "tool_disabled"      // rule 1
	UnknownSkill     Code = "unknown_skill"      // rule 2
	AgentDisabled    Code = "agent_disabled"     // rule 2
	SkillDrift       Code = "skill_drift"        // rule 2
	Integrity        Code = "integrity"          // rule 2
	WrongNetwork     Code = "wrong_network"      // rule 2
	NotRunnable      Code = "not_runnable"       // rule 3
	UnknownScript    Code = "unknown_script"     // rule 3
	InputTooLarge    Code = "input_too_large"    // rule 3
	InputNotObject   Code = "input_not_object"   // rule 3
	InputInvalid     Code = "input_invalid"      // rule 3
	ControlChars     Code = "control_characters" // rule 3
	QuotaTurn        Code = "quota_turn"         // rule 4
	QuotaSession     Code = "quota_session"      // rule 4
	QuotaDaily       Code = "quota_daily"        // rule 4
	Busy             Code = "busy"               // rule 4
	ClassNotAllowed  Code = "class_not_allowed"  // rule 5
	NotMounted       Code = "not_mounted"        // rule 2
	ApprovalRequired Code = "approval_required"  // rule 5: there is none; one has been asked for
	ApprovalPending  Code = "approval_pending"   // rule 5: it has not been decided yet
	ApprovalDenied   Code = "approval_denied"    // rule 5
	ApprovalExpired  Code = "approval_expired"   // rule 5
	ApprovalUsed     Code = "approval_used"      // rule 5
	ApprovalVoid     Code = "approval_void"      // rule 5: it is for another call than this one
	SOPInvalid       Code = "sop_invalid"        // rule 5: no signed procedure that holds
	GuardError       Code = "guard_error"        // rule 6
)

// The bounds of the guard. They are constants: no setting and no caller can raise them.
const (
	MaxInputBytes  = 4096 // of JSON text: what is judged is what the script reads
	RunsPerTurn    = 3
	RunsPerSession = 12
)
