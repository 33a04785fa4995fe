package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

// code is the problem's, "" when the answer is none.
func (a answer) code() guard.Code {
	var p protocol.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != protocol.TypeProblem {
		return ""
	}
	return p.Code
}

func send(t *testing.T, req *http.Request) answer {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// request has the token, and a JSON body when there is one.
func request(t *testing.T, r *apitest.Rig, token, method, path, body string) *http.Request {
	t.Helper()
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, b)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

func call(t *testing.T, r *apitest.Rig, token, method, path, body string) answer {
	t.Helper()
	return send(t, request(t, r, token, method, path, body))
}

// get decodes an answer that must be a 200.
func get(t *testing.T, a answer) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return out
}

// initialize is what an MCP client says first.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func mcpRequest(t *testing.T, r *apitest.Rig, token, path string) *http.Request {
	t.Helper()
	req := request(t, r, token, http.MethodPost, path, initialize)
	req.Header.Set("Accept", "application/json, text/event-stream")
	return req
}

// TestCase42Headers: only exactly one header with exactly the token opens a door.
func TestCase42Headers(t *testing.T) {
	r := apitest.New(t)
	for _, path := range []string{"/v1/audit", "/metrics", "/mcp/operator"} {
		for _, c := range []struct {
			name    string
			headers []string
			want    int
		}{
			{"the token", []string{"Bearer " + apitest.OperatorToken}, 200},
			{"another case of the scheme (RFC 9110)", []string{"bearer " + apitest.OperatorToken}, 200},
			{"no header", nil, 401},
			{"an empty one", []string{""}, 401},
			{"Bearer", []string{"Bearer"}, 401},
			{"Bearer and a space", []string{"Bearer "}, 401},
			{"undefined", []string{"Bearer undefined"}, 401},
			{"two spaces", []string{"Bearer  " + apitest.OperatorToken}, 401},
			{"a tab", []string{"Bearer\t" + apitest.OperatorToken}, 401},
			{"a word behind it", []string{"Bearer " + apitest.OperatorToken + " x"}, 401},
			{"one character less", []string{"Bearer " + apitest.OperatorToken[1:]}, 401},
			{"one character more", []string{"Bearer " + apitest.OperatorToken + "x"}, 401},
			{"the token alone", []string{apitest.OperatorToken}, 401},
			{"another scheme", []string{"Basic " + apitest.OperatorToken}, 401},
			{"twice", []string{"Bearer " + apitest.OperatorToken, "Bearer " + apitest.OperatorToken}, 401},
			{"a wrong one and the right one", []string{"Bearer x", "Bearer " + apitest.OperatorToken}, 401},
			{"the agent's", []string{"Bearer " + apitest.AgentToken}, 403},
		} {
			var req *http.Request
			if path == "/mcp/operator" {
				req = mcpRequest(t, r, "", path)
			} else {
				req = request(t, r, "", http.MethodGet, path, "")
			}
			for _, h := range c.headers {
				req.Header.Add("Authorization", h)
			}
			got := send(t, req)
			code := map[int]guard.Code{401: protocol.Unauthorized, 403: protocol.Forbidden}[c.want]
			if got.status != c.want || got.code() != code {
				t.Errorf("%s with %s: %d %q, want %d %q", path, c.name, got.status, got.code(), c.want, code)
			}
			if (got.header.Get("WWW-Authenticate") != "") != (c.want == 401) {
				t.Errorf("%s with %s: WWW-Authenticate %q", path, c.name, got.header.Get("WWW-Authenticate"))
			}
		}
	}
}

