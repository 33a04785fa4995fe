package xrayrunner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/manifests"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

// TestEveryExampleTwice runs each example of each shipped skill twice in the real sandbox; both must give what the
// author wrote, number for number.
func TestEveryExampleTwice(t *testing.T) {
	s := started(t)
	raw, err := os.ReadFile("runner/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := manifests.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := client.New("unix:"+s.socket(), "")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for name, skill := range lock.Skills {
		for key, script := range skill.Scripts {
			if len(script.Examples) == 0 {
				t.Errorf("%s/%s has no example", name, key)
			}
			for i, example := range script.Examples {
				for range 2 {
					ran++
					check(t, runner, name, key, fmt.Sprintf("s%d", ran), i, example)
				}
			}
		}
	}
	t.Logf("%d runs of examples", ran)
}

func check(t *testing.T, runner *client.Client, skill, script, session string, i int, example manifests.Example) {
	t.Helper()
	r, refused, err := runner.Run(context.Background(), protocol.RunRequest{Session: session, Turn: "t", Skill: skill, Script: script, Input: protocol.TextInput(example.Input)}, "")
	switch {
	case err != nil || refused != nil:
		t.Errorf("%s/%s example %d: %v %+v", skill, script, i, err, refused)
	case r.Outcome != protocol.OK:
		t.Errorf("%s/%s example %d: outcome %s: %s %s", skill, script, i, r.Outcome, r.Detail, r.Stderr)
	default:
		if diff := cmp.Diff(exact(t, example.Output), exact(t, r.Result)); diff != "" {
			t.Errorf("%s/%s example %d (-want +got):\n%s", skill, script, i, diff)
		}
	}
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
