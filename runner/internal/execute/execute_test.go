package execute_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"xrayrunner/manifests"
	"xrayrunner/runner/internal/execute"
	"xrayrunner/runner/internal/mounts"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/snapshot"
	"xrayrunner/runner/protocol"
)

// fake is a sandbox that runs nothing: it keeps what it was told and gives what a test wants.
type fake struct {
	spec sandbox.Spec
	exit sandbox.Exit
	err  error
	in   func(dir string) error // what the script does in its folder
}

func (f *fake) Run(_ context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	f.spec = spec
	if f.in != nil {
		if err := f.in(spec.Dir); err != nil {
			return sandbox.Exit{}, err
		}
	}
	return f.exit, f.err
}

func (f *fake) Posture() sandbox.Posture {
	return sandbox.Posture{Tier: sandbox.TierLandlock, Layers: []sandbox.Layer{{Name: "landlock", Detail: "7", InForce: true}, {Name: "seccomp", InForce: true}, {Name: "sweep"}}}
}

const xray = `{"class":"safe","scripts":{
	"warm.py":  {"description":"x","warm":true,"input":{"type":"object","additionalProperties":false}},
	"run.py":   {"description":"x","input":{"type":"object","additionalProperties":false}},
	"shaped.py":{"description":"x","input":{"type":"object","additionalProperties":false},"output":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}},
	"text.sh":  {"description":"x","input":{"type":"object","additionalProperties":false},"stdout":"text"},
	"run.js":   {"description":"x","input":{"type":"object","additionalProperties":false},"limits":{"timeout_seconds":7,"cpu_seconds":3,"memory_mb":64,"file_mb":2,"open_files":9,"processes":4}},
	"tool":     {"description":"x","input":{"type":"object","additionalProperties":false}}}}`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newExecutor has one skill with a script of each kind.
func newExecutor(t *testing.T, box sandbox.Sandbox) *execute.Executor {
	t.Helper()
	source, work := t.TempDir(), t.TempDir()
	for file, text := range map[string]string{"SKILL.md": "---\nname: kinds\ndescription: x\n---\nbody\n", "xray.json": xray, "run.py": "print()\n", "warm.py": "print(1)\n", "shaped.py": "print()\n", "text.sh": "echo\n", "run.js": "0\n", "tool": "#!/opt/tool\n"} {
		path := filepath.Join(source, "kinds", file)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755), os.Chmod(path, 0o755)))
	}
	built, findings, err := manifests.Build(source)
	must(t, err)
	if len(built.Disabled) > 0 {
		t.Fatalf("the skill is not sound: %v", findings[0])
	}
	raw, err := manifests.Encode(built)
	must(t, err)
	lock, err := manifests.Decode(raw)
	must(t, err)
	root, err := execute.Prepare(work)
	must(t, err)
	snap, err := snapshot.Take(source, root, lock)
	must(t, err)
	return &execute.Executor{Lock: lock, Snapshot: snap, Sandbox: box, WorkDir: work,
		Interpreters: execute.Interpreters{"python3": "/usr/bin/python3", "bash": "/usr/bin/bash", "node": "/usr/bin/node"}}
}

func run(t *testing.T, box *fake, script string) *protocol.Result {
	t.Helper()
	return newExecutor(t, box).Run(t.Context(), execute.Job{RunID: "r", Skill: "kinds", Script: script, Input: []byte("{}")})
}

func TestOutcomeOfCause(t *testing.T) {
	for cause, want := range map[sandbox.Cause]protocol.Outcome{
		sandbox.Cancelled: protocol.Cancelled, sandbox.Timeout: protocol.Timeout, sandbox.OutputLimit: protocol.OutputLimit,
		sandbox.MemoryLimit: protocol.MemoryLimit, sandbox.CPULimit: protocol.CPULimit, sandbox.Blocked: protocol.BlockedSyscall,
		sandbox.DiskLimit: protocol.DiskLimit, sandbox.ProcessLimit: protocol.ProcessLimit,
		sandbox.Signalled: protocol.Killed, sandbox.Exited: protocol.OK, "": protocol.SandboxError, "vanished": protocol.SandboxError,
	} {
		t.Run(string(want)+" "+string(cause), func(t *testing.T) {
			// What it had printed by then never counts when it did not end by itself.
			got := run(t, &fake{exit: sandbox.Exit{Cause: cause, Stdout: []byte(`{"n":1}`)}}, "run.py")
			if got.Outcome != want || (got.Result != nil) != (want == protocol.OK) {
				t.Errorf("got %s with result %s (%s), want %s", got.Outcome, got.Result, got.Detail, want)
			}
		})
	}
}

