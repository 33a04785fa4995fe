package xrayrunner_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"xrayrunner/internal/pgtest"
)

// TestStories runs testdata/stories: both real binaries under throw-away users, a real MCP client, a real database.
//
// Commands: runner start|stop|kill [NAME=VALUE…], api start|stop|kill [NAME=VALUE…], open SKILL…, agent TOOL [JSON],
// operator TOOL [JSON], turn NAME, session, rest ROLE METHOD PATH [BODY], post BODY, burst N BODY, sql STATEMENT,
// append FILE TEXT, generate, "agent& TOOL JSON" with agent-answer, busy N, ended OUTCOME [N]. What they print goes to stdout; "!" expects a tool's isError or a status from 400.
func TestStories(t *testing.T) {
	p := storyParams(nil)
	p.Dir = "testdata/stories"
	testscript.Run(t, p)
}

// TestStoriesOnPostgreSQL runs those that are about what the store keeps on the other store.
func TestStoriesOnPostgreSQL(t *testing.T) {
	if !pgtest.Installed() {
		t.Skip("PostgreSQL is not installed; scripts/install-missing installs it")
	}
	p := storyParams(func() string { return pgtest.Database(t) })
	for _, name := range []string{"opening", "stops", "operator", "quotas", "tokens", "approvals", "dangerous", "mounts", "external"} {
		p.Files = append(p.Files, filepath.Join("testdata", "stories", name+".txtar"))
	}
	testscript.Run(t, p)
}

// storyParams are what both have in common; db gives a new store, nil is SQLite.
func storyParams(db func() string) testscript.Params {
	commands := maps.Clone(approvalCommands)
	maps.Copy(commands, storyCommands)
	return testscript.Params{
		TestWork:           false,
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			dsn := ""
			if db != nil {
				dsn = db()
			}
			s, err := newStack(dsn)
			if err != nil {
				return err
			}
			st := &story{stack: s}
			env.Values["story"] = st
			env.Setenv("STACK", s.dir)
			env.Setenv("SOCKET", s.socket())
			root, err := os.Getwd()
			if err != nil {
				return err
			}
			env.Setenv("ROOT", root)
			env.Setenv("BIN", binaries)
			env.Setenv("PATH", binaries+":"+os.Getenv("PATH"))
			env.Setenv("XRAYCTL_TOKEN", operatorToken)
			env.Setenv("DEEP", strings.Repeat("[", 200)+strings.Repeat("]", 200))
			env.Setenv("BYTES4096", strings.Repeat("x", 4096))
			env.Defer(func() { st.disconnect(); s.close() })
			return nil
		},
		Condition: func(cond string) (bool, error) { return cond == "root" && asRoot(), nil },
		Cmds:      commands,
	}
}

var storyCommands = map[string]func(*testscript.TestScript, bool, []string){
	"runner": cmdRunner, "api": cmdAPI, "open": cmdOpen, "agent": cmdAgent, "operator": cmdOperator, "turn": cmdTurn,
	"rest": cmdREST, "post": cmdPost, "burst": cmdBurst, "sql": cmdSQL, "append": cmdAppend, "generate": cmdGenerate, "session": cmdSession,
	"runner-again": cmdRunnerAgain, "agent&": cmdAgentStart, "agent-answer": cmdAgentAnswer, "busy": cmdBusy, "ended": cmdEnded,
}

// story is a stack and the MCP clients that stay connected throughout.
type story struct {
	*stack
	turn            string
	agent, operator *mcp.ClientSession
	answer          chan agentAnswer
}

type agentAnswer struct {
	result *mcp.CallToolResult
	err    error
}

func of(ts *testscript.TestScript) *story { return ts.Value("story").(*story) }

func (st *story) disconnect() {
	for _, c := range []*mcp.ClientSession{st.agent, st.operator} {
		if c != nil {
			_ = c.Close()
		}
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func connect(to **mcp.ClientSession, endpoint, token string) (*mcp.ClientSession, error) {
	if *to != nil {
		return *to, nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "story", Version: "1"}, nil)
	var err error
	*to, err = client.Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	return *to, err
}

func cmdRunner(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts).stack
	control(ts, neg, args, func(env []string) error { return s.startRunner(env...) }, func(sig os.Signal) error { return s.runner.end(sig) })
}

