package xrayrunner_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/guard"
	"xrayrunner/internal/pgtest"
	"xrayrunner/runner/protocol"
)

// TestKilledAPI: kill -9 of the api at random moments of 500 calls, on both stores. Every call is in the record exactly
// once with a closed state, the chain is whole, and no quota was lost or doubled: what a session, a turn and the day have
// counted is what the record says was started.
func TestKilledAPI(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { killed(t, "") })
	t.Run("PostgreSQL", func(t *testing.T) { killed(t, pgtest.Database(t)) })
}

func killed(t *testing.T, dsn string) {
	const calls, clients, kills = 500, 8, 10
	s, err := newStack(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if err := s.startRunner(); err != nil {
		t.Fatal(err)
	}
	if err := s.startAPI(); err != nil {
		t.Fatal(err)
	}
	s.openForAgents(t, "text-lines")

	var made atomic.Int64 // calls that were sent
	moments := make(chan struct{}, calls)
	var up sync.RWMutex // held while the api is away
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() { s.calling(t, &made, calls, moments, &up) })
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range kills {
		for range 20 + random.IntN(calls/kills-25) {
			<-moments
		}
		up.Lock()                      // no new call is begun; those that are under way go on
		_ = s.api.end(syscall.SIGKILL) // in the middle of what the clients do; it says "signal: killed"
		err := s.startAPI()
		up.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	// A last life closes what the last kill left open. PostgreSQL may notice the end of a killed api's connection only after
	// the next one has started, which then closes its calls within a minute, or at a further start.
	for range 10 {
		_ = s.api.end(syscall.SIGKILL)
		if err := s.startAPI(); err != nil {
			t.Fatal(err)
		}
		if s.stillOpen(t) == 0 {
			break
		}
	}
	s.accountFor(t)
}

// openForAgents does the operator's opening order over REST.
func (s *stack) openForAgents(t *testing.T, skill string) {
	t.Helper()
	for _, step := range [][3]string{{"POST", "/v1/skills/" + skill + "/publish", `{}`}, {"PUT", "/v1/skills/" + skill + "/agent", `{"enabled":true}`},
		{"PUT", "/v1/tool_config", `{"tool":"skill_load","enabled":true}`}, {"PUT", "/v1/tool_config", `{"tool":"skill_run","enabled":true}`}} {
		if status, answer, err := s.rest(t.Context(), operatorToken, step[0], step[1], step[2]); err != nil || status != http.StatusOK {
			t.Fatalf("%v: %d %s (%v)", step, status, answer, err)
		}
	}
}

// calling makes calls until all are made: a session has 12, a turn 3, and a few more are refused. A call whose api is
// killed is one of them: its client never hears of it.
func (s *stack) calling(t *testing.T, made *atomic.Int64, calls int64, moments chan<- struct{}, up *sync.RWMutex) {
	session := ""
	for n := 0; ; n++ {
		up.RLock()                               // no call is begun while the api is away; the kill does not wait for one that was
		done, url := made.Load() >= calls, s.url // a port of its own in each life
		up.RUnlock()
		if done {
			return
		}
		if n%14 == 0 || session == "" {
			_, answer, err := send(context.Background(), http.DefaultClient, http.MethodPost, url+"/v1/sessions", agentToken, "")
			if session = field(answer, "id"); err != nil || session == "" {
				continue
			}
		}
		made.Add(1)
		_, answer, err := send(context.Background(), http.DefaultClient, http.MethodPost, url+"/v1/skills/text-lines/run", agentToken,
			fmt.Sprintf(`{"session":%q,"turn":"t%d","script":"lines.sh","input":{"text":"a","op":"count"}}`, session, n%14/3))
		if err == nil && strings.Contains(answer, string(protocol.NotFound)) {
			t.Errorf("the session %s was lost: %s", session, answer)
		}
		if errors.Is(err, syscall.ECONNREFUSED) { // begun before the lock, sent after the kill: it was never a call
			made.Add(-1)
			continue
		}
		select {
		case moments <- struct{}{}:
		default:
		}
	}
}

// accountFor compares the record with the counts.
func (s *stack) accountFor(t *testing.T) {
	t.Helper()
	_, text, err := s.rest(t.Context(), viewerToken, http.MethodGet, "/v1/audit/export?tool=skill_run", "")
	if err != nil {
		t.Fatal(err)
	}
	opened, closed, outcomes := map[string]int{}, map[string]int{}, map[string]int{}
	started := map[string]int64{}
	for line := range strings.Lines(text) {
		var e struct {
			Kind, Call string
			Body       struct{ Session, Decision, Outcome string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch e.Kind {
		case "opened":
			opened[e.Call]++
		case "closed":
			closed[e.Call]++
			outcomes[e.Body.Outcome]++
			if protocol.RefusalOf(guard.Code(e.Body.Outcome)).Code != guard.Code(e.Body.Outcome) { // an outcome, not a refusal
				started[e.Body.Session]++
			}
		}
	}
	t.Logf("%d calls: %v", len(opened), outcomes)
	if diff := cmp.Diff(opened, closed); diff != "" {
		t.Errorf("opened and closed differ:\n%s", diff)
	}
	for id, n := range opened {
		if n != 1 {
			t.Errorf("call %s was opened %d times", id, n)
		}
	}
	if outcomes["lost"] == 0 || outcomes["ok"] == 0 {
		t.Errorf("%v: want some that were lost, else nothing was killed in the middle", outcomes)
	}
	s.compareCounts(t, started)
	if _, answer, err := s.rest(t.Context(), viewerToken, http.MethodGet, "/v1/audit/verify", ""); err != nil || !strings.Contains(answer, `"ok":true`) {
		t.Errorf("the record: %s (%v)", answer, err)
	}
}

// database opens the stack's store beside the api.
func (s *stack) database(t *testing.T) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", s.db
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, dsn = "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (s *stack) stillOpen(t *testing.T) (n int) {
	t.Helper()
	if err := s.database(t).QueryRowContext(t.Context(), `SELECT count(*) FROM calls WHERE closed IS NULL`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *stack) compareCounts(t *testing.T, started map[string]int64) {
	t.Helper()
	db := s.database(t)
	for _, q := range []string{`SELECT id, runs FROM sessions WHERE runs > 0`, `SELECT session, sum(runs) FROM turns GROUP BY session HAVING sum(runs) > 0`} {
		rows, err := db.QueryContext(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for rows.Next() {
			var id string
			var n int64
			if err := rows.Scan(&id, &n); err != nil {
				t.Fatal(err)
			}
			got[id] = n
		}
		if diff := cmp.Diff(started, got); diff != "" || rows.Err() != nil {
			t.Errorf("%s: what was started, and what was counted (%v):\n%s", q, rows.Err(), diff)
		}
	}
	total := int64(0)
	for _, n := range started {
		total += n
	}
	var day int64
	if err := db.QueryRowContext(t.Context(), `SELECT sum(runs) FROM daily_quota`).Scan(&day); err != nil || day != total {
		t.Errorf("the days have counted %d runs of %d (%v)", day, total, err)
	}
}
