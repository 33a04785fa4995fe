package calls_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// TestRunSendsWhatWasJudged: the runner gets the judged bytes, white space and digits kept, or nothing at all.
func TestRunSendsWhatWasJudged(t *testing.T) {
	longest := `{"s":"` + strings.Repeat("a", guard.MaxInputBytes-8) + `"}`
	for _, c := range []struct {
		name, input string
		code        guard.Code // "": it is sent
	}{
		{"empty object", `{}`, ""},
		{"white space", " {\n\t\"n\" : 1.50 }\r\n", ""},
		{"digits that a float loses", `{"n":9007199254740993}`, ""},
		{"HTML and escapes", `{"s":"<&>\u2028\u00e9é\\"}`, ""},
		{"the longest", longest, ""},
		{"one byte more", longest + " ", guard.InputTooLarge},
		{"two objects", `{}{}`, guard.InputNotObject},
		{"an array", `[]`, guard.InputNotObject},
		{"nothing", ``, guard.InputNotObject},
		{"null", `null`, guard.InputNotObject},
		{"a key twice", `{"n":1,"n":2}`, guard.InputInvalid},
		{"not in the schema", `{"x":1}`, guard.InputInvalid},
		{"a control character", `{"s":"\u0007"}`, guard.ControlChars},
		{"not UTF-8", "{\"s\":\"\xff\"}", guard.InputNotObject},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t)
			s := f.session(t)
			a := f.run(t, s, c.input)
			got := f.runner.requests()
			if c.code != "" {
				if a.Refused == nil || a.Refused.Code != c.code || a.Result != nil || len(got) != 0 {
					t.Errorf("%+v, %d requests; want %s and none", a, len(got), c.code)
				}
				if f.places(t, s) != 0 || f.closed(t, a.CallID) != string(c.code) {
					t.Error("a refused call took a place, or is not on the record")
				}
				return
			}
			if a.Refused != nil || a.Result == nil || a.Result.Outcome != protocol.OK || len(got) != 1 {
				t.Fatalf("%+v (refused: %+v), %d requests", a, a.Refused, len(got))
			}
			var text string
			if err := json.Unmarshal(got[0].Input, &text); err != nil || text != c.input {
				t.Errorf("sent %q (%v), judged %q", got[0].Input, err, c.input)
			}
			got[0].Input = nil
			want := protocol.RunRequest{RunID: a.CallID, Session: s.ID, Turn: s.Turn, Skill: "echo", Script: "echo.py", TimeoutMS: 30000}
			if diff := cmp.Diff(want, got[0]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if f.runner.digest[0] != f.Lock.Digest() {
				t.Errorf("judged by %s, sent %s", f.Lock.Digest(), f.runner.digest[0])
			}
			if f.places(t, s) != 1 || f.closed(t, a.CallID) != "ok" {
				t.Error("the run is not counted, or not closed as ok")
			}
		})
	}
}

// TestTimeoutGoesAlong: the deployment's limit goes with the call, as it is at that moment.
func TestTimeoutGoesAlong(t *testing.T) {
	f := setup(t)
	s := f.session(t)
	for _, ms := range []int{5000, 120000} {
		must(t, f.Store.SetSandbox(t.Context(), operator, store.SandboxConfig{TotalTimeoutMS: ms}))
		f.run(t, s, `{}`)
		got := f.runner.requests()
		if last := got[len(got)-1].TimeoutMS; last != int64(ms) {
			t.Errorf("sent timeout_ms %d, want %d", last, ms)
		}
	}
}

// TestEveryRefusalAndOutcome: what the runner refuses did not start, so the place comes back; every outcome of a run
// that did start keeps it.
func TestEveryRefusalAndOutcome(t *testing.T) {
	f := setup(t)
	for _, r := range protocol.Refusals {
		t.Run(string(r.Code), func(t *testing.T) {
			s := f.session(t)
			before := f.taken(t, s)
			want := protocol.NewProblem(r.Code, "because of this")
			want.Pointer, want.RunID = "/n", "some-run"
			f.runner.say(t, r.Status, want)
			a := f.run(t, s, `{}`)
			if diff := cmp.Diff(want, a.Refused); diff != "" || a.Result != nil {
				t.Errorf("result %+v, refusal (-want +got):\n%s", a.Result, diff)
			}
			if got := f.closed(t, a.CallID); got != string(r.Code) {
				t.Errorf("closed as %q", got)
			}
			if got := f.taken(t, s); got != before {
				t.Errorf("%v runs, were %v: the place was not given back", got, before)
			}
		})
	}
	for _, o := range protocol.Outcomes {
		t.Run(string(o.Outcome), func(t *testing.T) {
			s := f.session(t)
			before := f.taken(t, s)
			want := &protocol.Result{RunID: "x", Outcome: o.Outcome, Detail: "d", Stderr: "e", Result: json.RawMessage("null")}
			f.runner.say(t, http.StatusOK, want)
			a := f.run(t, s, `{}`)
			if diff := cmp.Diff(want, a.Result); diff != "" || a.Refused != nil {
				t.Errorf("refusal %+v, result (-want +got):\n%s", a.Refused, diff)
			}
			if got := f.closed(t, a.CallID); got != string(o.Outcome) {
				t.Errorf("closed as %q", got)
			}
			if got := f.taken(t, s); got != [3]int{before[0] + 1, before[1] + 1, before[2] + 1} {
				t.Errorf("%v runs, were %v: a run that started is counted", got, before)
			}
		})
	}
}

