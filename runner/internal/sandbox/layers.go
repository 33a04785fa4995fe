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
	layerCgroup   = "cgroup"
	layerSpaces   = "namespaces"
)

// granted are the layers that need something of the operator beyond a stock container: an overlay file. A sandbox without
// them is whole.
var granted = map[string]bool{layerCgroup: true, layerSpaces: true}

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
	p.tryCgroup(&force, &posture)
	p.tryNamespaces(control, &force, &posture)
	return force, posture, nil
}

// add records one layer; the zero reason means that it is in force.
func (posture *Posture) add(name, detail string, reason why) bool {
	layer := Layer{Name: name, InForce: reason == why{}, Reason: reason.text, Means: meanings[name].without, Granted: granted[name]}
	switch {
	case layer.InForce:
		layer.Detail = detail
	case reason.errno != 0:
		layer.Errno = unix.ErrnoName(reason.errno &^ stepMount)
		fallthrough
	default:
		layer.Cure = cureOf(name, reason.errno)
	}
	posture.Layers = append(posture.Layers, layer)
	return layer.InForce
}

// basics are the layers that every run has. The same attempt is the control for the others: neither Landlock nor
// seccomp are on in it.
func (p *prober) basics(force *inForce, posture *Posture) (facts, error) {
	control, err := p.attempt(inForce{oom: true})
	oom := why{}
	if errors.Is(err, ErrConfine) { // /proc may be missing or read-only: then all the rest is tried without
		oom = because(err)
		control, err = p.attempt(inForce{})
	}
	if err != nil {
		return nil, err
	}
	if (oom == why{}) {
		oom = control.expect(layerOOM, 1000)
	}
	posture.add(layerPrivs, "", control.expect(layerPrivs, 1))
	posture.add(layerRlimits, "", control.expect("open_files", probeFiles))
	force.oom = posture.add(layerOOM, "", oom)
	return control, nil
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
	switch {
	case err != nil:
		files = because(err)
	case files == why{}:
		files = seen.expect("write_inside", 0)
	}
	if !posture.add(layerLandlock, strconv.Itoa(abi), files) {
		posture.add(layerNet, "", why{text: "needs landlock"})
		posture.add(layerScope, "", why{text: "needs landlock"})
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
func since(abi, needed int, kernel string, reason why) why {
	if abi < needed {
		return why{text: fmt.Sprintf("needs Landlock ABI %d (Linux %s), this kernel has %d", needed, kernel, abi)}
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
		reason = because(err)
	}
	if posture.add(layerSeccomp, "", reason) {
		force.one, force.many = one, many
		force.cell, force.jailCell = assemble(cellPolicy(on)), assemble(jailCellPolicy(on))
		on.processes = false
		force.overCell, force.overJailCell = assembleOver(cellPolicy(on), policy(on)), assembleOver(jailCellPolicy(on), policy(on))
	}
}

// trySignals looks whether a run reaches its parent (the runner, or the supervisor), and must reach itself: with one
// process, which the filter alone holds, and with several, which Landlock's scope holds or else the filter.
func (p *prober) trySignals(control facts, force inForce, posture *Posture) {
	detail := "filter"
	if force.landlock.scope != 0 {
		detail = "scope"
	}
	reason := why{}
	for _, processes := range []int{1, 8} {
		seen, err := p.attemptAs(force, processes)
		if err != nil {
			reason = because(err)
			break
		}
		if reason = seen.refused(control, syscall.EPERM, "signal_parent"); reason == (why{}) {
			reason = seen.expect("signal_self", 0)
		}
		if reason != (why{}) {
			break
		}
	}
	posture.add(layerSignals, detail, reason)
}

// trySweep leaves a process behind that left its session, and looks for it.
func (p *prober) trySweep(force inForce, posture *Posture) {
	exit, err := p.run(force, 8, "orphan")
	pid := parseFacts(exit.Stdout)["orphan"]
	reason := because(err)
	switch {
	case err != nil:
	case pid <= 1:
		reason.text = "the probe left no process behind to sweep"
	case !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH):
		reason.text = fmt.Sprintf("process %d outlived its run", pid)
	}
	posture.add(layerSweep, "", reason)
}

// tryWatch starts processes that together use more memory than a run may have, and alone less. They wait to be ended.
func (p *prober) tryWatch(force inForce, posture *Posture) {
	exit, err := p.start(force, 8, hogLimit, "hog")
	reason := because(err)
	if err == nil && exit.Cause != MemoryLimit {
		reason.text = fmt.Sprintf("processes that used too much memory together ended with %s", exit.Cause)
	}
	posture.add(layerWatch, "", reason)
}

// hogLimit is less than the processes of shim/probe.c's hog use together, and more than one of them does.
const hogLimit = 16 << 20
