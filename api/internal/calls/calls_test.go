package calls_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

func run(t *testing.T, r *apitest.Rig, s store.Session, input string) calls.Answer {
	t.Helper()
	a, err := r.Calls.Run(t.Context(), r.Caller("mcp"), s, apitest.Adds, apitest.Script, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestJudgedBytesRun: what was judged is what is sent, byte for byte, under the id that the record has.
func TestJudgedBytesRun(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	for i, input := range []string{`{}`, " {\n\t\"n\" : 1.50 }\r\n", `{"s":"<&>  é\\","n":2}`} {
		a := run(t, r, s, input)
		if a.Refused != nil || a.Result.Outcome != protocol.OK || string(a.Result.Result) != `{"n":1.50}` {
			t.Fatalf("%q: %+v %+v", input, a.Refused, a.Result)
		}
		got := r.Runner.Seen()[i]
		if got.Judged != input {
			t.Errorf("sent %q, want %q", got.Judged, input)
		}
		if got.RunID != a.CallID || got.Session != s.ID || got.Turn != s.Turn || got.Skill != apitest.Adds || got.Script != apitest.Script || got.Digest != r.Lock.Digest() || got.TimeoutMS != 30000 {
			t.Errorf("sent %+v", got)
		}
		row := r.Events(guard.ToolRun)[2*i]
		if row["input"] != input || row["call"] != a.CallID {
			t.Errorf("recorded %q under %v", row["input"], row["call"])
		}
	}
	r.Closed()
}

// TestPlaces: which ends of a call take a place and which give it back, and what the caller is told.
func TestPlaces(t *testing.T) {
	hang := func(w http.ResponseWriter, _ *http.Request) { // the connection breaks after the request came
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}
	say := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	refuse := func(code guard.Code) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			apitest.Send(w, protocol.NewProblem(code, "words of the runner"))
		}
	}
	for _, c := range []struct {
		name    string
		input   string
		answer  http.HandlerFunc
		gone    bool
		refused guard.Code
		outcome protocol.Outcome
		places  int
	}{
		{"ok", `{}`, nil, false, "", protocol.OK, 1},
		{"a script that failed", `{}`, say(200, `{"outcome":"script_error","exit_code":1}`), false, "", protocol.ScriptError, 1},
		{"our sandbox that failed", `{}`, say(200, `{"outcome":"sandbox_error"}`), false, "", protocol.SandboxError, 1},
		{"refused by the guard", `{"n":-1}`, nil, false, guard.InputInvalid, "", 0},
		{"busy", `{}`, refuse(protocol.Busy), false, protocol.Busy, "", 0},
		{"integrity", `{}`, refuse(guard.Integrity), false, guard.Integrity, "", 0},
		{"manifest_mismatch", `{}`, refuse(protocol.ManifestMismatch), false, protocol.ManifestMismatch, "", 0},
		{"duplicate_run", `{}`, refuse(protocol.DuplicateRun), false, protocol.DuplicateRun, "", 0},
		{"broken on the way", `{}`, hang, false, "", protocol.Lost, 1},
		{"broken within the answer", `{}`, say(200, `{"outcome":"ok","resu`), false, "", protocol.Lost, 1},
		{"not a refusal", `{}`, say(502, `<html>`), false, "", protocol.Lost, 1},
		{"nobody there", `{}`, nil, true, protocol.RunnerUnavailable, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := apitest.New(t)
			r.Open()
			s := r.Session()
			r.Runner.Answer(c.answer)
			if c.gone {
				r.Runner.Close()
			}
			a := run(t, r, s, c.input)
			switch {
			case c.refused != "":
				if a.Refused == nil || a.Refused.Code != c.refused || a.Result != nil {
					t.Fatalf("got %+v %+v, want the refusal %s", a.Refused, a.Result, c.refused)
				}
				if c.gone && a.Refused.Detail != calls.RunnerDown {
					t.Errorf("told %q, want the fixed text", a.Refused.Detail)
				}
				if c.answer != nil && a.Refused.Detail != "words of the runner" {
					t.Errorf("told %q, want the runner's words", a.Refused.Detail)
				}
			case a.Refused != nil || a.Result == nil || a.Result.Outcome != c.outcome:
				t.Fatalf("got %+v %+v, want the outcome %s", a.Refused, a.Result, c.outcome)
			}
			turn, session, day := r.Counts(s)
			if turn != c.places || session != c.places || day != c.places {
				t.Errorf("places taken: turn %d, session %d, day %d, want %d", turn, session, day, c.places)
			}
			row := r.Events(guard.ToolRun)[1]
			if want := string(c.refused) + string(c.outcome); row["outcome"] != want || row["kind"] != "closed" {
				t.Errorf("recorded %v %v, want closed %s", row["kind"], row["outcome"], want)
			}
			r.Closed()
		})
	}
}

