package protocol_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/runner/protocol"
)

// TestTextInput: the string form carries judged bytes through an encoder unchanged, white space and all.
func TestTextInput(t *testing.T) {
	for _, judged := range []string{`{}`, " {\n\t\"a\" : 1.50 }\r\n", `{"b":1,"a":9007199254740993}`, `{"s":"<&>\u2028é\\"}`, "{\"s\":\"\u2028\"}"} {
		raw, err := json.Marshal(protocol.RunRequest{Input: protocol.TextInput([]byte(judged))})
		if err != nil {
			t.Fatal(err)
		}
		var req protocol.RunRequest
		var got string
		if err := json.Unmarshal(raw, &req); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(req.Input, &got); err != nil || got != judged {
			t.Errorf("got %q (%v), want %q", got, err, judged)
		}
	}
}

// TestLongestInputFits: the string form of the longest input, escaped as much as can be, is within the body's bound.
func TestLongestInputFits(t *testing.T) {
	longest := `{"s":"` + strings.Repeat("<", guard.MaxInputBytes-8) + `"}` // six characters each in the string form
	raw, err := json.Marshal(protocol.RunRequest{RunID: strings.Repeat("0", 36), Session: strings.Repeat("s", 64), Turn: strings.Repeat("t", 128),
		Skill: strings.Repeat("k", 128), Script: strings.Repeat("p", 128), Input: protocol.TextInput([]byte(longest)), TimeoutMS: 120_000,
		Approval: &protocol.Approval{ID: strings.Repeat("i", 36), Binding: strings.Repeat("b", 64), ApprovedBy: []string{strings.Repeat("n", 64), strings.Repeat("m", 64)},
			SOP: &protocol.SOP{Document: make([]byte, sop.MaxDocumentBytes), Signature: make([]byte, sop.MaxSignatureBytes)}}})
	if err != nil || len(longest) != guard.MaxInputBytes || len(raw) > protocol.MaxRequestBytes {
		t.Errorf("%d bytes of request for %d of input, at most %d (%v)", len(raw), len(longest), protocol.MaxRequestBytes, err)
	}
}

// TestMembers pins the names on the wire: changing one breaks whoever reads it.
func TestMembers(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		want []string
	}{
		{reflect.TypeFor[protocol.RunRequest](), []string{"run_id", "session", "turn", "skill", "script", "input", "timeout_ms", "skill_digest", "approval"}},
		{reflect.TypeFor[protocol.Result](), []string{"run_id", "outcome", "exit_code", "signal", "result", "detail", "dry_run", "stderr", "stderr_truncated", "usage", "sandbox", "script_sha256", "manifest_digest"}},
		{reflect.TypeFor[protocol.Usage](), []string{"wall_ms", "cpu_ms", "max_rss_bytes", "queued_ms"}},
		{reflect.TypeFor[protocol.SandboxInfo](), []string{"tier", "layers", "start"}},
		{reflect.TypeFor[protocol.Problem](), []string{"type", "title", "status", "detail", "code", "retry", "retry_after_ms", "pointer", "run_id", "approval_id", "manifest_digest"}},
		{reflect.TypeFor[protocol.Approval](), []string{"id", "binding", "approved_by", "expires", "sop"}},
		{reflect.TypeFor[protocol.SOP](), []string{"document", "signature"}},
		{reflect.TypeFor[protocol.Event](), []string{"event", "t_ms", "line", "result"}},
	} {
		var got []string
		for f := range c.of.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" { // what travels in a header
				got = append(got, name)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.of, diff)
		}
	}
}

// TestNoResultIsNull: without a result the member is there and null, not left out.
func TestNoResultIsNull(t *testing.T) {
	raw, err := json.Marshal(protocol.Result{Outcome: protocol.Timeout})
	if err != nil || !strings.Contains(string(raw), `"result":null`) {
		t.Errorf("%s (%v)", raw, err)
	}
}
