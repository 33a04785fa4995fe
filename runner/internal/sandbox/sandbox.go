package sandbox

import (
	"context"
	"time"
)

// Sandbox starts one program in a fresh confinement and reports how it ended. Implementations: New (each start
// cold, in either tier) and WithCells around it.
type Sandbox interface {
	// Run starts the program and waits until it and all that it started are gone. A non-nil error is our own
	// failure (outcome sandbox_error); how the program ended is in Exit. When ctx ends, the run is killed and
	// Exit.Cause says Cancelled. Nothing of the run is left when Run returns.
	Run(ctx context.Context, spec Spec) (Exit, error)
	// Posture is what was probed at start, by doing.
	Posture() Posture
}

// Spec is everything that the sandbox needs for one run. It holds no policy: whoever builds it has decided.
type Spec struct {
	Argv     []string // absolute path of the interpreter or program first
	Env      []string // complete; nothing is inherited
	Dir      string   // the run's own working folder: the only place it can write beside Writable
	Stdin    []byte   // the judged bytes, at most 4096
	Readable []string // files and folders that it may read beside the system's: the skill's snapshot
	Writable []string // folders that it may change, granted to this run alone; nothing in them can be executed
	Links    []Link   // made in the working folder, below LinksDir; one grants nothing
	Limits   Limits
	OnStderr func(line string, at time.Duration) // optional; complete lines, in order, from one goroutine
	Warm     *Warm                               // optional: may be forked from a cell; a sandbox without cells starts it cold
}

// LinksDir is where the links of a run are in its working folder.
const LinksDir = "mounts"

// Link tells a script where a folder of Readable or Writable is, by a name that it knows.
type Link struct{ Name, To string }

// Warm says how a cell gets ready for a run. It is for one process of Python whose Argv is the interpreter, -E -s -B and
// the script; anything else is started cold.
type Warm struct {
	Skill   string                 // runs of one skill share a cell
	Modules []string               // what the cell imports: nothing of the skill itself
	Text    func() ([]byte, error) // the script's bytes, verified; asked for once per cell
}

// Limits of one run. The zero value of a field is not "no limit": Run refuses a Spec with a zero limit.
type Limits struct {
	Wall        time.Duration
	CPU         time.Duration // whole seconds
	MemoryBytes uint64
	FileBytes   uint64 // of one file
	DiskBytes   uint64 // of all files in the working folder together (watched, see watch.go)
	DiskFiles   int    // files and folders in it
	OpenFiles   uint64
	Processes   int // 1: fork is refused by seccomp, threads pass
	StdoutBytes int // more ends the run with OutputLimit
	StderrBytes int // kept: half head, half tail; more is dropped, marked
	Interpreter Interpreter
}

// Interpreter selects how memory is bounded: an address-space limit suits Python and bash, a data limit node and
// compiled programs (facts: node does not start under 1 GiB of address space).
type Interpreter string

const (
	Python   Interpreter = "python3"
	Bash     Interpreter = "bash"
	Node     Interpreter = "node"
	Compiled Interpreter = "compiled"
)

// Cause says who ended the program. The zero value is invalid.
type Cause string

const (
	Exited      Cause = "exited"       // by itself: ExitCode counts
	Cancelled   Cause = "cancelled"    // ctx ended
	Timeout     Cause = "timeout"      // Limits.Wall
	OutputLimit Cause = "output_limit" // stdout was more than Limits.StdoutBytes
	CPULimit    Cause = "cpu_limit"    // killed by the kernel with its usage at Limits.CPU, or all processes together above it
	MemoryLimit Cause = "memory_limit" // all processes together above Limits.MemoryBytes, or killed by the kernel for memory
	// DiskLimit: a file above Limits.FileBytes (SIGXFSZ), or the working folder above DiskBytes or DiskFiles.
	DiskLimit    Cause = "disk_limit"
	ProcessLimit Cause = "process_limit" // more than Limits.Processes, or so many threads (Tasks)
	Blocked      Cause = "blocked_syscall"
	Signalled    Cause = "killed" // by any other signal
)

// Exit is how one run ended.
type Exit struct {
	Cause           Cause
	ExitCode        int    // -1 when it did not exit by itself
	Signal          string // "SIGKILL", …; "" when it exited by itself
	Stdout          []byte // at most Limits.StdoutBytes
	Stderr          []byte // at most Limits.StderrBytes, head and tail with a line between that says how much was cut
	StderrTruncated bool
	Wall            time.Duration // from the start of the process to the end of the last one
	CPU             time.Duration // user and system, of the run and all its children
	MaxRSSBytes     int64         // 0 when it cannot be told (see peak in exit.go)
	Warm            bool          // forked from a cell
	Layers          []string      // the layers in force for this run, as in Posture
}

// Tier is the set of isolation mechanisms in use.
type Tier string

const (
	TierLandlock   Tier = "landlock"
	TierNamespaces Tier = "namespaces"
)

// Posture says which layers are in force and which are not, and why.
type Posture struct {
	Tier    Tier
	Layers  []Layer  // in a fixed order
	Remarks []string // what is not a layer, and an operator should know
}

// Layer is one protection as it was tried at start.
type Layer struct {
	Name    string // "no_new_privs", "rlimits", "oom_score_adj", "seccomp", "landlock", "landlock_net", "landlock_scope", "signals", "sweep", "watch", "cgroup", "namespaces"
	Detail  string // for example "7" for the Landlock ABI
	InForce bool
	Reason  string // when not in force: what was tried and what was seen
	Errno   string // when that was one: "ENOSYS", …
	Means   string // what a run could do without it
	Granted bool   // needs a grant of the operator: without it the sandbox is whole all the same
	Cure    string // when not in force: what an operator can do
}

// Names are the layers in force as results carry them: "landlock:7", "seccomp", …
func (p Posture) Names() []string {
	var out []string
	for _, l := range p.Layers {
		switch {
		case !l.InForce:
		case l.Detail != "":
			out = append(out, l.Name+":"+l.Detail)
		default:
			out = append(out, l.Name)
		}
	}
	return out
}
