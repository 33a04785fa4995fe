package sandbox

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryNamespaces first makes namespaces step by step, because how that is refused says who refuses it; then a jail, and an
// attempt in it with neither Landlock nor the filter on: what is outside must be out of sight.
func (p *prober) tryNamespaces(control facts, force *inForce, posture *Posture) {
	if p.openJail == nil {
		posture.add(layerSpaces, "", why{text: "not asked for: RUNNER_ISOLATION=landlock"})
		return
	}
	exit, err := p.run(inForce{}, 1, "namespaces")
	steps := parseFacts(exit.Stdout)
	reason := because(err)
	if err == nil {
		reason = refusedBy(steps)
	}
	if reason == (why{}) {
		reason = p.tryJail(control, *force, steps["proc"] == 0)
	}
	if reason != (why{}) && p.jails != nil && p.jails.fresh { // may be refused a level deeper
		_ = p.jails.close()
		reason = p.tryJail(control, *force, false)
	}
	detail := "bound_proc"
	if p.jails != nil && p.jails.fresh {
		detail = "fresh_proc"
	}
	if posture.add(layerSpaces, detail, reason) {
		force.jailed, force.noProc, posture.Tier = true, force.landlock.fs == 0, TierNamespaces
		return
	}
	if p.jails != nil {
		_ = p.jails.close() // nothing runs in it
		p.jails = nil
	}
}

// refusedBy names who refuses namespaces, by step and errno (as they were met on Debian 12, 13 and sid).
func refusedBy(steps facts) why {
	user, known := steps["unshare_user"]
	mount := syscall.Errno(steps["mount"])
	switch errno := syscall.Errno(user); {
	case !known:
		return why{text: "namespaces were not tried"}
	case errno == unix.EPERM:
		return why{"unshare of a user namespace: refused by the container's seccomp profile, or by the host (kernel.unprivileged_userns_clone)", errno}
	case errno == unix.EACCES:
		return why{"unshare of a user namespace: refused by AppArmor 4 (no userns rule in the profile)", errno}
	case errno != 0:
		return why{fmt.Sprintf("unshare of a user namespace: %s (user.max_user_namespaces is 0 where this is ENOSPC)", errno), errno}
	case steps["unshare_rest"] != 0:
		errno = syscall.Errno(steps["unshare_rest"])
		return why{fmt.Sprintf("unshare of the other namespaces: %s", errno), errno}
	case mount == unix.EACCES:
		return why{"mount: refused by AppArmor 3 (deny mount in the profile)", stepMount | mount}
	case mount != 0:
		return why{fmt.Sprintf("mount: %s", mount), stepMount | mount}
	}
	return why{}
}

// stepMount tells the same errno of two steps apart where cures are looked up; it is no errno of Linux.
const stepMount = syscall.Errno(1 << 12)

func (p *prober) tryJail(control facts, all inForce, freshProc bool) why {
	p.jails = &jails{open: p.openJail, own: []string{p.shim}, system: p.system, fresh: freshProc}
	seen, err := p.attempt(inForce{jailed: true})
	if err != nil {
		return because(err)
	}
	for _, one := range []struct {
		attempt string
		want    syscall.Errno
	}{{"read_outside", unix.ENOENT}, {"abstract_socket", unix.ECONNREFUSED}} {
		if reason := seen.refused(control, one.want, one.attempt); reason != (why{}) {
			return reason
		}
	}
	if reason := seen.expect("pid", 2); reason != (why{}) { // its supervisor is 1
		return reason
	}
	if reason := seen.expect("proc_self", 2); freshProc && reason != (why{}) {
		return reason
	}
	all.jailed, all.noProc = true, all.landlock.fs == 0
	_, err = p.attempt(all)
	return because(err)
}