// TestNobodyListens: nothing was started and the place comes back; all else goes on.
func TestNobodyListens(t *testing.T) {
	f := setup(t)
	s := f.session(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close() // its port is closed now
	there := f.Runner
	f.Runner = reach(t, gone.URL)
	for range guard.RunsPerTurn + 1 { // more often than a turn has places
		a := f.run(t, s, `{}`)
		if a.Refused == nil || a.Result != nil || a.Refused.Code != protocol.RunnerUnavailable || a.Refused.Detail != calls.RunnerDown {
			t.Fatalf("%+v, want runner_unavailable", a.Refused)
		}
		if got := f.closed(t, a.CallID); got != string(protocol.RunnerUnavailable) {
			t.Errorf("closed as %q", got)
		}
	}
	if got := f.places(t, s); got != 0 {
		t.Errorf("%d places taken", got)
	}
	if a, err := f.Load(t.Context(), f.caller, s, "prose"); err != nil || a.Text != proseMD {
		t.Errorf("skill_load without a runner: %+v, %v", a, err)
	}
	f.Runner = there
	if a := f.run(t, s, `{}`); a.Result == nil {
		t.Errorf("with the runner back: %+v", a.Refused)
	}
}

// TestEveryBreakIsLost: once the connection stood the run may have happened: it is said to be lost, counted, and not
// repeated.
func TestEveryBreakIsLost(t *testing.T) {
	for name, text := range map[string]string{
		"no answer":    "",
		"half a line":  "HTTP/1.1 200 O",
		"half a body":  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"outcome\":\"ok\"",
		"not JSON":     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
		"a proxy's":    "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 11\r\n\r\nBad Gateway",
		"no outcome":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"no code":      "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}",
		"half refusal": "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 99\r\n\r\n{\"code\":\"busy\"}",
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			s := f.session(t)
			f.runner.breakAfter(t, text)
			a := f.run(t, s, `{}`)
			want := &protocol.Result{RunID: a.CallID, Outcome: protocol.Lost, ExitCode: -1, Detail: protocol.OutcomeText(protocol.Lost), ManifestDigest: f.Lock.Digest()}
			if diff := cmp.Diff(want, a.Result); diff != "" || a.Refused != nil {
				t.Errorf("refusal %+v, result (-want +got):\n%s", a.Refused, diff)
			}
			if got := f.places(t, s); got != 1 {
				t.Errorf("%d places taken, want 1", got)
			}
			if got := f.closed(t, a.CallID); got != "lost" {
				t.Errorf("closed as %q", got)
			}
			if got := len(f.runner.requests()); got != 1 {
				t.Errorf("sent %d times", got)
			}
		})
	}
}

