package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"xrayrunner/guard"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/server"
	"xrayrunner/runner/protocol"
)

// TestJudgedBytesAreStdin: the script reads what was judged, byte for byte, in both forms.
func TestJudgedBytesAreStdin(t *testing.T) {
	f := start(t, 1, 1, nil)
	for _, text := range []string{`{}`, " {\n\t\"n\" : 1.50 }\r\n", `{"n":9007199254740993}`, `{"s":"<&>\u2028\\"}`, `{"s":"é","n":1E+2}`} {
		f.served(f.run(t.Context(), f.request("one", "run.py", string(protocol.TextInput([]byte(text))))))
		if got := string(f.box.stdin.Load().([]byte)); got != text {
			t.Errorf("text form: stdin %q, want %q", got, text)
		}
		f.served(f.run(t.Context(), f.request("one", "run.py", text)))
		if got, want := string(f.box.stdin.Load().([]byte)), strings.TrimSpace(text); got != want {
			t.Errorf("raw form: stdin %q, want %q", got, want)
		}
	}
}

func TestResultKeepsDigitsAndOrder(t *testing.T) {
	const text = `{"z":1.50,"a":9007199254740993,"s":"<&>é"}`
	f := start(t, 1, 1, nil)
	f.box.runs(func(context.Context, sandbox.Spec) (sandbox.Exit, error) { return printed(text + "\n"), nil })
	if got := f.run(t.Context(), f.request("one", "run.py", "{}")); !strings.Contains(got.body, `"result":`+text+`,`) {
		t.Errorf("%s", got.body)
	}
}

// TestBusy: of 100 calls at once on 2 slots with 8 places exactly 10 are served, the rest is refused at once.
func TestBusy(t *testing.T) {
	f := start(t, 2, 8, nil)
	gate := make(chan struct{})
	f.box.runs(until(gate))
	replies := make(chan reply, 100)
	for range cap(replies) {
		body := f.request("one", "run.py", "{}")
		go func() { replies <- f.run(t.Context(), body) }()
	}
	for range 90 {
		got := <-replies
		f.refused(got, protocol.Busy)
		if got.problem.RetryAfterMS <= 0 {
			t.Errorf("busy without a time: %s", got.body)
		}
	}
	f.eventually("2 run and 8 wait", f.load(2, 8))
	close(gate)
	for range 10 {
		f.served(<-replies)
	}
	if got := f.box.started.Load(); got != 10 {
		t.Errorf("%d runs were started, want 10", got)
	}
}

// TestCase27HangUp: the caller goes away, the run ends, and the place is free; who waits is never started; and neither
// a run that cannot start nor a panic loses a place.
func TestCase27HangUp(t *testing.T) {
	f := start(t, 2, 200, nil)
	gate := make(chan struct{})
	f.box.runs(until(gate))
	call := func(ctx context.Context) <-chan reply {
		body, done := f.request("one", "run.py", "{}"), make(chan reply, 1)
		go func() { done <- f.run(ctx, body) }()
		return done
	}
	cut := func(replies []<-chan reply, hangUp func()) {
		hangUp()
		for _, r := range replies {
			if got := <-r; got.err == nil {
				t.Errorf("an answer after hanging up: %s", got.body)
			}
		}
	}
	first, cutFirst := context.WithCancel(t.Context())
	second, cutSecond := context.WithCancel(t.Context())
	running := []<-chan reply{call(first), call(first)}
	f.eventually("2 run", f.load(2, 0))
	var waiting []<-chan reply
	for range 100 {
		waiting = append(waiting, call(second))
	}
	f.eventually("100 wait", f.load(2, 100))
	third := call(t.Context())
	f.eventually("one more waits", f.load(2, 101))
	cut(waiting, cutSecond)
	f.eventually("only the third waits", f.load(2, 1))
	cut(running, cutFirst)
	f.eventually("the third runs alone", f.load(1, 0))
	close(gate)
	f.served(<-third)
	if got := f.box.started.Load(); got != 3 {
		t.Errorf("%d runs were started, want 3: none from the queue whose caller has gone", got)
	}

	f.box.runs(func(context.Context, sandbox.Spec) (sandbox.Exit, error) {
		return sandbox.Exit{}, fmt.Errorf("missing interpreter")
	})
	for range 20 {
		if got := f.run(t.Context(), f.request("one", "run.py", "{}")); got.result.Outcome != protocol.SandboxError {
			t.Errorf("%s", got.body)
		}
	}
	f.box.runs(func(context.Context, sandbox.Spec) (sandbox.Exit, error) { panic("of a test") })
	for range 20 {
		if got := f.run(t.Context(), f.request("one", "run.py", "{}")); got.err == nil {
			t.Errorf("an answer after a panic: %s", got.body)
		}
	}
	f.box.run.Store(nil)
	f.served(f.run(t.Context(), f.request("one", "run.py", "{}")))
}

// TestStoppingRefuses: a runner that is shutting down takes no newcomers.
func TestStoppingRefuses(t *testing.T) {
	f := start(t, 1, 1, nil)
	idle := f.server.Queue.Close()
	f.refused(f.run(t.Context(), f.request("one", "run.py", "{}")), protocol.Busy)
	<-idle
}

// TestLongRunOutlivesReadTimeout: the limit on reading a request is not a limit on its run.
func TestLongRunOutlivesReadTimeout(t *testing.T) {
	const readTimeout = 20 * time.Millisecond
	f := start(t, 1, 1, func(_ *server.Server, h *http.Server) { h.ReadTimeout = readTimeout })
	f.box.runs(func(ctx context.Context, _ sandbox.Spec) (sandbox.Exit, error) {
		select {
		case <-ctx.Done():
			return sandbox.Exit{Cause: sandbox.Cancelled, ExitCode: -1}, nil
		case <-time.After(20 * readTimeout):
			return printed("{}"), nil
		}
	})
	f.served(f.run(t.Context(), f.request("one", "run.py", "{}")))
}

