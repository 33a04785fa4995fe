package server_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/internal/mounts"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/server"
	"xrayrunner/runner/protocol"
)

// TestRefusals: each row is a body; "" as code means that it runs. Refused ones start nothing.
func TestRefusals(t *testing.T) {
	f := start(t, 2, 8, nil)
	env := func(session, turn, more string) string {
		return `{"session":"` + session + `","turn":"` + turn + `","skill":"one","script":"run.py","input":{}` + more + `}`
	}
	text := func(s string) string { return string(protocol.TextInput([]byte(s))) }
	for _, c := range []struct {
		name, body string
		want       guard.Code
	}{
		{"a sound call", f.request("one", "run.py", "{}"), ""},
		{"with white space around", " \n" + f.request("one", "run.py", "{}") + "\n", ""},
		{"no body", "", protocol.BadRequest},
		{"no JSON", "run it", protocol.BadRequest},
		{"an array", "[]", protocol.BadRequest},
		{"null", "null", protocol.BadRequest},
		{"two bodies", f.request("one", "run.py", "{}") + "{}", protocol.BadRequest},
		{"byte-order mark", "\ufeff" + f.request("one", "run.py", "{}"), protocol.BadRequest},

		{"case 02: another letter case beside", env("c1", "t", `,"Skill":"other"`), protocol.BadRequest},
		{"case 02: long s", env("c2", "t", `,"\u017fkill":"other"`), protocol.BadRequest},
		{"case 02: Kelvin sign", env("c3", "t", `,"s\u212aill":"other"`), protocol.BadRequest},
		{"case 02: the key twice", env("c4", "t", `,"script":"run.py"`), protocol.BadRequest},
		{"case 02: the key twice, escaped", env("c5", "t", `,"\u0073kill":"other"`), protocol.BadRequest},
		{"case 02: a NUL after the key", env("c6", "t", `,"skill\u0000":"other"`), protocol.BadRequest},
		{"case 02: an unknown key", env("c7", "t", `,"env":{"PATH":"/x"}`), protocol.BadRequest},
		{"case 02: input twice", env("c8", "t", `,"input":{"n":1}`), protocol.BadRequest},
		{"case 02: a key twice in the input", f.request("one", "run.py", `{"n":1,"n":2}`), guard.InputInvalid},
		{"case 02: a key twice in the text", f.request("one", "run.py", text(`{"n":1,"n":2}`)), guard.InputInvalid},
		{"case 02: another letter case in the input", f.request("one", "run.py", `{"N":1}`), guard.InputInvalid},

		{"session of 64", env(strings.Repeat("s", 64), "t", ""), ""},
		{"session of 65", env(strings.Repeat("s", 65), "t", ""), protocol.BadRequest},
		{"no session", env("", "t", ""), protocol.BadRequest},
		{"session with a slash", env("a/b", "t", ""), protocol.BadRequest},
		{"session with a line feed at its end", env(`a\n`, "t", ""), protocol.BadRequest},
		{"turn of 128", env("t1", strings.Repeat("t", 128), ""), ""},
		{"turn of 129", env("t2", strings.Repeat("t", 129), ""), protocol.BadRequest},
		{"no turn", env("t3", "", ""), protocol.BadRequest},
		{"a null session", `{"session":null,"turn":"t","skill":"one","script":"run.py","input":{}}`, protocol.BadRequest},
		{"a number for a name", `{"session":1,"turn":"t","skill":"one","script":"run.py","input":{}}`, protocol.BadRequest},
		{"no skill", f.request("", "run.py", "{}"), protocol.BadRequest},
		{"no script", f.request("one", "", "{}"), protocol.BadRequest},
		{"script with a control character", f.request("one", `run.py\u0007`, "{}"), protocol.BadRequest},
		{"time of 120000", env("ti1", "t", `,"timeout_ms":120000`), ""},
		{"time of 120001", env("ti2", "t", `,"timeout_ms":120001`), protocol.BadRequest},
		{"time below nothing", env("ti3", "t", `,"timeout_ms":-1`), protocol.BadRequest},
		{"half a millisecond", env("ti4", "t", `,"timeout_ms":0.5`), protocol.BadRequest},

		{"unknown skill", f.request("nobody", "run.py", "{}"), guard.UnknownSkill},
		{"a skill by a path", f.request("../one", "run.py", "{}"), guard.UnknownSkill},
		{"unknown script", f.request("one", "else.py", "{}"), guard.UnknownScript},
		{"a script by a path", f.request("one", "../other/run.py", "{}"), guard.UnknownScript},
		{"text only", f.request("prose", "run.py", "{}"), guard.NotRunnable},
		{"above the ceiling", f.request("mutating", "run.py", "{}"), guard.ClassNotAllowed},
		{"of another network", f.request("egress", "run.py", "{}"), guard.WrongNetwork},

		{"4096 bytes", f.request("one", "run.py", `{"s":"`+strings.Repeat("x", 4088)+`"}`), ""},
		{"4097 bytes", f.request("one", "run.py", `{"s":"`+strings.Repeat("x", 4089)+`"}`), guard.InputTooLarge},
		{"4096 bytes as text", f.request("one", "run.py", text(`{"s":"`+strings.Repeat("<", 4088)+`"}`)), ""},
		{"4097 bytes as text", f.request("one", "run.py", text(`{"s":"`+strings.Repeat("<", 4089)+`"}`)), guard.InputTooLarge},
		{"more than any request", f.request("one", "run.py", `{"s":"`+strings.Repeat("x", protocol.MaxRequestBytes)+`"}`), guard.InputTooLarge},
		{"no input", `{"session":"ni","turn":"t","skill":"one","script":"run.py"}`, guard.InputNotObject},
		{"null input", f.request("one", "run.py", "null"), guard.InputNotObject},
		{"an array for input", f.request("one", "run.py", "[]"), guard.InputNotObject},
		{"a number for input", f.request("one", "run.py", "1"), guard.InputNotObject},
		{"text that is no object", f.request("one", "run.py", text("[]")), guard.InputNotObject},
		{"text in a text", f.request("one", "run.py", text(text("{}"))), guard.InputNotObject},
		{"empty text", f.request("one", "run.py", `""`), guard.InputNotObject},
		{"of the wrong type", f.request("one", "run.py", `{"n":"1"}`), guard.InputInvalid},
		{"case 01: huge exponent", f.request("one", "run.py", `{"n":1e1000001}`), guard.InputInvalid},
		{"case 01: huge exponent as text", f.request("one", "run.py", text(`{"n":-1e-1000001}`)), guard.InputInvalid},
		{"case 01: 200 levels", f.request("one", "run.py", `{"s":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`), guard.InputInvalid},
		{"an escaped tab", f.request("one", "run.py", `{"s":"\t"}`), ""},
		{"an escaped escape", f.request("one", "run.py", `{"s":"\u001b[2J"}`), guard.ControlChars},
		{"a C1 in the text", f.request("one", "run.py", text("{\"s\":\"\u009b\"}")), guard.ControlChars},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.t = t
			before := f.box.started.Load()
			got := f.run(t.Context(), c.body)
			ran := f.box.started.Load() - before
			if c.want == "" {
				f.served(got)
			} else {
				f.refused(got, c.want)
			}
			if (ran == 1) != (c.want == "") {
				t.Errorf("%d runs were started", ran)
			}
		})
	}
	f.t = t
}

