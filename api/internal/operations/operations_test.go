package operations_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/api/internal/operations"
)

var update = flag.Bool("update", false, "write docs/operations.md")

// TestDocs keeps docs/operations.md as the descriptions have it.
func TestDocs(t *testing.T) {
	const path = "../../../docs/operations.md"
	var b strings.Builder
	b.WriteString("# Operations\n\nWritten by `go test ./api/internal/operations -update`. Each is an MCP tool at `/mcp/operator` (all but the export), a REST\n" +
		"call, and what `xrayctl` does. Over REST the arguments in the path come from there, those of GET and DELETE from the query,\n" +
		"the rest from a JSON body. What only reads is open to viewers, too.\n\n| name | REST | role | does | arguments |\n|---|---|---|---|---|\n")
	for _, o := range operations.All {
		role := "operator"
		if o.Reads {
			role = "viewer, operator"
		}
		var args []string
		for _, a := range o.Args {
			name := "`" + a.Name + "`"
			if !a.Required {
				name = "[" + name + "]"
			}
			text := a.Text
			if len(a.Enum) > 0 {
				text += " (" + strings.Join(a.Enum, ", ") + ")"
			}
			args = append(args, name+": "+text)
		}
		fmt.Fprintf(&b, "| `%s` | `%s %s` | %s | %s | %s |\n", o.Name, o.Method, o.Path, role, o.Text, strings.Join(args, "; "))
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if diff := cmp.Diff(b.String(), string(got)); err != nil || diff != "" {
		t.Errorf("docs/operations.md is not current (%v): go test ./api/internal/operations -update\n%s", err, diff)
	}
}

// TestCheck: what fits passes, what does not is named.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"status", `{}`, ""},
		{"tool_config_set", `{"tool":"skill_run","enabled":false}`, ""},
		{"tool_config_set", `{"tool":"skill_run","enabled":0}`, "enabled must be true or false"},
		{"tool_config_set", `{"tool":"skill_run"}`, "enabled is missing"},
		{"tool_config_set", `{"tool":"bash","enabled":true}`, "tool must be one of"},
		{"tool_config_set", `{"tool":null,"enabled":true}`, "tool must be a text"},
		{"sandbox_config_set", `{"daily_run_limit":1.5,"total_timeout_ms":5000}`, "daily_run_limit must be a whole number"},
		{"sandbox_config_set", `{"daily_run_limit":1,"total_timeout_ms":4999}`, "total_timeout_ms must be a whole number from 5000"},
		{"skills_get", `{"name":""}`, "name must not be empty"},
		{"skills_get", `{"name":"` + strings.Repeat("a", 129) + `"}`, "name must be at most 128 bytes"},
		{"skills_put", `{"name":"a","files":[]}`, "files must be an object"},
		{"skills_get", `{"name":"a","x":1}`, `skills_get has no argument "x"`},
	} {
		o, known := operations.Find(c.name)
		var args map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.args), &args); err != nil || !known {
			t.Fatal(c.name, err)
		}
		if got := o.Check(args); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s %s: %q, want %q", c.name, c.args, got, c.want)
		}
	}
}

// TestRequest: each argument goes to its place, and hostile text stays inside it.
func TestRequest(t *testing.T) {
	o, _ := operations.Find("skills_file_delete")
	path, body := o.Request(map[string]json.RawMessage{"name": json.RawMessage(`"a/../b?c"`), "path": json.RawMessage(`"x&y=z"`)})
	if path != "/v1/skills/a%2F..%2Fb%3Fc/file?path=x%26y%3Dz" || body != nil {
		t.Errorf("%s %s", path, body)
	}
	o, _ = operations.Find("skills_agent_set")
	if path, body := o.Request(map[string]json.RawMessage{"name": json.RawMessage(`"a"`), "enabled": json.RawMessage(`true`)}); path != "/v1/skills/a/agent" || string(body) != `{"enabled":true}` {
		t.Errorf("%s %s", path, body)
	}
}