// TestRoles: every route, with each role and with none.
func TestRoles(t *testing.T) {
	r := apitest.New(t)
	s := r.Session()
	const agent, viewer, operator = "a", "v", "o"
	for _, c := range []struct{ method, path, body, roles string }{
		{"POST", "/v1/sessions", "", agent + operator},
		{"GET", "/v1/sessions/" + s.ID, "", agent + operator},
		{"POST", "/v1/sessions/" + s.ID + "/turns", "", agent + operator},
		{"GET", "/v1/sessions/" + s.ID + "/available_skills", "", agent + operator},
		{"POST", "/v1/guard/check", `{"session":"` + s.ID + `","tool":"skill_list","skill":""}`, agent + operator},
		{"POST", "/v1/skills/adds/run", `{"session":"` + s.ID + `","script":"run.py","input":{}}`, agent + operator},
		{"GET", "/v1/skills/adds?session=" + s.ID, "", agent + operator},
		{"GET", "/v1/skills", "", viewer + operator},
		{"GET", "/v1/audit", "", viewer + operator},
		{"GET", "/v1/audit/verify", "", viewer + operator},
		{"GET", "/metrics", "", viewer + operator},
		{"MCP", "/mcp", "", agent},
		{"MCP", "/mcp/operator", "", operator},
	} {
		for token, role := range map[string]string{apitest.AgentToken: agent, apitest.ViewerToken: viewer, apitest.OperatorToken: operator, "": ""} {
			var got answer
			if c.method == "MCP" {
				got = send(t, mcpRequest(t, r, token, c.path))
			} else {
				got = call(t, r, token, c.method, c.path, c.body)
			}
			name := fmt.Sprintf("%s %s as %q", c.method, c.path, role)
			switch {
			case role == "":
				if got.status != 401 || got.code() != protocol.Unauthorized {
					t.Errorf("%s: %d %s, want unauthorized", name, got.status, got.code())
				}
			case strings.Contains(c.roles, role):
				if got.status == 401 || got.code() == protocol.Forbidden {
					t.Errorf("%s: %d %s, want it let through", name, got.status, got.code())
				}
			case got.status != 403 || got.code() != protocol.Forbidden:
				t.Errorf("%s: %d %s, want forbidden", name, got.status, got.code())
			}
		}
	}
}

// TestUnknown: what is not there is not_found to everybody, whatever the method.
func TestUnknown(t *testing.T) {
	r := apitest.New(t)
	for _, c := range [][2]string{{"GET", "/"}, {"GET", "/v1"}, {"GET", "/v1/"}, {"GET", "/v1/nothing"}, {"POST", "/v1/audit"}, {"DELETE", "/v1/sessions"}, {"GET", "/console"},
		{"GET", "/v1/guard/check"}, {"GET", "/mcp/x"}, {"POST", "/healthz"}} {
		for _, token := range []string{"", apitest.AgentToken, apitest.ViewerToken, apitest.OperatorToken} {
			if got := call(t, r, token, c[0], c[1], ""); got.status != 404 || got.code() != protocol.NotFound {
				t.Errorf("%s %s with token %q: %d %s, want 404 not_found", c[0], c[1], token, got.status, got.body)
			}
		}
	}
}

// TestForeignSession: another token's session is not there, and neither is one that never was.
func TestForeignSession(t *testing.T) {
	r := apitest.New(t)
	s := r.Session()
	for _, c := range []struct {
		token, id string
		want      int
	}{{apitest.AgentToken, s.ID, 200}, {apitest.OperatorToken, s.ID, 404}, {apitest.AgentToken, "none", 404}} {
		for _, path := range []string{"/v1/sessions/" + c.id, "/v1/sessions/" + c.id + "/available_skills"} {
			if got := call(t, r, c.token, "GET", path, ""); got.status != c.want {
				t.Errorf("%s: %d, want %d", path, got.status, c.want)
			}
		}
	}
}

