package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/internal/approve"
	"xrayrunner/runner/internal/counts"
	"xrayrunner/runner/internal/execute"
	"xrayrunner/runner/internal/mounts"
	"xrayrunner/runner/internal/queue"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/server"
	"xrayrunner/runner/internal/snapshot"
	"xrayrunner/runner/internal/socket"
	"xrayrunner/runner/protocol"
)

// fake is a sandbox that runs nothing. Each run says that it started, and ends when run says so; without run it ends
// at once with an empty object.
type fake struct {
	started atomic.Int64
	stdin   atomic.Value // []byte of the last run
	run     atomic.Pointer[program]
}

// program is what a run does.
type program func(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error)

func (f *fake) runs(p program) { f.run.Store(&p) }

func (f *fake) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	f.started.Add(1)
	f.stdin.Store(spec.Stdin)
	if p := f.run.Load(); p != nil {
		return (*p)(ctx, spec)
	}
	return printed("{}"), nil
}

func (f *fake) Posture() sandbox.Posture {
	return sandbox.Posture{Tier: sandbox.TierLandlock, Layers: []sandbox.Layer{{Name: "landlock", Detail: "7", InForce: true}, {Name: "sweep", Reason: "not here"}}}
}

func printed(stdout string) sandbox.Exit {
	return sandbox.Exit{Cause: sandbox.Exited, Stdout: []byte(stdout), Wall: time.Millisecond}
}

// until lets a run go on until the gate is opened, or the caller goes away.
func until(gate <-chan struct{}) program {
	return func(ctx context.Context, _ sandbox.Spec) (sandbox.Exit, error) {
		select {
		case <-gate:
			return printed("{}"), nil
		case <-ctx.Done():
			return sandbox.Exit{Cause: sandbox.Cancelled, ExitCode: -1}, nil
		}
	}
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

type fixture struct {
	t      *testing.T
	box    *fake
	server *server.Server
	source string
	path   string // of the socket
	http   *http.Client
	log    *journal
	n      atomic.Int64 // sessions made
}

const (
	schema = `{"type":"object","properties":{"n":{"type":"number"},"s":{"type":"string","maxLength":5000},"dry":{"type":"boolean"}},"additionalProperties":false}`
	token  = "0123456789abcdef"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func skills(t *testing.T, source string) *manifests.Lock {
	t.Helper()
	for name, head := range map[string]string{"prose": "", "one": `"class":"safe"`, "other": `"class":"safe"`, "mutating": `"class":"mutating"`, "egress": `"class":"safe","network":"egress"`} {
		files := map[string]string{"SKILL.md": "---\nname: " + name + "\ndescription: x\n---\nbody\n"}
		if head != "" {
			files["xray.json"] = "{" + head + `,"scripts":{"run.py":{"description":"x","input":` + schema + `}}}`
			files["run.py"] = "print('{}')\n"
		}
		if name == "mutating" {
			files["xray.json"] = "{" + head + `,"mounts":[{"name":"cache","mode":"rw"}],"scripts":{"run.py":{"description":"x","dry_run":"dry","input":` + schema + `}}}`
		}
		for file, text := range files {
			path := filepath.Join(source, name, file)
			must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
		}
	}
	built, findings, err := manifests.Build(source)
	must(t, err)
	if len(built.Disabled) > 0 {
		t.Fatalf("the skills are not sound: %v", findings[0])
	}
	raw, err := manifests.Encode(built)
	must(t, err)
	lock, err := manifests.Decode(raw)
	must(t, err)
	return lock
}

// start serves on a real socket. change may alter the server before it listens.
func start(t *testing.T, slots, places int, change func(*server.Server, *http.Server)) *fixture {
	t.Helper()
	f := &fixture{t: t, box: &fake{}, source: t.TempDir(), log: &journal{}}
	lock, work := skills(t, f.source), t.TempDir()
	root, err := execute.Prepare(work)
	must(t, err)
	snap, err := snapshot.Take(f.source, root, lock)
	must(t, err)
	f.server = &server.Server{
		Log: slog.New(slog.NewJSONHandler(f.log, nil)), Lock: lock, LockRaw: []byte(`{"the":"bytes"}`), Snapshot: snap,
		Executor: &execute.Executor{Lock: lock, Snapshot: snap, Sandbox: f.box, WorkDir: work, Interpreters: execute.Interpreters{"python3": "/usr/bin/python3"}, Mounts: mounts.Table{"cache": {Path: "/srv/cache", Writable: true}}},
		Queue:    queue.New(slots, places, 1<<40), Counts: counts.New(time.Now), Approve: approve.New(sop.Keys{}, time.Now), Posture: f.box.Posture(), MaxClass: manifests.Safe, Version: "test",
		Slots: slots, Places: places, AllowUIDs: []uint32{uint32(os.Getuid())}, NetworkProblem: func() string { return "" },
	}
	stop, cancel := context.WithCancel(context.Background())
	h := server.HTTPServer(nil, f.server.Log)
	if change != nil {
		change(f.server, h)
	}
	h.Handler = f.server.Handler(stop)
	dir, err := os.MkdirTemp("/tmp", "r")
	must(t, err)
	f.path = filepath.Join(dir, "s")
	l, err := socket.Listen(f.path)
	must(t, err)
	served := make(chan struct{})
	go func() { defer close(served); _ = h.Serve(l) }() // it ends with an error by Close, always
	f.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", f.path)
	}}}
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(h.Shutdown(context.Background()), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
		<-served
		if running, waiting := f.server.Queue.Load(); running != 0 || waiting != 0 {
			t.Errorf("after all: %d running, %d waiting", running, waiting)
		}
	})
	return f
}

