package attack

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"xrayrunner/runner/internal/sandbox"
)

//go:embed scripts/neighbour.py
var neighbourScript string

// neighbour is another run, at work while attacks are made. It says what is done to it.
type neighbour struct {
	pid    int // as we see it: in its own PID namespace it has another
	dir    string
	secret string
	stop   context.CancelFunc
	lines  chan string
	ended  chan sandbox.Exit
	pings  int
}

// patience is how long the neighbour may take for an answer; on a busy machine it is slow, and not gone.
const patience = 20 * time.Second

func newNeighbour(ctx context.Context, box sandbox.Sandbox, python, runs, marker string) (*neighbour, error) {
	dir, err := os.MkdirTemp(runs, "run-")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	n := &neighbour{dir: dir, secret: rand.Text(), stop: stop, lines: make(chan string, 64), ended: make(chan sandbox.Exit, 1)}
	spec := sandbox.Spec{
		Argv: []string{python, "-I", "-S", "-B", "-c", neighbourScript, marker},
		Env:  []string{"SECRET=" + n.secret}, Dir: dir, Limits: loose(),
		OnStderr: func(line string, _ time.Duration) { n.lines <- line },
	}
	spec.Limits.Wall, spec.Limits.CPU = time.Hour, time.Hour
	failed := make(chan error, 1)
	go func() {
		exit, err := box.Run(ctx, spec)
		failed <- err
		n.ended <- exit
	}()
	select {
	case line := <-n.lines:
		if !strings.HasPrefix(line, "up ") {
			stop()
			return nil, fmt.Errorf("the neighbour says %q", line)
		}
		if n.pid = findMarked(marker); n.pid == 0 {
			stop()
			return nil, errors.New("the neighbour is not to be seen in /proc")
		}
		return n, nil
	case err := <-failed:
		stop()
		return nil, errors.Join(errors.New("the neighbour did not start"), err)
	}
}

// findMarked is the process with the marker in its arguments; 0 when there is none.
func findMarked(marker string) int {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline"); err == nil && strings.Contains(string(line), marker) {
			return pid
		}
	}
	return 0
}

// ask is what was done to it since the last time: "" when nothing.
func (n *neighbour) ask() string {
	n.pings++
	// Its folder may be in a mount namespace of its own; /proc leads there, us and nobody else.
	folder := filepath.Join("/proc", strconv.Itoa(n.pid), "root", n.dir)
	if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("ping-%d", n.pings)), nil, 0o600); err != nil {
		return err.Error()
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case line := <-n.lines:
			if changes, ok := strings.CutPrefix(line, "pong"); ok {
				return strings.TrimSpace(changes)
			}
		case exit := <-n.ended:
			n.ended <- exit
			return fmt.Sprintf("it ended: %s %d %s %s", exit.Cause, exit.ExitCode, exit.Signal, exit.Stderr)
		case <-late.C:
			return "it does not answer"
		}
	}
}

// close ends it and waits until nothing is left of it.
func (n *neighbour) close() error {
	n.stop()
	for {
		select {
		case <-n.lines:
		case <-n.ended:
			return os.RemoveAll(n.dir)
		}
	}
}
