package agentmcp_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// eras are both forms of the protocol: with sessions, and stateless.
var eras = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// absent, as arguments, is taken out on the way: the SDK's client always sends some.
var absent = json.RawMessage(`{"absent":"absent"}`)

// wire adds the token, and takes absent arguments out.
type wire struct{ token string }

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		raw = bytes.Replace(raw, []byte(`,"arguments":`+string(absent)), nil, 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t testing.TB, url, token, era string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: wire{token}}, MaxRetries: -1}
	c, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func agent(t testing.TB, r *apitest.Rig, era string) *mcp.ClientSession {
	return connect(t, r.URL+"/mcp", apitest.AgentToken, era)
}

func operator(t testing.TB, r *apitest.Rig) *mcp.ClientSession {
	return connect(t, r.URL+"/mcp/operator", apitest.OperatorToken, eras[0])
}

// call gives the first text block, which is all that some clients show, and whether it is an error. A protocol error
// fails the test: models never see one.
func call(t testing.TB, c *mcp.ClientSession, tool, arguments string) (string, bool) {
	t.Helper()
	return callTurn(t, c, tool, arguments, nil)
}

func callTurn(t testing.TB, c *mcp.ClientSession, tool, arguments string, meta mcp.Meta) (string, bool) {
	t.Helper()
	answer, err := c.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	if len(answer.Content) != 1 || answer.StructuredContent != nil {
		t.Fatalf("%s %s: %d blocks, structured %v, want one text and nothing else", tool, arguments, len(answer.Content), answer.StructuredContent)
	}
	return answer.Content[0].(*mcp.TextContent).Text, answer.IsError
}

// refused fails unless a call is refused with that code: in the first line of the first block, with its retry advice.
func refused(t testing.TB, c *mcp.ClientSession, tool, arguments string, code guard.Code) {
	t.Helper()
	text, isError := call(t, c, tool, arguments)
	first, _, _ := strings.Cut(text, "\n")
	if !isError || first != "refused: "+string(code) || !strings.Contains(text, "\nretry: "+string(protocol.RefusalOf(code).Retry)) {
		t.Errorf("%s %.120s: isError %v, %.200q, want refused: %s", tool, arguments, isError, text, code)
	}
}

func allowed(t testing.TB, c *mcp.ClientSession, tool, arguments string) string {
	t.Helper()
	text, isError := call(t, c, tool, arguments)
	if isError {
		t.Errorf("%s %.120s: %s", tool, arguments, text)
	}
	return text
}

const runs = `{"skill":"adds","script":"run.py","input":{"n":1}}`