// TestApproval: with a higher ceiling the class is let through, and the approval decides; it is good for one run.
func TestApproval(t *testing.T) {
	f := start(t, 1, 1, func(s *server.Server, _ *http.Server) { s.MaxClass = manifests.Mutating })
	f.refused(f.run(t.Context(), f.request("mutating", "run.py", "{}")), guard.ApprovalRequired)
	f.served(f.run(t.Context(), f.request("one", "run.py", "{}")))

	sum := f.server.Lock.Skills["mutating"].Files["run.py"].SHA256
	approval := `,"approval":{"id":"a","binding":"` + protocol.Binding("mutating", "run.py", sum, []byte("{}"), f.server.Lock.Digest()) +
		`","approved_by":["ann"],"expires":"` + time.Now().Add(time.Minute).Format(time.RFC3339) + `"}}`
	with := func(input string) string {
		return strings.TrimSuffix(f.request("mutating", "run.py", input), "}") + approval
	}
	f.refused(f.run(t.Context(), with("{ }")), guard.ApprovalVoid)
	f.served(f.run(t.Context(), with("{}")))
	f.refused(f.run(t.Context(), with("{}")), guard.ApprovalUsed)
}

// TestApprovalIsGivenBack when the run never started: here because the runner has no place.
func TestApprovalIsGivenBack(t *testing.T) {
	f := start(t, 1, 0, func(s *server.Server, _ *http.Server) { s.MaxClass = manifests.Mutating })
	gate, done := make(chan struct{}), make(chan reply, 1)
	f.box.runs(until(gate))
	go func() { done <- f.run(context.Background(), f.request("one", "run.py", "{}")) }()
	f.eventually("the place is taken", f.load(1, 0))
	sum := f.server.Lock.Skills["mutating"].Files["run.py"].SHA256
	body := strings.TrimSuffix(f.request("mutating", "run.py", "{}"), "}") + `,"approval":{"id":"a","binding":"` +
		protocol.Binding("mutating", "run.py", sum, []byte("{}"), f.server.Lock.Digest()) + `","approved_by":["ann"],"expires":"` + time.Now().Add(time.Minute).Format(time.RFC3339) + `"}}`
	f.refused(f.run(t.Context(), body), protocol.Busy)
	close(gate)
	f.served(<-done)
	f.served(f.run(t.Context(), body))
}