func cmdAPI(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts).stack
	start := func(env []string) error {
		err := s.startAPI(env...)
		ts.Setenv("URL", s.url)
		ts.Setenv("XRAYCTL_URL", s.url)
		return err
	}
	control(ts, neg, args, start, func(sig os.Signal) error { return s.api.end(sig) })
}

func control(ts *testscript.TestScript, neg bool, args []string, start func([]string) error, end func(os.Signal) error) {
	var err error
	switch args[0] {
	case "start":
		err = start(args[1:])
	case "stop":
		err = end(syscall.SIGTERM)
	case "kill":
		_ = end(syscall.SIGKILL) // it says "signal: killed"
	default:
		ts.Fatalf("unknown %q", args[0])
	}
	if neg != (err != nil) {
		ts.Fatalf("%v: %v", args, err)
	}
	if err != nil {
		fmt.Fprintln(ts.Stdout(), err)
	}
}

// cmdRunnerAgain starts a second runner beside the live one.
func cmdRunnerAgain(ts *testscript.TestScript, neg bool, _ []string) {
	s := of(ts).stack
	first := s.runner
	err := s.startRunner()
	second := s.runner
	s.runner = first
	if second != nil && second != first { // it may answer on the first one's socket before it has ended
		_ = second.cmd.Cancel()
		err = errors.New(second.tail())
	}
	if neg != (err != nil) {
		ts.Fatalf("%v", err)
	}
	fmt.Fprintln(ts.Stdout(), err)
}

func call(ts *testscript.TestScript, neg bool, c *mcp.ClientSession, params *mcp.CallToolParams) {
	answer, err := c.CallTool(context.Background(), params)
	ts.Check(err)
	for _, content := range answer.Content {
		if t, ok := content.(*mcp.TextContent); ok {
			fmt.Fprintln(ts.Stdout(), t.Text)
		}
	}
	if answer.IsError != neg {
		ts.Fatalf("%s: isError is %v: %s", params.Name, answer.IsError, answer.Content[0].(*mcp.TextContent).Text)
	}
}

func params(args []string) *mcp.CallToolParams {
	p := &mcp.CallToolParams{Name: args[0]}
	if len(args) > 1 {
		p.Arguments = json.RawMessage(args[1])
	}
	return p
}

func cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	st := of(ts)
	c, err := connect(&st.agent, st.url+"/mcp", agentToken)
	ts.Check(err)
	p := params(args)
	if st.turn != "" {
		p.Meta = mcp.Meta{"xray/turn": st.turn}
	}
	call(ts, neg, c, p)
}

func cmdOperator(ts *testscript.TestScript, neg bool, args []string) {
	st := of(ts)
	c, err := connect(&st.operator, st.url+"/mcp/operator", operatorToken)
	ts.Check(err)
	call(ts, neg, c, params(args))
}

// cmdAgentStart makes a call and goes on; agent-answer waits for what it gave.
func cmdAgentStart(ts *testscript.TestScript, _ bool, args []string) {
	st := of(ts)
	c, err := connect(&st.agent, st.url+"/mcp", agentToken)
	ts.Check(err)
	p := params(args)
	p.Meta = mcp.Meta{"xray/turn": st.turn}
	answers := make(chan agentAnswer, 1)
	st.answer = answers
	go func() {
		r, err := c.CallTool(context.Background(), p)
		answers <- agentAnswer{r, err}
	}()
}

func cmdAgentAnswer(ts *testscript.TestScript, neg bool, _ []string) {
	a := <-of(ts).answer
	ts.Check(a.err)
	text := a.result.Content[0].(*mcp.TextContent).Text
	fmt.Fprintln(ts.Stdout(), text)
	if a.result.IsError != neg {
		ts.Fatalf("isError is %v: %s", a.result.IsError, text)
	}
}

// cmdBusy waits until N runs are going on: the runner's own word, not a guess at its speed.
func cmdBusy(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, "/healthz", `"running":`+args[0]+`,`)
}

// cmdEnded waits until the runner has counted N runs (1 when not given) with this outcome.
func cmdEnded(ts *testscript.TestScript, _ bool, args []string) {
	n := "1"
	if len(args) > 1 {
		n = args[1]
	}
	eventually(ts, "/metrics", `outcome="`+args[0]+`",script="probe.py",skill="probe"} `+n+"\n")
}

