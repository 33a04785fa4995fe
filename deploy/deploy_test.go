//go:build deploy

package deploy

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"xrayrunner/runner/protocol"
)

const good = `{"skill":"csv-stats","script":"stats.py","input":{"csv":"a\n1\n2"}}`

// TestDeployment goes with one deployment through what an operator does with it, in that order.
func TestDeployment(t *testing.T) {
	d := install(t, "18181")
	type step struct {
		name string
		do   func(*testing.T, *deployment)
	}
	steps := []step{
		{"first start", testFirstStart},
		{"smoke with both keys closed", testSmoke},
		{"opening", testOpening},
		{"the runner stops and comes back", testRunnerStops},
	}
	more := []step{
		{"the api cannot spawn", testAPICannotSpawn},
		{"the runner's walls", testRunnerWalls},
		{"the api's walls", testAPIWalls},
		{"attacks", testAttacks},
		{"the runner is killed", func(t *testing.T, d *deployment) { testKilled(t, d, runnerService) }},
		{"the api is killed", func(t *testing.T, d *deployment) { testKilled(t, d, apiService) }},
		{"all of it is made anew", testUpgrade},
		{"a volume of somebody else", testForeignVolume},
		{"smoke can fail", testSmokeFails},
	}
	if !testing.Short() { // what does not depend on the base image is tried with one of them
		steps = append(steps, more...)
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { d.t = t; step.do(t, d) }) {
			t.Logf("said: api: %s\nsaid: runner: %s", tail(d.logs(apiService)), tail(d.logs(runnerService)))
			break
		}
	}
	d.t = t
}

