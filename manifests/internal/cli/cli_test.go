package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"xrayrunner/manifests"
	"xrayrunner/manifests/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"manifestgen": func() { os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

// TestSkeletonWorks runs the script of a new skill with its own example.
func TestSkeletonWorks(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	dir := t.TempDir()
	var out bytes.Buffer
	if code := cli.Run([]string{"new", "--skills", dir, "word-count"}, nil, &out, &out); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, &out)
	}
	lock, findings, err := manifests.Build(dir)
	if err != nil || len(findings) > 0 {
		t.Fatalf("%v %v", err, findings)
	}
	example := lock.Skills["word-count"].Scripts["run.py"].Examples[0]
	cmd := exec.Command(python, filepath.Join(dir, "word-count", "run.py"))
	cmd.Stdin = bytes.NewReader(example.Input)
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var gotValue, want map[string]int
	if json.Unmarshal(got, &gotValue) != nil || json.Unmarshal(example.Output, &want) != nil || gotValue["words"] != want["words"] || gotValue["different"] != want["different"] {
		t.Errorf("got %s, want %s", got, example.Output)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]int{
		"": 2, "help": 0, "--help": 0, "publish": 2, "build": 2, "build --skills x": 2, "build --out x": 2, "check": 2,
		"check --skills x more": 2, "new --skills x": 2, "new --skills x a b": 2, "check --skill x": 2, "check --help": 0, "check --skills /nonexistent": 1,
	} {
		var out, errs bytes.Buffer
		if got := cli.Run(strings.Fields(args), nil, &out, &errs); got != want {
			t.Errorf("%q: exit %d, want %d: %s%s", args, got, want, &out, &errs)
		}
		if want == 2 && !strings.Contains(errs.String(), "usage:") {
			t.Errorf("%q: no usage on stderr: %s", args, &errs)
		}
	}
}