// TestEvents: lines of stderr come while the script runs, then the result. The script waits until its first line has
// been read, so a server that holds lines back never ends.
func TestEvents(t *testing.T) {
	f := start(t, 1, 1, nil)
	read := make(chan struct{})
	f.box.runs(func(_ context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
		spec.OnStderr("first <&>", 3*time.Millisecond)
		<-read
		spec.OnStderr("second \xff", 5*time.Millisecond)
		return printed(`{"a":9007199254740993}`), nil
	})
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://runner/run", strings.NewReader(f.request("one", "run.py", "{}")))
	must(t, err)
	req.Header.Set("Content-Type", protocol.TypeJSON)
	req.Header.Set("Accept", protocol.TypeNDJSON)
	resp, err := f.http.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != protocol.TypeNDJSON {
		t.Errorf("Content-Type %q", got)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() string { t.Helper(); lines.Scan(); return lines.Text() }
	if got, want := next(), `{"event":"stderr","t_ms":3,"line":"first <&>"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	close(read)
	if got, want := next(), `{"event":"stderr","t_ms":5,"line":"second `+"\ufffd"+`"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var last protocol.Event
	must(t, json.Unmarshal([]byte(next()), &last))
	if last.Event != "result" || last.Result == nil || last.Result.Outcome != protocol.OK || string(last.Result.Result) != `{"a":9007199254740993}` {
		t.Errorf("last event: %+v", last)
	}
	if lines.Scan() {
		t.Errorf("after the result: %s", lines.Text())
	}
	f.refused(f.run(t.Context(), f.request("nobody", "run.py", "{}"), "Accept", protocol.TypeNDJSON), guard.UnknownSkill)
}

func TestMetrics(t *testing.T) {
	f := start(t, 1, 1, nil)
	f.served(f.run(t.Context(), f.request("one", "run.py", "{}")))
	f.refused(f.run(t.Context(), f.request("nobody", "run.py", "{}")), guard.UnknownSkill)
	got := f.do(t.Context(), "GET", protocol.PathMetrics, "")
	problems, err := promlint.New(strings.NewReader(got.body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	for _, line := range []string{
		`xray_runner_runs_total{outcome="ok",script="run.py",skill="one"} 1`,
		`xray_runner_refusals_total{code="unknown_skill"} 1`,
		`xray_runner_run_seconds_count 1`,
		`xray_runner_queue_depth 0`,
		`xray_runner_isolation_layer{layer="landlock"} 1`,
		`xray_runner_isolation_layer{layer="sweep"} 0`,
	} {
		if !strings.Contains(got.body, line+"\n") {
			t.Errorf("no line %s in\n%s", line, got.body)
		}
	}
	if strings.Contains(got.body, "nobody") {
		t.Error("a caller's text became a label")
	}
}

func TestHealth(t *testing.T) {
	var problem atomic.Value
	problem.Store("")
	f := start(t, 2, 8, func(s *server.Server, _ *http.Server) {
		s.NetworkProblem = func() string { return problem.Load().(string) }
		s.Remarks = []string{"a remark"}
	})
	got := f.do(t.Context(), "GET", protocol.PathHealthz, "")
	want := `{"ready":true,"reasons":["a remark"],"tier":"landlock","layers":[{"name":"landlock","detail":"7","in_force":true},{"name":"sweep","in_force":false,"reason":"not here"}],` +
		`"manifest_digest":"` + f.server.Lock.Digest() + `","running":0,"waiting":0,"slots":2,"queue":8,"version":"test","development":false}`
	if strings.TrimSpace(got.body) != want || got.status != http.StatusOK {
		t.Errorf("%d\ngot  %s\nwant %s", got.status, got.body, want)
	}
	const why = "interface eth0 is up"
	problem.Store(why)
	if got := f.do(t.Context(), "GET", protocol.PathHealthz, ""); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, why) || !strings.Contains(got.body, `"ready":false`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestManifestAndExternal(t *testing.T) {
	f := start(t, 1, 1, nil)
	if got := f.do(t.Context(), "GET", protocol.PathManifest, ""); got.body != `{"the":"bytes"}` {
		t.Errorf("manifest: %s", got.body)
	}
	if got := f.do(t.Context(), "GET", protocol.PathExternal, ""); strings.TrimSpace(got.body) != `{"skills":{}}` {
		t.Errorf("external: %s", got.body)
	}
}

// TestLogKeepsSecrets: neither input nor output nor a caller's names go into the log.
func TestLogKeepsSecrets(t *testing.T) {
	f := start(t, 1, 1, nil)
	f.box.runs(func(context.Context, sandbox.Spec) (sandbox.Exit, error) {
		e := printed(`{"out":"secret-output"}`)
		e.Stderr = []byte("secret-stderr")
		return e, nil
	})
	f.served(f.run(t.Context(), f.request("one", "run.py", `{"s":"secret-input"}`)))
	f.refused(f.run(t.Context(), f.request("secret-skill", "secret-script", `{"s":"secret-input"}`)), guard.UnknownSkill)
	f.eventually("both are logged", func() bool {
		text := f.log.String()
		return strings.Contains(text, "run finished") && strings.Contains(text, "run refused")
	})
	if text := f.log.String(); strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
}
