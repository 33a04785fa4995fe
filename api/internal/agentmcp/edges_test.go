package agentmcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// edgeCall calls a tool over real HTTP as the SDK's own client does, and gives the first text block.
func edgeCall(t *testing.T, url, path, token, tool, arguments string) (text string, isError bool) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "edge", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: url + path, HTTPClient: &http.Client{Transport: edgeToken(token)}, DisableStandaloneSSE: true}
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s %s: a protocol error, which no model sees: %v", tool, arguments, err)
	}
	if len(r.Content) != 1 {
		t.Fatalf("%d blocks", len(r.Content))
	}
	return r.Content[0].(*mcp.TextContent).Text, r.IsError
}

type edgeToken string

func (e edgeToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(e))
	return http.DefaultTransport.RoundTrip(r)
}

// TestRefusedByName: each refusal says in its first block which tool, skill or script it is about, and what to do.
func TestRefusedByName(t *testing.T) {
	t.Parallel()
	rig := apitest.New(t)
	rig.Open(apitest.Adds, apitest.Writes)
	run := func(skill, script string) string {
		return `{"skill":"` + skill + `","script":"` + script + `","input":{}}`
	}
	for _, c := range []struct {
		name, tool, arguments string
		code                  guard.Code
		says                  string
	}{
		{"above safe", guard.ToolRun, run(apitest.Writes, apitest.Script), guard.ClassNotAllowed, "skill writes"},
		{"not open", guard.ToolRun, run(apitest.Prose, apitest.Script), guard.AgentDisabled, "skill prose"},
		{"not open, load", guard.ToolLoad, `{"skill":"prose"}`, guard.AgentDisabled, "skill prose"},
		{"off since the build", guard.ToolLoad, `{"skill":"broken"}`, guard.UnknownSkill, `"broken"`},
		{"unknown", guard.ToolRun, run("nobody", "x"), guard.UnknownSkill, `"nobody"`},
		{"unknown script", guard.ToolRun, run(apitest.Adds, "x.py"), guard.UnknownScript, "it has run.py"},
		{"a script by a path", guard.ToolRun, run(apitest.Adds, "../writes/run.py"), guard.UnknownScript, "skill adds"},
		{"a long name is cut", guard.ToolLoad, `{"skill":"` + strings.Repeat("x", 128) + `"}`, guard.UnknownSkill, strings.Repeat("x", 64) + "…"},
		{"a name of 129", guard.ToolLoad, `{"skill":"` + strings.Repeat("x", 129) + `"}`, protocol.BadRequest, "1 to 128 bytes"},
		{"a name that no store holds", guard.ToolLoad, `{"skill":"a\u0000"}`, protocol.BadRequest, "1 to 128 bytes"},
		{"a name that turns the text around", guard.ToolLoad, `{"skill":"a` + "\u202e" + `b"}`, guard.UnknownSkill, `a\u202eb`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, isError := edgeCall(t, rig.URL, "/mcp", apitest.AgentToken, c.tool, c.arguments)
			row := protocol.RefusalOf(c.code)
			if !isError || !strings.HasPrefix(text, "refused: "+string(c.code)+"\n") || !strings.Contains(text, c.says) || !strings.HasSuffix(text, "\nretry: "+string(row.Retry)) || strings.Contains(text, "\u202e") {
				t.Errorf("isError %v: %q, want %s and %q", isError, text, c.code, c.says)
			}
		})
	}
	if seen := rig.Runner.Seen(); len(seen) != 0 {
		t.Errorf("the runner was asked: %+v", seen)
	}
	rig.Closed()
}

// TestOperatorNamesAreJudged: what cannot be a skill's name is a refusal and never our own failure, and leaves nothing.
func TestOperatorNamesAreJudged(t *testing.T) {
	t.Parallel()
	rig := apitest.New(t)
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, name := range []string{`""`, `"a\u0000b"`, `"\u001b[2J"`, `"` + strings.Repeat("x", 30_000) + `"`, `"../adds"`, `"adds/"`, `"' OR 1=1 --"`, `"ad\u200bds"`, `"ADDS"`, `"broken"`} {
		for tool, arguments := range map[string]string{"skills_publish": `{"name":` + name + `}`, "skills_agent_set": `{"name":` + name + `,"enabled":true}`} {
			text, isError := edgeCall(t, rig.URL, "/mcp/operator", apitest.OperatorToken, tool, arguments)
			if !isError || !strings.HasPrefix(text, "refused: unknown_skill\n") && !strings.HasPrefix(text, "refused: bad_request\n") || len(text) > 1000 {
				t.Errorf("%s %.60s: %.200q", tool, arguments, text)
			}
		}
	}
	for _, arguments := range []string{`{"name":` + deep + `}`, `{"name":"adds","name":"writes"}`, `{"Name":"adds"}`, `{"name":"adds","\u006eame":"writes"}`, `{"name":null}`, `{"name":7}`} {
		if text, isError := edgeCall(t, rig.URL, "/mcp/operator", apitest.OperatorToken, "skills_publish", arguments); !isError || !strings.HasPrefix(text, "refused: bad_request\n") {
			t.Errorf("%.60s: %.200q", arguments, text)
		}
	}
	stored, err := rig.Store.Skills(t.Context())
	if err != nil || len(stored) != 0 {
		t.Errorf("stored: %v, %v", stored, err)
	}
	if text, isError := edgeCall(t, rig.URL, "/mcp/operator", apitest.OperatorToken, "skills_publish", `{"name":"adds"}`); isError {
		t.Errorf("the neighbour: %s", text)
	}
}