// TestNotMounted: a skill whose folder is not given, or only for reading where it must write, does not run at all, not even dry:
// it would do something else than was reviewed.
func TestNotMounted(t *testing.T) {
	f := start(t, 1, 1, func(s *server.Server, _ *http.Server) { s.MaxClass = manifests.Mutating })
	for _, c := range []struct {
		given mounts.Table
		want  guard.Code
	}{
		{mounts.Table{"cache": {Path: "/srv/cache", Writable: true}}, guard.ApprovalRequired}, // the next thing that it lacks
		{mounts.Table{"cache": {Path: "/srv/cache"}}, guard.NotMounted},
		{mounts.Table{"other": {Path: "/srv/cache", Writable: true}}, guard.NotMounted},
		{nil, guard.NotMounted},
	} {
		f.server.Executor.Mounts = c.given
		f.refused(f.run(t.Context(), f.request("mutating", "run.py", "{}")), c.want)
	}
	f.refused(f.run(t.Context(), f.request("mutating", "run.py", `{"dry":true}`)), guard.NotMounted)
	f.served(f.run(t.Context(), f.request("one", "run.py", "{}")))
}

func TestEnvelopePointer(t *testing.T) {
	f := start(t, 1, 1, nil)
	for _, input := range []string{`{"n":1,"n":2}`, string(protocol.TextInput([]byte(`{"n":1,"n":2}`)))} {
		if got := f.run(t.Context(), f.request("one", "run.py", input)); got.problem.Pointer != "/n" {
			t.Errorf("%s: pointer %q, want /n in both forms", input, got.problem.Pointer)
		}
	}
}

func TestHeaders(t *testing.T) {
	f := start(t, 1, 1, nil)
	for _, c := range []struct {
		name   string
		header []string
		want   guard.Code
	}{
		{"JSON", nil, ""},
		{"JSON with its charset", []string{"Content-Type", "application/json; charset=utf-8"}, ""},
		{"none", []string{"Content-Type", ""}, protocol.BadRequest},
		{"a form", []string{"Content-Type", "application/x-www-form-urlencoded"}, protocol.BadRequest},
		{"text, which a page of another site may send", []string{"Content-Type", "text/plain"}, protocol.BadRequest},
		{"gzip", []string{"Content-Encoding", "gzip"}, protocol.BadRequest},
		{"our manifest", []string{protocol.HeaderManifest, f.server.Lock.Digest()}, ""},
		{"another manifest", []string{protocol.HeaderManifest, "sha256:0"}, protocol.ManifestMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.t = t
			got := f.run(t.Context(), f.request("one", "run.py", "{}"), c.header...)
			if c.want == "" {
				f.served(got)
			} else {
				f.refused(got, c.want)
			}
		})
	}
	f.t = t
}

