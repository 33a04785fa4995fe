package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xrayrunner/api/internal/config"
)

func TestLoad(t *testing.T) {
	for _, c := range []struct{ env, want string }{ // want: what the error names; "" when it is accepted
		{"XRAY_DB_SYNC=full", ""}, {"XRAY_DB_SYNC=normal", ""}, {"XRAY_DB_SYNC=", "XRAY_DB_SYNC"}, {"XRAY_DB_SYNC=FULL", "XRAY_DB_SYNC"},
		{"XRAY_UNLOCK_DANGEROUS_TOOLS=1", ""}, {"XRAY_UNLOCK_DANGEROUS_TOOLS=0", ""}, {"XRAY_UNLOCK_DANGEROUS_TOOLS=", ""},
		{"XRAY_UNLOCK_DANGEROUS_TOOLS=true", "XRAY_UNLOCK_DANGEROUS_TOOLS"}, {"XRAY_UNLOCK_DANGEROUS_TOOLS= 1", "XRAY_UNLOCK_DANGEROUS_TOOLS"},
		{"XRAY_SKILL_RUNNER_URL=unix:/run/x.sock", ""}, {"XRAY_SKILL_RUNNER_URL=http://127.0.0.1:8081", ""},
		{"XRAY_SKILL_RUNNER_URL=http://10.0.0.1:8081", "XRAY_SKILL_RUNNER_URL"}, {"XRAY_SKILL_RUNNER_URL=http://localhost:8081", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_SKILL_RUNNER_URL=", "XRAY_SKILL_RUNNER_URL"},
		{"XRAY_AGENT_TOKN=0123456789abcdef", "did you mean XRAY_AGENT_TOKEN"}, {"HOME=/root", ""},
	} {
		_, err := config.Load([]string{c.env})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.env, err, c.want)
		}
	}
	c, err := config.Load(nil)
	if err != nil || c.Unlock || c.FullSync || len(c.Tokens) != 0 || c.Listen != "127.0.0.1:8080" {
		t.Errorf("nothing set: %+v (%v), want locked, without tokens, on loopback", c, err)
	}
	if c, err = config.Load([]string{"XRAY_UNLOCK_DANGEROUS_TOOLS=1"}); err != nil || !c.Unlock {
		t.Errorf("unlocked: %+v (%v)", c, err)
	}
}

// TestCase42EmptyTokens: a token that is set and is none refuses the start; only unset means that there is none.
func TestCase42EmptyTokens(t *testing.T) {
	const good = "0123456789abcdef"
	dir := t.TempDir()
	file := func(text string) string {
		t.Helper()
		f, err := os.CreateTemp(dir, "token")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	for _, role := range []string{"agent", "viewer", "operator"} {
		name := "XRAY_" + strings.ToUpper(role) + "_TOKEN"
		for _, c := range []struct {
			say  string
			env  []string
			want string // the token; "" when the start is refused
		}{
			{"good", []string{name + "=" + good}, good},
			{"one character short", []string{name + "=" + good[1:]}, ""},
			{"empty", []string{name + "="}, ""},
			{"one space", []string{name + "= "}, ""},
			{"16 spaces", []string{name + "=" + strings.Repeat(" ", 16)}, ""},
			{"undefined", []string{name + "=undefined"}, ""},
			{"null", []string{name + "=null"}, ""},
			{"a space within", []string{name + "=0123456789 abcdef"}, ""},
			{"a newline at the end", []string{name + "=" + good + "\n"}, ""},
			{"not ASCII", []string{name + "=" + good + "é"}, ""},
			{"a control character", []string{name + "=" + good + "\x7f"}, ""},
			{"file", []string{name + "_FILE=" + file(good)}, good},
			{"file with a newline", []string{name + "_FILE=" + file(good+"\n")}, good},
			{"file with CRLF", []string{name + "_FILE=" + file(good+"\r\n")}, good},
			{"file with two newlines", []string{name + "_FILE=" + file(good+"\n\n")}, ""},
			{"file with a space", []string{name + "_FILE=" + file(good+" \n")}, ""},
			{"empty file", []string{name + "_FILE=" + file("")}, ""},
			{"file of a newline", []string{name + "_FILE=" + file("\n")}, ""},
			{"file with undefined", []string{name + "_FILE=" + file("undefined\n")}, ""},
			{"file that is not there", []string{name + "_FILE=" + filepath.Join(dir, "none")}, ""},
			{"file without a name", []string{name + "_FILE="}, ""},
			{"both", []string{name + "=" + good, name + "_FILE=" + file(good)}, ""},
			{"both, one empty", []string{name + "=", name + "_FILE=" + file(good)}, ""},
		} {
			got, err := config.Load(c.env)
			switch {
			case c.want != "" && (err != nil || got.Tokens[role] != c.want || len(got.Tokens) != 1):
				t.Errorf("%s %s: %v (%v), want the token", role, c.say, got.Tokens, err)
			case c.want == "" && (err == nil || !strings.Contains(err.Error(), name)):
				t.Errorf("%s %s: %v, want an error that names %s", role, c.say, err, name)
			case err != nil && strings.Contains(err.Error(), good[1:]):
				t.Errorf("%s %s: the error holds the token: %v", role, c.say, err)
			}
		}
		unset, err := config.Load(nil)
		if _, there := unset.Tokens[role]; err != nil || there {
			t.Errorf("%s unset: %v (%v), want none", role, unset.Tokens, err)
		}
	}
}

// TestOneTokenOneRole: the agent's own token never opens an operator's door.
func TestOneTokenOneRole(t *testing.T) {
	const a, b = "0123456789abcdef", "fedcba9876543210"
	for _, c := range []struct {
		one, other string
		ok         bool
	}{{a, b, true}, {a, a, false}} {
		_, err := config.Load([]string{"XRAY_AGENT_TOKEN=" + c.one, "XRAY_OPERATOR_TOKEN=" + c.other})
		if (err == nil) != c.ok {
			t.Errorf("%s and %s: %v, want accepted: %v", c.one, c.other, err, c.ok)
		}
	}
}
