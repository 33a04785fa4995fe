package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// doorCall is one request, written out; what is empty is left out.
type doorCall struct {
	method, path string
	auth         []string // Authorization, as it is
	host, kind   string
	header       [2]string
	body         io.Reader
}

type doorAnswer struct {
	status  int
	header  http.Header
	text    string
	problem protocol.Problem
}

func asRole(token string) []string { return []string{"Bearer " + token} }

func (c doorCall) send(t *testing.T, url string) doorAnswer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, c.body)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.auth) > 0 {
		r.Header["Authorization"] = c.auth
	}
	if c.kind != "" {
		r.Header.Set("Content-Type", c.kind)
	}
	if c.header[0] != "" {
		r.Header.Set(c.header[0], c.header[1])
	}
	r.Host = c.host
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := doorAnswer{status: resp.StatusCode, header: resp.Header, text: string(raw)}
	if resp.Header.Get("Content-Type") == protocol.TypeProblem {
		if err := json.Unmarshal(raw, &a.problem); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
	}
	return a
}

// wantCode insists on a whole problem; "" wants an answer that is none of ours.
func (a doorAnswer) wantCode(t *testing.T, code guard.Code) {
	t.Helper()
	if code == "" {
		if a.status >= 500 || a.problem.Code != "" {
			t.Errorf("refused: %d %s", a.status, a.text)
		}
		return
	}
	row := protocol.RefusalOf(code)
	if a.problem.Code != code || a.status != row.Status || a.problem.Status != row.Status || a.problem.Detail == "" || a.problem.Retry != row.Retry {
		t.Errorf("got %d %s, want %s", a.status, a.text, code)
	}
}

func jsonTo(token, path, body string) doorCall {
	return doorCall{method: "POST", path: path, auth: asRole(token), kind: protocol.TypeJSON, body: strings.NewReader(body)}
}

func getAs(token, path string) doorCall {
	return doorCall{method: "GET", path: path, auth: asRole(token)}
}

func newSession(t *testing.T, d *apitest.Rig, token string) string {
	t.Helper()
	a := doorCall{method: "POST", path: "/v1/sessions", auth: asRole(token)}.send(t, d.URL)
	var s struct{ ID string }
	if err := json.Unmarshal([]byte(a.text), &s); err != nil || s.ID == "" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	return s.ID
}

func runBody(session, script, input string) string {
	return `{"session":"` + session + `","script":"` + script + `","input":` + input + `}`
}

// doors is every call that needs a token, and the roles that it lets in.
var doors = []struct{ method, path, roles string }{
	{"POST", "/v1/sessions", "agent operator"},
	{"GET", "/v1/sessions/x", "agent operator"},
	{"POST", "/v1/sessions/x/turns", "agent operator"},
	{"GET", "/v1/sessions/x/available_skills", "agent operator"},
	{"POST", "/v1/guard/check", "agent operator"},
	{"POST", "/v1/skills/adds/run", "agent operator"},
	{"GET", "/v1/skills/adds", "agent operator"},
	{"GET", "/v1/skills", "viewer operator"},
	{"GET", "/v1/audit", "viewer operator"},
	{"GET", "/v1/audit/verify", "viewer operator"},
	{"GET", "/metrics", "viewer operator"},
	{"POST", "/mcp", "agent"},
	{"POST", "/mcp/operator", "operator"},
}

