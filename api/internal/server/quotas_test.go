package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/store"
	"xrayrunner/internal/pgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := pgtest.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// deployments are one api on SQLite and two on one PostgreSQL.
func deployments(t *testing.T, f func(*testing.T, []*apitest.Rig)) {
	t.Run("SQLite", func(t *testing.T) {
		f(t, []*apitest.Rig{apitest.On(t, "sqlite:"+filepath.Join(t.TempDir(), "xray.db"))})
	})
	t.Run("two apis on PostgreSQL", func(t *testing.T) {
		r := apitest.On(t, pgtest.Database(t))
		f(t, []*apitest.Rig{r, r.Twin()})
	})
}

// TestCase14OverREST: of 64 parallel runs exactly 3 of a turn, 12 of a session and 20 of a day happen, whatever api they
// came to; the runners saw no more.
func TestCase14OverREST(t *testing.T) {
	for _, c := range []struct {
		name            string
		sessions, turns int
		daily, want     int
		code            string // of the others
	}{
		{"turn", 1, 1, 0, 3, "quota_turn"},
		{"session", 1, 16, 0, 12, "quota_session"},
		{"day", 16, 4, 20, 20, "quota_daily"},
	} {
		t.Run(c.name, func(t *testing.T) {
			deployments(t, func(t *testing.T, apis []*apitest.Rig) {
				apis[0].Open(apitest.Adds)
				if err := apis[0].Store.SetSandbox(t.Context(), apitest.Operator, store.SandboxConfig{DailyRunLimit: c.daily, TotalTimeoutMS: 30000}); err != nil {
					t.Fatal(err)
				}
				var sessions []store.Session
				for range c.sessions {
					s := apis[0].Session()
					for turn := range c.turns { // counts are kept by name, so all of them exist before the burst
						if _, err := apis[0].Calls.StartTurn(t.Context(), s, fmt.Sprint("t", turn)); err != nil {
							t.Fatal(err)
						}
					}
					sessions = append(sessions, s)
				}
				answers := burst(t, 64, func(i int) (string, string) {
					s := sessions[i%c.sessions]
					return apis[i%len(apis)].URL + "/v1/skills/adds/run", fmt.Sprintf(`{"session":%q,"turn":"t%d","script":"run.py","input":{"n":1}}`, s.ID, i/c.sessions%c.turns)
				})
				if answers[""] != c.want || answers[c.code] == 0 {
					t.Errorf("%v: want %d runs, and others refused with %s", answers, c.want, c.code)
				}
				ran := 0
				for _, api := range apis {
					ran += len(api.Runner.Seen())
				}
				if ran != c.want {
					t.Errorf("the runners saw %d runs, want %d", ran, c.want)
				}
				if r, err := apis[0].Store.Verify(t.Context(), ""); err != nil || !r.OK {
					t.Errorf("the record: %+v (%v)", r, err)
				}
				apis[0].Closed()
			})
		})
	}
}

// burst posts n bodies at once, as the agent, and counts the answers by refusal code; "" is a run.
func burst(t *testing.T, n int, call func(i int) (url, body string)) map[string]int {
	t.Helper()
	answers := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			code, err := post(call(i))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			answers[code]++
		})
	}
	close(start)
	wg.Wait()
	return answers
}

func post(url, body string) (code string, err error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+apitest.AgentToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(resp.Body)
	_, after, refused := strings.Cut(string(raw), `"code":"`)
	if refused {
		code, _, _ = strings.Cut(after, `"`)
	}
	return code, errors.Join(err, resp.Body.Close())
}

// TestTokenHoldsHalf: one token has at most half of the runner's places at once; another token finds the rest free, and
// a place that is given back can be taken again.
func TestTokenHoldsHalf(t *testing.T) {
	deployments(t, func(t *testing.T, apis []*apitest.Rig) {
		r := apis[0]
		r.Open(apitest.Adds)
		r.Runner.Places(8)
		arrived, leave := make(chan struct{}, 64), make(chan struct{})
		r.Runner.Answer(func(w http.ResponseWriter, _ *http.Request) {
			arrived <- struct{}{}
			<-leave
			_, _ = io.WriteString(w, `{"outcome":"ok","result":{}}`)
		})
		run := func(token store.Token) func() string {
			c := r.Caller("rest")
			c.Token = token
			s, err := r.Calls.NewSession(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan string, 1)
			go func() {
				a, err := r.Calls.Run(t.Context(), c, s, apitest.Adds, apitest.Script, []byte(`{"n":1}`))
				switch {
				case err != nil:
					done <- err.Error()
				case a.Refused != nil:
					done <- string(a.Refused.Code)
				default:
					done <- string(a.Result.Outcome)
				}
			}()
			return func() string { return <-done }
		}
		var held []func() string
		for range 4 {
			held = append(held, run(r.Agent))
			<-arrived
		}
		if got := run(r.Agent)(); got != "busy" {
			t.Errorf("the fifth of 8 places for one token: %s, want busy", got)
		}
		held = append(held, run(store.Token{Name: "another", Role: store.RoleAgent, Mode: store.ModeReadOnly}))
		<-arrived
		close(leave)
		for _, end := range held {
			if got := end(); got != "ok" {
				t.Errorf("a run that held a place: %s", got)
			}
		}
		if got := run(r.Agent)(); got != "ok" {
			t.Errorf("after the places were given back: %s", got)
		}
	})
}
