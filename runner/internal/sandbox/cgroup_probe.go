package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// tryCgroup makes the runs' cgroups and tries both bounds by passing them. It is in force in one of two ways: a run is
// born in its cgroup, or moves there as the first thing it does.
func (p *prober) tryCgroup(force *inForce, posture *Posture) {
	groups, err := readCgroups()
	if err != nil {
		posture.add(layerCgroup, "", because(err))
		return
	}
	p.cgroups = groups
	detail, reason := "born", p.passBounds(false)
	if reason.errno == unix.ENOSYS {
		p.cgroups.joins, force.joins = true, true // clone3 is hidden
		detail, reason = "joins", p.passBounds(true)
	}
	if !posture.add(layerCgroup, detail, reason) {
		p.cgroups, force.joins = nil, false
	}
}

func readCgroups() (*cgroups, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	own, ownErr := os.ReadFile("/proc/self/cgroup")
	if err := errors.Join(err, ownErr); err != nil {
		return nil, err
	}
	return openCgroups(string(mounts), string(own), controllers)
}

// passBounds looks at the counters of the kernel, because a run may end for other reasons too. There is neither a
// supervisor nor a filter in the way: what the attempts leave behind is ended with the cgroup, and that is tried too.
func (p *prober) passBounds(joins bool) why {
	force := inForce{joins: joins}
	_, r, err := p.observe(force, 1, hogLimit-probeDisk, "hog")
	switch {
	case err != nil:
		return because(err)
	case !r.overMemory:
		return why{text: "processes that used too much memory together were not ended by the kernel"}
	}
	_, r, err = p.observe(force, 1, 64<<20, "forks")
	switch {
	case err != nil:
		return because(err)
	case !r.crowded:
		return why{text: fmt.Sprintf("no fork was refused beyond %d tasks", r.spec.Limits.Tasks())}
	}
	return why{}
}