// TestCase42EveryDoor: every door, every wrong header; nothing that is empty or doubled means anything.
func TestCase42EveryDoor(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	tok := apitest.OperatorToken
	for _, door := range doors {
		for _, auth := range [][]string{
			nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer  "}, {"Bearer  " + tok}, {"Bearer " + tok + " x"}, {"Bearer " + tok + ", Bearer " + tok}, {"Bearer\t" + tok},
			{"Basic " + tok}, {tok}, {"Bearer undefined"}, {"Bearer null"}, {"Bearer " + tok[1:]}, {"Bearer " + tok + "x"}, {"Bearer " + strings.ToUpper(tok)},
			{"Bearer " + tok, "Bearer " + tok}, {"Bearer " + tok, ""}, {"", "Bearer " + tok},
		} {
			a := doorCall{method: door.method, path: door.path, auth: auth}.send(t, d.URL)
			a.wantCode(t, protocol.Unauthorized)
			if a.header.Get("WWW-Authenticate") != "Bearer" || a.header.Get("Cache-Control") != "no-store" || t.Failed() {
				t.Fatalf("%s %s with %q: %v", door.method, door.path, auth, a.header)
			}
		}
	}
	getAs(tok, "/v1/skills").send(t, d.URL).wantCode(t, "")
	doorCall{method: "GET", path: "/v1/skills", auth: []string{"bearer " + tok}}.send(t, d.URL).wantCode(t, "") // a scheme has no letter case
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := (doorCall{method: "GET", path: path}).send(t, d.URL); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
}

// TestRolesAtEveryDoor: each role gets in exactly where it should, and is told forbidden elsewhere.
func TestRolesAtEveryDoor(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	for role, token := range map[string]string{"agent": apitest.AgentToken, "viewer": apitest.ViewerToken, "operator": apitest.OperatorToken} {
		for _, door := range doors {
			a := doorCall{method: door.method, path: door.path, auth: asRole(token)}.send(t, d.URL)
			if strings.Contains(door.roles, role) != (a.status != http.StatusForbidden) {
				t.Errorf("%s at %s %s: %d %s", role, door.method, door.path, a.status, a.text)
			}
			if !strings.Contains(door.roles, role) {
				a.wantCode(t, protocol.Forbidden)
			}
		}
	}
}

// TestRevokedAtOnce: the store is asked at each request.
func TestRevokedAtOnce(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	c := doorCall{method: "POST", path: "/v1/sessions", auth: asRole(apitest.AgentToken)}
	c.send(t, d.URL).wantCode(t, "")
	if err := d.Store.RevokeToken(t.Context(), apitest.Operator, "agent"); err != nil {
		t.Fatal(err)
	}
	c.send(t, d.URL).wantCode(t, protocol.Unauthorized)
}

// TestUnknownPathsAreNotFound: whoever asks, and by whatever method, is told that, and not of somebody's role.
func TestUnknownPathsAreNotFound(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	for _, auth := range [][]string{nil, asRole(apitest.AgentToken), asRole(apitest.ViewerToken), asRole(apitest.OperatorToken)} {
		for _, c := range []doorCall{
			{method: "GET", path: "/"}, {method: "GET", path: "/v1"}, {method: "GET", path: "/v1/"}, {method: "GET", path: "/v1/nope"}, {method: "POST", path: "/v2/sessions"},
			{method: "DELETE", path: "/v1/skills"}, {method: "GET", path: "/v1/sessions"}, {method: "PUT", path: "/v1/skills/adds/run"},
			{method: "POST", path: "/metrics"}, {method: "POST", path: "/mcp/x"}, {method: "GET", path: "/v1/skills/adds/run/x"}, {method: "GET", path: "/v1/%2e%2e/healthz"},
		} {
			c.auth = auth
			a := c.send(t, d.URL)
			a.wantCode(t, protocol.NotFound)
			if a.problem.Code != protocol.NotFound {
				t.Errorf("%s %s as %q", c.method, c.path, auth)
			}
		}
	}
	// A path is a caller's text: what cannot be seen in it is shown.
	if a := (doorCall{method: "GET", path: "/%E2%80%AE%1b"}).send(t, d.URL); strings.ContainsAny(a.text, "\u202e\x1b") {
		t.Errorf("%q", a.text)
	}
}

