package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// prober tries the layers: the shim in its probe mode (shim/probe.c) attempts what a layer must refuse, once without
// the layer and once with it. An attempt that fails without the layer too proves nothing about it.
type prober struct {
	shim     string
	root     string // holds the canary and the working folder
	canary   string
	listener net.Listener // abstract socket that must be out of reach
	system   []grant
	oldABI   int // Config.LandlockABI
	cgroups  *cgroups
	openJail func(JailSpec) (Jail, error)
	jails    *jails
}

// probeFiles is the limit on open files that the attempts must see.
const probeFiles = 48

// probeDisk is the limit on what all files of an attempt take.
const probeDisk = 4 << 20

func newProber(cfg Config) (*prober, error) {
	system, err := systemGrants()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProbe, err)
	}
	root, err := os.MkdirTemp(cfg.ProbeDir, "probe-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProbe, err)
	}
	p := &prober{shim: cfg.ShimPath, root: root, canary: filepath.Join(root, "canary"), system: system, oldABI: cfg.LandlockABI, openJail: cfg.Jail}
	p.listener, err = net.Listen("unix", "@xray-probe-"+rand.Text())
	err = errors.Join(err, os.Mkdir(p.work(), 0o700), os.WriteFile(p.canary, []byte("outside"), 0o600))
	if err != nil {
		p.close()
		return nil, fmt.Errorf("%w: %w", ErrProbe, err)
	}
	return p, nil
}

func (p *prober) work() string { return filepath.Join(p.root, "work") }

func (p *prober) close() {
	if p.jails != nil {
		_ = p.jails.close()
	}
	if p.listener != nil {
		_ = p.listener.Close()
	}
	_ = os.RemoveAll(p.root)
}

// facts are the lines that a probe printed.
type facts map[string]int

// why says why a layer is not in force, with the errno that was seen, if it was one. The zero value: it is in force.
type why struct {
	text  string
	errno syscall.Errno
}

func because(err error) why {
	if err == nil {
		return why{}
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	return why{err.Error(), errno}
}

// refused reports whether the attempts succeeded without the layer and failed with this errno with it; what was seen
// otherwise is the answer.
func (with facts) refused(without facts, want syscall.Errno, attempts ...string) why {
	for _, name := range attempts {
		before, known := without[name]
		after, tried := with[name]
		seen := syscall.Errno(after)
		switch {
		case !known || !tried:
			return why{text: name + " was not tried"}
		case syscall.Errno(before) == want:
			return why{fmt.Sprintf("cannot be tried here: %s already fails (%s)", name, want), want}
		case after == 0:
			return why{text: name + " was not refused"}
		case seen != want:
			return why{fmt.Sprintf("%s: %s instead of %s", name, seen, want), seen}
		}
	}
	return why{}
}

// expect is for facts that are values.
func (with facts) expect(name string, want int) why {
	if got, ok := with[name]; !ok || got != want {
		return why{text: fmt.Sprintf("%s is %d, not %d", name, got, want)}
	}
	return why{}
}

// attempt runs the probe in exactly these layers.
func (p *prober) attempt(f inForce) (facts, error) { return p.attemptAs(f, 1) }

func (p *prober) attemptAs(f inForce, processes int) (facts, error) {
	name := strings.TrimPrefix(p.listener.Addr().String(), "@")
	exit, err := p.run(f, processes, p.canary, name)
	return parseFacts(exit.Stdout), err
}

// run is for attempts that end by themselves.
func (p *prober) run(f inForce, processes int, arguments ...string) (Exit, error) {
	exit, err := p.start(f, processes, 64<<20, arguments...)
	if err == nil && (exit.Cause != Exited || exit.ExitCode != 0) {
		err = fmt.Errorf("the probe ended with %s %d %s", exit.Cause, exit.ExitCode, exit.Signal)
	}
	return exit, err
}

// probeTime is much more than a probe needs: on an emulated host one had not enough with 10 s, and a layer that was in
// force was said to be missing.
const probeTime = 30 * time.Second

func (p *prober) start(f inForce, processes int, memory uint64, arguments ...string) (Exit, error) {
	exit, _, err := p.observe(f, processes, memory, arguments...)
	return exit, err
}

func (p *prober) observe(f inForce, processes int, memory uint64, arguments ...string) (Exit, *run, error) {
	f.system = p.system
	s := &landlocked{shim: p.shim, force: f, cgroups: p.cgroups, jails: p.jails}
	exit, r, err := s.run(context.Background(), Spec{
		Argv: append([]string{p.shim, "--probe"}, arguments...),
		Dir:  p.work(),
		Limits: Limits{
			Wall: probeTime, CPU: probeTime, MemoryBytes: memory, FileBytes: 1 << 20, DiskBytes: probeDisk, DiskFiles: 1000,
			OpenFiles: probeFiles, Processes: processes, StdoutBytes: 4096, StderrBytes: 4096, Interpreter: Compiled,
		},
	})
	s.plans.close()
	return exit, r, err
}

func parseFacts(text []byte) facts {
	out := facts{}
	for line := range strings.Lines(string(text)) {
		var name string
		var value int
		if n, _ := fmt.Sscanf(line, "%s %d", &name, &value); n == 2 {
			out[name] = value
		}
	}
	return out
}
