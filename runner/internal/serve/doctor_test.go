package serve_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"xrayrunner/runner/internal/cost"
)

// doctor runs it as the test user and gives what it printed and its verdict.
func (p place) doctor(env ...string) (text, verdict string) {
	p.t.Helper()
	cmd := p.command("doctor", env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	_, verdict, _ = strings.Cut(said.String(), "verdict ")
	return string(out) + said.String(), strings.TrimSpace(verdict)
}

type report struct {
	Verdict, Kernel, Tier string
	Layers                []struct {
		Name, Reason, Means, Cure string
		InForce                   bool `json:"in_force"`
	}
	Problems, Remarks []string
}

func (p place) report(env ...string) (r report, verdict string) {
	p.t.Helper()
	text, verdict := p.doctor(env...)
	raw, _, _ := strings.Cut(text, "verdict ")
	if err := json.Unmarshal([]byte(raw), &r); err != nil {
		p.t.Fatalf("%v in %s", err, text)
	}
	return r, verdict
}

// On this kernel every layer is in force; an older one is named with what is missing, what that means and the cure, and
// the verdict says so.
func TestDoctor(t *testing.T) {
	p := newPlace(t)
	r, verdict := p.report()
	if verdict != "sound" || r.Verdict != verdict || len(r.Layers) < 10 || len(r.Problems) != 0 || !strings.HasPrefix(r.Kernel, "Linux ") {
		t.Errorf("%s: %+v", verdict, r)
	}
	text, verdict := p.doctor(envABI + "=2")
	if verdict != "weaker" {
		t.Errorf("on 6.1: %s", verdict)
	}
	for _, want := range []string{
		"landlock_scope  NO", "needs Landlock ABI 6 (Linux 6.12), this kernel has 2", "landlock_net    NO", "signals         yes", "filter",
		"means here: only seccomp keeps TCP", "cure:       use Linux 6.12 or later",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("on 6.1: no %q in\n%s", want, text)
		}
	}
}

// What would stop the start is a problem by name: a layer that an operator wants, and the network.
func TestDoctorRefuses(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct{ env, want string }{
		{"RUNNER_MIN_ISOLATION=landlock,cgroup", "RUNNER_MIN_ISOLATION wants cgroup"},
		{"RUNNER_SHIM=/nowhere/shim", "sandbox:"},
		{"RUNNER_QUEUE=x", "RUNNER_QUEUE"},
	} {
		text, verdict := p.doctor(c.env)
		if verdict != "refused" && !strings.HasPrefix(verdict, "refused") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s: %s", c.env, verdict, text)
		}
	}
	text, verdict := p.doctor("RUNNER_MIN_ISOLATION=landlock,landlock_scope", envABI+"=4")
	if verdict != "refused" || !strings.Contains(text, "RUNNER_MIN_ISOLATION wants landlock_scope, which is not in force: needs Landlock ABI 6") {
		t.Errorf("%s: %s", verdict, text)
	}
}

// The cost is measured against a bare start in the same rounds; both give the same answer, or it is an error.
func TestCost(t *testing.T) {
	out, err := newPlace(t).command("cost").Output()
	var r struct {
		Rounds int
		Rows   []struct {
			Ratio float64
			P50   float64 `json:"p50_ms"`
		}
	}
	if err := errors.Join(err, json.Unmarshal(out, &r)); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Rounds != 3 || len(r.Rows) < 3 || r.Rows[0].Ratio != 1 {
		t.Errorf("%+v", r)
	}
	for _, row := range r.Rows {
		if row.Ratio <= 0 || row.P50 <= 0 {
			t.Errorf("%+v", row)
		}
	}
}

// Each bomb ends by its own limit while another run gets its answers.
func TestNeighbour(t *testing.T) {
	out, err := newPlace(t).command("neighbour").Output()
	var r cost.Neighbours
	if err := errors.Join(err, json.Unmarshal(out, &r)); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(r.Bombs) != 10 || !r.Right() {
		t.Errorf("%s", out)
	}
	for _, bomb := range r.Bombs {
		if bomb.Runs == 0 || bomb.Ratio <= 0 {
			t.Errorf("%+v", bomb)
		}
	}
	if (cost.Neighbours{Bombs: []cost.Bomb{{Name: "disk", Outcome: "exited"}}}).Right() {
		t.Error("a bomb that was held to nothing is right")
	}
}

// That there are no warm starts is said; in either tier there are some.
func TestDoctorSaysCold(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct{ env, tier, want string }{
		{"RUNNER_ISOLATION=landlock", "landlock", ""},
		{"RUNNER_ISOLATION=auto", "namespaces", ""},
		{"RUNNER_WARM=off", "", "RUNNER_WARM=off"},
	} {
		t.Run(c.env, func(t *testing.T) {
			r, _ := p.report(c.env)
			if c.tier == "namespaces" && r.Tier != c.tier {
				t.Skip("no namespaces here")
			}
			said := strings.Join(r.Remarks, "\n")
			if c.tier != "" && r.Tier != c.tier || strings.Contains(said, "every run is a cold start") != (c.want != "") || !strings.Contains(said, c.want) {
				t.Errorf("tier %s: %s", r.Tier, said)
			}
		})
	}
}