// TestCallerGone: a caller who hangs up in the middle of a run leaves a record that is closed, and the place is kept.
func TestCallerGone(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	ctx, hangUp := context.WithCancel(t.Context())
	cut := make(chan struct{})
	r.Runner.Answer(func(_ http.ResponseWriter, req *http.Request) {
		hangUp()
		<-req.Context().Done() // the runner sees it too, and would end the run
		close(cut)
	})
	a, err := r.Calls.Run(ctx, r.Caller("rest"), s, apitest.Adds, apitest.Script, []byte(`{}`))
	if err != nil || a.Result == nil || a.Result.Outcome != protocol.Lost {
		t.Errorf("got %+v (%v), want lost", a.Result, err)
	}
	<-cut
	if turn, _, _ := r.Counts(s); turn != 1 {
		t.Errorf("%d places taken, want 1: the run may have happened", turn)
	}
	r.Closed()
}

// TestCase57RecordFails: a failed write of the record does not make a finished run look refused.
func TestCase57RecordFails(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	r.Runner.Answer(func(w http.ResponseWriter, req *http.Request) {
		if _, err := r.Store.CloseLost(req.Context()); err != nil { // as another instance's start would
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(protocol.Result{Outcome: protocol.OK, Result: json.RawMessage(`{"n":1}`)})
	})
	a := run(t, r, s, `{}`)
	if a.Refused != nil || a.Result == nil || a.Result.Outcome != protocol.OK {
		t.Errorf("got %+v %+v, want the run's own outcome", a.Refused, a.Result)
	}
	if !strings.Contains(r.Log.String(), "record not closed") {
		t.Error("the log does not say that the record was not closed")
	}
	r.Closed()
}

// TestLongStderrCostsNoFacts: usage and layers stay readable in the record, however much a script wrote.
func TestLongStderrCostsNoFacts(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	for _, stderr := range []string{"short", strings.Repeat("<\u20ac\n", 8000)} {
		r.Runner.Answer(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(protocol.Result{Outcome: protocol.OK, Result: json.RawMessage(`{}`), Stderr: stderr, ScriptSHA256: "abc",
				Usage: protocol.Usage{WallMS: 12.5}, Sandbox: protocol.SandboxInfo{Layers: []string{"landlock:7"}}})
		})
		run(t, r, s, `{}`)
		rows := r.Events(guard.ToolRun)
		details, ok := rows[len(rows)-1]["details"].(map[string]any)
		if !ok {
			t.Fatalf("%d bytes of stderr: details are %T, want an object", len(stderr), rows[len(rows)-1]["details"])
		}
		usage, _ := details["usage"].(map[string]any)
		if usage["wall_ms"] != 12.5 || details["script_sha256"] != "abc" {
			t.Errorf("%d bytes of stderr: details %v", len(stderr), details)
		}
		closed := rows[len(rows)-1]
		kept, _ := closed["stderr"].(string)
		if !strings.HasPrefix(stderr, kept) || len(stderr) < 100 && kept != stderr {
			t.Errorf("%d bytes of stderr: kept %d that are not its beginning", len(stderr), len(kept))
		}
		if cut := closed["stderr_sha256"] != nil; cut != (len(kept) < len(stderr)) {
			t.Errorf("%d bytes of stderr: %d kept, digest there: %v", len(stderr), len(kept), cut)
		}
	}
}

