// Package execute turns an admitted call into one sandboxed run, and what came back into one outcome.
package execute

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"xrayrunner/manifests"
	"xrayrunner/runner/internal/external"
	"xrayrunner/runner/internal/mounts"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/snapshot"
	"xrayrunner/runner/protocol"
)

// Executor runs scripts of one lock file. All fields but Mounts and Environment are required.
type Executor struct {
	Lock         *manifests.Lock
	Snapshot     *snapshot.Snapshot
	Sandbox      sandbox.Sandbox
	WorkDir      string
	Interpreters Interpreters
	Mounts       mounts.Table         // folders that the operator gives; may be empty
	Environment  external.Environment // of external skills
}

// Job is one admitted run.
type Job struct {
	RunID    string
	Skill    string
	Script   string
	Input    []byte        // the judged bytes
	Ceiling  time.Duration // of the wall time, from the request; 0: none
	Queued   time.Duration
	OnStderr func(line string, at time.Duration)
}

// Interpreters are absolute paths by the manifest's name of an interpreter.
type Interpreters map[string]string

// FindInterpreters looks where images put them, in this order, for a file that this uid may run: a shim in a home
// folder is never taken.
func FindInterpreters() Interpreters {
	found := Interpreters{}
	for _, name := range []string{"python3", "bash", "node"} {
		for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
			path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
			if err == nil && executable(path) {
				found[name] = path
				break
			}
		}
	}
	return found
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && access(path) == nil
}

// Run makes the working folder, runs the script and judges its answer. It never fails: our own failure is the
// outcome sandbox_error. The skill has been verified by the caller.
func (e *Executor) Run(ctx context.Context, j Job) *protocol.Result {
	skill := e.Lock.Skills[j.Skill]
	r := &protocol.Result{RunID: j.RunID, ExitCode: -1, ScriptSHA256: skill.ScriptDigest(j.Script), ManifestDigest: e.Lock.Digest()}
	r.DryRun = skill.ClassOf(j.Script, j.Input) != skill.Class
	r.Usage.QueuedMS = ms(j.Queued)
	r.Sandbox = protocol.SandboxInfo{Tier: string(e.Sandbox.Posture().Tier), Layers: e.Sandbox.Posture().Names(), Start: "cold"}
	exit, err := e.start(ctx, skill, j)
	if err != nil {
		r.Outcome, r.Detail = protocol.SandboxError, err.Error()
		return r
	}
	fill(r, exit)
	judge(r, exit, skill.Scripts[j.Script])
	return r
}

func (e *Executor) start(ctx context.Context, skill *manifests.Skill, j Job) (sandbox.Exit, error) {
	dir, err := os.MkdirTemp(filepath.Join(e.WorkDir, RunsDir), "run-")
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("working folder: %w", err)
	}
	spec, err := e.spec(skill, j, dir)
	if err != nil {
		return sandbox.Exit{}, errorsJoinRemove(err, dir)
	}
	exit, err := e.Sandbox.Run(ctx, spec)
	return exit, errorsJoinRemove(err, dir)
}

// RunsDir is the folder below the work dir in which each run has its own.
const RunsDir = "runs"

// JailsDir is the folder below the work dir in which jails are made.
const JailsDir = "jails"

// spec is the whole translation of a manifest entry into what the sandbox is told.
func (e *Executor) spec(skill *manifests.Skill, j Job, dir string) (sandbox.Spec, error) {
	script := skill.Scripts[j.Script]
	argv, kind, err := e.argv(script, filepath.Join(e.Snapshot.Dir(skill.Name), filepath.FromSlash(j.Script)))
	if err != nil {
		return sandbox.Spec{}, err
	}
	limits := Limits(script.Limits, kind)
	if j.Ceiling > 0 {
		limits.Wall = min(limits.Wall, j.Ceiling)
	}
	readable, writable := e.Mounts.Paths(skill.Mounts, skill.ClassOf(j.Script, j.Input))
	env := Environment(dir)
	if skill.Kind == manifests.External {
		env = e.Environment.For(skill.EnvAllow, dir)
	}
	return sandbox.Spec{
		Warm: e.warm(skill, j.Script), Argv: argv, Env: env, Dir: dir, Stdin: j.Input, OnStderr: j.OnStderr,
		Readable: append([]string{e.Snapshot.Dir(skill.Name)}, readable...), Writable: writable, Links: e.links(skill.Mounts), Limits: limits,
	}, nil
}

