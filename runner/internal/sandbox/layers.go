package sandbox

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Names of the layers, in the order in which the posture lists them.
const (
	layerPrivs    = "no_new_privs"
	layerRlimits  = "rlimits"
	layerOOM      = "oom_score_adj"
	layerLandlock = "landlock"
	layerNet      = "landlock_net"
	layerScope    = "landlock_scope"
	layerSeccomp  = "seccomp"
	layerSignals  = "signals"
	layerSweep    = "sweep"
	layerWatch    = "watch"
)

// probe tries the layers one after the other and then all that hold together.
func (p *prober) probe() (inForce, Posture, error) {
	force, posture := inForce{system: p.system}, Posture{Tier: TierLandlock}
	control, err := p.basics(&force, &posture)
	if err != nil {
		return inForce{}, Posture{}, fmt.Errorf("%w: %w", ErrProbe, err)
	}
	p.tryLandlock(control, &force, &posture)
	p.trySeccomp(control, &force, &posture)
	if _, err := p.attempt(force); err != nil {
		return inForce{}, Posture{}, fmt.Errorf("%w: all layers together: %w", ErrProbe, err)
	}
	p.trySignals(control, force, &posture)
	p.trySweep(force, &posture)
	p.tryWatch(force, &posture)
	return force, posture, nil
}

// add records one layer. No reason means that it is in force.
func (posture *Posture) add(name, detail, reason string) bool {
	layer := Layer{Name: name, InForce: reason == "", Reason: reason}
	if layer.InForce {
		layer.Detail = detail
	}
	posture.Layers = append(posture.Layers, layer)
	return layer.InForce
}

// basics are the layers that every run has. The same attempt is the control for the others: neither Landlock nor
// seccomp are on in it.
func (p *prober) basics(force *inForce, posture *Posture) (facts, error) {
	control, err := p.attempt(inForce{oom: true})
	oom := ""
	if errors.Is(err, ErrConfine) { // /proc may be missing or read-only: then all the rest is tried without
		oom = err.Error()
		control, err = p.attempt(inForce{})
	}
	if err != nil {
		return nil, err
	}
	if seen := control[layerOOM]; oom == "" && seen != 1000 {
		oom = fmt.Sprintf("reads as %d after it was set to 1000", seen)
	}
	posture.add(layerPrivs, "", expect(control, layerPrivs, 1))
	posture.add(layerRlimits, "", expect(control, "open_files", probeFiles))
	force.oom = posture.add(layerOOM, "", oom)
	return control, nil
}

func expect(seen facts, name string, want int) string {
	if got, ok := seen[name]; !ok || got != want {
		return fmt.Sprintf("%s is %d, not %d", name, got, want)
	}
	return ""
}

// tryLandlock has three layers to report: they came with different kernels (5.13, 6.7, 6.12), and a part that does not
// hold is not asked of the runs.
func (p *prober) tryLandlock(control facts, force *inForce, posture *Posture) {
	abi, err := landlockABI()
	if p.oldABI > 0 {
		abi = min(abi, p.oldABI)
	}
	handled := handledBy(abi)
	var seen facts
	if err == nil {
		seen, err = p.attempt(inForce{landlock: handled})
	}
	files := seen.refused(control, syscall.EACCES, "read_outside", "write_outside")
	if err != nil {
		files = err.Error()
	} else if reason := expect(seen, "write_inside", 0); files == "" {
		files = reason
	}
	if !posture.add(layerLandlock, strconv.Itoa(abi), files) {
		posture.add(layerNet, "", "needs landlock")
		posture.add(layerScope, "", "needs landlock")
		return
	}
	force.landlock = handled
	if !posture.add(layerNet, "", since(abi, 4, "6.7", seen.refused(control, syscall.EACCES, "tcp_bind", "tcp_connect"))) {
		force.landlock.net = 0
	}
	if !posture.add(layerScope, "", since(abi, 6, "6.12", seen.refused(control, syscall.EPERM, "signal_parent", "abstract_socket"))) {
		force.landlock.scope = 0
	}
}

// since names the kernel when that is why.
func since(abi, needed int, kernel, reason string) string {
	if abi < needed {
		return fmt.Sprintf("needs Landlock ABI %d (Linux %s), this kernel has %d", needed, kernel, abi)
	}
	return reason
}

func (p *prober) trySeccomp(control facts, force *inForce, posture *Posture) {
	on := terms{scoped: force.landlock.scope != 0, truncates: force.landlock.fs&unix.LANDLOCK_ACCESS_FS_TRUNCATE != 0}
	one := assemble(policy(on))
	on.processes = true
	many := assemble(policy(on))
	seen, err := p.attempt(inForce{one: one, many: many})
	reason := seen.refused(control, syscall.EPERM, "unix_socket", "memfd_create")
	if err != nil {
		reason = err.Error()
	}
	if posture.add(layerSeccomp, "", reason) {
		force.one, force.many = one, many
	}
}

// trySignals looks whether a run reaches its parent (the runner, or the supervisor), and must reach itself: with one
// process, which the filter alone holds, and with several, which Landlock's scope holds or else the filter.
func (p *prober) trySignals(control facts, force inForce, posture *Posture) {
	detail := "filter"
	if force.landlock.scope != 0 {
		detail = "scope"
	}
	reason := ""
	for _, processes := range []int{1, 8} {
		seen, err := p.attemptAs(force, processes)
		if err != nil {
			reason = err.Error()
			break
		}
		if reason = seen.refused(control, syscall.EPERM, "signal_parent"); reason == "" {
			reason = expect(seen, "signal_self", 0)
		}
		if reason != "" {
			break
		}
	}
	posture.add(layerSignals, detail, reason)
}

// trySweep leaves a process behind that left its session, and looks for it.
func (p *prober) trySweep(force inForce, posture *Posture) {
	exit, err := p.run(force, 8, "orphan")
	pid := parseFacts(exit.Stdout)["orphan"]
	reason := ""
	switch {
	case err != nil:
		reason = err.Error()
	case pid <= 1:
		reason = "the probe left no process behind to sweep"
	case !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH):
		reason = fmt.Sprintf("process %d outlived its run", pid)
	}
	posture.add(layerSweep, "", reason)
}

// tryWatch starts processes that together use more memory than a run may have, and alone less. They wait to be ended.
func (p *prober) tryWatch(force inForce, posture *Posture) {
	exit, err := p.start(force, 8, hogLimit, "hog")
	reason := ""
	switch {
	case err != nil:
		reason = err.Error()
	case exit.Cause != MemoryLimit:
		reason = fmt.Sprintf("processes that used too much memory together ended with %s", exit.Cause)
	}
	posture.add(layerWatch, "", reason)
}

// hogLimit is less than the processes of shim/probe.c's hog use together, and more than one of them does.
const hogLimit = 16 << 20
