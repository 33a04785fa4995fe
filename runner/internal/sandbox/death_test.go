package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// runForever is a runner with runs that do not end by themselves: of one process, of several, and one from a cell, beside a
// cell whose fork still waits. It says on stdout which processes there are.
func runForever() int {
	s, err := newLandlocked(Config{ShimPath: os.Getenv(envShim)})
	if err != nil {
		return complain(err)
	}
	const pids = `import os, sys, time
print("up", os.getpid(), file=sys.stderr, flush=True)
`
	const escape = `
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("up", os.getpid(), file=sys.stderr, flush=True)
`
	ended := make(chan error)
	go func() { ended <- warmForever(s, pids+"\nwhile True: time.sleep(600)\n") }()
	for processes, text := range map[int]string{1: pids, 8: pids + escape} {
		go func() {
			dir, err := os.MkdirTemp("", "runner-")
			if err != nil {
				ended <- err
				return
			}
			defer os.RemoveAll(dir)
			_, err = s.Run(context.Background(), Spec{
				Argv: []string{python3, "-I", "-S", "-c", text + "\nwhile True: time.sleep(600)"},
				Dir:  dir,
				Limits: Limits{
					Wall: time.Hour, CPU: time.Minute, MemoryBytes: 128 << 20, FileBytes: 1 << 20, DiskBytes: 4 << 20, DiskFiles: 1000, OpenFiles: 64,
					Processes: processes, StdoutBytes: 4096, StderrBytes: 4096, Interpreter: Python,
				},
				OnStderr: func(line string, _ time.Duration) { fmt.Println(line) },
			})
			ended <- err
		}()
	}
	return complain(fmt.Errorf("a run ended: %w", <-ended))
}

func warmForever(s *landlocked, text string) error {
	root, err := os.MkdirTemp("", "cells-")
	if err != nil {
		return err
	}
	w, err := WithCells(s, CellConfig{Library: os.Getenv(envShim) + ".so", Root: root, Budget: 1 << 30, Log: func(message string, more ...any) { fmt.Fprintln(os.Stderr, message, more) }})
	if err != nil {
		return err
	}
	spec := Spec{
		Argv: append(append([]string{python3}, pythonFlags...), root+"/script.py"), Dir: root + "/run",
		Limits: Limits{
			Wall: time.Hour, CPU: time.Minute, MemoryBytes: 128 << 20, FileBytes: 1 << 20, DiskBytes: 4 << 20, DiskFiles: 1000, OpenFiles: 64,
			Processes: 1, StdoutBytes: 4096, StderrBytes: 4096, Interpreter: Python,
		},
		OnStderr: func(line string, _ time.Duration) { fmt.Println(line) },
	}
	for _, skill := range []string{"waits", "runs"} {
		spec.Warm = &Warm{Skill: skill, Text: func() ([]byte, error) { return []byte(text), nil }}
		if err := w.Prepare(spec); err != nil {
			return err
		}
		fmt.Println("up", w.CellPID(skill))
	}
	fmt.Println("up", w.skills["waits"].line(spec).waiting[0].process.Pid)
	if err := os.Mkdir(spec.Dir, 0o700); err != nil {
		return err
	}
	exit, err := w.Run(context.Background(), spec)
	return fmt.Errorf("warm %t: %w", exit.Warm, err)
}

// deadlyProcesses is how many runForever starts.
const deadlyProcesses = 7

// SIGKILL of the runner leaves nothing: not the script, not what left its session, no cell and no fork.
func TestRunnerKilled(t *testing.T) {
	full(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{envStage + "=" + stageRunner, envShim + "=" + os.Getenv(envShim), "TMPDIR=" + t.TempDir()}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var scripts []int
	for len(scripts) < deadlyProcesses && lines.Scan() {
		var pid int
		if _, err := fmt.Sscanf(lines.Text(), "up %d", &pid); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, fd)
	}
	if len(scripts) != deadlyProcesses {
		t.Fatalf("the runner started %d of %d processes", len(scripts), deadlyProcesses)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("runner: %v", err)
	}
	for _, fd := range scripts {
		awaitEnd(t, fd)
	}
}

// awaitEnd waits for the end of a process that is not our child, by its pidfd.
func awaitEnd(t *testing.T, pidfd int) {
	t.Helper()
	defer unix.Close(pidfd)
	for begin := time.Now(); ; {
		poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 10_000)
		if n == 1 {
			return
		}
		if err != unix.EINTR || time.Since(begin) > 10*time.Second {
			t.Errorf("a process outlived its runner: %d, %v", n, err)
			return
		}
	}
}
