// Package review holds the reviewer's list for the text of scripts (spec section 4.2): reads stdin only,
// standard library or pinned packages only, no other program, no way out, the same output for the same
// input. Python is read by its syntax tree, in a Python process that never runs the script; bash by words.
//
// It is a lint, not a boundary: it spares a reviewer the obvious, and whoever means harm passes it. The
// sandbox is the boundary.
package review

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"xrayrunner/manifests"
)

//go:embed review.py
var program string

// timeout bounds one pass over all files; a file takes milliseconds.
const timeout = time.Minute

// pythonPaths are looked at in order. PATH is not asked: what judges must not depend on who calls.
var pythonPaths = []string{"/usr/bin/python3", "/usr/local/bin/python3"}

// ErrNoPython: this machine has no Python, so Python files were not reviewed.
var ErrNoPython = errors.New("no python3 in /usr/bin or /usr/local/bin")

// pythonFile is one file to judge, in the words of review.py.
type pythonFile struct {
	Path   string   `json:"path"`   // where it can be read
	Egress bool     `json:"egress"` // lifts socket, ssl, http.client and determinism
	Forks  bool     `json:"forks"`  // the skill declares more than one process: forking is only a warning
	Local  []string `json:"local"`  // modules of the skill itself
}

type pythonFinding struct {
	Line     int                `json:"line"`
	Column   int                `json:"column"`
	Severity manifests.Severity `json:"severity"`
	Message  string             `json:"message"`
	Cure     string             `json:"cure"`
}

// reviewed is what review.py says, each list in the order of the files.
type reviewed struct {
	Files   [][]pythonFinding `json:"files"`
	Imports [][]string        `json:"imports"`
}

func reviewPython(ctx context.Context, files []pythonFile, pinned []string) (*reviewed, error) {
	python, err := findPython()
	if err != nil {
		return nil, err
	}
	job, err := json.Marshal(map[string]any{"files": files, "stdlib": manifests.StandardModules(), "pinned": append([]string{}, pinned...)})
	if err != nil {
		return nil, fmt.Errorf("encode review job: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, python, "-I", "-S", "-B", "-c", program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(job), &stdout, &stderr
	cmd.Env = []string{} // -I ignores PYTHON*; nothing else concerns it
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run %s: %w: %s", python, err, lastLine(stderr.Bytes()))
	}
	var answer reviewed
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("decode review: %w", err)
	}
	if len(answer.Files) != len(files) || len(answer.Imports) != len(files) {
		return nil, fmt.Errorf("BUG: %d files were given to the review, %d came back", len(files), len(answer.Files))
	}
	return &answer, nil
}

func findPython() (string, error) {
	for _, path := range pythonPaths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", ErrNoPython
}

func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}
