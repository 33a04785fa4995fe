package manifests

import "encoding/json"

// Kind says what a skill can do (spec section 2).
type Kind string

const (
	InjectOnly Kind = "inject-only" // SKILL.md alone: text for the model
	Runnable   Kind = "runnable"    // SKILL.md and xray.json: scripts
	External   Kind = "external"    // skill.json below an allow-listed root
)

// Class is what a run may change. The zero value is not a class: it is never allowed.
type Class string

const (
	Safe      Class = "safe"
	Mutating  Class = "mutating"
	Dangerous Class = "dangerous"
)

// Rank orders classes by danger; 0 is "no class at all", which no ceiling admits.
func (c Class) Rank() int {
	switch c {
	case Safe:
		return 1
	case Mutating:
		return 2
	case Dangerous:
		return 3
	}
	return 0
}

// Operators is how many different people must approve a run of this class (spec section 8). What is no class wants as many
// as the most dangerous one.
func (c Class) Operators() int {
	switch c {
	case Safe:
		return 0
	case Mutating:
		return 1
	}
	return 2
}

// Lock is the decoded lock file, runner/manifest.json: everything that may run.
type Lock struct {
	Version int               `json:"version"` // LockVersion
	Skills  map[string]*Skill `json:"skills"`  // by name
	// Disabled are folders that could not be read as a skill, by folder name: off, but named, so that
	// the log and the operator's list can say why. They never hide the others.
	Disabled map[string]Finding `json:"disabled,omitempty"`

	digest string
}

// LockVersion is the one format that this code reads and writes.
const LockVersion = 1

// Digest is "sha256:" and the hex sha256 of the bytes that were decoded.
func (l *Lock) Digest() string { return l.digest }

// Skill is one reviewed folder.
type Skill struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Kind        Kind               `json:"kind"`
	Class       Class              `json:"class,omitempty"`     // of all its scripts; empty for inject-only
	Category    string             `json:"category,omitempty"`  // free label for people
	Network     string             `json:"network,omitempty"`   // NetworkNone or NetworkEgress; empty for inject-only
	Mounts      []Mount            `json:"mounts,omitempty"`    // folders that its runs may use, nothing without
	EnvAllow    []string           `json:"env_allow,omitempty"` // external only: all that its runs have of an environment
	Folder      string             `json:"folder,omitempty"`    // external only: FolderDigest of what was loaded
	Files       map[string]File    `json:"files"`               // slash-separated path relative to the folder -> what it must be
	Scripts     map[string]*Script `json:"scripts,omitempty"`   // by key = path of the file
	Imports     []string           `json:"imports,omitempty"`   // modules that its cell imports ahead of its warm scripts
	Frontmatter Frontmatter        `json:"frontmatter"`         // what SKILL.md said beyond name and description
}

// Warm reports whether a script of the skill may be forked from a cell.
func (s *Skill) Warm() bool {
	for _, script := range s.Scripts {
		if script.Warm {
			return true
		}
	}
	return false
}

const (
	NetworkNone   = "none"
	NetworkEgress = "egress"
)

// File is what the lock holds of one file.
type File struct {
	SHA256 string `json:"sha256"` // 64 hex digits
	Size   int64  `json:"size"`   // bytes
	Exec   bool   `json:"exec,omitempty"`
}

// Script is one program of a skill.
type Script struct {
	Description string          `json:"description"`
	Interpreter string          `json:"interpreter"`      // "python3", "bash", "node", an absolute path from a shebang, or Compiled (external only)
	Input       json.RawMessage `json:"input"`            // JSON Schema, as in the source
	Output      json.RawMessage `json:"output,omitempty"` // JSON Schema, as in the source; absent: any object
	Stdout      string          `json:"stdout"`           // StdoutJSON or StdoutText
	Limits      Limits          `json:"limits"`
	Warm        bool            `json:"warm,omitempty"`
	DryRun      string          `json:"dry_run,omitempty"` // the boolean property of the input that makes a run a dry one: see Skill.ClassOf
	Examples    []Example       `json:"examples,omitempty"`

	input, output *Schema
}

const (
	StdoutJSON = "json"
	StdoutText = "text" // the result is {"text": …}
)

// Example is a call that the tests run twice in the real sandbox.
type Example struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
}

// Limits are what a script asks for. In the lock file they are complete: defaults filled in, ceilings checked.
type Limits struct {
	TimeoutSeconds int `json:"timeout_seconds"` // wall time, 1..120, default 30
	CPUSeconds     int `json:"cpu_seconds"`     // 1..30, default 30
	MemoryMB       int `json:"memory_mb"`       // MiB, 16..256, default 128
	FileMB         int `json:"file_mb"`         // largest file, MiB, 1..16, default 16
	OpenFiles      int `json:"open_files"`      // 8..64, default 64
	Processes      int `json:"processes"`       // 1..32, default 1: no fork
}

// InputSchema and OutputSchema are the compiled schemas; Decode has proved that they compile. OutputSchema is nil when any object will do.
func (s *Script) InputSchema() *Schema  { return s.input }
func (s *Script) OutputSchema() *Schema { return s.output }

// Frontmatter keeps what SKILL.md said. Scalars keep their source text ("1.0" stays "1.0").
type Frontmatter struct {
	License       string          `json:"license,omitempty"`
	Compatibility string          `json:"compatibility,omitempty"`
	AllowedTools  []string        `json:"allowed_tools,omitempty"`
	WhenToUse     string          `json:"when_to_use,omitempty"`
	Activation    string          `json:"activation_mode,omitempty"`
	OS            []string        `json:"os,omitempty"`
	Requires      Requires        `json:"requires,omitzero"`
	Tools         []Tool          `json:"tools,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"` // the rest of metadata, scalars as text
	Unknown       []string        `json:"unknown,omitempty"`  // keys that we keep but do not read, sorted
}

// Requires is metadata.requires.
type Requires struct {
	Bins    []string `json:"bins,omitempty"`
	AnyBins []string `json:"any_bins,omitempty"`
	Config  []string `json:"config,omitempty"`
	Env     []string `json:"env,omitempty"`
}

// Tool is one entry of tools[] in the native dialect.
type Tool struct {
	Name        string `json:"name"`
	Impl        string `json:"impl,omitempty"`
	Class       Class  `json:"class,omitempty"` // "read" is read as safe
	Description string `json:"description,omitempty"`
}

// Finding is one thing to mend in a skill folder, in words that its author can act on.
type Finding struct {
	Severity Severity `json:"severity"`
	Skill    string   `json:"skill"`
	File     string   `json:"file"`           // relative to the skills folder, slash-separated
	Line     int      `json:"line,omitempty"` // 1-based; 0 when the whole file is meant
	Column   int      `json:"column,omitempty"`
	Message  string   `json:"message"` // what is wrong
	Cure     string   `json:"cure"`    // what to do
}

// Severity: an Error disables the skill (or fails the build), a Warning does not.
type Severity string

const (
	Error   Severity = "error"
	Warning Severity = "warning"
)