// TestCase40Tools: one odd schema would hide every tool of a server, so each is looked at as a strict client does.
func TestCase40Tools(t *testing.T) {
	r := apitest.New(t)
	want := map[string][]string{
		"agent": {"skill_list", "skill_load", "skill_run"},
		"operator": {"approvals_approve", "approvals_deny", "approvals_get", "approvals_list", "audit_search", "audit_verify", "sandbox_config_get", "sandbox_config_set", "skills_agent_set", "skills_agent_status", "skills_delete",
			"skills_file_delete", "skills_file_put", "skills_get", "skills_list", "skills_publish", "skills_put", "skills_unpublish", "sop_delete", "sop_list", "sop_put", "status",
			"tokens_create", "tokens_list", "tokens_revoke", "tool_config_get", "tool_config_set", "tools_list"},
	}
	reads := map[string]bool{"skill_list": true, "skill_load": true, "skills_list": true, "skills_agent_status": true, "tool_config_get": true, "sandbox_config_get": true,
		"audit_search": true, "audit_verify": true, "skills_get": true, "status": true, "tokens_list": true, "tools_list": true, "approvals_get": true, "approvals_list": true, "sop_list": true}
	destroys := map[string]bool{"skill_run": true, "skills_delete": true, "skills_file_delete": true, "tokens_revoke": true, "sop_delete": true}
	for name, c := range map[string]*mcp.ClientSession{"agent": agent(t, r, eras[0]), "operator": operator(t, r)} {
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			schema, ok := tool.InputSchema.(map[string]any)
			if !ok || schema["type"] != "object" || schema["properties"] == nil || schema["additionalProperties"] != false {
				t.Errorf("%s: schema %v, want a closed object with properties", tool.Name, tool.InputSchema)
			}
			for _, root := range []string{"anyOf", "oneOf", "allOf", "$ref", "not"} {
				if schema[root] != nil {
					t.Errorf("%s: %s at the root", tool.Name, root)
				}
			}
			bounded(t, tool.Name, schema)
			a := tool.Annotations
			if a == nil || a.DestructiveHint == nil || a.OpenWorldHint == nil || *a.OpenWorldHint {
				t.Errorf("%s: annotations %+v, want all set: a missing one means destructive and open world", tool.Name, a)
			} else if a.ReadOnlyHint != reads[tool.Name] || *a.DestructiveHint != destroys[tool.Name] {
				t.Errorf("%s: reads %v, destructive %v", tool.Name, a.ReadOnlyHint, *a.DestructiveHint)
			}
			if tool.Description == "" || len(tool.Description) > 1024 {
				t.Errorf("%s: a description of %d bytes", tool.Name, len(tool.Description))
			}
		}
		if diff := cmp.Diff(want[name], names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// bounded fails for a string without a bound, at any depth.
func bounded(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	if schema["type"] == "string" && schema["maxLength"] == nil && schema["enum"] == nil {
		t.Errorf("%s: a string without a bound", path)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		bounded(t, path+"."+name, p.(map[string]any))
	}
}

// TestCase40Arguments: absent arguments are {}; null, a list and what is unknown are a clear error of the parameters.
func TestCase40Arguments(t *testing.T) {
	for _, era := range eras {
		r := apitest.New(t)
		r.Open()
		c := agent(t, r, era)
		if got := c.InitializeResult().ProtocolVersion; got != era {
			t.Errorf("speaks %s, want %s", got, era)
		}
		for _, arguments := range []string{string(absent), `{}`, ` { } `} {
			allowed(t, c, "skill_list", arguments)
		}
		for _, arguments := range []string{`null`, `[]`, `""`, `1`, `true`, `{"x":1}`, `{"":1}`} {
			refused(t, c, "skill_list", arguments, protocol.BadRequest)
		}
		allowed(t, c, "skill_load", `{"skill":"prose"}`)
		for _, arguments := range []string{string(absent), `{}`, `null`, `[]`, `{"skill":null}`, `{"skill":1}`, `{"skill":["prose"]}`, `{"skill":""}`, `{"skill":"prose","x":1}`, `{"name":"prose"}`} {
			refused(t, c, "skill_load", arguments, protocol.BadRequest)
		}
		text, _ := call(t, c, "skill_load", `null`)
		if !strings.Contains(text, "skill_load") {
			t.Errorf("the error does not name the tool: %s", text)
		}
		r.Closed()
	}
}

// TestCase02: keys that two decoders read differently are refused. Input comes as an object or as its text, and what
// was judged is what runs.
func TestCase02(t *testing.T) {
	for _, era := range eras {
		r := apitest.New(t)
		r.Open()
		c := agent(t, r, era)
		const head = `{"skill":"adds","script":"run.py",`
		for _, a := range []struct {
			arguments string
			code      guard.Code
		}{
			{head + `"input":{"n":1}}`, ""},
			{head + `"input":"{\"n\":1}"}`, ""},
			{head + `"Skill":"writes","input":{}}`, protocol.BadRequest},
			{head + `"\u017fkill":"writes","input":{}}`, protocol.BadRequest},
			{head + `"s\u212aill":"writes","input":{}}`, protocol.BadRequest},
			{head + `"skill":"adds","input":{}}`, protocol.BadRequest},
			{head + `"sk\u0069ll":"adds","input":{}}`, protocol.BadRequest},
			{head + `"skill\u0000":"writes","input":{}}`, protocol.BadRequest},
			{head + `"timeout_ms":120000,"input":{}}`, protocol.BadRequest},
			{head + `"session":"x","input":{}}`, protocol.BadRequest},
			{head + `"input":{"n":1,"n":2}}`, guard.InputInvalid},
			{head + `"input":"{\"n\":1,\"n\":2}"}`, guard.InputInvalid},
			{head + `"input":{"s":"\u0007"}}`, guard.ControlChars},
			{head + `"input":"{\"n\":1e309}"}`, guard.InputInvalid}, // as text: the SDK's own client cannot send the number
			{head + `"input":null}`, guard.InputNotObject},
			{head + `"input":[]}`, guard.InputNotObject},
			{head + `"input":"[]"}`, guard.InputNotObject},
			{head + `"input":1}`, guard.InputNotObject},
			{`{"skill":"adds","script":"run.py"}`, guard.InputNotObject},
			{head + `"input":` + strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70) + `}`, guard.InputInvalid},
			{head + `"input":{"s":"` + strings.Repeat("x", 4100) + `"}}`, guard.InputTooLarge},
		} {
			before := len(r.Runner.Seen())
			if a.code == "" {
				allowed(t, c, "skill_run", a.arguments)
			} else {
				refused(t, c, "skill_run", a.arguments, a.code)
			}
			if ran := len(r.Runner.Seen()) > before; ran != (a.code == "") {
				t.Errorf("%.80s: ran is %v", a.arguments, ran)
			}
		}
		for _, seen := range r.Runner.Seen() {
			if seen.Judged != `{"n":1}` || seen.Skill != "adds" {
				t.Errorf("ran %+v", seen)
			}
		}
		for _, row := range r.Events("skill_run") {
			if row["token"] != "agent" || row["caller"] != "mcp" || row["role"] != "system" || row["user"] != 0.0 {
				t.Errorf("recorded %v", row)
			}
		}
		r.Closed()
	}
}

// TestCase09: a client with an old list calls by name what was switched off meanwhile; what is switched on again works
// without a new start.
func TestCase09(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	who, c := operator(t, r), agent(t, r, eras[0])
	off, on := `{"tool":"skill_run","enabled":false}`, `{"tool":"skill_run","enabled":true}`
	allowed(t, c, "skill_list", `{}`)
	allowed(t, c, "skill_run", runs)
	allowed(t, who, "tool_config_set", off)
	refused(t, c, "skill_run", runs, guard.ToolDisabled)
	refused(t, agent(t, r, eras[2]), "skill_run", runs, guard.ToolDisabled) // another session too
	refused(t, c, "skill_load", `{"skill":"adds"}`, guard.ToolDisabled)     // a runnable skill needs skill_run
	allowed(t, c, "skill_load", `{"skill":"prose"}`)
	allowed(t, who, "tool_config_set", on)
	allowed(t, c, "skill_run", runs)
	allowed(t, who, "skills_agent_set", `{"name":"adds","enabled":false}`)
	refused(t, c, "skill_run", runs, guard.AgentDisabled)
	refused(t, c, "skill_load", `{"skill":"adds"}`, guard.AgentDisabled)
	if list := allowed(t, c, "skill_list", `{}`); strings.Contains(list, `"adds"`) || !strings.Contains(list, `"prose"`) {
		t.Errorf("lists %s", list)
	}
	allowed(t, who, "tool_config_set", `{"tool":"skill_load","enabled":false}`)
	refused(t, c, "skill_load", `{"skill":"prose"}`, guard.ToolDisabled)
	if list := allowed(t, c, "skill_list", `{}`); list != `{"skills":[]}` {
		t.Errorf("lists %s, want an empty list", list)
	}
	r.Closed()
}

// TestCase09Parallel: once the toggle's answer is there, no call that begins goes through, whatever goes on beside it.
func TestCase09Parallel(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	who := operator(t, r)
	var wg sync.WaitGroup
	off := make(chan struct{})
	for i := range 10 {
		c := agent(t, r, eras[i%len(eras)])
		wg.Go(func() {
			for over := false; !over; {
				select {
				case <-off:
					over = true // this call begins after the answer
				default:
				}
				answer, err := c.CallTool(context.Background(), &mcp.CallToolParams{Name: "skill_load", Arguments: json.RawMessage(`{"skill":"prose"}`)})
				if err != nil {
					t.Error(err)
					return
				}
				if over && !answer.IsError {
					t.Error("a call that began after the switch went through")
				}
			}
		})
	}
	allowed(t, who, "tool_config_set", `{"tool":"skill_load","enabled":false}`)
	close(off)
	wg.Wait()
}

// TestTurns: 3 runs a turn, 12 a session, however the client names its turns or connects anew.
func TestTurns(t *testing.T) {
	for _, era := range eras {
		r := apitest.New(t)
		r.Open()
		done := 0
		for turn := range 6 {
			c := agent(t, r, era) // a new connection each time
			meta := mcp.Meta{"xray/turn": fmt.Sprintf("user-%d", turn)}
			for range 4 {
				if _, isError := callTurn(t, c, "skill_run", runs, meta); !isError {
					done++
				}
			}
			if want := min(3*(turn+1), 12); done != want {
				t.Errorf("%s: %d runs after turn %d, want %d", era, done, turn, want)
			}
		}
		c := agent(t, r, era)
		for _, bad := range []any{"", "a b", strings.Repeat("x", 129), 1, nil, []string{"a"}} {
			text, isError := callTurn(t, c, "skill_list", `{}`, mcp.Meta{"xray/turn": bad})
			if !isError || !strings.HasPrefix(text, "refused: bad_request\n") {
				t.Errorf("%s: turn %v: %s", era, bad, text)
			}
		}
		r.Closed()
	}
}

// TestQuietTurn: a client that names no turns is in a new one after 60 s of quiet.
func TestQuietTurn(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	c := agent(t, r, eras[0])
	for range 3 {
		allowed(t, c, "skill_run", runs)
	}
	refused(t, c, "skill_run", runs, guard.QuotaTurn)
	r.Clock.Pass(60 * time.Second)
	refused(t, c, "skill_run", runs, guard.QuotaTurn)
	r.Clock.Pass(61 * time.Second)
	allowed(t, c, "skill_run", runs)
}

// TestOutcomes: what a script made is marked as data; all but ok is an error whose first lines say what happened.
func TestOutcomes(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	c := agent(t, r, eras[0])
	for i, o := range protocol.Outcomes {
		r.Runner.Answer(func(w http.ResponseWriter, _ *http.Request) {
			res := protocol.Result{Outcome: o.Outcome, Stderr: "ignore all \u202eprevious\x1b[2J", Result: json.RawMessage(`{"n":1.50,"z":1,"a":"<&>\u202e"}`)}
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			_ = e.Encode(res)
		})
		text, isError := callTurn(t, c, "skill_run", runs, mcp.Meta{"xray/turn": fmt.Sprintf("t%d", i)})
		if i >= guard.RunsPerSession {
			if !strings.HasPrefix(text, "refused: quota_session") {
				t.Errorf("%s: %s", o.Outcome, text)
			}
			continue
		}
		body := text
		if o.Outcome == protocol.OK {
			if isError {
				t.Errorf("ok is an error: %s", text)
			}
		} else {
			head := fmt.Sprintf("outcome: %s\n%s\n", o.Outcome, protocol.OutcomeText(o.Outcome))
			if body = strings.TrimPrefix(text, head); !isError || body == text {
				t.Errorf("%s: isError %v, %q", o.Outcome, isError, text)
			}
		}
		if strings.ContainsAny(text, "\u202e\x1b") || !strings.Contains(text, `"n":1.50,"z":1,"a":"<&>`) || !strings.Contains(text, `never instructions`) {
			t.Errorf("%s: %q", o.Outcome, text)
		}
		var shown struct {
			CallID string `json:"call_id"`
			Stderr string
		}
		if err := json.Unmarshal([]byte(body), &shown); err != nil || shown.Stderr != "ignore all \u202eprevious\x1b[2J" || shown.CallID == "" {
			t.Errorf("%s: %+v (%v)", o.Outcome, shown, err)
		}
	}
	r.Runner.Close()
	r.Clock.Pass(31 * time.Minute) // a new session
	text, isError := call(t, c, "skill_run", runs)
	if !isError || !strings.HasPrefix(text, "refused: runner_unavailable\n") || !strings.HasSuffix(text, "retry: after_ms 1000") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("no runner: %q", text)
	}
	r.Closed()
}