// TestBodyOfAMegabyte is refused before it has been read to its end.
func TestBodyOfAMegabyte(t *testing.T) {
	f := start(t, 1, 1, nil)
	conn, err := net.Dial("unix", f.path)
	must(t, err)
	defer conn.Close()
	go func() { // it cannot be written whole: the other side stops reading
		_, _ = conn.Write([]byte("POST /run HTTP/1.1\r\nHost: r\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat(" ", 1<<20)))
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || f.box.started.Load() != 0 {
		t.Errorf("status %d, %d runs", resp.StatusCode, f.box.started.Load())
	}
}

func TestNotFound(t *testing.T) {
	f := start(t, 1, 1, nil)
	for _, c := range []struct{ method, path string }{{"GET", "/"}, {"GET", "/debug/pprof/"}, {"GET", "/run"}, {"DELETE", "/healthz"}, {"POST", "/runs"}, {"POST", "/run/x"}, {"PUT", "/manifest"}} {
		f.refused(f.do(t.Context(), c.method, c.path, ""), protocol.NotFound)
	}
}

// TestQuotas: refused calls count nothing, and neither a new turn nor a run id of one's own lifts the session's bound.
func TestQuotas(t *testing.T) {
	f := start(t, 2, 8, nil)
	call := func(turn, input string) reply {
		return f.run(t.Context(), `{"session":"q","turn":"`+turn+`","skill":"one","script":"run.py","input":`+input+`}`)
	}
	for _, turn := range []string{"t1", "t2", "t3", "t4"} {
		for range 3 {
			f.refused(call(turn, `{"n":"x"}`), guard.InputInvalid)
			f.served(call(turn, `{}`))
		}
		if turn != "t4" {
			f.refused(call(turn, `{}`), guard.QuotaTurn)
		}
	}
	f.refused(call("t4", `{}`), guard.QuotaSession)
	f.refused(call("t5", `{}`), guard.QuotaSession)
	if got := f.box.started.Load(); got != 12 {
		t.Errorf("%d runs were started, want 12", got)
	}
	f.served(f.run(t.Context(), f.request("one", "run.py", "{}")))
}

// TestCase14Burst: 50 calls of one turn at once, exactly 3 run.
func TestCase14Burst(t *testing.T) {
	f := start(t, 2, 64, nil)
	codes := make(chan guard.Code, 50)
	for range cap(codes) {
		go func() {
			codes <- f.run(t.Context(), `{"session":"burst","turn":"t","skill":"one","script":"run.py","input":{}}`).problem.Code
		}()
	}
	got := map[guard.Code]int{}
	for range cap(codes) {
		got[<-codes]++
	}
	if got[""] != 3 || got[guard.QuotaTurn] != 47 || f.box.started.Load() != 3 {
		t.Errorf("%v, %d started; want 3 and 47", got, f.box.started.Load())
	}
}

func TestRunIDs(t *testing.T) {
	f := start(t, 1, 0, nil)
	withID := func(id string) string {
		return strings.Replace(f.request("one", "run.py", "{}"), `{`, `{"run_id":"`+id+`",`, 1)
	}
	id := uuid.Must(uuid.NewV7()).String()
	first := f.run(t.Context(), withID(id))
	f.served(first)
	if first.result.RunID != id {
		t.Errorf("run id %s, want %s", first.result.RunID, id)
	}
	again := f.run(t.Context(), withID(id))
	f.refused(again, protocol.DuplicateRun)
	if again.problem.RunID != id {
		t.Errorf("the refusal names run %q, want %s", again.problem.RunID, id)
	}
	f.refused(f.run(t.Context(), withID("01900000-0000-7000-8000-000000000000")), protocol.DuplicateRun) // of 2024
	f.refused(f.run(t.Context(), withID(uuid.NewString())), protocol.BadRequest)
	f.refused(f.run(t.Context(), withID("run-1")), protocol.BadRequest)
	made := f.run(t.Context(), f.request("one", "run.py", "{}"))
	f.served(made)
	if _, err := uuid.Parse(made.result.RunID); err != nil {
		t.Errorf("no run id was made: %q", made.result.RunID)
	}
	// One that was refused before it started is free again: here because all places are taken.
	gate := make(chan struct{})
	f.box.runs(until(gate))
	done := make(chan reply)
	go func() { done <- f.run(t.Context(), f.request("one", "run.py", "{}")) }()
	f.eventually("one runs", f.load(1, 0))
	id = uuid.Must(uuid.NewV7()).String()
	f.refused(f.run(t.Context(), withID(id)), protocol.Busy)
	close(gate)
	f.served(<-done)
	f.served(f.run(t.Context(), withID(id)))
}

// TestRefusedDuplicateCountsNothing: what was taken before the refusal is given back.
func TestRefusedDuplicateCountsNothing(t *testing.T) {
	f := start(t, 1, 1, nil)
	id := uuid.Must(uuid.NewV7()).String()
	body := func(id string) string {
		return `{"run_id":"` + id + `","session":"d","turn":"t","skill":"one","script":"run.py","input":{}}`
	}
	f.served(f.run(t.Context(), body(id)))
	for range 5 {
		f.refused(f.run(t.Context(), body(id)), protocol.DuplicateRun)
	}
	for range 2 {
		f.served(f.run(t.Context(), body(uuid.Must(uuid.NewV7()).String())))
	}
	f.refused(f.run(t.Context(), body(uuid.Must(uuid.NewV7()).String())), guard.QuotaTurn)
}

// TestIntegrity: a skill whose source changed stops, the others run, and health says so.
func TestIntegrity(t *testing.T) {
	f := start(t, 1, 1, nil)
	if got := f.do(t.Context(), "GET", protocol.PathHealthz, ""); got.status != http.StatusOK {
		t.Errorf("health before: %d %s", got.status, got.body)
	}
	f.served(f.run(t.Context(), f.request("one", "run.py", "{}")))
	path := filepath.Join(f.source, "one", "run.py")
	old, err := os.ReadFile(path)
	must(t, errors.Join(err, os.WriteFile(path, []byte("print('pwned')"), 0o644)))
	session := f.request("one", "run.py", "{}")
	f.refused(f.run(t.Context(), session), guard.Integrity) // found by the look before the run
	must(t, os.WriteFile(path, old, 0o644))
	for range 3 {
		f.refused(f.run(t.Context(), session), guard.Integrity) // and kept, though the bytes are back
	}
	f.served(f.run(t.Context(), f.request("other", "run.py", "{}")))
	got := f.do(t.Context(), "GET", protocol.PathHealthz, "")
	if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "skill one is stopped") {
		t.Errorf("health after: %d %s", got.status, got.body)
	}
	if f.box.started.Load() != 2 {
		t.Errorf("%d runs, want 2", f.box.started.Load())
	}
}

// TestPeers: scripts run as the runner's own user, so that one may ask for health and nothing else.
func TestPeers(t *testing.T) {
	for _, c := range []struct {
		name  string
		allow []uint32
		want  bool
	}{
		{"our own user", nil, false},
		{"our own user, when named", []uint32{uint32(os.Getuid())}, true},
		{"another is named", []uint32{uint32(os.Getuid()) + 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t, 1, 1, func(s *server.Server, _ *http.Server) { s.AllowUIDs = c.allow })
			for _, path := range []string{protocol.PathManifest, protocol.PathExternal, protocol.PathMetrics} {
				if got := f.do(t.Context(), "GET", path, ""); c.want != (got.status == http.StatusOK) {
					t.Errorf("%s: %d", path, got.status)
				}
			}
			got := f.run(t.Context(), f.request("one", "run.py", "{}"))
			if c.want {
				f.served(got)
			} else {
				f.refused(got, protocol.Forbidden)
			}
			if health := f.do(t.Context(), "GET", protocol.PathHealthz, ""); health.status != http.StatusOK {
				t.Errorf("health: %d", health.status)
			}
		})
	}
}

// TestCase42Token: over TCP only the exact token, once.
func TestCase42Token(t *testing.T) {
	f := start(t, 1, 1, func(s *server.Server, _ *http.Server) { s.Token = token })
	f.refused(f.run(t.Context(), f.request("one", "run.py", "{}")), protocol.Unauthorized)
	for _, header := range []string{"Bearer", "Bearer ", "Bearer undefined", "Bearer  " + token, "bearer " + token, token, "Bearer " + token[1:], "Bearer " + token + "0", "Basic " + token} {
		f.refused(f.run(t.Context(), f.request("one", "run.py", "{}"), "Authorization", header), protocol.Unauthorized)
	}
	f.served(f.run(t.Context(), f.request("one", "run.py", "{}"), "Authorization", "Bearer "+token))
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://runner/manifest", nil)
	must(t, err)
	req.Header["Authorization"] = []string{"Bearer " + token, "Bearer " + token}
	resp, err := f.http.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token twice: %d", resp.StatusCode)
	}
	if got := f.do(t.Context(), "GET", protocol.PathHealthz, ""); got.status != http.StatusOK {
		t.Errorf("health: %d", got.status)
	}
}