// TestCase14MCPBurst: many calls at once of a client that names no turns have the 3 runs of one turn, at the beginning
// and after a quiet time.
func TestCase14MCPBurst(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	burst := func() int32 {
		var allowed atomic.Int32
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				s, err := r.Calls.MCPSession(t.Context(), r.Caller("mcp"), "")
				if err != nil {
					t.Error(err)
					return
				}
				a, err := r.Calls.Run(t.Context(), r.Caller("mcp"), s, apitest.Adds, apitest.Script, []byte(`{}`))
				if err != nil {
					t.Error(err)
				} else if a.Refused == nil {
					allowed.Add(1)
				}
			})
		}
		wg.Wait()
		return allowed.Load()
	}
	for i, want := range []int32{3, 3, 3, 3, 0} { // and 12 in the session
		if got := burst(); got != want {
			t.Errorf("burst %d: %d runs, want %d", i, got, want)
		}
		if got := burst(); got != 0 {
			t.Errorf("burst %d at once again: %d more runs", i, got)
		}
		r.Clock.Pass(61 * time.Second)
	}
	r.Closed()
}

// TestMCPTurns: when a client that has no turns is taken to be in a new one.
func TestMCPTurns(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	mcp := func(turn string) store.Session {
		t.Helper()
		s, err := r.Calls.MCPSession(t.Context(), r.Caller("mcp"), turn)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := mcp("")
	run(t, r, first, `{}`)
	same := func(name string, passed time.Duration, want bool) store.Session {
		t.Helper()
		r.Clock.Pass(passed)
		s := mcp("")
		if s.ID != first.ID {
			t.Fatalf("%s: another session", name)
		}
		if got := s.Turn == first.Turn; got != want {
			t.Errorf("%s: same turn is %v, want %v", name, got, want)
		}
		return s
	}
	same("at once", 0, true)
	same("60 s after the call", 60*time.Second, true)
	refused := run(t, r, first, `[]`)
	if refused.Refused == nil {
		t.Fatal("the control was not refused")
	}
	same("60 s after a refused call", 60*time.Second, true)
	second := same("more than 60 s", time.Second, false)
	first = second
	same("the new one is kept", 0, true)

	// A run that has not ended is no quiet, however long it takes.
	inside := make(chan store.Session, 1)
	r.Runner.Answer(func(w http.ResponseWriter, _ *http.Request) {
		r.Clock.Pass(90 * time.Second)
		inside <- mcp("")
		_ = json.NewEncoder(w).Encode(protocol.Result{Outcome: protocol.OK})
	})
	run(t, r, first, `{}`)
	if got := <-inside; got.Turn != first.Turn {
		t.Error("a new turn began while a run was in flight")
	}
	same("counted from the end of the long run", 59*time.Second, true)

	named := mcp("user-1")
	if named.Turn != "user-1" || named.ID != first.ID {
		t.Errorf("_meta turn: %q", named.Turn)
	}
	if again := mcp("user-1"); again.Turn != "user-1" {
		t.Errorf("the same name again: %q", again.Turn)
	}
	if other := mcp("user-2"); other.Turn != "user-2" {
		t.Errorf("another name: %q", other.Turn)
	}
}

// TestTurnOffers: what is opened binds at the next turn, what is closed at the next call.
func TestTurnOffers(t *testing.T) {
	r := apitest.New(t)
	r.Open(apitest.Prose)
	s := r.Session()
	r.Open(apitest.Adds)
	if a := run(t, r, s, `{}`); a.Refused == nil || a.Refused.Code != guard.AgentDisabled || !strings.Contains(a.Refused.Detail, "next turn") {
		t.Errorf("opened during the turn: %+v, want agent_disabled that names the next turn", a.Refused)
	}
	s, err := r.Calls.RESTSession(t.Context(), r.Caller("rest"), s.ID, "two")
	if err != nil {
		t.Fatal(err)
	}
	if a := run(t, r, s, `{}`); a.Refused != nil {
		t.Errorf("in the next turn: %+v", a.Refused)
	}
	if err := r.Store.SetAgent(t.Context(), apitest.Operator, apitest.Adds, false); err != nil {
		t.Fatal(err)
	}
	if a := run(t, r, s, `{}`); a.Refused == nil || a.Refused.Code != guard.AgentDisabled {
		t.Errorf("closed during the turn: %+v, want agent_disabled", a.Refused)
	}
}

func TestListAndLoad(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	list, err := r.Calls.List(t.Context(), r.Caller("mcp"), s)
	if err != nil || len(list.Skills) != 3 {
		t.Fatalf("%+v (%v), want the 3 skills", list.Skills, err)
	}
	load := func(name string) calls.Answer {
		t.Helper()
		a, err := r.Calls.Load(t.Context(), r.Caller("mcp"), s, name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	prose, adds := load(apitest.Prose), load(apitest.Adds)
	if want := "---\nname: prose\ndescription: How to write.\n---\n\nWrite well.\n"; prose.Text != want {
		t.Errorf("a text skill: %q, want its SKILL.md and nothing else", prose.Text)
	}
	for _, want := range []string{"skill_run(skill, script, input)", "`run.py`", `"minimum":0`, "3 runs per turn", `Example input: ` + "`{\"n\":1}`"} {
		if !strings.Contains(adds.Text, want) {
			t.Errorf("a runnable skill does not say %q:\n%s", want, adds.Text)
		}
	}
	for name, code := range map[string]guard.Code{"": protocol.BadRequest, "a\x00b": protocol.BadRequest, strings.Repeat("a", 129): protocol.BadRequest,
		strings.Repeat("a", 128): guard.UnknownSkill, "../adds": guard.UnknownSkill, "Adds": guard.UnknownSkill} {
		if a := load(name); a.Refused == nil || a.Refused.Code != code {
			t.Errorf("load %q: %+v, want %s", name, a.Refused, code)
		}
	}
	r.Closed()
}

// TestCheck: a judgement reserves nothing and runs nothing, and is on the record as what it is.
func TestCheck(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	for _, c := range []struct {
		tool, skill, script, input string
		want                       guard.Code
	}{
		{guard.ToolRun, apitest.Adds, apitest.Script, `{}`, ""}, {guard.ToolRun, apitest.Adds, apitest.Script, `{"n":-1}`, guard.InputInvalid},
		{guard.ToolRun, apitest.Writes, apitest.Script, `{}`, guard.ClassNotAllowed}, {guard.ToolRun, apitest.Prose, "x", `{}`, guard.NotRunnable},
		{guard.ToolLoad, apitest.Prose, "", ``, ""}, {guard.ToolLoad, "none", "", ``, guard.UnknownSkill},
		{guard.ToolList, "", "", ``, ""}, {"bash", "", "", ``, guard.ToolDisabled}, {"", "", "", ``, guard.ToolDisabled},
		{guard.ToolLoad, strings.Repeat("x", 5000), "", ``, protocol.BadRequest}, {guard.ToolRun, apitest.Adds, "a\x07", `{}`, protocol.BadRequest},
	} {
		a, err := r.Calls.Check(t.Context(), r.Caller("rest"), s, c.tool, c.skill, c.script, []byte(c.input))
		if err != nil {
			t.Fatal(err)
		}
		if (a.Refused == nil) != (c.want == "") || a.Refused != nil && a.Refused.Code != c.want {
			t.Errorf("%s %.20s %q: %+v, want %q", c.tool, c.skill, c.input, a.Refused, c.want)
		}
	}
	if turn, _, _ := r.Counts(s); turn != 0 || len(r.Runner.Seen()) != 0 {
		t.Errorf("%d places taken and %d runs, want none", turn, len(r.Runner.Seen()))
	}
	if n := len(r.Events(guard.ToolRun)) + len(r.Events("bash")); n != 0 {
		t.Errorf("%d rows say that a tool was called", n)
	}
	r.Closed()
}

func TestForeignSession(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	stranger := calls.Caller{Token: store.Token{Name: "stranger", Role: store.RoleAgent}, Via: "rest"}
	if _, err := r.Calls.RESTSession(t.Context(), stranger, s.ID, ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("found: %v", err)
	}
	if _, err := r.Calls.Run(t.Context(), stranger, s, apitest.Adds, apitest.Script, []byte(`{}`)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ran in it: %v, want ErrNotFound", err)
	}
	if len(r.Runner.Seen()) != 0 {
		t.Error("something was run")
	}
}
