package ctl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xrayrunner/api/internal/ctl"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// fake is an api that knows one skill and notes what it is asked.
type fake struct {
	asked         []string
	events, ended string // what the record has, and how a run ends
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
	switch {
	case r.URL.Path == "/v1/skills/good/run":
		fmt.Fprint(w, f.ended)
	case r.URL.Path == "/v1/skills/drifted/stored":
		fmt.Fprint(w, `{"name":"drifted","in_manifest":true,"copy":"drift","why":"drift: a is missing"}`)
	case strings.HasPrefix(r.URL.Path, "/v1/skills/good/"):
		fmt.Fprint(w, `{"name":"good","available":true}`)
	case strings.HasPrefix(r.URL.Path, "/v1/skills/"):
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(protocol.NewProblem(guard.UnknownSkill, "there is no skill like that"))
	case r.URL.Path == "/v1/audit":
		fmt.Fprintf(w, `{"events":[%s]}`, f.events)
	default:
		fmt.Fprint(w, `{}`)
	}
}

type outcome struct {
	code     int
	out, err string
}

// xrayctl runs one command line against the fake; env is NAME=VALUE and comes after what it needs.
func (f *fake) xrayctl(t *testing.T, args []string, env ...string) outcome {
	t.Helper()
	s := httptest.NewServer(f)
	defer s.Close()
	var out, errs strings.Builder
	all := append([]string{"XRAYCTL_URL=" + s.URL, "XRAYCTL_TOKEN=secret"}, env...)
	code := ctl.Run(t.Context(), args, ctl.World{Env: lookup(all), In: strings.NewReader(""), Out: &out, Err: &errs})
	return outcome{code, out.String(), errs.String()}
}

func lookup(env []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, e := range slices.Backward(env) {
			if value, found := strings.CutPrefix(e, name+"="); found {
				return value, true
			}
		}
		return "", false
	}
}

// TestMistakes: each has its exit code and a message that names what is wrong, and nothing is sent.
func TestMistakes(t *testing.T) {
	two := filepath.Join(t.TempDir(), "two")
	if err := os.WriteFile(two, []byte("one token\nand more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, env, want string
	}{
		{"stauts", "", `there is no command "stauts" (did you mean status?); xrayctl help lists them`},
		{"x", "", `there is no command "x"; xrayctl help lists them`},
		{"-json status", "", "there is no option -json: options begin with --"},
		{"status --url=", "", "--url has an empty value; it needs URL"},
		{"status --url http://127.0.0.1:1/mcp/operator", "", "leave /mcp/operator out"},
		{"status", "XRAYCTL_TOKEN=", "a token is needed"},
		{"sop", "XRAYCTL_TOKEN=", "a token is needed"},
		{"sop put --file x --signature y", "XRAYCTL_TOKEN=", "a token is needed"},
		{"sop sign --key /nowhere --file x", "XRAYCTL_TOKEN=", "/nowhere"},
		{"sop verify --keys /nowhere --file /nowhere", "XRAYCTL_TOKEN=", "nowhere"},
		{"status --token-file /dev/null", "", "/dev/null is empty"},
		{"status --token-file " + two, "", "holds something else than one token"},
		{"audit --head " + strings.Repeat("0", 64), "", "audit has no option --head"},
		{"audit export --file x", "XRAYCTL_TOKEN=", "audit export has no option --file"},
		{"audit export --limit 3", "", "audit export has no option --limit"},
		{"audit verify --skill good", "", "audit verify has no option --skill"},
		{"audit verify --head abc", "", "--head needs 64 hexadecimal digits"},
		{"audit --since yesterday", "", `not "yesterday"`},
		{"tokens create ci", "", "ROLE is agent, viewer or operator"},
	} {
		f := &fake{}
		if got := f.xrayctl(t, strings.Fields(c.line), c.env); got.code != ctl.ExitUsage || !strings.Contains(got.err, c.want) || len(f.asked) > 0 {
			t.Errorf("%s: exit code %d, %q, asked %q; want 2, %q and no request", c.line, got.code, got.err, f.asked, c.want)
		}
	}
}

// TestEveryNameIsTried: in a hurry a name is misspelt, and the others have to be closed all the same.
func TestEveryNameIsTried(t *testing.T) {
	f := &fake{}
	got := f.xrayctl(t, []string{"disable", "bad", "good", "worse"})
	if got.code != ctl.ExitRefused || got.out != "good: available to agents\n" || strings.Count(got.err, "refused: unknown_skill") != 2 || !strings.Contains(got.err, "\nxrayctl skills lists") {
		t.Errorf("%+v", got)
	}
	if len(f.asked) != 3 {
		t.Errorf("asked %q", f.asked)
	}
}

// TestSince: what our own table prints can be asked for, and so can a date.
func TestSince(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-31":                "2026-01-31T00%3A00%3A00Z",
		"2026-01-31 12:00:01":       "2026-01-31T12%3A00%3A01Z",
		"2026-01-31T12:00:01":       "2026-01-31T12%3A00%3A01Z",
		"2026-01-31T12:00:01+01:00": "2026-01-31T11%3A00%3A01Z",
		"2h":                        "T",
	} {
		f := &fake{}
		if got := f.xrayctl(t, []string{"audit", "--since", text}); got.code != ctl.ExitOK || got.out != "no such event in the record\n" || !strings.Contains(f.asked[0], "since=") || !strings.Contains(f.asked[0], want) {
			t.Errorf("%s: %+v, asked %q", text, got, f.asked)
		}
	}
}