// reply is one answer.
type reply struct {
	status  int
	kind    string
	body    string
	problem protocol.Problem
	result  protocol.Result
	err     error
}

// do makes one call with a raw body.
func (f *fixture) do(ctx context.Context, method, path, body string, header ...string) reply {
	req, err := http.NewRequestWithContext(ctx, method, "http://runner"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Content-Type", protocol.TypeJSON)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			req.Header.Del(header[i])
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	r := reply{status: resp.StatusCode, kind: resp.Header.Get("Content-Type"), body: string(raw), err: err}
	if r.kind == protocol.TypeProblem {
		r.err = errors.Join(r.err, json.Unmarshal(raw, &r.problem))
	} else if r.kind == protocol.TypeJSON && path == protocol.PathRun {
		r.err = errors.Join(r.err, json.Unmarshal(raw, &r.result))
	}
	return r
}

// request is a sound body in a session of its own.
func (f *fixture) request(skill, script, input string) string {
	session := "s" + strconv.FormatInt(f.n.Add(1), 10)
	return `{"session":"` + session + `","turn":"t","skill":"` + skill + `","script":"` + script + `","input":` + input + `}`
}

func (f *fixture) run(ctx context.Context, body string, header ...string) reply {
	return f.do(ctx, http.MethodPost, protocol.PathRun, body, header...)
}

// refused looks at all that a refusal must have.
func (f *fixture) refused(r reply, want guard.Code) {
	f.t.Helper()
	row := protocol.RefusalOf(want)
	if r.err != nil || r.problem.Code != want || r.status != row.Status || r.problem.Status != row.Status || r.kind != protocol.TypeProblem {
		f.t.Errorf("got %d %s (%v): %s; want %s", r.status, r.kind, r.err, r.body, want)
		return
	}
	if r.problem.Detail == "" || r.problem.Retry != row.Retry || r.problem.ManifestDigest != f.server.Lock.Digest() {
		f.t.Errorf("not a whole refusal: %s", r.body)
	}
}

func (f *fixture) served(r reply) {
	f.t.Helper()
	if r.err != nil || r.status != http.StatusOK || r.result.Outcome != protocol.OK {
		f.t.Errorf("got %d (%v): %s; want an outcome ok", r.status, r.err, r.body)
	}
}

// eventually waits for a state that other goroutines bring about. The bound only ends a test that has failed.
func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			running, waiting := f.server.Queue.Load()
			f.t.Fatalf("never: %s (%d running, %d waiting)", what, running, waiting)
		}
	}
}

func (f *fixture) load(running, waiting int) func() bool {
	return func() bool { r, w := f.server.Queue.Load(); return r == running && w == waiting }
}