// TestForeignHostsAndOrigins: a page in a browser can reach a loopback port; it must not be served.
func TestForeignHostsAndOrigins(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	port := d.URL[strings.LastIndex(d.URL, ":"):]
	for _, c := range []doorCall{jsonTo(apitest.AgentToken, "/v1/sessions", ""), jsonTo(apitest.AgentToken, "/mcp", ""), jsonTo(apitest.OperatorToken, "/mcp/operator", "")} {
		try := func(host, name, value string, want guard.Code) {
			t.Helper()
			c.host, c.header, c.body = host, [2]string{name, value}, strings.NewReader("{}")
			a := c.send(t, d.URL)
			if (a.status == http.StatusForbidden) != (want != "") || a.problem.Code != want && want != "" {
				t.Errorf("%s, host %q, %s: %q: %d %s", c.path, host, name, value, a.status, a.text)
			}
		}
		for _, host := range []string{"evil.example", "evil.example" + port, "127.0.0.1.evil.example" + port, "localhost.evil.example", "192.168.0.1" + port, "[::2]" + port, "169.254.169.254", "0.0.0.0" + port} {
			try(host, "", "", protocol.Forbidden)
			try(host, "Origin", "http://"+host, protocol.Forbidden) // rebound: for the browser it is one site
		}
		for _, host := range []string{"localhost" + port, "127.0.0.1", "[::1]" + port, "[::1]", "localhost"} {
			try(host, "", "", "")
		}
		for _, origin := range []string{"http://evil.example", "null", "https://localhost", "http://127.0.0.1:1", "file://"} {
			try("", "Origin", origin, protocol.Forbidden)
		}
		for _, site := range []string{"cross-site", "same-site"} {
			try("", "Sec-Fetch-Site", site, protocol.Forbidden)
		}
		try("", "Origin", d.URL, "")
		try("", "Sec-Fetch-Site", "same-origin", "")
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/v1/skills", "/nope"} { // also what needs no token
		c := getAs(apitest.ViewerToken, path)
		c.host = "evil.example"
		c.send(t, d.URL).wantCode(t, protocol.Forbidden)
	}
}