func tail(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

func testFirstStart(t *testing.T, d *deployment) {
	d.up()
	for _, s := range []string{apiService, runnerService} {
		t.Logf("figure: %s healthy after %.1f s", s, d.healthyAfter(s).Seconds())
	}
	size, err := strconv.ParseInt(d.must("docker", "image", "inspect", "--format", "{{.Size}}", d.inspect(apiService, ".Image")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("figure: image of the api %.1f MB", float64(size)/1e6)
	if size > 50e6 {
		t.Error("the image of the api is larger than 50 MB")
	}
	if code := d.get("/readyz", nil); code != 200 {
		t.Errorf("readyz: %d", code)
	}
}

func testSmoke(t *testing.T, d *deployment) {
	said := d.must("scripts/smoke")
	if !strings.HasSuffix(said, "\nsmoke: 4 passed, 0 failed") {
		t.Error(said)
	}
	if said, ok := d.agent("closed", "skill_run", good); ok || read(t, said).Code != "tool_disabled" {
		t.Errorf("with both keys closed: %s", said)
	}
	t.Log(said)
}

func testOpening(t *testing.T, d *deployment) {
	d.must("scripts/open", "csv-stats")
	said, ok := d.agent("opened", "skill_run", good)
	if r := read(t, said); !ok || r.Outcome != "ok" {
		t.Error(said)
	}
	t.Logf("said: %s", said)
}

// testAttacks makes the whole attack suite inside the running container. (As if the kernel were older: the tests of
// runner/internal/attack, or here by hand with --landlock-abi 2.)
func testAttacks(t *testing.T, d *deployment) {
	said, err := d.try("docker", "compose", "exec", "-T", runnerService, "/opt/xray/bin/runner", "doctor", "--attack")
	t.Logf("figure: %s", said[strings.LastIndex(said, "\n")+1:])
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if code := d.get("/readyz", nil); code != 200 {
		t.Errorf("after the attacks: readyz %d", code)
	}
}

// testRunnerStops: every skill_run has the one fixed refusal, the rest works, and nothing needs a restart of the api.
func testRunnerStops(t *testing.T, d *deployment) {
	began := d.inspect(apiService, ".State.StartedAt")
	d.must("docker", "compose", "stop", runnerService)
	var first string
	for range 3 {
		said, ok := d.agent("gone", "skill_run", good)
		if ok || read(t, said).Code != "runner_unavailable" {
			t.Errorf("without the runner: %s", said)
		}
		said = withoutIDs(said)
		if first != "" && said != first {
			t.Errorf("two refusals differ: %s and %s", first, said)
		}
		first = said
	}
	if said, ok := d.agent("gone", "skill_list", `{}`); !ok {
		t.Errorf("skill_list: %s", said)
	}
	if code := d.get("/v1/audit?limit=5", nil); code != 200 {
		t.Errorf("the record: %d", code)
	}
	if code := d.get("/readyz", nil); code != 503 {
		t.Errorf("readyz: %d", code)
	}
	d.must("docker", "compose", "start", runnerService)
	took := d.eventually("a call after the start", 90*time.Second, func() bool { return d.get("/readyz", nil) == 200 })
	if said, ok := d.agent("back", "skill_run", good); !ok {
		t.Errorf("after the start: %s", said)
	}
	t.Logf("figure: ready %.1f s after start", took.Seconds())
	if d.inspect(apiService, ".State.StartedAt") != began {
		t.Error("the api has been restarted")
	}
}

// withoutIDs leaves of a refusal what does not belong to one call.
func withoutIDs(text string) string {
	fields := strings.Split(text, ",")
	return strings.Join(slices.DeleteFunc(fields, func(f string) bool { return strings.Contains(f, "_id") || strings.Contains(f, `"instance"`) }), ",")
}

// testKilled kills a service again and again while calls go on (case 49). It is back by itself each time; each call has
// one of the answers that exist, and is in the record once, closed.
func testKilled(t *testing.T, d *deployment, service string) {
	stop, answers := make(chan struct{}), make(chan map[string]int)
	go func() { answers <- d.callUntil(stop) }()
	var slowest time.Duration
	for range 3 {
		d.must("kill", "-9", d.pid(service))
		slowest = max(slowest, d.eventually("back after kill -9", 90*time.Second, func() bool { return d.get("/readyz", nil) == 200 }))
	}
	close(stop)
	got := <-answers
	t.Logf("figure: ready at most %.1f s after kill -9 of %s, 3 times; answers of the calls meanwhile: %v", slowest.Seconds(), service, got)
	if got["ok"] == 0 {
		t.Error("no call went through")
	}
	for answer := range got {
		if !slices.Contains([]string{"ok", "lost", "busy", string(protocol.RunnerUnavailable), noAnswer}, answer) {
			t.Errorf("a call was answered with %s", answer)
		}
		if answer == noAnswer && service != apiService {
			t.Error("the api did not answer")
		}
	}
	checkRecord(t, d)
}

// noAnswer is what a caller sees while the api is away.
const noAnswer = "no answer"

// callUntil makes calls, one after the other, each in a session of its own so that no quota ends them.
func (d *deployment) callUntil(stop <-chan struct{}) map[string]int {
	answers := map[string]int{}
	for {
		select {
		case <-stop:
			return answers
		default:
		}
		var session struct{ ID string }
		var r result
		answer := noAnswer
		if d.send(http.MethodPost, "/v1/sessions", "", &session) == http.StatusOK {
			if d.send(http.MethodPost, "/v1/skills/csv-stats/run", `{"session":"`+session.ID+`","script":"stats.py","input":{"csv":"a\n1"}}`, &r) != 0 {
				answer = r.Code + r.Outcome
			}
		}
		answers[answer]++
		if answer != "ok" {
			time.Sleep(100 * time.Millisecond) // the pace of a patient caller
		}
	}
}

// checkRecord: the chain holds, each opened call is closed once, and no run has ended twice in the runner's log.
func checkRecord(t *testing.T, d *deployment) {
	t.Helper()
	open, events := map[string]int{}, 0
	for after := int64(0); ; {
		var page struct {
			Events []struct {
				Seq        int64
				Kind, Call string
			}
		}
		if code := d.get("/v1/audit?limit=500&after_seq="+strconv.FormatInt(after, 10), &page); code != http.StatusOK {
			t.Fatalf("the record: %d", code)
		}
		if len(page.Events) == 0 {
			break
		}
		for _, e := range page.Events {
			after, events = e.Seq, events+1
			switch {
			case e.Kind == "opened":
				open[e.Call]++
			case e.Kind == "closed":
				open[e.Call]--
			}
		}
	}
	if len(open) == 0 || open[""] != 0 {
		t.Fatalf("%d events of %d calls", events, len(open))
	}
	for id, n := range open {
		if n != 0 {
			t.Errorf("call %s is opened %d times more than closed", id, n)
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(d.logs(runnerService)) {
		if !strings.Contains(line, `"run finished"`) {
			continue
		}
		_, rest, _ := strings.Cut(line, `"run_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		if seen[id] {
			t.Errorf("run %s has ended twice", id)
		}
		seen[id] = true
	}
	if len(seen) == 0 {
		t.Error("the runner's log has no run")
	}
	var verified struct{ OK bool }
	if code := d.get("/v1/audit/verify", &verified); code != 200 || !verified.OK {
		t.Errorf("the chain: %d %+v", code, verified)
	}
}

// testUpgrade: containers, network and the socket's volume go, the data stays: what was opened still is, and the record
// goes on.
func testUpgrade(t *testing.T, d *deployment) {
	var before, after struct{ Events []struct{ Hash string } }
	d.get("/v1/audit?limit=1", &before)
	d.must("docker", "compose", "down")
	d.up()
	d.get("/v1/audit?limit=1", &after)
	if len(before.Events) != 1 || len(after.Events) != 1 || before.Events[0] != after.Events[0] {
		t.Errorf("the record began with %v and begins with %v", before, after)
	}
	d.operator("skills_agent_status", `{}`)
	checkFirstCall(t, d)
}

func checkFirstCall(t *testing.T, d *deployment) {
	t.Helper()
	if said, ok := d.agent("first-"+strconv.FormatInt(time.Now().UnixNano(), 36), "skill_load", `{"skill":"csv-stats"}`); !ok {
		t.Error(said)
	}
}

// testForeignVolume: a store that an image of another user has made is refused with owner and uid, before anything is
// served (docker/compose#3425 and its kin); put right, it works.
func testForeignVolume(t *testing.T, d *deployment) {
	folder := d.must("docker", "volume", "inspect", "--format", "{{.Mountpoint}}", d.project+"_data")
	d.must("docker", "compose", "stop", apiService)
	own := func(uid string) { d.must("chown", "-R", uid+":"+uid, folder) }
	own("0")
	d.must("docker", "compose", "start", apiService)
	d.eventually("a refusal with owner and uid", 90*time.Second, func() bool {
		return strings.Contains(d.logs(apiService), "cannot be written by uid 10001") && strings.Contains(d.logs(apiService), "belongs to 0:0")
	})
	if code := d.get("/healthz", nil); code != 0 {
		t.Errorf("it serves: %d", code)
	}
	own("10001")
	d.must("docker", "compose", "restart", apiService)
	d.eventually("ready", 90*time.Second, func() bool { return d.get("/readyz", nil) == 200 })
}

// testSmokeFails is the control of smoke: with a network and a root that can be written it fails, by name.
func testSmokeFails(t *testing.T, d *deployment) {
	weak, err := filepath.Abs("testdata/compose.weak.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d.files = append(d.files, weak)
	defer func() { d.files = d.files[:1] }()
	d.must("docker", "compose", "up", "-d", "--no-build", runnerService)
	d.eventually("the runner to answer", 90*time.Second, func() bool {
		_, err := d.try("docker", "compose", "exec", "-T", apiService, "/api", "smoke")
		return err == nil
	})
	said, err := d.try("scripts/smoke")
	if err == nil || !strings.HasSuffix(said, "\nsmoke: 1 passed, 3 failed") {
		t.Errorf("smoke of a weak deployment: %v\n%s", err, said)
	}
	for _, want := range []string{"interface eth0 is up", "FAIL  no network in the runner", "not with EROFS"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

// lab makes the deployment serve the skills of testdata, under the same locks.
func lab(t *testing.T, d *deployment) {
	t.Helper()
	d.must("cp", "-r", abs(t, "testdata/skills"), "lab-skills")
	d.must("mkdir", "lab")
	d.must("mv", "lab-skills", "lab/skills")
	d.must("chmod", "-R", "a+rX", "lab")
	d.files = append(d.files, abs(t, "testdata/compose.lab.yaml"))
	if err := os.WriteFile(filepath.Join(d.dir, "lab/manifest.json"), labManifest(t), 0o644); err != nil {
		t.Fatal(err)
	}
	d.up()
	for _, call := range [][2]string{{"skills_publish", `{"name":"waits"}`}, {"skills_agent_set", `{"name":"waits","enabled":true}`}, {"tool_config_set", `{"tool":"skill_load","enabled":true}`}, {"tool_config_set", `{"tool":"skill_run","enabled":true}`}} {
		d.operator(call[0], call[1])
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDevelopment: the overlay for macOS and Windows, where the api runs natively: TCP on loopback, with a token.
func TestDevelopment(t *testing.T) {
	if testing.Short() {
		t.Skip("tried with the first base image")
	}
	d := install(t, "18183")
	d.files = append(d.files, abs(t, "compose.dev.yaml"))
	const token = "a-token-of-the-test"
	t.Setenv("RUNNER_TOKEN", token)
	t.Setenv("RUNNER_PORT", "18184")
	d.must("docker", "compose", "up", "-d", "--wait", "--no-build", runnerService)
	call := func(token string) string {
		out, err := d.try("curl", "-sS", "-H", "Authorization: Bearer "+token, "-H", "Content-Type: application/json",
			"-d", `{"session":"dev","turn":"1",`+good[1:], "http://127.0.0.1:18184/run")
		if err != nil {
			t.Fatal(err, out)
		}
		return out
	}
	if said := call(token); !strings.Contains(said, `"outcome":"ok"`) {
		t.Error(said)
	}
	if said := call("another-token-of-16"); !strings.Contains(said, `"code":"unauthorized"`) {
		t.Error(said)
	}
	if said := d.logs(runnerService); !strings.Contains(said, "development: listens on TCP") {
		t.Errorf("the log does not say so: %s", said)
	}
}