// links are how a script finds its mounts.
func (e *Executor) links(list []manifests.Mount) (out []sandbox.Link) {
	for _, m := range list {
		out = append(out, sandbox.Link{Name: m.Name, To: e.Mounts[m.Name].Path})
	}
	return out
}

// warm says how a cell gets ready for the script; nil when it is to start cold. So does every script of a skill with mounts:
// a cell, which all runs of its skill come from, never holds a right to the operator's folders.
func (e *Executor) warm(skill *manifests.Skill, script string) *sandbox.Warm {
	if !skill.Scripts[script].Warm || len(skill.Mounts) > 0 {
		return nil
	}
	return &sandbox.Warm{Skill: skill.Name, Modules: skill.Imports, Text: func() ([]byte, error) { return e.Snapshot.Read(skill.Name, script) }}
}

const (
	StdoutBytes = 64 << 10
	StderrBytes = 16 << 10

	// A working folder may hold twice what one file may, in at most so many files and folders. Two runs at once then
	// fit a tmpfs of 64 MiB.
	folderFiles   = 2
	FolderEntries = 4096
)

// Limits are a script's limits as the sandbox counts them.
func Limits(l manifests.Limits, kind sandbox.Interpreter) sandbox.Limits {
	const mib = 1 << 20
	return sandbox.Limits{
		Wall: time.Duration(l.TimeoutSeconds) * time.Second, CPU: time.Duration(l.CPUSeconds) * time.Second,
		MemoryBytes: uint64(l.MemoryMB) * mib, FileBytes: uint64(l.FileMB) * mib,
		DiskBytes: folderFiles * uint64(l.FileMB) * mib, DiskFiles: FolderEntries,
		OpenFiles: uint64(l.OpenFiles), Processes: l.Processes,
		StdoutBytes: StdoutBytes, StderrBytes: StderrBytes, Interpreter: kind,
	}
}

// argv is fixed: a caller has no influence on it. Python reads no variable (-E), no user site (-s) and writes no cache
// (-B). A forged cache beside a script would run in place of the hashed source (python/cpython#101210); there is none,
// since the snapshot holds only what the lock names, the lock never names one, and no run can write there. Turning all
// caches away (-X pycache_prefix) would compile the standard library anew at each start: 2.5 times a bare start.
func (e *Executor) argv(s *manifests.Script, path string) ([]string, sandbox.Interpreter, error) {
	if s.Interpreter == manifests.Compiled {
		return []string{path}, sandbox.Compiled, nil
	}
	if filepath.IsAbs(s.Interpreter) {
		return []string{s.Interpreter, path}, sandbox.Compiled, nil
	}
	program, ok := e.Interpreters[s.Interpreter]
	if !ok {
		return nil, "", fmt.Errorf("this runner has no %s that uid %d may run", s.Interpreter, os.Getuid())
	}
	switch s.Interpreter {
	case "python3":
		return []string{program, "-E", "-s", "-B", path}, sandbox.Python, nil
	case "bash":
		return []string{program, "--noprofile", "--norc", path}, sandbox.Bash, nil
	}
	return []string{program, path}, sandbox.Node, nil
}

// Environment is the same for every run of a reviewed skill, on every start path (docs/skills.md lists it); dir is its
// working folder.
func Environment(dir string) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "XDG_CACHE_HOME=" + dir,
		"XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC",
	}
}

