package xrayrunner_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// benchWay is one way to have the same script give its answer. Each is called by several clients at once.
type benchWay struct {
	name  string
	every int // of how many rounds it takes part in one: what takes a quarter of a second is measured less often
	once  func() error
}

const benchInput = `{"a":1}`

// program is a way that starts a process itself, as who measures us would.
func (lab *benchLab) program(name string, every int, argv ...string) benchWay {
	return benchWay{name, every, func() error {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin = strings.NewReader(benchInput)
		if lab.bare != nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(lab.bare.Fd())}
		}
		out, err := cmd.CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) != `{"keys": 1}` {
			err = fmt.Errorf("answer %q", out)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		return nil
	}}
}

// peers are those that this machine has. docker needs an engine, and BENCH_DOCKER_IMAGE with a python3 in it.
func (lab *benchLab) peers() []benchWay {
	var out []benchWay
	if path, err := exec.LookPath("bwrap"); err == nil {
		out = append(out, lab.program("bubblewrap", 1, path, "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
			"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
			"--tmpfs", "/tmp", "--ro-bind", lab.script, "/script.py", "/usr/bin/python3", "/script.py"))
	}
	image := os.Getenv("BENCH_DOCKER_IMAGE")
	if image == "" {
		return out
	}
	name := "xray-bench-" + strings.ToLower(rand.Text()[:8])
	mount := lab.script + ":/script.py:ro"
	if text, err := exec.Command("docker", "run", "--rm", "-d", "--name", name, "--network", "none", "-v", mount, image, "sleep", "36000").CombinedOutput(); err != nil {
		lab.b.Fatalf("docker: %v: %s", err, text)
	}
	lab.b.Cleanup(func() { _ = exec.Command("docker", "kill", name).Run() })
	return append(out,
		lab.program("docker run --rm", 8, "docker", "run", "--rm", "-i", "--network", "none", "--read-only", "-v", mount, image, "python3", "/script.py"),
		lab.program("docker exec", 4, "docker", "exec", "-i", name, "python3", "/script.py"))
}

// posts is POST /run of one runner, cold or warm.
func posts(s *stack, start, tier string) benchWay {
	script := map[string]string{"cold": "cold.py", "warm": "trivial.py"}[start]
	sessions := &seats[string]{make: func() (string, error) { return rand.Text(), nil }}
	return benchWay{"POST /run, " + start + ", " + tier, 1, func() error {
		return sessions.use(func(session, turn string) error {
			_, answer, err := s.post(context.Background(), fmt.Sprintf(`{"session":%q,"turn":%q,"skill":"trivial","script":%q,"input":%s}`, session, turn, script, benchInput))
			return answeredAs(answer, start, err)
		})
	}}
}

var errOtherStart = errors.New("it started in another way")

func answeredAs(answer, start string, err error) error {
	if err != nil || field(answer, "outcome") != "ok" {
		return fmt.Errorf("%w: %s", err, answer)
	}
	if !strings.Contains(answer, `"start":"`+start+`"`) {
		return fmt.Errorf("%w: %s", errOtherStart, answer)
	}
	return nil
}

// seats are places to call from that are worn out after 12 calls of 3 turns: a session has no more runs.
type seats[T any] struct {
	mu   sync.Mutex
	free []seat[T]
	make func() (T, error)
}

type seat[T any] struct {
	of    T
	calls int
}

func (s *seats[T]) use(call func(of T, turn string) error) error {
	s.mu.Lock()
	var mine seat[T]
	if n := len(s.free); n > 0 {
		mine, s.free = s.free[n-1], s.free[:n-1]
	}
	s.mu.Unlock()
	if mine.calls == 0 {
		var err error
		if mine.of, err = s.make(); err != nil {
			return err
		}
	}
	err := call(mine.of, fmt.Sprintf("t%d", mine.calls/3))
	if mine.calls++; mine.calls < 12 {
		s.mu.Lock()
		s.free = append(s.free, mine)
		s.mu.Unlock()
	}
	return err
}

func restWay(s *stack) benchWay {
	sessions := &seats[string]{make: func() (string, error) {
		_, made, err := s.rest(context.Background(), agentToken, http.MethodPost, "/v1/sessions", "")
		if err == nil && field(made, "id") == "" {
			err = fmt.Errorf("no session: %s", made)
		}
		return field(made, "id"), err
	}}
	return benchWay{"REST, warm: guard, store, runner, record", 1, func() error {
		return sessions.use(func(session, turn string) error {
			body := fmt.Sprintf(`{"session":%q,"turn":%q,"script":"trivial.py","input":%s}`, session, turn, benchInput)
			_, answer, err := s.rest(context.Background(), agentToken, http.MethodPost, "/v1/skills/trivial/run", body)
			return answeredAs(answer, "warm", err)
		})
	}}
}

// mcpWay is a real MCP client per token, as agents are to have one each.
func mcpWay(s *stack, tokens <-chan string) benchWay {
	clients := &seats[*mcp.ClientSession]{make: func() (*mcp.ClientSession, error) {
		client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		return client.Connect(context.Background(), &mcp.StreamableClientTransport{
			Endpoint: s.url + "/mcp", DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer(<-tokens)},
		}, nil)
	}}
	return benchWay{"MCP skill_run, warm: the whole path", 1, func() error {
		return clients.use(func(c *mcp.ClientSession, turn string) error {
			answer, err := c.CallTool(context.Background(), &mcp.CallToolParams{
				Meta: mcp.Meta{"xray/turn": turn}, Name: "skill_run", Arguments: json.RawMessage(`{"skill":"trivial","script":"trivial.py","input":` + benchInput + `}`),
			})
			if err != nil {
				return err
			}
			text := answer.Content[0].(*mcp.TextContent).Text
			if answer.IsError {
				return fmt.Errorf("answer %q", text)
			}
			return answeredAs(text, "warm", nil)
		})
	}}
}

// agentTokens are made beforehand: each is good for 12 runs.
func agentTokens(b *testing.B, s *stack, n int) <-chan string {
	b.Helper()
	out := make(chan string, n)
	for i := range n {
		cmd := exec.Command(filepath.Join(binaries, "api"), "token", "create", fmt.Sprintf("bench-%d", i), "agent")
		cmd.Env = []string{"XRAY_DB=" + s.db, "XRAY_MANIFEST=" + filepath.Join(s.dir, "manifest.json"), "XRAY_SKILLS_DIR=" + filepath.Join(s.dir, "skills"),
			"XRAY_SKILL_RUNNER_URL=unix:" + s.socket()}
		if asRoot() {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: apiUID, Gid: groupID}}
		}
		text, err := cmd.Output()
		if err != nil {
			b.Fatalf("token: %v %s", err, text)
		}
		out <- strings.TrimSpace(string(text))
	}
	close(out)
	return out
}
