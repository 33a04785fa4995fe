//go:build deploy

package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"xrayrunner/runner/protocol"
)

const (
	apiService    = "api"
	runnerService = "skill-runner"
)

// deployment is one unpacked archive, in a folder and a Compose project of its own.
type deployment struct {
	t       *testing.T
	dir     string
	project string
	port    string
	bin     string // mcpcall and spawnprobe
	files   []string
}

// install unpacks and loads the archive, as an operator does on a server.
func install(t *testing.T, port string) *deployment {
	t.Helper()
	archive, bin := os.Getenv("XRAY_DEPLOY_ARCHIVE"), os.Getenv("XRAY_DEPLOY_BIN")
	if archive == "" || bin == "" {
		t.Fatal("run scripts/test-deploy: it builds what this test installs")
	}
	parent := t.TempDir()
	out, err := exec.Command("tar", "-C", parent, "-xf", archive).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := &deployment{t: t, dir: filepath.Join(parent, strings.TrimSuffix(filepath.Base(archive), ".tar")), port: port, bin: bin,
		project: "xray-test-" + port, files: []string{"compose.yaml"}}
	d.must("scripts/ship", "load")
	d.must("scripts/setup")
	d.must("sed", "-i", "s/^XRAY_PORT=.*/XRAY_PORT="+port+"/", ".env")
	t.Cleanup(func() { d.must("docker", "compose", "down", "-v", "--remove-orphans") })
	return d
}

func (d *deployment) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir = d.dir
	// Only what an operator's shell has: what the build was given must not reach the deployment.
	c.Env = append([]string{"COMPOSE_PROJECT_NAME=" + d.project, "COMPOSE_FILE=" + strings.Join(d.files, ":")}, without(os.Environ(), "XRAY_", "GO_IMAGE", "PYTHON_IMAGE")...)
	return c
}

func without(environ []string, prefixes ...string) []string {
	var out []string
next:
	for _, e := range environ {
		for _, p := range prefixes {
			if strings.HasPrefix(e, p) {
				continue next
			}
		}
		out = append(out, e)
	}
	return out
}

// try runs a command in the deployment's folder, and gives what it said.
func (d *deployment) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute) // a loaded machine; nothing is measured by it
	defer cancel()
	out, err := d.command(ctx, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (d *deployment) must(args ...string) string {
	d.t.Helper()
	out, err := d.try(args...)
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (d *deployment) up() {
	d.t.Helper()
	d.must("docker", "compose", "up", "-d", "--wait", "--no-build")
}

// logs is what a service has said, over all its lives.
func (d *deployment) logs(service string) string {
	return d.must("docker", "compose", "logs", "--no-log-prefix", service)
}

func (d *deployment) container(service string) string {
	d.t.Helper()
	return strings.Fields(d.must("docker", "compose", "ps", "-aq", service))[0]
}

// inspect fills v with one field of a service's container, by a Go template.
func (d *deployment) inspect(service, field string) string {
	d.t.Helper()
	return d.must("docker", "inspect", "--format", "{{"+field+"}}", d.container(service))
}

// pid is the service's own process on this machine: below docker-init, where there is one.
func (d *deployment) pid(service string) string {
	d.t.Helper()
	pid := d.inspect(service, ".State.Pid")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", pid, pid))
	if err != nil {
		d.t.Fatal(err)
	}
	if init, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil && strings.TrimSpace(string(init)) == "docker-init" {
		return strings.Fields(string(children))[0]
	}
	return pid
}

// agent makes one call of a tool through a real MCP client, in a turn of its own; said is the text of the answer.
func (d *deployment) agent(turn, tool, arguments string) (said string, ok bool) {
	out, err := d.try(filepath.Join(d.bin, "mcpcall"), "--url", "http://127.0.0.1:"+d.port+"/mcp", "--token-file", "secrets/agent_token", "--turn", turn, tool, arguments)
	return out, err == nil
}

func (d *deployment) operator(tool, arguments string) {
	d.t.Helper()
	d.must(filepath.Join(d.bin, "mcpcall"), "--url", "http://127.0.0.1:"+d.port+"/mcp/operator", "--token-file", "secrets/operator_token", tool, arguments)
}

// result is what the tests read of an answer: a result or a refusal.
type result struct {
	Outcome, Code string
	RunID         string `json:"run_id"`
	CallID        string `json:"call_id"`
}

func read(t *testing.T, text string) result {
	t.Helper()
	if rest, ok := strings.CutPrefix(text, "refused: "); ok {
		code, _, _ := strings.Cut(rest, "\n")
		return result{Code: code}
	}
	var r result
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

// get reads a page of the api; 0 is no answer.
func (d *deployment) get(path string, to any) int { return d.send(http.MethodGet, path, "", to) }

// send makes a request with the operator's token.
func (d *deployment) send(method, path, body string, to any) int {
	d.t.Helper()
	token, err := os.ReadFile(filepath.Join(d.dir, "secrets/operator_token"))
	if err != nil {
		d.t.Fatal(err)
	}
	req, err := http.NewRequest(method, "http://127.0.0.1:"+d.port+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	if body != "" {
		req.Header.Set("Content-Type", protocol.TypeJSON)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return 0
	}
	if to != nil {
		if err := json.Unmarshal(b.Bytes(), to); err != nil {
			d.t.Fatalf("%s: %v: %s", path, err, b.String())
		}
	}
	return resp.StatusCode
}

// eventually asks until it is so, and says how long that took.
func (d *deployment) eventually(what string, within time.Duration, so func() bool) time.Duration {
	d.t.Helper()
	begun := time.Now()
	for time.Since(begun) < within {
		if so() {
			return time.Since(begun)
		}
		time.Sleep(50 * time.Millisecond)
	}
	d.t.Fatalf("not within %v: %s", within, what)
	return 0
}

// healthyAfter is the time from a container's start to its first good health check.
func (d *deployment) healthyAfter(service string) time.Duration {
	d.t.Helper()
	started, err := time.Parse(time.RFC3339Nano, d.inspect(service, ".State.StartedAt"))
	if err != nil {
		d.t.Fatal(err)
	}
	var checks []struct {
		End      time.Time
		ExitCode int
	}
	if err := json.Unmarshal([]byte(d.inspect(service, "json .State.Health.Log")), &checks); err != nil {
		d.t.Fatal(err)
	}
	for _, c := range checks {
		if c.ExitCode == 0 {
			return c.End.Sub(started)
		}
	}
	d.t.Fatalf("%s has never been healthy", service)
	return 0
}