// TestBodiesOfARun: each row is refused before anything is judged or by the judgement, and nothing reaches the runner.
func TestBodiesOfARun(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	d.Open("adds")
	session := newSession(t, d, apitest.AgentToken)
	const path = "/v1/skills/adds/run"
	good := runBody(session, "run.py", `{"n":1}`)
	more := func(extra string) string { return strings.TrimSuffix(good, "}") + extra + "}" }
	input := func(input string) string { return runBody(session, "run.py", input) }
	for _, c := range []struct {
		name, kind, encoding, body string
		want                       guard.Code
	}{
		{"no content type", "", "", good, protocol.BadRequest},
		{"text", "text/plain", "", good, protocol.BadRequest},
		{"a form", "application/x-www-form-urlencoded", "", good, protocol.BadRequest},
		{"two types", "application/json, text/plain", "", good, protocol.BadRequest},
		{"another JSON", "application/merge-patch+json", "", good, protocol.BadRequest},
		{"gzip", protocol.TypeJSON, "gzip", good, protocol.BadRequest},
		{"deflate", protocol.TypeJSON, "deflate", good, protocol.BadRequest},
		{"nothing", protocol.TypeJSON, "", "", protocol.BadRequest},
		{"null", protocol.TypeJSON, "", "null", protocol.BadRequest},
		{"an array", protocol.TypeJSON, "", "[]", protocol.BadRequest},
		{"two bodies", protocol.TypeJSON, "", good + good, protocol.BadRequest},
		{"byte-order mark", protocol.TypeJSON, "", "\ufeff" + good, protocol.BadRequest},
		{"not UTF-8", protocol.TypeJSON, "", more(`,"turn":"` + "\xff" + `"`), protocol.BadRequest},
		{"case 02: another letter case", protocol.TypeJSON, "", more(`,"Script":"other.py"`), protocol.BadRequest},
		{"case 02: long s", protocol.TypeJSON, "", more(`,"\u017fcript":"other.py"`), protocol.BadRequest},
		{"case 02: the key twice", protocol.TypeJSON, "", more(`,"script":"other.py"`), protocol.BadRequest},
		{"case 02: the key twice, escaped", protocol.TypeJSON, "", more(`,"\u0073cript":"other.py"`), protocol.BadRequest},
		{"an unknown key", protocol.TypeJSON, "", more(`,"timeout_ms":1`), protocol.BadRequest},
		{"another skill than in the path", protocol.TypeJSON, "", more(`,"skill":"prose"`), protocol.BadRequest},
		{"a turn with a space", protocol.TypeJSON, "", more(`,"turn":"a b"`), protocol.BadRequest},
		{"a turn of 129", protocol.TypeJSON, "", more(`,"turn":"` + strings.Repeat("t", 129) + `"`), protocol.BadRequest},
		{"a number for a session", protocol.TypeJSON, "", `{"session":1,"script":"run.py","input":{}}`, protocol.BadRequest},
		{"200 levels", protocol.TypeJSON, "", strings.Repeat("[", 200) + strings.Repeat("]", 200), protocol.BadRequest},
		{"200 levels in the input", protocol.TypeJSON, "", input(`{"n":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`), guard.InputInvalid},
		{"a key twice in the input", protocol.TypeJSON, "", input(`{"n":1,"n":2}`), guard.InputInvalid},
		{"a key twice in the text", protocol.TypeJSON, "", input(`"{\"n\":1,\"n\":2}"`), guard.InputInvalid},
		{"a huge exponent", protocol.TypeJSON, "", input(`{"n":1e1000001}`), guard.InputInvalid},
		{"no input", protocol.TypeJSON, "", `{"session":"` + session + `","script":"run.py"}`, guard.InputNotObject},
		{"null for input", protocol.TypeJSON, "", input("null"), guard.InputNotObject},
		{"an array for input", protocol.TypeJSON, "", input("[]"), guard.InputNotObject},
		{"empty text", protocol.TypeJSON, "", input(`""`), guard.InputNotObject},
		{"of the wrong type", protocol.TypeJSON, "", input(`{"n":"1"}`), guard.InputInvalid},
		{"an escape", protocol.TypeJSON, "", input(`{"s":"\u001b[2J"}`), guard.ControlChars},
		{"4097 bytes", protocol.TypeJSON, "", input(`{"s":"` + strings.Repeat("x", 4089) + `"}`), guard.InputTooLarge},
		{"64 KiB and one", protocol.TypeJSON, "", good + strings.Repeat(" ", 64<<10-len(good)+1), guard.InputTooLarge},
		{"a script by a path", protocol.TypeJSON, "", runBody(session, "../prose/SKILL.md", "{}"), guard.UnknownScript},
		{"no script", protocol.TypeJSON, "", runBody(session, "", "{}"), protocol.BadRequest},
		{"nobody's session", protocol.TypeJSON, "", runBody("x", "run.py", "{}"), protocol.NotFound},
		{"no session", protocol.TypeJSON, "", runBody("", "run.py", "{}"), protocol.NotFound},
		{"a hostile session", protocol.TypeJSON, "", runBody("' OR 1=1 --", "run.py", "{}"), protocol.NotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := doorCall{method: "POST", path: path, auth: asRole(apitest.AgentToken), kind: c.kind, body: strings.NewReader(c.body)}
			if c.encoding != "" {
				call.header = [2]string{"Content-Encoding", c.encoding}
			}
			call.send(t, d.URL).wantCode(t, c.want)
		})
	}
	// 5 MB without a length, in which nothing is wrong but that there is so much of it.
	endless := jsonTo(apitest.AgentToken, path, "")
	endless.body = io.MultiReader(strings.NewReader(`{"session":"`), strings.NewReader(strings.Repeat("x", 5<<20)), strings.NewReader(`"}`))
	endless.send(t, d.URL).wantCode(t, guard.InputTooLarge)
	if seen := d.Runner.Seen(); len(seen) != 0 {
		t.Errorf("the runner was asked: %+v", seen)
	}
	// The neighbours that pass: the digits of the result stay, and the judged bytes are what goes on.
	const spaced = " {\n \"n\" : 1.50 } "
	for _, body := range []string{good, " \n" + good + "\n", input(string(protocol.TextInput([]byte(spaced))))} {
		call := jsonTo(apitest.AgentToken, path, body)
		call.kind = "application/json; charset=utf-8"
		if a := call.send(t, d.URL); a.status != http.StatusOK || !strings.Contains(a.text, `"result":{"n":1.50}`) || !strings.Contains(a.text, `"call_id":"`) {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
	var judged []string
	for _, r := range d.Runner.Seen() {
		judged = append(judged, r.Judged)
		if r.Digest != d.Lock.Digest() || r.Session != session || r.Skill != "adds" || r.Script != "run.py" {
			t.Errorf("%+v", r)
		}
	}
	if diff := cmp.Diff([]string{`{"n":1}`, `{"n":1}`, spaced}, judged); diff != "" {
		t.Error(diff)
	}
	d.Closed()
}

// TestRefusalsOverREST: one of each kind that is not about bodies; what is refused never reaches the runner.
func TestRefusalsOverREST(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	d.Open("adds", "writes")
	session, others := newSession(t, d, apitest.AgentToken), newSession(t, d, apitest.OperatorToken)
	run := func(skill, session string) doorCall {
		return jsonTo(apitest.AgentToken, "/v1/skills/"+skill+"/run", runBody(session, "run.py", "{}"))
	}
	for _, c := range []struct {
		name string
		call doorCall
		want guard.Code
	}{
		{"a mutating skill", run("writes", session), guard.ClassNotAllowed},
		{"a closed skill", run("prose", session), guard.AgentDisabled},
		{"an unknown skill", run("nobody", session), guard.UnknownSkill},
		{"a skill by a path", run("..%2Fadds", session), guard.UnknownSkill},
		{"no name at all", run("%00", session), protocol.BadRequest},
		{"a name of 129", run(strings.Repeat("x", 129), session), protocol.BadRequest},
		{"a skill off since the build", run("broken", session), guard.UnknownSkill},
		{"another token's session", run("adds", others), protocol.NotFound},
		{"another token's session, read", getAs(apitest.AgentToken, "/v1/sessions/"+others), protocol.NotFound},
		{"another token's turn", jsonTo(apitest.AgentToken, "/v1/sessions/"+others+"/turns", "{}"), protocol.NotFound},
		{"another token's offer", getAs(apitest.AgentToken, "/v1/sessions/"+others+"/available_skills"), protocol.NotFound},
		{"load without a session", getAs(apitest.AgentToken, "/v1/skills/adds"), protocol.BadRequest},
		{"load of a closed skill", getAs(apitest.AgentToken, "/v1/skills/prose?session="+session), guard.AgentDisabled},
		{"load in another token's session", getAs(apitest.AgentToken, "/v1/skills/adds?session="+others), protocol.NotFound},
		{"a bad turn", jsonTo(apitest.AgentToken, "/v1/sessions/"+session+"/turns", `{"turn":"a/b"}`), protocol.BadRequest},
		{"another letter case for a turn", jsonTo(apitest.AgentToken, "/v1/sessions/"+session+"/turns", `{"Turn":"b"}`), protocol.BadRequest},
		{"a session of one's own naming", jsonTo(apitest.AgentToken, "/v1/sessions", `{"id":"mine"}`), protocol.BadRequest},
		{"check in nobody's session", jsonTo(apitest.AgentToken, "/v1/guard/check", `{"session":"x","tool":"skill_list","skill":""}`), protocol.NotFound},
		{"check without input", jsonTo(apitest.AgentToken, "/v1/guard/check", `{"session":"`+session+`","tool":"skill_run","skill":"adds","script":"run.py"}`), guard.InputNotObject},
		{"audit since a word", getAs(apitest.ViewerToken, "/v1/audit?since=yesterday"), protocol.BadRequest},
		{"audit until a day", getAs(apitest.ViewerToken, "/v1/audit?until=2026-01-31"), protocol.BadRequest},
		{"audit of 501", getAs(apitest.ViewerToken, "/v1/audit?limit=501"), protocol.BadRequest},
		{"audit of none", getAs(apitest.ViewerToken, "/v1/audit?limit=0"), protocol.BadRequest},
		{"audit after -1", getAs(apitest.ViewerToken, "/v1/audit?after_seq=-1"), protocol.BadRequest},
		{"audit after a word", getAs(apitest.ViewerToken, "/v1/audit?after_seq=x"), protocol.BadRequest},
	} {
		t.Run(c.name, func(t *testing.T) { c.call.send(t, d.URL).wantCode(t, c.want) })
	}
	if seen := d.Runner.Seen(); len(seen) != 0 {
		t.Errorf("the runner was asked: %+v", seen)
	}
	for _, c := range []doorCall{
		run("adds", session), getAs(apitest.AgentToken, "/v1/skills/adds?session="+session), getAs(apitest.AgentToken, "/v1/sessions/"+session),
		jsonTo(apitest.AgentToken, "/v1/sessions/"+session+"/turns", `{"turn":"a.b:c-d_e"}`), getAs(apitest.ViewerToken, "/v1/audit?limit=500&after_seq=0&since=2026-01-31T12:00:00Z"),
		getAs(apitest.ViewerToken, "/v1/audit/verify"), getAs(apitest.OperatorToken, "/v1/skills"),
	} {
		if a := c.send(t, d.URL); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", c.path, a.status, a.text)
		}
	}
	d.Closed()
}