// TestCallerGoneDuringAndBefore: the caller hangs up in the middle; the record is closed all the same. One who is gone
// before the judgement begins nothing.
func TestCallerGoneDuringAndBefore(t *testing.T) {
	f := setup(t)
	s := f.session(t)
	ctx, hangUp := context.WithCancel(t.Context())
	left := make(chan struct{})
	f.runner.does(func(_ http.ResponseWriter, r *http.Request) {
		hangUp()
		<-r.Context().Done() // the runner sees it and ends the run
		close(left)
	})
	a, err := f.Run(ctx, f.caller, s, "echo", "echo.py", []byte(`{}`))
	if err != nil || a.Result == nil || a.Result.Outcome != protocol.Lost {
		t.Errorf("%+v, %v; want lost", a, err)
	}
	<-left
	if got := f.closed(t, a.CallID); got != "lost" {
		t.Errorf("closed as %q", got)
	}
	if got := f.places(t, s); got != 1 {
		t.Errorf("%d places taken, want 1", got)
	}
	before, _, err := f.Store.Head(t.Context())
	must(t, err)
	if _, err := f.Run(ctx, f.caller, s, "echo", "echo.py", []byte(`{}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if after, _, err := f.Store.Head(t.Context()); err != nil || after != before || len(f.runner.requests()) != 1 {
		t.Errorf("events %d to %d (%v), %d requests: something began", before, after, err, len(f.runner.requests()))
	}
}

// TestCase14RunsAtOnce: of 64 calls at once three reach the runner.
func TestCase14RunsAtOnce(t *testing.T) {
	f := setup(t)
	s := f.session(t)
	answers := make([]calls.Answer, 64)
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			answers[i], errs[i] = f.Run(t.Context(), f.caller, s, "echo", "echo.py", []byte(`{}`))
		})
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	ran := 0
	for _, a := range answers {
		switch {
		case a.Result != nil:
			ran++
		case a.Refused.Code != guard.QuotaTurn:
			t.Errorf("refused with %+v", a.Refused)
		}
	}
	if got := len(f.runner.requests()); ran != guard.RunsPerTurn || got != guard.RunsPerTurn {
		t.Errorf("%d answers with a result, %d requests; want %d", ran, got, guard.RunsPerTurn)
	}
	if r, err := f.Store.Verify(t.Context(), ""); err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRefusedCallsReachNoRunner: each row is refused and recorded with its code; the first is their allowed neighbour.
func TestRefusedCallsReachNoRunner(t *testing.T) {
	for _, c := range []struct {
		name          string
		change        func(t *testing.T, f *fixture)
		skill, script string
		code          guard.Code
	}{
		{"nothing is wrong", nil, "echo", "echo.py", ""},
		{"no such skill", nil, "ecno", "echo.py", guard.UnknownSkill},
		{"no such script", nil, "echo", "echo.sh", guard.UnknownScript},
		{"text only", nil, "prose", "echo.py", guard.NotRunnable},
		{"no name", nil, "", "echo.py", protocol.BadRequest},
		{"a name with a control character", nil, "echo\n", "echo.py", protocol.BadRequest},
		{"a script's name of 129 bytes", nil, "echo", strings.Repeat("a", 129), protocol.BadRequest},
		{"a script's name of 128 bytes", nil, "echo", strings.Repeat("a", 128), guard.UnknownScript},
		{"skill_run off", func(t *testing.T, f *fixture) { must(t, f.Store.SetTool(t.Context(), operator, "skill_run", false)) }, "echo", "echo.py", guard.ToolDisabled},
		{"locked", func(_ *testing.T, f *fixture) { f.Unlock = false }, "echo", "echo.py", guard.ToolDisabled},
		{"closed to agents", func(t *testing.T, f *fixture) { must(t, f.Store.SetAgent(t.Context(), operator, "echo", false)) }, "echo", "echo.py", guard.AgentDisabled},
		{"not published", func(t *testing.T, f *fixture) { must(t, f.Store.SetPublished(t.Context(), operator, "echo", false)) }, "echo", "echo.py", guard.AgentDisabled},
		{"one byte of drift", func(t *testing.T, f *fixture) {
			f.put(t, "echo", map[string]string{"SKILL.md": echoMD, "xray.json": echoXR, "echo.py": echoPy + " "})
		}, "echo", "echo.py", guard.SkillDrift},
		{"the day is used up", func(t *testing.T, f *fixture) {
			must(t, f.Store.SetSandbox(t.Context(), operator, store.SandboxConfig{DailyRunLimit: 1, TotalTimeoutMS: 30000}))
			f.run(t, f.session(t), `{}`)
		}, "echo", "echo.py", guard.QuotaDaily},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t)
			s := f.session(t) // what follows binds at the next call
			if c.change != nil {
				c.change(t, f)
			}
			before := len(f.runner.requests())
			a, err := f.Run(t.Context(), f.caller, s, c.skill, c.script, []byte(`{}`))
			must(t, err)
			sent := len(f.runner.requests()) - before
			if c.code == "" {
				if a.Result == nil || sent != 1 {
					t.Errorf("%+v", a.Refused)
				}
				return
			}
			if a.Refused == nil || a.Refused.Code != c.code || a.Refused.RunID != a.CallID || a.Refused.ManifestDigest != f.Lock.Digest() {
				t.Fatalf("%+v, want %s", a.Refused, c.code)
			}
			if got := f.closed(t, a.CallID); got != string(c.code) || sent != 0 {
				t.Errorf("closed as %q, %d requests", got, sent)
			}
		})
	}
}

// TestRefuseIsRecorded: what could not be judged is on the record too.
func TestRefuseIsRecorded(t *testing.T) {
	f := setup(t)
	a, err := f.Refuse(t.Context(), f.caller, f.session(t), guard.ToolRun, protocol.NewProblem(protocol.BadRequest, "x"))
	must(t, err)
	if a.Refused.RunID != a.CallID || f.closed(t, a.CallID) != string(protocol.BadRequest) {
		t.Errorf("%+v", a.Refused)
	}
}

// TestDecisionsAreCounted: what the metrics see.
func TestDecisionsAreCounted(t *testing.T) {
	f := setup(t)
	s := f.session(t)
	f.run(t, s, `{}`)
	f.run(t, s, `[]`)
	_, err := f.List(t.Context(), f.caller, s)
	must(t, err)
	families, err := f.Metrics.Registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "xray_api_calls_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			got[strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	if diff := cmp.Diff(map[string]float64{"allow skill_run": 1, "input_not_object skill_run": 1, "allow skill_list": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
