package xrayrunner_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/manifests"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

// TestEveryExampleTwice runs each example of each shipped skill in the real sandbox, in each tier once where every run is a
// cold start and once warm if its author allows it. All must give what the author wrote, number for number. The tier that
// is not asked for is namespaces where the host grants that.
func TestEveryExampleTwice(t *testing.T) {
	for name, tier := range map[string]string{"landlock": "RUNNER_ISOLATION=landlock", "best": "RUNNER_ISOLATION=auto"} {
		t.Run(name, func(t *testing.T) { everyExampleTwice(t, tier) })
	}
}

func everyExampleTwice(t *testing.T, tier string) {
	cold, warm := started(t, tier, "RUNNER_WARM=off"), started(t, tier)
	raw, err := os.ReadFile("runner/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := manifests.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for name, skill := range lock.Skills {
		for key, script := range skill.Scripts {
			if len(script.Examples) == 0 {
				t.Errorf("%s/%s has no example", name, key)
			}
			for i, example := range script.Examples {
				ran[check(t, cold, name, key, "cold", i, example)]++
				wanted := "cold"
				if script.Warm {
					wanted = "warm"
				}
				ran[check(t, warm, name, key, wanted, i, example)]++
			}
		}
	}
	if ran["warm"] < 10 || ran["cold"] <= ran["warm"] {
		t.Errorf("runs by start: %v", ran)
	}
	t.Logf("runs of examples by start: %v", ran)
}

// check runs one example until it started as wanted: a skill's first run is cold, and has its cell made behind it. Each
// of these runs must be right.
func check(t *testing.T, s *stack, skill, script, start string, i int, example manifests.Example) string {
	t.Helper()
	runner, err := client.New("unix:"+s.socket(), "")
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		r, refused, err := runner.Run(context.Background(), protocol.RunRequest{Session: rand.Text(), Turn: "t", Skill: skill, Script: script, Input: protocol.TextInput(example.Input)}, "")
		switch {
		case err != nil || refused != nil:
			t.Fatalf("%s/%s example %d: %v %+v", skill, script, i, err, refused)
		case r.Outcome != protocol.OK:
			t.Errorf("%s/%s example %d, %s: outcome %s: %s %s", skill, script, i, r.Sandbox.Start, r.Outcome, r.Detail, r.Stderr)
		default:
			if diff := cmp.Diff(exact(t, example.Output), exact(t, r.Result)); diff != "" {
				t.Errorf("%s/%s example %d, %s (-want +got):\n%s", skill, script, i, r.Sandbox.Start, diff)
			}
		}
		if r.Sandbox.Start == start || t.Failed() {
			return r.Sandbox.Start
		}
	}
	t.Errorf("%s/%s was never %s", skill, script, start)
	return ""
}

// exact keeps the digits of numbers.
func exact(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