// TestCheckAnswersEitherWay: asking is not a fault, and takes no place.
func TestCheckAnswersEitherWay(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	d.Open("adds", "writes")
	session := newSession(t, d, apitest.AgentToken)
	check := func(skill string) string {
		t.Helper()
		a := jsonTo(apitest.AgentToken, "/v1/guard/check", `{"session":"`+session+`","tool":"skill_run","skill":"`+skill+`","script":"run.py","input":{}}`).send(t, d.URL)
		if a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.text)
		}
		return a.text
	}
	for range guard.RunsPerTurn + 1 {
		if got := check("adds"); !strings.Contains(got, `"block":false`) {
			t.Error(got)
		}
	}
	if got := check("writes"); !strings.Contains(got, `"block":true`) || !strings.Contains(got, `"code":"class_not_allowed"`) {
		t.Error(got)
	}
	if len(d.Runner.Seen()) != 0 {
		t.Error("a check ran something")
	}
}

// TestOfferCannotBreakOut: what is shown to a model ends where we end it, and hides nothing.
func TestOfferCannotBreakOut(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	d.Open("adds", "writes", "prose")
	const hidden = "\u202e\u202c\U000e0041"
	a := getAs(apitest.AgentToken, "/v1/sessions/"+newSession(t, d, apitest.AgentToken)+"/available_skills").send(t, d.URL)
	if a.status != http.StatusOK || strings.Count(a.text, "<skill>") != 3 || strings.Count(a.text, "</skill>") != 3 || strings.ContainsAny(a.text, hidden) {
		t.Errorf("%d %q", a.status, a.text)
	}
	status := getAs(apitest.ViewerToken, "/v1/skills").send(t, d.URL)
	var got struct {
		Skills []struct{ Name, Description string }
	}
	if err := json.Unmarshal([]byte(status.text), &got); err != nil || strings.ContainsAny(status.text, hidden) || len(got.Skills) != 4 || got.Skills[0].Description != apitest.Hostile {
		t.Errorf("%v %q", err, status.text)
	}
}

