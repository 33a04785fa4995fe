package calls_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/metrics"
	"xrayrunner/api/internal/store"
	"xrayrunner/manifests"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

const (
	proseMD = "---\nname: prose\ndescription: Text only.\n---\nFollow this.\n"
	echoMD  = "---\nname: echo\ndescription: Gives back what it gets.\n---\nUse it.\n"
	echoPy  = "import sys\nsys.stdout.write(sys.stdin.read())\n"
	echoXR  = `{"class": "safe", "network": "none", "scripts": {"echo.py": {
  "description": "Echo.",
  "input": {"type": "object", "properties": {"n": {"type": "number"}, "s": {"type": "string", "maxLength": 4096}}, "additionalProperties": false},
  "examples": [{"input": {"n": 1}, "output": {"n": 1}}]
}}}
`
)

// handClock is a time that moves only when it is told to.
type handClock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *handClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *handClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// fakeRunner stands in for the runner: it runs nothing, keeps what it was sent and answers with answer.
type fakeRunner struct {
	url    string
	mu     sync.Mutex
	got    []protocol.RunRequest
	digest []string
	answer http.HandlerFunc
}

func newFakeRunner(t testing.TB) *fakeRunner {
	f := &fakeRunner{}
	f.say(t, http.StatusOK, protocol.Result{Outcome: protocol.OK, Result: json.RawMessage(`{"n":1}`)})
	server := httptest.NewServer(f) // on 127.0.0.1
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *fakeRunner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req protocol.RunRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.got, f.digest = append(f.got, req), append(f.digest, r.Header.Get(protocol.HeaderManifest))
	answer := f.answer
	f.mu.Unlock()
	answer(w, r)
}

func (f *fakeRunner) does(h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = h
}

// say makes it give one answer to everything.
func (f *fakeRunner) say(t testing.TB, status int, body any) {
	t.Helper()
	raw, err := json.Marshal(body)
	must(t, err)
	f.does(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write(raw)
	})
}

// breakAfter makes it send text, as it is, and cut the connection.
func (f *fakeRunner) breakAfter(t testing.TB, text string) {
	f.does(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, err = conn.Write([]byte(text))
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Error(err)
		}
	})
}

func (f *fakeRunner) requests() []protocol.RunRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]protocol.RunRequest(nil), f.got...)
}

// fixture is a service with two skills that are open, and the runner that it calls.
type fixture struct {
	*calls.Service
	clock  *handClock
	runner *fakeRunner
	caller calls.Caller
	looks  int
}

func setup(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{clock: &handClock{t: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}, runner: newFakeRunner(t),
		caller: calls.Caller{Token: store.Token{Name: "agent", Role: store.RoleAgent, Mode: store.ModeReadOnly}, Via: "mcp"}}
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "xray.db"), store.Options{Now: f.clock.now})
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	f.Service = &calls.Service{Log: slog.New(slog.DiscardHandler), Lock: builtLock(t), Store: db, Runner: reach(t, f.runner.url), Metrics: metrics.New(), Unlock: true, Now: f.clock.now}
	f.put(t, "prose", map[string]string{"SKILL.md": proseMD})
	f.put(t, "echo", map[string]string{"SKILL.md": echoMD, "xray.json": echoXR, "echo.py": echoPy})
	for _, tool := range []string{"skill_load", "skill_run"} {
		must(t, db.SetTool(t.Context(), operator, tool, true))
	}
	return f
}

var operator = store.Actor{Token: "operator", Role: store.RoleOperator, Caller: "rest"}

// put stores a skill and opens it.
func (f *fixture) put(t testing.TB, name string, files map[string]string) {
	t.Helper()
	content := map[string]store.FileContent{}
	for path, text := range files {
		content[path] = store.FileContent{Bytes: []byte(text)}
	}
	must(t, f.Store.PutSkill(t.Context(), operator, name, content))
	must(t, f.Store.SetPublished(t.Context(), operator, name, true))
	must(t, f.Store.SetAgent(t.Context(), operator, name, true))
}

// builtLock goes the whole way: folders, Build, Encode, Decode.
func builtLock(t testing.TB) *manifests.Lock {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{"prose/SKILL.md": proseMD, "echo/SKILL.md": echoMD, "echo/xray.json": echoXR, "echo/echo.py": echoPy} {
		path = filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	built, findings, err := manifests.Build(dir)
	must(t, err)
	if len(findings) > 0 || len(built.Skills) != 2 {
		t.Fatalf("%v %v", findings, built.Skills)
	}
	raw, err := manifests.Encode(built)
	must(t, err)
	lock, err := manifests.Decode(raw)
	must(t, err)
	return lock
}

func reach(t testing.TB, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, "")
	must(t, err)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) session(t testing.TB) store.Session {
	t.Helper()
	s, err := f.NewSession(t.Context(), f.caller)
	must(t, err)
	return s
}

func (f *fixture) run(t testing.TB, s store.Session, input string) calls.Answer {
	t.Helper()
	a, err := f.Run(t.Context(), f.caller, s, "echo", "echo.py", []byte(input))
	must(t, err)
	return a
}

// taken is how many runs the turn, the session and the day have had.
func (f *fixture) taken(t testing.TB, s store.Session) [3]int {
	t.Helper()
	var n [3]int
	f.looks++
	c := store.Call{ID: fmt.Sprint("look-", f.looks), Session: s.ID, Turn: s.Turn, Token: s.TokenName, Tool: "guard_check"}
	_, err := f.Store.Begin(t.Context(), c, func(st store.State) store.Verdict {
		n = [3]int{st.TurnRuns, st.SessionRuns, st.DayRuns}
		return store.Verdict{Code: "looking"}
	})
	must(t, err)
	return n
}

// places is taken where the three are one number.
func (f *fixture) places(t testing.TB, s store.Session) int {
	t.Helper()
	n := f.taken(t, s)
	if n[0] != n[1] || n[0] != n[2] {
		t.Errorf("turn, session and day have %v runs: want one number", n)
	}
	return n[0]
}

// closed is how the record says that a call ended; "" when it does not, or more than once.
func (f *fixture) closed(t testing.TB, id string) string {
	t.Helper()
	all, err := f.Store.Events(t.Context(), store.Filter{Limit: 10_000})
	must(t, err)
	kinds, outcome := map[string]int{}, ""
	for _, e := range all {
		if e.Call != id {
			continue
		}
		kinds[e.Kind]++
		if e.Kind == "closed" {
			var body struct{ Outcome string }
			must(t, json.Unmarshal(e.Body, &body))
			outcome = body.Outcome
		}
	}
	if kinds["opened"] != 1 || kinds["closed"] != 1 {
		t.Errorf("call %s: %v in the record, want each once", id, kinds)
		return ""
	}
	return outcome
}