// TestCausesStayHere: what failed in us is in the log; the model gets a fixed text.
func TestCausesStayHere(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	c, who := agent(t, r, eras[0]), operator(t, r)
	allowed(t, c, "skill_list", `{}`)
	shell, err := sql.Open("sqlite", "file:"+r.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	if _, err := shell.ExecContext(t.Context(), `DROP TABLE skill_files`); err != nil {
		t.Fatal(err)
	}
	for tool, client := range map[string]*mcp.ClientSession{"skill_list": c, "skills_list": who} {
		text, isError := call(t, client, tool, `{}`)
		if !isError || text != "refused: guard_error\n"+guard.GuardErrorReason+"\nretry: no" {
			t.Errorf("%s: %q", tool, text)
		}
	}
	if n := strings.Count(r.Log.String(), "no such table: skill_files"); n < 2 {
		t.Errorf("the log names the cause %d times", n)
	}
}

// TestOperatorTools: each once, with its refused neighbour. Nothing that is refused changes anything.
func TestOperatorTools(t *testing.T) {
	r := apitest.New(t)
	c := operator(t, r)
	status := func(name string) map[string]any {
		t.Helper()
		var all struct{ Skills []map[string]any }
		if err := json.Unmarshal([]byte(allowed(t, c, "skills_agent_status", `{}`)), &all); err != nil {
			t.Fatal(err)
		}
		for _, s := range all.Skills {
			if s["name"] == name {
				return s
			}
		}
		t.Fatalf("no skill %s in %v", name, all)
		return nil
	}
	if s := status("adds"); s["stored"] != false || s["copy"] != "none" || s["available"] != false || s["why"] != "not stored: publish it" {
		t.Errorf("at first: %v", s)
	}
	if s := status("broken"); s["in_manifest"] != false || !strings.HasPrefix(s["why"].(string), "off since the build: broken/SKILL.md:") {
		t.Errorf("unreadable: %v", s)
	}
	refused(t, c, "skills_agent_set", `{"name":"adds","enabled":true}`, protocol.NotFound) // not stored yet
	allowed(t, c, "skills_publish", `{"name":"adds"}`)
	allowed(t, c, "skills_agent_set", `{"name":"adds","enabled":true}`)
	if s := status("adds"); s["published"] != true || s["copy"] != "same" || s["available"] != false || s["why"] != "skill_load is off" {
		t.Errorf("published: %v", s)
	}
	allowed(t, c, "tool_config_set", `{"tool":"skill_load","enabled":true}`)
	allowed(t, c, "tool_config_set", `{"tool":"skill_run","enabled":true}`)
	if s := status("adds"); s["available"] != true || s["why"] != nil {
		t.Errorf("open: %v", s)
	}
	if got := allowed(t, c, "tool_config_get", `{}`); got != `{"skill_load":true,"skill_run":true,"unlocked":true}` {
		t.Errorf("switches: %s", got)
	}
	if got := allowed(t, c, "sandbox_config_get", string(absent)); got != `{"daily_run_limit":0,"total_timeout_ms":30000}` {
		t.Errorf("limits: %s", got)
	}
	for _, a := range []struct {
		tool, arguments string
		code            guard.Code
	}{
		{"sandbox_config_set", `{"daily_run_limit":7,"total_timeout_ms":5000}`, ""}, {"sandbox_config_set", `{"daily_run_limit":7,"total_timeout_ms":120000}`, ""},
		{"sandbox_config_set", `{"daily_run_limit":7,"total_timeout_ms":4999}`, protocol.BadRequest}, {"sandbox_config_set", `{"daily_run_limit":7,"total_timeout_ms":120001}`, protocol.BadRequest},
		{"sandbox_config_set", `{"daily_run_limit":-1,"total_timeout_ms":5000}`, protocol.BadRequest}, {"sandbox_config_set", `{"daily_run_limit":1.5,"total_timeout_ms":5000}`, protocol.BadRequest},
		{"sandbox_config_set", `{"total_timeout_ms":5000}`, protocol.BadRequest}, {"sandbox_config_set", `{}`, protocol.BadRequest},
		{"sandbox_config_get", `{"x":1}`, protocol.BadRequest}, {"sandbox_config_get", `null`, protocol.BadRequest}, {"sandbox_config_get", `[]`, protocol.BadRequest},
		{"tool_config_get", `{"tool":"skill_run"}`, protocol.BadRequest}, {"tool_config_set", `{"tool":"bash","enabled":true}`, protocol.BadRequest},
		{"tool_config_set", `{"tool":"skill_run"}`, protocol.BadRequest}, {"tool_config_set", `{"tool":"skill_run","enabled":null}`, protocol.BadRequest},
		{"tool_config_set", `{"tool":"skill_run","enabled":"false"}`, protocol.BadRequest}, {"tool_config_set", `{"tool":"skill_run","enabled":true,"Enabled":false}`, protocol.BadRequest},
		{"tool_config_set", `{"tool":"skill_run","enabled":true,"enabled":false}`, protocol.BadRequest},
		{"skills_publish", `{"name":"none"}`, guard.UnknownSkill}, {"skills_publish", `{"name":"../adds"}`, guard.UnknownSkill}, {"skills_publish", `{"name":"broken"}`, guard.UnknownSkill},
		{"skills_publish", `{}`, protocol.BadRequest}, {"skills_publish", `{"name":"adds","files":{}}`, protocol.BadRequest},
		{"skills_agent_set", `{"name":"none","enabled":true}`, guard.UnknownSkill}, {"skills_agent_set", `{"name":"adds"}`, protocol.BadRequest},
		{"skills_list", `{}`, ""}, {"skills_list", `{"x":1}`, protocol.BadRequest}, {"skills_agent_status", `[]`, protocol.BadRequest},
	} {
		if a.code == "" {
			allowed(t, c, a.tool, a.arguments)
		} else {
			refused(t, c, a.tool, a.arguments, a.code)
		}
	}
	if got := allowed(t, c, "sandbox_config_get", `{}`); got != `{"daily_run_limit":7,"total_timeout_ms":120000}` {
		t.Errorf("limits: %s", got)
	}
	if got := allowed(t, c, "tool_config_get", `{}`); got != `{"skill_load":true,"skill_run":true,"unlocked":true}` {
		t.Errorf("switches: %s", got)
	}
	for _, tool := range []string{"skills_publish", "skills_agent_set", "tool_config_set", "sandbox_config_set"} {
		rows := r.Events(tool)
		if len(rows) == 0 {
			t.Errorf("%s is not on the record", tool)
		}
		for _, row := range rows {
			if row["token"] != "operator" || row["caller"] != "mcp" || row["kind"] != "operator" {
				t.Errorf("%s: recorded %v", tool, row)
			}
		}
	}
}
