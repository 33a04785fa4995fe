package sandbox

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// meanings say for each layer what a run could do without it, and what an operator can do where it is missing.
var meanings = map[string]struct {
	without string
	cure    string                   // whatever the errno
	cures   map[syscall.Errno]string // by what was seen, where that tells more
}{
	layerPrivs: {
		without: "a set-user-ID program would give a script its power",
		cure:    "use Linux 3.5 or later",
	},
	layerRlimits: {
		without: "memory, CPU, file size and open files of a script have no bound",
		cure:    "raise the container's own limits (ulimits) to at least 64 open files, or look at what lowers them",
	},
	layerOOM: {
		without: "when memory runs out, the kernel may end the runner in place of a script",
		cure:    "mount /proc in the container, writable for its own processes",
		cures:   map[syscall.Errno]string{unix.EROFS: "mount /proc writable: some engines mount it read-only on request"},
	},
	layerLandlock: {
		without: "a script reads and writes what the runner's user may: other runs, the skills' copies, /tmp",
		cure:    "use Linux 5.13 or later with Landlock, and an engine whose seccomp profile lets its calls pass",
		cures: map[syscall.Errno]string{
			unix.ENOSYS:     "use a kernel built with CONFIG_SECURITY_LANDLOCK (5.13 or later), and Docker 20.10.10 or later: older seccomp profiles hide the calls",
			unix.EOPNOTSUPP: "the kernel has Landlock and it is not switched on: add landlock to lsm= on the kernel's command line (see /sys/kernel/security/lsm)",
			unix.EPERM:      "the container's seccomp profile refuses the landlock_* calls: use the engine's current default profile",
		},
	},
	layerNet: {
		without: "only seccomp keeps TCP from a script (it refuses every socket)",
		cure:    "use Linux 6.7 or later; until then seccomp holds this alone",
	},
	layerScope: {
		without: "Landlock does not keep signals and abstract sockets inside a run; the filter does (layer signals)",
		cure:    "use Linux 6.12 or later; until then the layers signals and seccomp hold this alone",
	},
	layerSeccomp: {
		without: "a script may open sockets, trace, make namespaces and reach the whole surface of the kernel",
		cure:    "use a kernel with CONFIG_SECCOMP_FILTER, and an engine that lets seccomp(2) pass",
		cures: map[syscall.Errno]string{
			unix.ENOSYS: "the kernel or the container's profile does not know seccomp(2): use a kernel with CONFIG_SECCOMP_FILTER and the engine's current default profile",
			unix.EPERM:  "the container's seccomp profile refuses seccomp(2): use the engine's current default profile",
		},
	},
	layerSignals: {
		without: "a script can end other runs and the runner",
		cure:    "cure landlock_scope or seccomp: one of the two holds signals",
	},
	layerSweep: {
		without: "a script that may fork can leave a process behind",
		cure:    "mount /proc in the container without hidepid: the supervisor looks there for processes that left",
	},
	layerWatch: {
		without: "memory, CPU and disk are bounded for each process and file, not for the run",
		cure:    "mount /proc in the container without hidepid, on a kernel with CONFIG_PROC_CHILDREN",
	},
	layerCgroup: {
		without: "the sums of a run are polled (layer watch), and a run is ended process by process",
		cure:    "grant it: deploy/compose.cgroup.yaml (Docker 28 or later on cgroup v2), or Delegate=yes in a systemd unit",
		cures: map[syscall.Errno]string{
			unix.EROFS:  "the engine mounts cgroups read-only: add deploy/compose.cgroup.yaml (Docker 28 or later on cgroup v2)",
			unix.EACCES: "our cgroup belongs to another user: add deploy/compose.cgroup.yaml (runc 1.3 or later hands it over), or Delegate=yes in a systemd unit",
		},
	},
	layerSpaces: {
		without: "a script shares the runner's view of processes, mounts and network; Landlock and the filter alone hold it",
		cure:    "add deploy/compose.namespaces.yaml; on a bare host allow unprivileged user namespaces",
		cures: map[syscall.Errno]string{
			unix.EPERM:              "add deploy/compose.namespaces.yaml: its seccomp profile allows unshare, mount, umount2, pivot_root and sethostname; on a bare host set kernel.unprivileged_userns_clone=1",
			unix.EACCES:             "load deploy/apparmor/xray-runner-4 and name it (deploy/compose.namespaces.yaml says how), or set XRAY_APPARMOR=unconfined: AppArmor 4 wants a userns rule",
			unix.ENOSPC:             "the host allows no user namespaces: raise user.max_user_namespaces",
			stepMount | unix.EACCES: "load deploy/apparmor/xray-runner-3 and name it (deploy/compose.namespaces.yaml says how), or set XRAY_APPARMOR=unconfined: the engine's own profile denies mount",
			stepMount | unix.EPERM:  "add deploy/compose.namespaces.yaml: the seccomp profile refuses mount; on Ubuntu 24.04 also load deploy/apparmor/xray-runner-4",
		},
	},
}

func cureOf(layer string, errno syscall.Errno) string {
	if cure, ok := meanings[layer].cures[errno]; ok {
		return cure
	}
	return meanings[layer].cure
}
