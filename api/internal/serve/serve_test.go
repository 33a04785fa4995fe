package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/serve"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// environ is one with which every command works, and what a row adds.
func environ(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{"XRAY_DB=sqlite:" + filepath.Join(t.TempDir(), "xray.db"), "XRAY_MANIFEST=../../../runner/manifest.json", "XRAY_SKILLS_DIR=../../../runner/skills",
		"XRAY_LISTEN=127.0.0.1:0"}, more...)
}

func TestToken(t *testing.T) {
	env := environ(t)
	token := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := serve.Token(t.Context(), env, args, &out)
		return strings.TrimSpace(out.String()), err
	}
	secret, err := token("create", "ci", "agent")
	if err != nil || len(secret) < 40 {
		t.Fatalf("%q (%v)", secret, err)
	}
	for _, args := range [][]string{{"create", "ci", "agent"}, {"create", "x", "admin"}, {"create", "x", "agent", "root"}, {"create", "x"}, {"create", "X y", "agent"}, {"revoke", "none"}, {"revoke"}, {"list", "x"}, {"drop"}} {
		if out, err := token(args...); err == nil {
			t.Errorf("%v: accepted, printed %q", args, out)
		}
	}
	list, err := token("list")
	if err != nil || !strings.Contains(list, "ci") || !strings.Contains(list, "valid") || strings.Contains(list, secret) {
		t.Errorf("list: %s (%v), want it without the secret", list, err)
	}
	if _, err := token("revoke", "ci"); err != nil {
		t.Error(err)
	}
	if list, err = token("list"); err != nil || !strings.Contains(list, "revoked") {
		t.Errorf("list: %s (%v)", list, err)
	}
}

func TestMigrate(t *testing.T) {
	env := environ(t)
	for range 2 {
		var out bytes.Buffer
		if err := serve.Migrate(t.Context(), env, &out); err != nil || out.String() != "store is at schema version 3\n" {
			t.Errorf("%q (%v)", out.String(), err)
		}
	}
}

// TestSmoke: only the one right refusal is a success.
func TestSmoke(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // of the error
	}{
		{"refused", func(w http.ResponseWriter, _ *http.Request) {
			apitest.Send(w, protocol.NewProblem(guard.UnknownSkill, "x"))
		}, ""},
		{"refused for another reason", func(w http.ResponseWriter, _ *http.Request) { apitest.Send(w, protocol.NewProblem(protocol.Busy, "x")) }, "busy"},
		{"run", nil, "ran a script that is not in the manifest"},
	} {
		r := apitest.NewRunner(t, "")
		r.Answer(c.answer)
		var out bytes.Buffer
		err := serve.Smoke(t.Context(), environ(t, "XRAY_SKILL_RUNNER_URL="+r.URL), &out)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		r.Close()
		if err := serve.Smoke(t.Context(), environ(t, "XRAY_SKILL_RUNNER_URL="+r.URL), &out); err == nil {
			t.Errorf("%s: nobody there, and no error", c.name)
		}
	}
}

// TestServeRefuses: each step of the start may refuse, and names its setting.
func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for env, want := range map[string]string{
		"XRAY_OPERATOR_TOKEN=":                   "XRAY_OPERATOR_TOKEN",
		"XRAY_SOP_KEYS=/none":                    "XRAY_SOP_KEYS",
		"XRAY_SOP_KEYS=serve_test.go":            "XRAY_SOP_KEYS",
		"XRAY_MANIFEST=/none":                    "XRAY_MANIFEST",
		"XRAY_MANIFEST=serve_test.go":            "XRAY_MANIFEST",
		"XRAY_DB=sqlite:/dev/null/x.db":          "XRAY_DB",
		"XRAY_DB=postgres://u:hunter2@h:x/d":     "XRAY_DB",
		"XRAY_LISTEN=" + taken.Addr().String():   "XRAY_LISTEN",
		"XRAY_SKILL_RUNNER_URL=http://1.2.3.4:1": "XRAY_SKILL_RUNNER_URL",
	} {
		var log bytes.Buffer
		err := serve.Serve(t.Context(), environ(t, env), &log)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error()+log.String(), "hunter2") {
			t.Errorf("%s: %v, want %q", env, err, want)
		}
	}
}

// told waits for a line of the log.
type told struct {
	line  string
	there chan struct{}
	b     bytes.Buffer // read only after Serve has returned
	once  bool
}

func (l *told) Write(p []byte) (int, error) {
	l.b.Write(p)
	if !l.once && bytes.Contains(p, []byte(l.line)) {
		l.once = true
		close(l.there)
	}
	return len(p), nil
}

// TestServe: a start closes what a former life left open as lost, logs the head, and a stop is no error.
func TestServe(t *testing.T) {
	env := environ(t, "XRAY_AGENT_TOKEN=agent-token-of-a-test")
	db, err := store.Open(t.Context(), strings.TrimPrefix(env[0], "XRAY_DB="), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Begin(t.Context(), store.Call{ID: "left-open", Tool: "skill_list"}, func(store.State) store.Verdict { return store.Verdict{Allowed: true} }); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	log := &told{line: "ready to serve", there: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- serve.Serve(ctx, env, log) }()
	select {
	case <-log.there:
	case err := <-done:
		t.Fatalf("ended by itself: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("a stop that was asked for: %v", err)
	}
	for _, want := range []string{`"lost_calls_closed":1`, `"head":"`, `"unlocked":false`, `"msg":"stopped"`} {
		if !strings.Contains(log.b.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, log.b.String())
		}
	}
	if strings.Contains(log.b.String(), "agent-token-of-a-test") {
		t.Error("the log holds a token")
	}
	all, err := db.Events(t.Context(), store.Filter{Tool: "skill_list"})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d events (%v), want 2", len(all), err)
	}
	var last struct{ Outcome string }
	if err := json.Unmarshal(all[1].Body, &last); err != nil || last.Outcome != "lost" {
		t.Errorf("closed as %q (%v), want lost", last.Outcome, err)
	}
	if _, known, err := db.Authenticate(t.Context(), "agent-token-of-a-test"); err != nil || !known {
		t.Errorf("the configured token: %v (%v)", known, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