// TestCase29Stdout: exactly one JSON object, with white space around it.
func TestCase29Stdout(t *testing.T) {
	for _, c := range []struct {
		name, script, stdout string
		code                 int
		want                 protocol.Outcome
		result, detail       string
	}{
		{"an object", "run.py", `{"a":1}`, 0, protocol.OK, `{"a":1}`, ""},
		{"with white space around", "run.py", " \r\n\t{\"a\":1}\n\n", 0, protocol.OK, `{"a":1}`, ""},
		{"digits, order and white space inside are kept", "run.py", "{\"b\": 1.50,\n\"a\":9007199254740993}\n", 0, protocol.OK, "{\"b\": 1.50,\n\"a\":9007199254740993}", ""},
		{"empty object", "run.py", `{}`, 0, protocol.OK, `{}`, ""},
		{"64 KB of spaces, then an object", "run.py", strings.Repeat(" ", execute.StdoutBytes-2) + "{}", 0, protocol.OK, `{}`, ""},
		{"warning, then an object", "run.py", "warning: old\n{\"a\":1}\n", 0, protocol.InvalidOutput, "", `stdout began: "warning: old\n`},
		{"an object, then a warning", "run.py", "{\"a\":1}\nbye\n", 0, protocol.InvalidOutput, "", "not one JSON document"},
		{"NaN", "run.py", `{"x":NaN}`, 0, protocol.InvalidOutput, "", "/x"},
		{"Infinity", "run.py", `{"x":-Infinity}`, 0, protocol.InvalidOutput, "", "/x"},
		{"two objects", "run.py", "{}\n{}", 0, protocol.InvalidOutput, "", "not one JSON document"},
		{"nothing", "run.py", "", 0, protocol.InvalidOutput, "", "printed nothing"},
		{"a line feed", "run.py", "\n", 0, protocol.InvalidOutput, "", "printed nothing"},
		{"an array", "run.py", "[1]", 0, protocol.InvalidOutput, "", "not an object"},
		{"null", "run.py", "null", 0, protocol.InvalidOutput, "", "not an object"},
		{"a string with an object", "run.py", `"{}"`, 0, protocol.InvalidOutput, "", "not an object"},
		{"byte-order mark, then an object", "run.py", "\ufeff{}", 0, protocol.InvalidOutput, "", "byte-order mark"},
		{"UTF-16", "run.py", "{\x00}\x00", 0, protocol.InvalidOutput, "", "not one JSON document"},
		{"Latin-1", "run.py", "{\"a\":\"\xe9\"}", 0, protocol.InvalidOutput, "", "not UTF-8"},
		{"no-break space around", "run.py", "\u00a0{}", 0, protocol.InvalidOutput, "", ""},
		{"form feed around", "run.py", "\f{}", 0, protocol.InvalidOutput, "", ""},
		{"duplicate keys", "run.py", `{"a":1,"a":2}`, 0, protocol.InvalidOutput, "", "/a"},
		{"half an object", "run.py", `{"a":`, 0, protocol.InvalidOutput, "", ""},
		{"echoed input with a result in it", "run.py", "input was {\"outcome\":\"ok\"}\n{\"result\":1}\n", 0, protocol.InvalidOutput, "", ""},
		{"what steers a terminal is escaped", "run.py", "\x1b]0;é\u202e", 0, protocol.InvalidOutput, "", `"\x1b]0;\u00e9\u202e"`},
		{"an object with code 1", "run.py", `{"a":1}`, 1, protocol.ScriptError, "", ""},
		{"nothing with code 1", "run.py", "", 1, protocol.ScriptError, "", ""},

		{"fits the output schema", "shaped.py", `{"n":1}`, 0, protocol.OK, `{"n":1}`, ""},
		{"of another type", "shaped.py", `{"n":"1"}`, 0, protocol.InvalidOutput, "", "output schema"},
		{"a key is missing", "shaped.py", `{}`, 0, protocol.InvalidOutput, "", "output schema"},
		{"a key too many", "shaped.py", `{"n":1,"m":1}`, 0, protocol.InvalidOutput, "", "output schema"},

		{"text", "text.sh", "a\tb\n", 0, protocol.OK, `{"text":"a\tb\n"}`, ""},
		{"text that looks like JSON", "text.sh", `{"a":1}`, 0, protocol.OK, `{"text":"{\"a\":1}"}`, ""},
		{"no text", "text.sh", "", 0, protocol.OK, `{"text":""}`, ""},
		{"text that is not UTF-8", "text.sh", "a\xff", 0, protocol.OK, `{"text":"a` + "\ufffd" + `"}`, ""},
		{"text with code 2", "text.sh", "a", 2, protocol.ScriptError, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, &fake{exit: sandbox.Exit{Cause: sandbox.Exited, ExitCode: c.code, Stdout: []byte(c.stdout)}}, c.script)
			if got.Outcome != c.want || string(got.Result) != c.result || got.ExitCode != c.code {
				t.Fatalf("got %s, code %d, result %q (%s); want %s, result %q", got.Outcome, got.ExitCode, got.Result, got.Detail, c.want, c.result)
			}
			if !strings.Contains(got.Detail, c.detail) || (got.Detail != "") != (c.want == protocol.InvalidOutput) || len(got.Detail) > 2000 {
				t.Errorf("detail = %q, want it to hold %q", got.Detail, c.detail)
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCase22OutOfMemory: the interpreter's own word counts as its last line and with a non-zero exit, nowhere else.
func TestCase22OutOfMemory(t *testing.T) {
	for _, c := range []struct {
		name, stderr string
		code         int
		want         protocol.Outcome
	}{
		{"python", "Traceback (most recent call last):\n  File \"x.py\", line 1\nMemoryError\n", 1, protocol.MemoryLimit},
		{"python with words", "MemoryError: 2 GB\n", 1, protocol.MemoryLimit},
		{"python, and exit 0", "MemoryError\n", 0, protocol.OK},
		{"in the middle", "MemoryError\nValueError: x\n", 1, protocol.ScriptError},
		{"talk of it", "ValueError: no MemoryError\n", 1, protocol.ScriptError},
		{"another error's name", "MemoryErrorLike: x\n", 1, protocol.ScriptError},
		{"bash", "run.sh: line 1: xmalloc: cannot allocate 1000 bytes\n", 2, protocol.MemoryLimit},
		{"node", "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n", 1, protocol.MemoryLimit},
		{"nothing", "", 1, protocol.ScriptError},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, &fake{exit: sandbox.Exit{Cause: sandbox.Exited, ExitCode: c.code, Stderr: []byte(c.stderr), Stdout: []byte("{}")}}, "run.py")
			if got.Outcome != c.want || got.Stderr != c.stderr {
				t.Errorf("got %s with stderr %q, want %s", got.Outcome, got.Stderr, c.want)
			}
		})
	}
}