// TestNoFailurePassesForAnAnswer: our own failure is an outcome of its own, and says so.
func TestNoFailurePassesForAnAnswer(t *testing.T) {
	f := start(t, 1, 1, nil)
	f.box.runs(func(_ context.Context, _ sandbox.Spec) (sandbox.Exit, error) {
		return sandbox.Exit{}, errors.New("no sandbox today")
	})
	got := f.run(t.Context(), f.request("one", "run.py", "{}"))
	if got.status != http.StatusOK || got.result.Outcome != protocol.SandboxError || !strings.Contains(got.body, `"result":null`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestSameFolder: an external skill runs only for a caller that judged by the digest that was loaded.
func TestSameFolder(t *testing.T) {
	f := start(t, 1, 1, func(s *server.Server, _ *http.Server) {
		s.External = protocol.External{Skills: map[string]protocol.ExternalSkill{"one": {Digest: "sha256:now"}}}
	})
	with := func(digest string) string {
		return strings.TrimSuffix(f.request("one", "run.py", "{}"), "}") + `,"skill_digest":"` + digest + `"}`
	}
	f.refused(f.run(t.Context(), f.request("one", "run.py", "{}")), guard.SkillDrift)
	f.refused(f.run(t.Context(), with("sha256:before")), guard.SkillDrift)
	f.served(f.run(t.Context(), with("sha256:now")))
}

// TestDryRun: the runner reads the input itself. A dry run needs no approval and no ceiling, and has no folder to write to;
// what says false, or nothing, is refused; and an approved run of the same script has its folder.
func TestDryRun(t *testing.T) {
	f := start(t, 1, 1, nil)
	var spec sandbox.Spec
	f.box.runs(func(_ context.Context, s sandbox.Spec) (sandbox.Exit, error) { spec = s; return printed("{}"), nil })
	dry := f.run(t.Context(), f.request("mutating", "run.py", `{"dry":true}`))
	if !dry.result.DryRun || len(spec.Writable) > 0 || !slices.Contains(spec.Readable, "/srv/cache") {
		t.Errorf("%d %s: writable %v, readable %v", dry.status, dry.body, spec.Writable, spec.Readable)
	}
	for _, input := range []string{`{"dry":false}`, `{}`} {
		f.refused(f.run(t.Context(), f.request("mutating", "run.py", input)), guard.ClassNotAllowed)
	}
	f.server.MaxClass = manifests.Mutating
	f.refused(f.run(t.Context(), f.request("mutating", "run.py", `{"dry":false}`)), guard.ApprovalRequired)
	sum := f.server.Lock.Skills["mutating"].Files["run.py"].SHA256
	wet := f.run(t.Context(), strings.TrimSuffix(f.request("mutating", "run.py", "{}"), "}")+`,"approval":{"id":"a","binding":"`+
		protocol.Binding("mutating", "run.py", sum, []byte("{}"), f.server.Lock.Digest())+`","approved_by":["ann"],"expires":"`+time.Now().Add(time.Minute).Format(time.RFC3339)+`"}}`)
	if wet.result.DryRun || !slices.Equal(spec.Writable, []string{"/srv/cache"}) {
		t.Errorf("%d %s: writable %v", wet.status, wet.body, spec.Writable)
	}
}