// TestOwnFailureKeepsItsCause is rule 6: the caller reads the fixed text, the log has the cause, nothing is allowed.
func TestOwnFailureKeepsItsCause(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	d.Open("adds")
	session := newSession(t, d, apitest.AgentToken)
	if err := d.Store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, door := range doors {
		for _, token := range []string{apitest.AgentToken, apitest.OperatorToken} {
			c := jsonTo(token, strings.Replace(door.path, "/x", "/"+session, 1), runBody(session, "run.py", "{}"))
			c.method = door.method
			a := c.send(t, d.URL)
			a.wantCode(t, guard.GuardError)
			if a.problem.Detail != guard.GuardErrorReason || strings.Contains(a.text, "sql") || strings.Contains(a.text, "closed") || strings.Contains(a.text, d.Path) {
				t.Errorf("%s: %s", door.path, a.text)
			}
		}
	}
	if !strings.Contains(d.Log.String(), "database is closed") {
		t.Error("the log does not say why")
	}
	if len(d.Runner.Seen()) != 0 {
		t.Error("the runner was asked")
	}
	ready := doorCall{method: "GET", path: "/readyz"}.send(t, d.URL)
	if ready.status != http.StatusServiceUnavailable || !strings.Contains(ready.text, "the store does not answer") || strings.Contains(ready.text, "sql") {
		t.Errorf("%d %s", ready.status, ready.text)
	}
	if alive := (doorCall{method: "GET", path: "/healthz"}).send(t, d.URL); alive.status != http.StatusOK {
		t.Errorf("%d %s", alive.status, alive.text)
	}
}