// TestSpec is the whole of what the sandbox is told, for each kind of script.
func TestSpec(t *testing.T) {
	standard := sandbox.Limits{Wall: 30 * time.Second, CPU: 30 * time.Second, MemoryBytes: 128 << 20, FileBytes: 16 << 20, DiskBytes: 32 << 20, DiskFiles: 4096,
		OpenFiles: 64, Processes: 1, StdoutBytes: 64 << 10, StderrBytes: 16 << 10}
	of := func(i sandbox.Interpreter) sandbox.Limits { l := standard; l.Interpreter = i; return l }
	for _, c := range []struct {
		script string
		argv   []string // before the script's path
		limits sandbox.Limits
	}{
		{"run.py", []string{"/usr/bin/python3", "-E", "-s", "-B"}, of(sandbox.Python)},
		{"text.sh", []string{"/usr/bin/bash", "--noprofile", "--norc"}, of(sandbox.Bash)},
		{"run.js", []string{"/usr/bin/node"}, sandbox.Limits{Wall: 7 * time.Second, CPU: 3 * time.Second, MemoryBytes: 64 << 20, FileBytes: 2 << 20,
			DiskBytes: 4 << 20, DiskFiles: 4096, OpenFiles: 9, Processes: 4, StdoutBytes: 64 << 10, StderrBytes: 16 << 10, Interpreter: sandbox.Node}},
		{"tool", []string{"/opt/tool"}, of(sandbox.Compiled)},
	} {
		t.Run(c.script, func(t *testing.T) {
			box := &fake{exit: sandbox.Exit{Cause: sandbox.Exited}}
			e := newExecutor(t, box)
			e.Run(t.Context(), execute.Job{Skill: "kinds", Script: c.script, Input: []byte(" {} ")})
			dir := box.spec.Dir
			if filepath.Dir(dir) != filepath.Join(e.WorkDir, execute.RunsDir) {
				t.Errorf("folder %s is not one of %s", dir, e.WorkDir)
			}
			want := sandbox.Spec{
				Argv: append(c.argv, filepath.Join(e.Snapshot.Dir("kinds"), c.script)),
				Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "XDG_CACHE_HOME=" + dir, "XDG_CONFIG_HOME=" + dir,
					"XDG_DATA_HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC"}, // case 37: this and nothing else
				Dir: dir, Stdin: []byte(" {} "), Readable: []string{e.Snapshot.Dir("kinds")}, Limits: c.limits,
			}
			if diff := cmp.Diff(want, box.spec); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestMounts: a run has its skill's folders, and starts cold though its script is warm.
func TestMounts(t *testing.T) {
	box := &fake{exit: sandbox.Exit{Cause: sandbox.Exited}}
	e := newExecutor(t, box)
	e.Mounts = mounts.Table{"cache": {Path: "/srv/cache", Writable: true}, "logs": {Path: "/srv/logs"}, "other": {Path: "/srv/other", Writable: true}}
	job := execute.Job{Skill: "kinds", Script: "warm.py", Input: []byte("{}")}
	if e.Run(t.Context(), job); box.spec.Warm == nil || len(box.spec.Links)+len(box.spec.Writable) > 0 || len(box.spec.Readable) != 1 {
		t.Errorf("without mounts: %+v", box.spec)
	}
	skill := e.Lock.Skills["kinds"]
	skill.Class, skill.Mounts = manifests.Mutating, []manifests.Mount{{Name: "cache", Mode: manifests.MountWrite}, {Name: "logs", Mode: manifests.MountRead}}
	e.Run(t.Context(), job)
	want := []sandbox.Link{{Name: "cache", To: "/srv/cache"}, {Name: "logs", To: "/srv/logs"}}
	if box.spec.Warm != nil || !cmp.Equal(box.spec.Links, want) || !cmp.Equal(box.spec.Writable, []string{"/srv/cache"}) ||
		!cmp.Equal(box.spec.Readable, []string{e.Snapshot.Dir("kinds"), "/srv/logs"}) {
		t.Errorf("with mounts: %+v", box.spec)
	}
}

// TestCeiling: a caller's limit shortens, and never lengthens.
func TestCeiling(t *testing.T) {
	for ceiling, want := range map[time.Duration]time.Duration{0: 7 * time.Second, time.Second: time.Second, 7 * time.Second: 7 * time.Second, time.Minute: 7 * time.Second} {
		box := &fake{}
		newExecutor(t, box).Run(t.Context(), execute.Job{Skill: "kinds", Script: "run.js", Ceiling: ceiling})
		if got := box.spec.Limits.Wall; got != want {
			t.Errorf("ceiling %s: %s, want %s", ceiling, got, want)
		}
	}
}

func TestFilled(t *testing.T) {
	box := &fake{exit: sandbox.Exit{Cause: sandbox.Signalled, ExitCode: -1, Signal: "SIGSEGV", Stderr: []byte("a\xffb"), StderrTruncated: true,
		Wall: 1500 * time.Microsecond, CPU: time.Millisecond, MaxRSSBytes: 42, Layers: []string{"seccomp"}}}
	e := newExecutor(t, box)
	got := e.Run(t.Context(), execute.Job{RunID: "r", Skill: "kinds", Script: "run.py", Queued: 250 * time.Microsecond})
	want := &protocol.Result{RunID: "r", Outcome: protocol.Killed, ExitCode: -1, Signal: "SIGSEGV", Stderr: "a\ufffdb", StderrTruncated: true,
		Usage:        protocol.Usage{WallMS: 1.5, CPUMS: 1, MaxRSSBytes: 42, QueuedMS: 0.25},
		Sandbox:      protocol.SandboxInfo{Tier: "landlock", Layers: []string{"seccomp"}, Start: "cold"},
		ScriptSHA256: e.Lock.Skills["kinds"].Files["run.py"].SHA256, ManifestDigest: e.Lock.Digest()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOurFailure: what goes wrong on our side is never the script's outcome, and nothing was run.
func TestOurFailure(t *testing.T) {
	t.Run("the sandbox fails", func(t *testing.T) {
		got := run(t, &fake{err: errors.New("no sandbox today"), exit: sandbox.Exit{Cause: sandbox.Exited, Stdout: []byte("{}")}}, "run.py")
		if got.Outcome != protocol.SandboxError || got.Result != nil || got.ExitCode != -1 || !strings.Contains(got.Detail, "no sandbox today") {
			t.Errorf("%+v", got)
		}
		if diff := cmp.Diff([]string{"landlock:7", "seccomp"}, got.Sandbox.Layers); diff != "" {
			t.Errorf("layers (-want +got)\n%s", diff)
		}
	})
	t.Run("no such interpreter", func(t *testing.T) {
		box := &fake{}
		e := newExecutor(t, box)
		delete(e.Interpreters, "python3")
		got := e.Run(t.Context(), execute.Job{Skill: "kinds", Script: "run.py"})
		if got.Outcome != protocol.SandboxError || !strings.Contains(got.Detail, "no python3") || box.spec.Argv != nil {
			t.Errorf("%+v", got)
		}
		empty(t, filepath.Join(e.WorkDir, execute.RunsDir))
	})
	t.Run("no room for a folder", func(t *testing.T) {
		box := &fake{}
		e := newExecutor(t, box)
		must(t, os.Remove(filepath.Join(e.WorkDir, execute.RunsDir)))
		got := e.Run(t.Context(), execute.Job{Skill: "kinds", Script: "run.py"})
		if got.Outcome != protocol.SandboxError || !strings.Contains(got.Detail, "working folder") || box.spec.Argv != nil {
			t.Errorf("%+v", got)
		}
	})
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v (%v)", dir, left, err)
	}
}

// spoil makes folders as a script leaves them that took its own permissions away. Root is not held up by them; for
// any other user this is what removeAll is for.
func spoil(dir string) error {
	deep := filepath.Join(dir, "a", "b")
	return errors.Join(os.MkdirAll(deep, 0o700), os.WriteFile(filepath.Join(deep, "f"), nil, 0), os.Symlink("/etc/passwd", filepath.Join(deep, "l")),
		os.Chmod(deep, 0), os.Chmod(filepath.Dir(deep), 0o100), os.Chmod(dir, 0o500))
}

// TestNothingStays: the working folder is gone after the run, whatever the run left in it and however it ended.
func TestNothingStays(t *testing.T) {
	for name, box := range map[string]*fake{
		"ended": {exit: sandbox.Exit{Cause: sandbox.Exited, Stdout: []byte("{}")}, in: spoil},
		"ours":  {err: errors.New("x"), in: spoil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExecutor(t, box)
			e.Run(t.Context(), execute.Job{Skill: "kinds", Script: "run.py"})
			empty(t, filepath.Join(e.WorkDir, execute.RunsDir))
		})
	}
}

// TestPrepare: what a killed runner left goes; what is not ours in the folder stays.
func TestPrepare(t *testing.T) {
	work := t.TempDir()
	left := filepath.Join(work, execute.RunsDir, "run-1")
	must(t, errors.Join(os.MkdirAll(left, 0o700), spoil(left), os.MkdirAll(filepath.Join(work, "snapshot", "skills", "x"), 0o500), os.WriteFile(filepath.Join(work, "other"), nil, 0o600)))
	root, err := execute.Prepare(work)
	must(t, err)
	empty(t, filepath.Join(work, execute.RunsDir))
	empty(t, root)
	if _, err := os.Stat(filepath.Join(work, "other")); err != nil {
		t.Error(err)
	}
	if _, err := execute.Prepare(filepath.Join(work, "other")); err == nil || !strings.Contains(err.Error(), "RUNNER_WORK_DIR") {
		t.Errorf("a file for a folder: %v", err)
	}
}

// TestPrepareAsAnotherUser: root is not held up by permissions, so the thread of this test gives up root's file access.
func TestPrepareAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("TestPrepare shows it where the tests do not run as root")
	}
	const uid = 64002
	work, err := os.MkdirTemp("/tmp", "xray-execute-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(work)) })
	must(t, os.Chown(work, uid, uid))
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		left := filepath.Join(work, execute.RunsDir, "run-1")
		err := errors.Join(unix.Setfsgid(uid), unix.Setfsuid(uid), os.MkdirAll(left, 0o700), spoil(left))
		if _, readErr := os.ReadDir(filepath.Join(left, "a", "b")); readErr == nil {
			err = errors.Join(err, errors.New("the permissions do not hold this thread up, so the test shows nothing"))
		}
		_, prepareErr := execute.Prepare(work)
		done <- errors.Join(err, prepareErr)
	}()
	must(t, <-done)
	empty(t, filepath.Join(work, execute.RunsDir))
}

// TestFindInterpreters: only from the image's folders, never a shim of somebody's home folder.
func TestFindInterpreters(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, path := range execute.FindInterpreters() {
		if !strings.HasPrefix(path, "/usr/") && !strings.HasPrefix(path, "/bin/") {
			t.Errorf("%s is %s", name, path)
		}
	}
}

// TestWarm: only a script that allows it is offered to a cell, with what its skill imports and its verified bytes; a
// changed file is not given, and stops the skill.
func TestWarm(t *testing.T) {
	box := &fake{exit: sandbox.Exit{Cause: sandbox.Exited, Stdout: []byte("{}"), Warm: true}}
	e := newExecutor(t, box)
	e.Lock.Skills["kinds"].Imports = []string{"json"}
	got := e.Run(t.Context(), execute.Job{RunID: "r", Skill: "kinds", Script: "warm.py", Input: []byte("{}")})
	warm := box.spec.Warm
	if got.Sandbox.Start != "warm" || warm == nil || warm.Skill != "kinds" || !cmp.Equal(warm.Modules, []string{"json"}) {
		t.Fatalf("%+v %+v", got, warm)
	}
	if text, err := warm.Text(); err != nil || string(text) != "print(1)\n" {
		t.Errorf("%q %v", text, err)
	}
	path := filepath.Join(e.Snapshot.Dir("kinds"), "warm.py")
	must(t, errors.Join(os.Remove(path), os.WriteFile(path, []byte("print(2)\n"), 0o444)))
	if text, err := warm.Text(); err == nil || !e.Snapshot.StoppedSkill("kinds") {
		t.Errorf("a changed file was given: %q", text)
	}
	box.exit.Warm = false
	if got := run(t, box, "run.py"); got.Sandbox.Start != "cold" || box.spec.Warm != nil {
		t.Errorf("%+v %+v", got.Sandbox, box.spec.Warm)
	}
}
