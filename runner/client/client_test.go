package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

func TestNew(t *testing.T) {
	for _, c := range []struct {
		address string
		want    bool
	}{
		{"unix:/run/xray/runner.sock", true},
		{"unix:///run/xray/runner.sock", true},
		{"unix://run/xray/runner.sock", false}, // "run" would be a host
		{"unix:run/runner.sock", false},
		{"unix:", false},
		{"unix:/", false},
		{"/run/xray/runner.sock", false},
		{"http://127.0.0.1:8080", true},
		{"https://127.0.0.1:8080", false},
		{"http://127.0.0.1", false},
		{"http://127.0.0.1:", false},
		{"http://127.0.0.1:0", false},
		{"http://127.0.0.1:65536", false},
		{"http://127.0.0.1:8080/", false},
		{"http://127.0.0.1:8080/run", false},
		{"http://127.0.0.1:8080?", false},
		{"http://127.0.0.1:8080#", false},
		{"http://127.0.0.1:8080?x=1", false},
		{"http://user@127.0.0.1:8080", false},
		{"http://127.0.0.2:8080", false},
		{"http://localhost:8080", false},
		{"http://[::1]:8080", false},
		{"http://[::ffff:127.0.0.1]:8080", false},
		{"http://0.0.0.0:8080", false},
		{"http://127.1:8080", false},
		{"http://2130706433:8080", false},
		{"http://127.0.0.1.example.com:8080", false},
		{"http://10.0.0.1:8080", false},
		{"HTTP://127.0.0.1:8080", false},
		{"127.0.0.1:8080", false},
		{" http://127.0.0.1:8080", false},
		{"", false},
	} {
		got, err := client.New(c.address, "")
		if (err == nil) != c.want || (got != nil) != c.want {
			t.Errorf("New(%q): %v, want accepted %v", c.address, err, c.want)
		}
	}
}

// serve answers on a unix socket and gives the address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "c")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }() // it ends with an error by Close, always
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
		<-done
	})
	return "unix:" + path
}