func eventually(ts *testscript.TestScript, path, want string) {
	last := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		_, answer, err := send(context.Background(), of(ts).socketClient(), http.MethodGet, "http://runner"+path, "", "")
		if last = answer; err == nil && strings.Contains(answer, want) {
			return
		}
	}
	ts.Fatalf("%s never said %s: %s", path, want, last)
}

func cmdTurn(ts *testscript.TestScript, _ bool, args []string) { of(ts).turn = args[0] }

// cmdOpen does the operator's whole opening order for some skills.
func cmdOpen(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		cmdOperator(ts, false, []string{"skills_publish", `{"name":"` + name + `"}`})
		cmdOperator(ts, false, []string{"skills_agent_set", `{"name":"` + name + `","enabled":true}`})
	}
	for _, tool := range []string{"skill_load", "skill_run"} {
		cmdOperator(ts, false, []string{"tool_config_set", `{"tool":"` + tool + `","enabled":true}`})
	}
}

func (st *story) print(ts *testscript.TestScript, neg bool, status int, answer string, err error) {
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "HTTP %d\n%s\n", status, answer)
	if neg != (status >= 400) {
		ts.Fatalf("HTTP %d: %s", status, answer)
	}
}

// cmdSession makes a REST session and sets $SESSION.
func cmdSession(ts *testscript.TestScript, _ bool, _ []string) {
	status, answer, err := of(ts).rest(context.Background(), agentToken, http.MethodPost, "/v1/sessions", "")
	ts.Check(err)
	if status != http.StatusOK {
		ts.Fatalf("HTTP %d: %s", status, answer)
	}
	ts.Setenv("SESSION", field(answer, "id"))
}

func cmdREST(ts *testscript.TestScript, neg bool, args []string) {
	token, ok := map[string]string{"agent": agentToken, "viewer": viewerToken, "operator": operatorToken, "nobody": ""}[args[0]]
	if !ok {
		token = strings.TrimPrefix(args[0], "token=")
	}
	body := ""
	if len(args) > 3 {
		body = args[3]
	}
	status, answer, err := of(ts).rest(context.Background(), token, args[1], args[2], body)
	of(ts).print(ts, neg, status, answer, err)
}

func cmdPost(ts *testscript.TestScript, neg bool, args []string) {
	status, answer, err := of(ts).post(context.Background(), args[0])
	of(ts).print(ts, neg, status, answer, err)
}

// cmdBurst sends N bodies at once, %d being the number of each, and prints how often each outcome or code came.
func cmdBurst(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]int{}
	for i := range n {
		wg.Go(func() {
			status, answer, err := of(ts).post(context.Background(), strings.ReplaceAll(args[1], "%d", strconv.Itoa(i)))
			word := field(answer, "outcome")
			if word == "" {
				word = "refused: " + field(answer, "code") + " " + field(answer, "retry")
			}
			mu.Lock()
			defer mu.Unlock()
			seen[fmt.Sprintf("%d %s %v", status, word, err)]++
		})
	}
	wg.Wait()
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(ts.Stdout(), "%s: %d\n", k, seen[k])
	}
}

// cmdSQL changes the store behind the api's back.
func cmdSQL(ts *testscript.TestScript, _ bool, args []string) {
	driver, dsn := "pgx", of(ts).db
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, dsn = "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(args[0])
	ts.Check(err)
}

// cmdAppend adds text to a file of the stack.
func cmdAppend(ts *testscript.TestScript, _ bool, args []string) {
	path := filepath.Join(of(ts).dir, args[0])
	old, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		ts.Check(err)
	}
	ts.Check(os.WriteFile(path, append(old, args[1]...), 0o644))
}

// cmdGenerate makes the stack's manifest anew from its skills; "!" expects manifestgen to complain.
func cmdGenerate(ts *testscript.TestScript, neg bool, _ []string) {
	st := of(ts)
	err := ts.Exec(filepath.Join(binaries, "manifestgen"), "build", "--skills", filepath.Join(st.dir, "skills"), "--out", filepath.Join(st.dir, "manifest.json"))
	if neg != (err != nil) {
		ts.Fatalf("manifestgen: %v", err)
	}
	ts.Check(os.Chmod(filepath.Join(st.dir, "manifest.json"), 0o644))
}
