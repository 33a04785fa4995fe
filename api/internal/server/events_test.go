package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/trace"
	"xrayrunner/runner/protocol"
)

// followed reads n steps of a stream.
func followed(t *testing.T, r *apitest.Rig, query, lastID string, n int) []trace.Event {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	req := request(t, r, apitest.ViewerToken, http.MethodGet, "/v1/events"+query, "").WithContext(ctx)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%s %s", resp.Status, kind)
	}
	var out []trace.Event
	for lines := bufio.NewScanner(resp.Body); len(out) < n && lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e trace.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
	}
	return out
}

// TestTrace: one turn as a person follows it, each step with the line of who decided; the trace is the caller's own,
// through api, record and runner; and it is taken up again after any step, in another api too.
func TestTrace(t *testing.T) {
	deployments(t, func(t *testing.T, apis []*apitest.Rig) {
		r := apis[0]
		r.Open(apitest.Adds)
		s := r.Session()
		const id = "4bf92f3577b34da6a3ce929d0e0e4736"
		send := func(method, path, body string) {
			req := request(t, r, apitest.AgentToken, method, path, body)
			req.Header.Set("traceparent", "00-"+id+"-00f067aa0ba902b7-01")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
		}
		send(http.MethodGet, "/v1/sessions/"+s.ID+"/available_skills", "")
		run := func(script string) {
			send(http.MethodPost, "/v1/skills/adds/run", `{"session":"`+s.ID+`","script":"`+script+`","input":{"n":1}}`)
		}
		run("run.py")
		run("none.py")
		all := followed(t, r, "?from=0&session="+s.ID, "", 8)
		var kinds []string
		for _, e := range all {
			kinds = append(kinds, e.Event)
			if e.TraceID != id || e.Session != s.ID || e.Turn != s.Turn {
				t.Errorf("%+v, want the caller's trace, session and turn", e)
			}
		}
		want := []string{trace.BeforeAgentStart, trace.ExecutionStart, trace.ToolCall, trace.ToolResult, trace.ExecutionEnd, trace.ExecutionStart, trace.ToolCall, trace.ExecutionEnd}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff([]any{"adds"}, all[0].Handlers[0].Returned["skills"]); diff != "" || all[0].Handlers[0].Extension != "injector" {
			t.Errorf("%+v %s", all[0], diff)
		}
		if h := all[2].Handlers; h[0].Extension != "guard" || h[0].Returned["block"] != false {
			t.Errorf("allowed: %+v", h)
		}
		blocked, end := all[6].Handlers[0].Returned, all[7]
		if reason, _ := blocked["reason"].(string); blocked["block"] != true || !strings.Contains(reason, "none.py") || len(reason) > 200 || !end.IsError || end.Outcome != "unknown_script" {
			t.Errorf("blocked: %v, then %+v", blocked, end)
		}
		if seen := r.Runner.Seen(); len(seen) != 1 || protocol.TraceID(seen[0].Parent) != id {
			t.Errorf("the runner saw %+v", seen)
		}
		for i, e := range all[:7] {
			rest := followed(t, apis[len(apis)-1], "?session="+s.ID, e.ID, 7-i)
			if diff := cmp.Diff(all[i+1:], rest); diff != "" {
				t.Errorf("after %s:\n%s", e.ID, diff)
			}
		}
	})
}

// TestTraceWithoutParent: a caller that sends no trace, or one that is none, has one for each turn.
func TestTraceWithoutParent(t *testing.T) {
	r := apitest.New(t)
	r.Open(apitest.Adds)
	s := r.Session()
	for _, header := range []string{"", "x", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"} {
		req := request(t, r, apitest.AgentToken, http.MethodPost, "/v1/guard/check", `{"session":"`+s.ID+`","tool":"skill_load","skill":"adds"}`)
		req.Header.Set("traceparent", header)
		get(t, send(t, req))
	}
	for _, e := range r.Events("guard_check") {
		if e["trace"] != protocol.TurnTrace(s.ID, s.Turn) {
			t.Errorf("%v", e)
		}
	}
}

func TestEventsRefuses(t *testing.T) {
	r := apitest.New(t)
	for query, last := range map[string]string{"": "x", "?from=1": "", "?from=x": ""} {
		req := request(t, r, apitest.ViewerToken, http.MethodGet, "/v1/events"+query, "")
		req.Header.Set("Last-Event-ID", last)
		if a := send(t, req); a.code() != protocol.BadRequest {
			t.Errorf("%q %q: %d %s", query, last, a.status, a.body)
		}
	}
	if a := call(t, r, apitest.AgentToken, http.MethodGet, "/v1/events", ""); a.code() != protocol.Forbidden {
		t.Errorf("an agent: %d %s", a.status, a.body)
	}
}