func connect(t *testing.T, address, token string) *client.Client {
	t.Helper()
	c, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestRequest: what goes over the wire is what was judged, byte for byte.
func TestRequest(t *testing.T) {
	const judged = " {\n \"n\": 9007199254740993, \"s\": \"<&>\" } "
	var path, digest, token, kind string
	var got protocol.RunRequest
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path, digest, token, kind = r.Method+" "+r.URL.Path, r.Header.Get(protocol.HeaderManifest), r.Header.Get("Authorization"), r.Header.Get("Content-Type")
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"outcome":"ok","result":{"b":1.50,"a":9007199254740993}}`)
	})
	sent := protocol.RunRequest{RunID: "r", Session: "s", Turn: "t", Skill: "k", Script: "p", Input: protocol.TextInput([]byte(judged)), TimeoutMS: 5}
	result, problem, err := connect(t, address, "secret").Run(t.Context(), sent, "sha256:x")
	if err != nil || problem != nil || string(result.Result) != `{"b":1.50,"a":9007199254740993}` || result.Outcome != protocol.OK {
		t.Fatalf("%+v, %+v, %v", result, problem, err)
	}
	if diff := cmp.Diff([]string{"POST /run", "sha256:x", "Bearer secret", protocol.TypeJSON}, []string{path, digest, token, kind}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var text string
	if err := json.Unmarshal(got.Input, &text); err != nil || text != judged {
		t.Errorf("input %q (%v), want %q", text, err, judged)
	}
	got.Input, sent.Input = nil, nil
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRefusal(t *testing.T) {
	raw, err := json.Marshal(protocol.NewProblem(protocol.Busy, "full"))
	if err != nil {
		t.Fatal(err)
	}
	result, problem, err := connect(t, serve(t, answer(503, string(raw))), "").Run(t.Context(), protocol.RunRequest{Input: []byte("{}")}, "")
	if err != nil || result != nil || problem == nil || problem.Code != protocol.Busy || problem.RetryAfterMS == 0 {
		t.Errorf("%+v, %+v, %v", result, problem, err)
	}
}

// TestUnavailable: when no connection was made nothing was started.
func TestUnavailable(t *testing.T) {
	dir := t.TempDir()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "dead"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err, dead.Close(), port.Close(), os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{
		"no file": "unix:" + filepath.Join(dir, "none"), "nobody behind it": "unix:" + filepath.Join(dir, "dead"),
		"a plain file": "unix:" + filepath.Join(dir, "plain"), "a closed port": "http://" + port.Addr().String(),
	} {
		c := connect(t, address, "")
		_, _, err := c.Run(t.Context(), protocol.RunRequest{Input: []byte("{}")}, "")
		if !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrLost) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
		if _, err := c.Health(t.Context()); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("%s: health: %v, want ErrUnavailable", name, err)
		}
	}
}

// TestLost: from the moment that a connection stands, a failure means that the run may have happened, and the call is
// not made a second time.
func TestLost(t *testing.T) {
	hangUp := func(say string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, err = io.WriteString(conn, say)
			}
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"no answer", hangUp("")},
		{"half a status line", hangUp("HTTP/1.1 2")},
		{"half a body", hangUp("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"outcome\":\"ok\"")},
		{"half a refusal", hangUp("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n{\"code\":\"busy\"")},
		{"no JSON", answer(200, "fine")},
		{"no outcome", answer(200, "{}")},
		{"a refusal without a code", answer(503, "{}")},
		{"a refusal that is no JSON", answer(500, "Internal Server Error")},
		{"no HTTP", hangUp("SSH-2.0-x\r\n")},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/run2", http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int64
			address := serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				c.handler(w, r)
			})
			result, problem, err := connect(t, address, "").Run(t.Context(), protocol.RunRequest{Input: []byte("{}")}, "")
			if result != nil || problem != nil || !errors.Is(err, client.ErrLost) || errors.Is(err, client.ErrUnavailable) {
				t.Errorf("%+v, %+v, %v; want ErrLost", result, problem, err)
			}
			if calls.Load() != 1 {
				t.Errorf("the call was made %d times", calls.Load())
			}
		})
	}
}

// TestCase49NeverOnAKeptConnection: each call has its own, so a runner that restarted between two calls is found
// unavailable or answers, and never leaves the second in doubt.
func TestCase49NeverOnAKeptConnection(t *testing.T) {
	var closing atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Close {
			closing.Add(1)
		}
		answer(200, `{"outcome":"ok"}`)(w, r)
	})
	c := connect(t, address, "")
	for range 3 {
		if _, _, err := c.Run(t.Context(), protocol.RunRequest{Input: []byte("{}")}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if closing.Load() != 3 {
		t.Errorf("%d calls of 3 said that they close", closing.Load())
	}
}

// TestHangUp: when the caller's context ends, the runner's side sees it.
func TestHangUp(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = bufio.NewReader(r.Body).ReadString(0)
		close(arrived)
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, _, err := connect(t, address, "").Run(ctx, protocol.RunRequest{Input: []byte("{}")}, ""); !errors.Is(err, client.ErrLost) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want ErrLost by cancellation", err)
	}
	<-left
}

func TestHealthAndMetrics(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case protocol.PathHealthz:
			answer(503, `{"ready":false,"reasons":["because"]}`)(w, r)
		case protocol.PathMetrics:
			answer(200, "x 1\n")(w, r)
		}
	})
	c := connect(t, address, "")
	health, err := c.Health(t.Context())
	if err != nil || health.Ready || !cmp.Equal(health.Reasons, []string{"because"}) {
		t.Errorf("%+v, %v", health, err)
	}
	if text, err := c.Metrics(t.Context()); err != nil || string(text) != "x 1\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := connect(t, serve(t, answer(403, `{"code":"`+string(protocol.Forbidden)+`"}`)), "").Metrics(t.Context()); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("metrics with 403: %v", err)
	}
}
