package jail

import (
	"os"
	"slices"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"xrayrunner/runner/internal/sandbox"
)

// settings is the one configuration that was found to work rootless inside a container without capabilities, whose
// seccomp profile allows unshare, mount, umount2, pivot_root and sethostname. Its limits are the runner's: what a run may
// use is the shim's to set.
func settings(id, root string, spec sandbox.JailSpec) *configs.Config {
	none := []string{}
	one := []string{"CAP_SETFCAP"}
	c := &configs.Config{
		Rootfs: root, Readonlyfs: true, NoNewPrivileges: true, NoNewKeyring: true, Hostname: "xray",
		Namespaces: configs.Namespaces{
			{Type: configs.NEWUSER}, {Type: configs.NEWNS}, {Type: configs.NEWPID}, {Type: configs.NEWIPC}, {Type: configs.NEWUTS}, {Type: configs.NEWNET},
		},
		UIDMappings:  []configs.IDMap{{ContainerID: 0, HostID: int64(os.Getuid()), Size: 1}},
		GIDMappings:  []configs.IDMap{{ContainerID: 0, HostID: int64(os.Getgid()), Size: 1}},
		Capabilities: &configs.Capabilities{Bounding: one, Effective: one, Permitted: one, Inheritable: none, Ambient: none},
		RootlessEUID: true, RootlessCgroups: true,
		// No Path: with one libcontainer wants to make it, and in most containers that is refused (EROFS).
		Cgroups:           &cgroups.Cgroup{Name: "xray-jail-" + id, Rootless: true, Resources: &cgroups.Resources{}},
		RootPropagation:   unix.MS_SLAVE | unix.MS_REC,
		ParentDeathSignal: int(unix.SIGKILL),
	}
	for _, path := range spec.Paths {
		m := bind(path)
		if slices.Contains(spec.Write, path) {
			m.Flags = m.Flags&^unix.MS_RDONLY | unix.MS_NOEXEC
		}
		c.Mounts = append(c.Mounts, m)
	}
	c.Mounts = append(c.Mounts, proc(spec.FreshProc))
	return c
}

// bind is read-only, devices excepted: what is written to /dev/null is not in a file.
func bind(path string) *configs.Mount {
	m := &configs.Mount{Source: path, Destination: path, Device: "bind", Flags: unix.MS_BIND | unix.MS_REC | unix.MS_NOSUID}
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeDevice == 0 {
		m.Flags |= unix.MS_RDONLY | unix.MS_NODEV
	} else {
		m.Flags = unix.MS_BIND
	}
	return m
}

// proc of the jail's own, where the container's has no masked part: the kernel mounts none that shows more. libcontainer
// wants one in any case. A run cannot read either: Landlock does not grant it.
func proc(fresh bool) *configs.Mount {
	if fresh {
		return &configs.Mount{Source: "proc", Destination: "/proc", Device: "proc", Flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC}
	}
	return &configs.Mount{Source: "/proc", Destination: "/proc", Device: "bind", Flags: unix.MS_BIND | unix.MS_REC}
}
