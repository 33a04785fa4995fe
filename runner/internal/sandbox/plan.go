package sandbox

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// The plan tells the shim what to do, as data: shim/shim.h has the same layout as C and says how it is checked. Both
// architectures are little-endian.
const (
	planMagic   = "XRAYPLAN"
	planVersion = 1

	planOOM       = 1 << 0
	planLandlock  = 1 << 1
	planSeccomp   = 1 << 2
	planSupervise = 1 << 3
	planCgroup    = 1 << 4
	planJail      = 1 << 5
	planCell      = 1 << 6
	planFork      = 1 << 7
	planNoProc    = 1 << 8
)

// plan is everything that the shim needs beside argv, environment and working folder, which come by exec.
type plan struct {
	flags     uint32
	processes uint32
	landlock  rights
	rlimits   []rlimit
	filters   []unix.SockFilter
	grants    []grant
}

type planHeader struct {
	Magic                              [8]byte
	Version, Size, Flags, Processes    uint32
	FS, Net, Scope                     uint64
	Rlimits, Filters, Grants, Reserved uint32
}

// encode writes header, rlimits, filters and paths, in that order.
func (p plan) encode() []byte {
	var body bytes.Buffer
	put := func(parts ...any) {
		for _, part := range parts {
			if err := binary.Write(&body, binary.LittleEndian, part); err != nil {
				panic("BUG: plan: " + err.Error()) // only for types without a fixed size
			}
		}
	}
	for _, r := range p.rlimits {
		put(r.resource, uint32(0), r.value)
	}
	put(p.filters)
	for _, g := range p.grants {
		path := append([]byte(g.path), make([]byte, 8-len(g.path)%8)...) // always at least one NUL
		put(g.access, uint32(len(path)), uint32(0), path)
	}
	head := planHeader{
		Version: planVersion, Flags: p.flags, Processes: p.processes,
		FS: p.landlock.fs, Net: p.landlock.net, Scope: p.landlock.scope,
		Rlimits: uint32(len(p.rlimits)), Filters: uint32(len(p.filters)), Grants: uint32(len(p.grants)),
	}
	copy(head.Magic[:], planMagic)
	head.Size = uint32(binary.Size(head) + body.Len())
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, head); err != nil {
		panic("BUG: plan: " + err.Error())
	}
	return append(out.Bytes(), body.Bytes()...)
}

// inForce is what the probes found, in the form in which plans are made of it.
type inForce struct {
	oom      bool
	forked   bool   // for a run in a cell
	landlock rights // zero without Landlock
	system   []grant
	jailed   bool              // the run is in namespaces of its own
	noProc   bool              // and sees no /proc, because there is no Landlock to keep it from that
	tasks    uint64            // that all of our user may have: where a run's own are not counted strictly; 0: no bound
	joins    bool              // the shim enters the run's cgroup, see cgroups.joins
	one      []unix.SockFilter // nil without seccomp: for runs with one process
	many     []unix.SockFilter // and with several
	cell     []unix.SockFilter // for cells, below that of their runs
	jailCell []unix.SockFilter // for cells in jails: with what it takes to make a room

	overCell, overJailCell []unix.SockFilter // one, on top of these
}

// planFor is the plan of one run: exactly the layers in force, so that the shim fails when one of them is missing.
func (f inForce) planFor(spec Spec) (plan, error) {
	p := plan{processes: uint32(spec.Limits.Processes), rlimits: spec.Limits.rlimits()}
	if f.oom {
		p.flags |= planOOM
	}
	if f.forked {
		p.flags |= planFork
	}
	if spec.Limits.Processes > 1 {
		p.flags |= planSupervise
	}
	if f.jailed {
		p.flags |= planSupervise | planJail
		if f.noProc {
			p.flags |= planNoProc
		}
		p.rlimits = append(p.rlimits, rlimit{unix.RLIMIT_NPROC, uint64(spec.Limits.Tasks())}) // counted in its own user namespace
	} else if f.tasks > 0 {
		p.rlimits = append(p.rlimits, rlimit{unix.RLIMIT_NPROC, f.tasks}) // all of our user, us too
	}
	if f.joins {
		p.flags |= planCgroup
	}
	if f.one != nil {
		p.flags |= planSeccomp
		p.filters = f.one
		if spec.Limits.Processes > 1 {
			p.filters = f.many
		}
	}
	if f.landlock != (rights{}) {
		grants, err := f.grantsFor(spec)
		if err != nil {
			return plan{}, err
		}
		p.flags |= planLandlock
		p.landlock, p.grants = f.landlock, grants
	}
	return p, nil
}