// TestCase41Bodies: type, size and form of a body.
func TestCase41Bodies(t *testing.T) {
	r := apitest.New(t)
	s := r.Session()
	good := `{"session":"` + s.ID + `","tool":"skill_list","skill":""}`
	for _, c := range []struct {
		name, kind, encoding, body string
		want                       int
		code                       guard.Code
	}{
		{"JSON", "application/json", "", good, 200, ""},
		{"legal spelling", "Application/JSON; charset=utf-8", "", good, 200, ""},
		{"white space around", "application/json", "", "\n " + good + "\r\n", 200, ""},
		{"text", "text/plain", "", good, 400, protocol.BadRequest},
		{"a form", "application/x-www-form-urlencoded", "", good, 400, protocol.BadRequest},
		{"no type", "", "", good, 400, protocol.BadRequest},
		{"two types", "application/json, text/plain", "", good, 400, protocol.BadRequest},
		{"gzip", "application/json", "gzip", zipped(t, good), 400, protocol.BadRequest},
		{"said to be gzip", "application/json", "gzip", good, 400, protocol.BadRequest},
		{"empty", "application/json", "", " ", 400, protocol.BadRequest},
		{"two values", "application/json", "", good + good, 400, protocol.BadRequest},
		{"not UTF-8", "application/json", "", "{\"session\":\"\xff\"}", 400, protocol.BadRequest},
		{"64 KiB", "application/json", "", good + strings.Repeat(" ", 64<<10-len(good)), 200, ""},
		{"one byte more", "application/json", "", good + strings.Repeat(" ", 64<<10-len(good)+1), 413, guard.InputTooLarge},
	} {
		req := request(t, r, apitest.AgentToken, "POST", "/v1/guard/check", c.body)
		req.Header.Del("Content-Type")
		if c.kind != "" {
			req.Header.Set("Content-Type", c.kind)
		}
		if c.encoding != "" {
			req.Header.Set("Content-Encoding", c.encoding)
		}
		if got := send(t, req); got.status != c.want || got.code() != c.code {
			t.Errorf("%s: %d %s, want %d %q", c.name, got.status, got.body, c.want, c.code)
		}
	}
	for kind, want := range map[string]int{"application/json": 200, "Application/JSON; charset=utf-8": 200, "text/plain": 415} {
		req := mcpRequest(t, r, apitest.AgentToken, "/mcp")
		req.Header.Set("Content-Type", kind)
		if got := send(t, req); got.status != want {
			t.Errorf("/mcp with %s: %d %s, want %d", kind, got.status, got.body, want)
		}
	}
}

func zipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCase41LongBody: 5 MB without a length is refused on both doors as soon as the bound is passed: the answer comes
// although the body has not ended.
func TestCase41LongBody(t *testing.T) {
	r := apitest.New(t)
	for _, path := range []string{"/v1/guard/check", "/v1/sessions", "/mcp"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", path, apitest.AgentToken, 5<<20)
		go func() { _, _ = io.Copy(conn, io.LimitReader(spaces{}, 5<<20)) }() // ends when the server, or this test, closes
		line := make([]byte, 12)
		if _, err := io.ReadFull(conn, line); err != nil || string(line) != "HTTP/1.1 413" {
			t.Errorf("%s: %q (%v), want 413", path, line, err)
		}
		_ = conn.Close()
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestTwoLengths: a request that two readers could cut differently is refused.
func TestTwoLengths(t *testing.T) {
	r := apitest.New(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", apitest.AgentToken); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 12)
	if _, err := io.ReadFull(conn, line); err != nil || string(line) != "HTTP/1.1 400" {
		t.Errorf("%q (%v), want 400", line, err)
	}
}

// TestCase41Browser: pages of other sites and rebound names are refused before anything else is looked at.
func TestCase41Browser(t *testing.T) {
	r := apitest.New(t)
	own := strings.TrimPrefix(r.URL, "http://")
	for _, path := range []string{"/v1/sessions", "/mcp", "/mcp/operator"} {
		for _, c := range []struct {
			name, host, header, value string
			refused                   bool
		}{
			{"none of it", own, "", "", false},
			{"own origin", own, "Origin", r.URL, false},
			{"same site", own, "Sec-Fetch-Site", "same-origin", false},
			{"another origin", own, "Origin", "http://evil.example", true},
			{"no origin", own, "Origin", "null", true},
			{"another site", own, "Sec-Fetch-Site", "cross-site", true},
			{"localhost", "localhost:1", "", "", false},
			{"a rebound name", "evil.example", "", "", true},
			{"a rebound name with a port", "evil.example:8080", "", "", true},
			{"a name that only begins so", "localhost.evil.example", "", "", true},
			{"an address that only begins so", "127.0.0.1.evil.example", "", "", true},
			{"IPv6", "[::1]:1", "", "", false},
			{"another IPv6", "[::2]:1", "", "", true},
		} {
			var req *http.Request
			switch path {
			case "/mcp/operator":
				req = mcpRequest(t, r, apitest.OperatorToken, path)
			case "/mcp":
				req = mcpRequest(t, r, apitest.AgentToken, path)
			default:
				req = request(t, r, apitest.AgentToken, "POST", path, "")
			}
			req.Host = c.host
			if c.header != "" {
				req.Header.Set(c.header, c.value)
			}
			got := send(t, req)
			if c.refused && (got.status != 403 || got.code() != protocol.Forbidden) || !c.refused && got.status != 200 {
				t.Errorf("%s with %s: %d %s, want refused: %v", path, c.name, got.status, got.body, c.refused)
			}
		}
	}
}

// TestCase02: keys that two decoders read differently are refused, and nothing runs.
func TestCase02(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	head := `{"session":"` + s.ID + `",`
	for _, c := range []struct {
		body string
		want int
		code guard.Code
	}{
		{head + `"script":"run.py","input":{"n":1}}`, 200, ""},
		{head + `"script":"run.py","input":"{\"n\":1}"}`, 200, ""},
		{head + `"script":"run.py","Script":"other.py","input":{}}`, 400, protocol.BadRequest},
		{head + `"script":"run.py","\u017fcript":"other.py","input":{}}`, 400, protocol.BadRequest},
		{head + `"script":"run.py","script":"run.py","input":{}}`, 400, protocol.BadRequest},
		{head + `"script":"run.py","s\u0063ript":"run.py","input":{}}`, 400, protocol.BadRequest},
		{head + `"script":"run.py","script\u0000":"x","input":{}}`, 400, protocol.BadRequest},
		{head + `"script":"run.py","skill":"adds","input":{}}`, 400, protocol.BadRequest},
		{head + `"script":"run.py","timeout_ms":1,"input":{}}`, 400, protocol.BadRequest},
		{head + `"script":null,"input":{}}`, 400, protocol.BadRequest},
		{head + `"script":"run.py","input":{"n":1,"n":2}}`, 422, guard.InputInvalid},
		{head + `"script":"run.py","input":"{\"n\":1,\"n\":2}"}`, 422, guard.InputInvalid},
		{head + `"script":"run.py","input":{"N":1}}`, 422, guard.InputInvalid},
		{head + `"script":"run.py","input":null}`, 422, guard.InputNotObject},
		{head + `"script":"run.py"}`, 422, guard.InputNotObject},
	} {
		before := len(r.Runner.Seen())
		got := call(t, r, apitest.AgentToken, "POST", "/v1/skills/adds/run", c.body)
		if got.status != c.want || got.code() != c.code {
			t.Errorf("%s: %d %s, want %d %q", c.body, got.status, got.body, c.want, c.code)
		}
		if ran := len(r.Runner.Seen()) > before; ran != (c.code == "") {
			t.Errorf("%s: ran is %v", c.body, ran)
		}
	}
	for _, seen := range r.Runner.Seen() {
		if seen.Judged != `{"n":1}` || seen.Script != "run.py" {
			t.Errorf("ran %+v", seen)
		}
	}
	r.Closed()
}

// TestConversation: a session from its making to its last run, as a REST caller sees it.
func TestConversation(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	made := get(t, call(t, r, apitest.AgentToken, "POST", "/v1/sessions", `{}`))
	id, _ := made["id"].(string)
	if id == "" || made["turn"] == "" || len(made["offered"].([]any)) != 3 || made["fingerprint"] == "" {
		t.Fatalf("made %v", made)
	}
	run := func(turn string) answer {
		return call(t, r, apitest.AgentToken, "POST", "/v1/skills/adds/run", `{"session":"`+id+`","turn":"`+turn+`","script":"run.py","input":{"n":1}}`)
	}
	for i := range 3 {
		if got := get(t, run("one")); got["outcome"] != "ok" || got["call_id"] != got["run_id"] {
			t.Errorf("run %d: %v", i, got)
		}
	}
	if got := run("one"); got.status != 429 || got.code() != guard.QuotaTurn {
		t.Errorf("the fourth: %d %s", got.status, got.body)
	}
	if got := run("two"); got.status != 200 {
		t.Errorf("in the next turn: %d %s", got.status, got.body)
	}
	if got := run("no good"); got.code() != protocol.BadRequest {
		t.Errorf("a turn's name with a space: %d %s", got.status, got.body)
	}
	turn := get(t, call(t, r, apitest.AgentToken, "POST", "/v1/sessions/"+id+"/turns", `{"turn":"three"}`))
	if turn["turn"] != "three" || turn["fingerprint"] != made["fingerprint"] {
		t.Errorf("began %v", turn)
	}
	block := call(t, r, apitest.AgentToken, "GET", "/v1/sessions/"+id+"/available_skills", "")
	if strings.Count(block.body, "<skill>") != 3 || strings.ContainsAny(block.body, "\u202e\U000e0041") {
		t.Errorf("the block: %s", block.body)
	}
	if again := call(t, r, apitest.AgentToken, "GET", "/v1/sessions/"+id+"/available_skills", ""); again.body != block.body {
		t.Error("the block is not the same twice")
	}
	r.Switch(guard.ToolLoad, false)
	if got := call(t, r, apitest.AgentToken, "GET", "/v1/sessions/"+id+"/available_skills", ""); got.status != 200 || got.body != "" {
		t.Errorf("with skill_load off: %d %q, want nothing", got.status, got.body)
	}
	if now := get(t, call(t, r, apitest.AgentToken, "GET", "/v1/sessions/"+id, "")); now["fingerprint"] == made["fingerprint"] {
		t.Error("the fingerprint does not change with the switch")
	}
}

// TestCausesStayHere: what failed in us is in the log; the caller gets a fixed text.
func TestCausesStayHere(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	if err := r.Store.Close(); err != nil {
		t.Fatal(err)
	}
	// The token is looked up in the same store, so every route fails in the same way.
	for _, c := range [][3]string{{"POST", "/v1/sessions", ""}, {"GET", "/v1/sessions/" + s.ID, ""}, {"POST", "/v1/skills/adds/run", `{"session":"x","script":"run.py","input":{}}`}, {"GET", "/metrics", ""}} {
		got := call(t, r, apitest.AgentToken, c[0], c[1], c[2])
		if got.status != 500 || got.code() != guard.GuardError || strings.Contains(got.body, "sql") || strings.Contains(got.body, "closed") {
			t.Errorf("%s %s: %d %s, want 500 with the fixed text", c[0], c[1], got.status, got.body)
		}
	}
	if !strings.Contains(r.Log.String(), "database is closed") {
		t.Errorf("the log does not say why: %s", r.Log)
	}
	if strings.Contains(r.Log.String(), apitest.AgentToken) {
		t.Error("the log holds a token")
	}
}

// TestCase49RunnerGone: every skill_run has one fixed refusal; all else works; /readyz says so.
func TestCase49RunnerGone(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	if got := call(t, r, "", "GET", "/readyz", ""); got.status != 200 || !strings.Contains(got.body, `"runner":"ready"`) {
		t.Errorf("ready: %d %s", got.status, got.body)
	}
	r.Runner.Hold("sha256:other")
	if got := call(t, r, "", "GET", "/readyz", ""); got.status != 503 || !strings.Contains(got.body, "different manifests") {
		t.Errorf("another manifest: %d %s", got.status, got.body)
	}
	r.Runner.Close()
	got := call(t, r, apitest.AgentToken, "POST", "/v1/skills/adds/run", `{"session":"`+s.ID+`","script":"run.py","input":{}}`)
	if got.status != 503 || got.code() != protocol.RunnerUnavailable || strings.Contains(got.body, "127.0.0.1") {
		t.Errorf("run: %d %s, want runner_unavailable without an address", got.status, got.body)
	}
	if got := call(t, r, "", "GET", "/readyz", ""); got.status != 503 || !strings.Contains(got.body, `"runner":"unreachable"`) || strings.Contains(got.body, "127.0.0.1") {
		t.Errorf("readyz: %d %s", got.status, got.body)
	}
	if got := call(t, r, "", "GET", "/healthz", ""); got.status != 200 {
		t.Errorf("healthz: %d, want 200: the api itself is well", got.status)
	}
	if got := call(t, r, apitest.AgentToken, "GET", "/v1/skills/prose?session="+s.ID, ""); got.status != 200 {
		t.Errorf("load: %d %s", got.status, got.body)
	}
	if got := call(t, r, apitest.ViewerToken, "GET", "/metrics", ""); got.status != 200 || !strings.Contains(got.body, "runner's series are missing") {
		t.Errorf("metrics: %d %s", got.status, got.body)
	}
}

// TestMetrics: text, ours and the runner's, whatever the scraper would like; and the linter has nothing to say.
func TestMetrics(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	call(t, r, apitest.AgentToken, "POST", "/v1/skills/adds/run", `{"session":"`+s.ID+`","script":"run.py","input":{}}`)
	for _, accept := range []string{"", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "application/openmetrics-text; version=1.0.0"} {
		req := request(t, r, apitest.ViewerToken, "GET", "/metrics", "")
		req.Header.Set("Accept", accept)
		got := send(t, req)
		if !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%q: %s", accept, got.header.Get("Content-Type"))
		}
		for _, want := range []string{`xray_api_calls_total{decision="allow",tool="skill_run"} 1`, "xray_runner_queue_depth 0"} {
			if !strings.Contains(got.body, want) {
				t.Errorf("%q: no %s in\n%s", accept, want, got.body)
			}
		}
		problems, err := promlint.New(strings.NewReader(got.body)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%q: %v (%v)", accept, problems, err)
		}
	}
}

// TestAudit: what can be asked of the record, and what is refused.
func TestAudit(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	s := r.Session()
	call(t, r, apitest.AgentToken, "POST", "/v1/skills/adds/run", `{"session":"`+s.ID+`","script":"run.py","input":{}}`)
	for _, c := range []struct {
		query string
		want  int // events; -1: bad_request
	}{
		{"?tool=skill_run", 2}, {"?tool=skill_run&limit=1", 1}, {"?tool=skill_run&decision=deny", 0}, {"?session=" + s.ID, 2}, {"?session=none", 0},
		{"?tool=skill_run&since=2020-01-01T00:00:00Z", 2}, {"?until=2020-01-01T00:00:00Z", 0}, {"?tool=skill_run&after_seq=1000", 0},
		{"?since=yesterday", -1}, {"?until=2020-01-01", -1}, {"?after_seq=-1", -1}, {"?after_seq=x", -1}, {"?limit=500&tool=none", 0}, {"?limit=501", -1}, {"?limit=0", -1}, {"?limit=x", -1},
	} {
		got := call(t, r, apitest.ViewerToken, "GET", "/v1/audit"+c.query, "")
		if c.want < 0 {
			if got.code() != protocol.BadRequest {
				t.Errorf("%s: %d %s, want bad_request", c.query, got.status, got.body)
			}
			continue
		}
		if n := len(get(t, got)["events"].([]any)); n != c.want {
			t.Errorf("%s: %d events, want %d", c.query, n, c.want)
		}
	}
	report := get(t, call(t, r, apitest.ViewerToken, "GET", "/v1/audit/verify", ""))
	if report["ok"] != true || report["note"] == nil {
		t.Errorf("verify: %v, want ok, and a note that no head was given", report)
	}
	if got := get(t, call(t, r, apitest.ViewerToken, "GET", "/v1/audit/verify?head="+report["head"].(string), "")); got["ok"] != true || got["note"] != nil {
		t.Errorf("with the head: %v", got)
	}
	if got := get(t, call(t, r, apitest.ViewerToken, "GET", "/v1/audit/verify?head=00", "")); got["ok"] != false {
		t.Errorf("with another head: %v", got)
	}
}