func fill(r *protocol.Result, exit sandbox.Exit) {
	r.ExitCode, r.Signal = exit.ExitCode, exit.Signal
	r.Stderr, r.StderrTruncated = strings.ToValidUTF8(string(exit.Stderr), "\uFFFD"), exit.StderrTruncated
	r.Usage.WallMS, r.Usage.CPUMS, r.Usage.MaxRSSBytes = ms(exit.Wall), ms(exit.CPU), exit.MaxRSSBytes
	if exit.Warm {
		r.Sandbox.Start = "warm"
	}
	if exit.Layers != nil {
		r.Sandbox.Layers = exit.Layers
	}
}

var causes = map[sandbox.Cause]protocol.Outcome{
	sandbox.Cancelled: protocol.Cancelled, sandbox.Timeout: protocol.Timeout, sandbox.OutputLimit: protocol.OutputLimit,
	sandbox.MemoryLimit: protocol.MemoryLimit, sandbox.CPULimit: protocol.CPULimit, sandbox.DiskLimit: protocol.DiskLimit,
	sandbox.ProcessLimit: protocol.ProcessLimit, sandbox.Blocked: protocol.BlockedSyscall, sandbox.Signalled: protocol.Killed,
}

// judge gives the outcome: the first that holds in the order of protocol.Outcomes.
func judge(r *protocol.Result, exit sandbox.Exit, script *manifests.Script) {
	if o, ok := causes[exit.Cause]; ok {
		r.Outcome = o
		return
	}
	switch {
	case exit.Cause != sandbox.Exited:
		r.Outcome, r.Detail = protocol.SandboxError, fmt.Sprintf("BUG: unknown cause %q", exit.Cause)
	case exit.ExitCode != 0 && ranOutOfMemory(exit.Stderr):
		r.Outcome = protocol.MemoryLimit
	case exit.ExitCode != 0:
		r.Outcome = protocol.ScriptError
	default:
		answer(r, exit.Stdout, script)
	}
}

// ranOutOfMemory reads the interpreter's own word: it exits by itself with an ordinary code, so nothing else tells
// (nodejs/node#56596). Only the last line counts, and only with a non-zero exit: a script that talks of memory and
// answers is not out of memory.
func ranOutOfMemory(stderr []byte) bool {
	text := bytes.TrimRight(stderr, "\n")
	last := string(text[bytes.LastIndexByte(text, '\n')+1:])
	return last == "MemoryError" || strings.HasPrefix(last, "MemoryError:") ||
		strings.Contains(last, ": xmalloc: cannot allocate") || strings.Contains(last, "JavaScript heap out of memory")
}

// answer insists on exactly one JSON object (white space around it allowed), or text where the manifest says so.
func answer(r *protocol.Result, stdout []byte, script *manifests.Script) {
	if script.Stdout == manifests.StdoutText {
		text, err := json.Marshal(map[string]string{"text": strings.ToValidUTF8(string(stdout), "\uFFFD")})
		if err != nil {
			r.Outcome, r.Detail = protocol.SandboxError, err.Error()
			return
		}
		r.Outcome, r.Result = protocol.OK, text
		return
	}
	if why := notOneObject(stdout, script); why != "" {
		r.Outcome, r.Detail = protocol.InvalidOutput, why+"; stdout began: "+excerpt(stdout)
		return
	}
	r.Outcome, r.Result = protocol.OK, bytes.TrimSpace(stdout)
}

func notOneObject(stdout []byte, script *manifests.Script) string {
	if len(bytes.TrimSpace(stdout)) == 0 {
		return "the script printed nothing"
	}
	if err := manifests.CheckJSON(stdout, manifests.OutputBounds); err != nil {
		return fmt.Sprintf("stdout is not one JSON document: at %s: %s", err.Place(), err.Message)
	}
	if !manifests.IsObject(stdout) {
		return "stdout is JSON, but not an object"
	}
	if script.OutputSchema() == nil {
		return ""
	}
	if err := script.OutputSchema().Validate(stdout); err != nil {
		return "stdout does not fit the output schema: " + err.Message
	}
	return ""
}

// excerpt is for a person: short, on one line, nothing in it can steer a terminal.
func excerpt(b []byte) string {
	const most = 200
	if len(b) > most {
		return fmt.Sprintf("%+q…", b[:most])
	}
	return fmt.Sprintf("%+q", b)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