func TestReadyNamesTheState(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	for _, c := range []struct {
		name   string
		change func()
		status int
		want   string
	}{
		{"well", func() {}, http.StatusOK, `{"ready":true,"reasons":[],"runner":"ready","no_spawn":"enforced"}`},
		{"could spawn", func() { d.Spawns.Store(true) }, http.StatusServiceUnavailable,
			`{"ready":false,"reasons":["this process could start programs"],"runner":"ready","no_spawn":"thread 7 is without it"}`},
		{"another manifest", func() { d.Spawns.Store(false); d.Runner.Hold("sha256:other") }, http.StatusServiceUnavailable, `{"ready":false,"reasons":["api and runner hold different manifests"],"runner":"not ready","no_spawn":"enforced"}`},
		{"no runner", d.Runner.Close, http.StatusServiceUnavailable, `{"ready":false,"reasons":["the runner cannot be reached"],"runner":"unreachable","no_spawn":"enforced"}`},
	} {
		c.change()
		if a := (doorCall{method: "GET", path: "/readyz"}).send(t, d.URL); a.status != c.status || strings.TrimSpace(a.text) != c.want {
			t.Errorf("%s: %d %s", c.name, a.status, a.text)
		}
	}
}

// TestOneTextOfMetrics: both series, as text whatever the reader would take, and clean.
func TestOneTextOfMetrics(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	jsonTo(apitest.AgentToken, "/v1/skills/secret-skill/run", runBody(newSession(t, d, apitest.AgentToken), "secret-script", "{}")).send(t, d.URL).wantCode(t, guard.ToolDisabled)
	scrape := getAs(apitest.ViewerToken, "/metrics")
	for _, accept := range []string{"", "*/*", "application/openmetrics-text;version=1.0.0", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"} {
		scrape.header = [2]string{"Accept", accept}
		a := scrape.send(t, d.URL)
		if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") || strings.Contains(a.text, "secret") ||
			!strings.Contains(a.text, `xray_api_calls_total{decision="tool_disabled",tool="skill_run"} 1`+"\n") || !strings.Contains(a.text, "xray_runner_queue_depth 0\n") {
			t.Errorf("%q: %d %v\n%s", accept, a.status, a.header, a.text)
		}
		problems, err := promlint.New(strings.NewReader(a.text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	}
	d.Runner.Close()
	if a := scrape.send(t, d.URL); a.status != http.StatusOK || !strings.Contains(a.text, "xray_api_calls_total{") || !strings.Contains(a.text, "# the runner's series are missing") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// TestRunnerGone: nothing was started, no place is taken, and the address is not told.
func TestRunnerGone(t *testing.T) {
	t.Parallel()
	d := apitest.New(t)
	d.Open("adds")
	session := newSession(t, d, apitest.AgentToken)
	run := func() doorAnswer {
		return jsonTo(apitest.AgentToken, "/v1/skills/adds/run", runBody(session, "run.py", "{}")).send(t, d.URL)
	}
	d.Runner.Refuse(protocol.Busy, "all places are taken")
	for range guard.RunsPerTurn + 1 { // a run that never started takes no place
		a := run()
		a.wantCode(t, protocol.Busy)
		if a.problem.RetryAfterMS <= 0 {
			t.Errorf("busy without a time: %s", a.text)
		}
	}
	d.Runner.Close()
	for range guard.RunsPerTurn + 1 {
		a := run()
		a.wantCode(t, protocol.RunnerUnavailable)
		if strings.Contains(a.text, "127.0.0.1") {
			t.Error(a.text)
		}
	}
	d.Closed()
}
