package sandbox

import "fmt"

// tryPart keeps a part of what the container may have in processes and threads for the runner, so that no flood of a run's
// keeps others from starting. RLIMIT_NPROC is the one count that the kernel keeps without a grant, and it is of a whole user
// (setrlimit(2)): scripts and the runner are one, and where another container has the same user its processes count too. So it
// is tried: that it refuses, and that a run can still start a process.
func (p *prober) tryPart(all uint64, force *inForce, posture *Posture) {
	if all == 0 || force.jailed {
		return
	}
	tried := *force
	forks := func(tasks uint64) bool {
		tried.tasks = tasks
		exit, err := p.run(tried, 8, "orphan")
		return err == nil && parseFacts(exit.Stdout)["orphan"] > 1
	}
	kept := all - all/4
	switch {
	case forks(1):
		posture.Remarks = append(posture.Remarks, "this kernel does not count the processes of a user (RLIMIT_NPROC): a flood of threads keeps other runs from starting until it is ended")
	case !forks(kept):
		posture.Remarks = append(posture.Remarks, fmt.Sprintf("others of this user have %d processes and threads or more: none are kept for the runner. "+
			"Give it a user id that nothing else on this host has", kept))
	default:
		force.tasks = kept
	}
}