// TestChanges: the table says what an operator changed, not only that he did.
func TestChanges(t *testing.T) {
	f := &fake{events: `{"seq":2,"kind":"operator","body":{"tool":"skills_put","skill":"good","change":{"files":{"a":"1","b":"2"}}}},
		{"seq":1,"kind":"operator","body":{"tool":"tool_config_set","change":{"to":false,"tool":"skill_run"}}}`}
	got := f.xrayctl(t, []string{"audit"})
	lines := strings.Split(got.out, "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[1], "  to=false tool=skill_run") || !strings.HasSuffix(lines[2], "  files=2") {
		t.Errorf("%s", got.out)
	}
}

// TestVerifyFile needs no api; what holds no event is not whole, with --json too.
func TestVerifyFile(t *testing.T) {
	f := &fake{}
	got := f.xrayctl(t, []string{"audit", "verify", "--file", "/dev/null", "--json"}, "XRAYCTL_TOKEN=")
	var report struct {
		OK     bool
		Reason string
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.OK || report.Reason == "" || got.code != ctl.ExitBad || len(f.asked) > 0 {
		t.Errorf("%+v (%v), asked %q", got, err, f.asked)
	}
}

// TestNoBlanksAtTheEnd of a line: an empty last column would wrap on a narrow terminal.
func TestNoBlanksAtTheEnd(t *testing.T) {
	f := &fake{events: `{"seq":1,"kind":"operator","body":{"tool":"skills_delete"}}`}
	if got := f.xrayctl(t, []string{"audit"}); strings.Contains(got.out, " \n") || !strings.Contains(got.out, "skills_delete") {
		t.Errorf("%q", got.out)
	}
}

// TestRunEnds: a result stands alone on standard output, and a run that failed has none.
func TestRunEnds(t *testing.T) {
	for _, c := range []struct {
		ended string
		code  int
		out   string
	}{
		{`{"outcome":"ok","result":{"a":1}}`, ctl.ExitOK, "{\"a\":1}\n"},
		{`{"outcome":"ok","result":null}`, ctl.ExitOK, "null\n"},
		{`{"outcome":"cpu_limit","result":null}`, ctl.ExitBad, ""},
	} {
		if got := (&fake{ended: c.ended}).xrayctl(t, []string{"run", "good", "x.py"}); got.code != c.code || got.out != c.out {
			t.Errorf("%s: %+v", c.ended, got)
		}
	}
}

// TestDriftIsSaidOnce, not as state and as reason.
func TestDriftIsSaidOnce(t *testing.T) {
	if got := (&fake{}).xrayctl(t, []string{"skills", "drifted"}); !strings.HasPrefix(got.out, "drifted: drift: a is missing\n") {
		t.Errorf("%+v", got)
	}
}

// TestInterrupted: Ctrl-C while standard input is read ends the command; a terminal's read does not end by itself.
func TestInterrupted(t *testing.T) {
	in, held := io.Pipe()
	defer held.Close()
	ctx, stop := context.WithCancel(t.Context())
	var errs strings.Builder
	ended := make(chan int)
	go func() {
		ended <- ctl.Run(ctx, []string{"run", "good", "x.py", "-"}, ctl.World{Env: lookup([]string{"XRAYCTL_TOKEN=secret"}), In: in, Out: io.Discard, Err: &errs})
	}()
	stop()
	if code := <-ended; code != ctl.ExitStopped || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}
