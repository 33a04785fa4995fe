package xrayrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"xrayrunner/internal/pgtest"
)

// The throw-away users, as scripts/quickstart has them.
const (
	apiUID    = 64001
	runnerUID = 64002
	groupID   = 64010
)

const (
	agentToken    = "agent-token-of-a-test"
	viewerToken   = "viewer-token-of-a-test"
	operatorToken = "operator-token-of-a-test"
)

// binaries is where TestMain built them; reachable for the throw-away users.
var binaries string

func TestMain(m *testing.M) { os.Exit(withBinaries(m)) }

func withBinaries(m *testing.M) (code int) {
	defer func() {
		if err := pgtest.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	dir, err := os.MkdirTemp("/tmp", "xray-stories-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = filepath.Join(dir, "bin")
	for _, cmd := range [][]string{
		{"chmod", "755", dir},
		{"go", "build", "-o", binaries + "/", "./api", "./api/cmd/xrayctl", "./api/internal/nospawn/spawnprobe", "./runner", "./runner/cmd/xray-jail", "./manifests/cmd/manifestgen"},
		{"runner/internal/sandbox/shim/build.sh", filepath.Join(binaries, "xray-shim")},
		{"runner/internal/sandbox/cell/build.sh", filepath.Join(binaries, "xray-cell.so")},
	} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", cmd, err, out)
			return 1
		}
	}
	return m.Run()
}

// stack is one api and one runner with folders of their own.
type stack struct {
	dir, url    string
	db          string // of the api: its DSN
	port        int
	runner, api *process
}

type process struct {
	cmd *exec.Cmd
	log string
}

// newStack lays out a copy of the shipped skills and manifest that a story may change.
// An empty db is SQLite in the stack's folder.
func newStack(db string) (*stack, error) {
	dir, err := os.MkdirTemp("/tmp", "xray-story-")
	if err != nil {
		return nil, err
	}
	s := &stack{dir: dir, db: db}
	if db == "" {
		s.db = "sqlite:" + filepath.Join(dir, "data", "xray.db")
	}
	if err := os.CopyFS(filepath.Join(dir, "skills"), os.DirFS("runner/skills")); err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile("runner/manifest.json")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), manifest, 0o644); err != nil {
		return nil, err
	}
	for name, uid := range map[string]int{"": 0, "run": runnerUID, "work": runnerUID, "data": apiUID} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(path, 0o755), own(path, uid), os.Chmod(path, 0o755)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func asRoot() bool { return os.Getuid() == 0 }

func own(path string, uid int) error {
	if !asRoot() || uid == 0 {
		return nil
	}
	return os.Chown(path, uid, groupID)
}

func (s *stack) socket() string { return filepath.Join(s.dir, "run", "runner.sock") }

func (s *stack) startRunner(extra ...string) error {
	env := []string{"PATH=/usr/bin:/bin", "RUNNER_LISTEN=unix://" + s.socket(), "RUNNER_SKILLS_DIR=" + filepath.Join(s.dir, "skills"),
		"RUNNER_MANIFEST=" + filepath.Join(s.dir, "manifest.json"), "RUNNER_WORK_DIR=" + filepath.Join(s.dir, "work")}
	attr := &syscall.SysProcAttr{}
	if asRoot() {
		env = append(env, fmt.Sprintf("RUNNER_ALLOW_UIDS=%d,0", apiUID))
		attr.Credential = &syscall.Credential{Uid: runnerUID, Gid: groupID}
		attr.Cloneflags = syscall.CLONE_NEWNET
	} else {
		env = append(env, fmt.Sprintf("RUNNER_ALLOW_UIDS=%d", os.Getuid()), "RUNNER_DEV=1")
	}
	var err error
	s.runner, err = s.start("runner", attr, append(env, extra...))
	if err != nil {
		return err
	}
	return s.until(s.runner, func() bool {
		c, err := net.Dial("unix", s.socket())
		return err == nil && c.Close() == nil
	})
}

func (s *stack) startAPI(extra ...string) error {
	if s.port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return err
		}
	}
	s.url = fmt.Sprintf("http://127.0.0.1:%d", s.port)
	env := []string{"PATH=/usr/bin:/bin", fmt.Sprintf("XRAY_LISTEN=127.0.0.1:%d", s.port), "XRAY_SKILL_RUNNER_URL=unix:" + s.socket(),
		"XRAY_DB=" + s.db, "XRAY_MANIFEST=" + filepath.Join(s.dir, "manifest.json"),
		"XRAY_SKILLS_DIR=" + filepath.Join(s.dir, "skills"), "XRAY_UNLOCK_DANGEROUS_TOOLS=1",
		"XRAY_AGENT_TOKEN=" + agentToken, "XRAY_VIEWER_TOKEN=" + viewerToken, "XRAY_OPERATOR_TOKEN=" + operatorToken}
	attr := &syscall.SysProcAttr{}
	if asRoot() {
		attr.Credential = &syscall.Credential{Uid: apiUID, Gid: groupID}
	}
	var err error
	s.api, err = s.start("api", attr, override(env, extra))
	if err != nil {
		return err
	}
	return s.until(s.api, func() bool {
		resp, err := http.Get(s.url + "/healthz")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

// override replaces variables; NAME alone removes one.
func override(env, with []string) []string {
	for _, kv := range with {
		name, _, set := strings.Cut(kv, "=")
		kept := env[:0:0]
		for _, e := range env {
			if !strings.HasPrefix(e, name+"=") {
				kept = append(kept, e)
			}
		}
		if env = kept; set {
			env = append(env, kv)
		}
	}
	return env
}

func (s *stack) start(name string, attr *syscall.SysProcAttr, env []string) (*process, error) {
	attr.Pdeathsig = 0
	p := &process{cmd: exec.Command(filepath.Join(binaries, name), "serve"), log: filepath.Join(s.dir, name+".log")}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Env, p.cmd.Stderr, p.cmd.SysProcAttr = env, log, attr
	return p, p.cmd.Start()
}

// until polls: there is no other sign of a process being ready. It gives up after 20 s or when the process has ended.
func (s *stack) until(p *process, ready func() bool) error {
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	p.cmd.Cancel = func() error { return <-ended }
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if ready() {
			return nil
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("ended: %v: %s", err, p.tail())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("not ready: %s", p.tail())
}

func (p *process) tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-2000):])
}

// end signals a process and waits for it.
func (p *process) end(sig os.Signal) error {
	if p == nil || p.cmd.Process == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return p.cmd.Cancel()
}

func (s *stack) close() {
	_ = s.api.end(syscall.SIGKILL)
	_ = s.runner.end(syscall.SIGKILL)
	_ = os.RemoveAll(s.dir)
}

// started gives a test a running pair.
func started(t *testing.T, runnerEnv ...string) *stack {
	t.Helper()
	s, err := newStack("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if err := s.startRunner(runnerEnv...); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stack) socketClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.socket())
	}}}
}

// post sends a body to the runner's /run and gives status and answer.
func (s *stack) post(ctx context.Context, body string) (int, string, error) {
	return send(ctx, s.socketClient(), http.MethodPost, "http://runner/run", "", body)
}

func (s *stack) rest(ctx context.Context, token, method, path, body string) (int, string, error) {
	return send(ctx, http.DefaultClient, method, s.url+path, token, body)
}

func send(ctx context.Context, c *http.Client, method, url, token, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), err
}

// field reads one member of a JSON object, "" when it is not there.
func field(text, name string) string {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &m) != nil {
		return ""
	}
	return strings.Trim(string(m[name]), `"`)
}
