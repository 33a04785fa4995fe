package attack

import (
	"time"

	"xrayrunner/runner/internal/sandbox"
)

const mib = 1 << 20

// Tight limits: what an attack needs to be stopped early.
func smallMemory(l *sandbox.Limits) { l.MemoryBytes = 64 * mib }
func shortCPU(l *sandbox.Limits)    { l.CPU = time.Second }
func shortWall(l *sandbox.Limits)   { l.Wall = 700 * time.Millisecond }
func fewProcesses(l *sandbox.Limits) {
	l.Processes = 8
}
func smallDisk(l *sandbox.Limits) {
	l.FileBytes, l.DiskBytes, l.DiskFiles = mib, 3*mib, 100
}
func fewFiles(l *sandbox.Limits) { l.OpenFiles = 32 }

func ends(causes ...sandbox.Cause) []sandbox.Cause { return causes }

// Table is every attack. Where a row needs no limit and no ending, its script says what it got.
var Table = []Attack{
	{Group: "files", Name: "read-outside", Tries: "read a file outside its folder", Case: "03"},
	{Group: "files", Name: "write-outside", Tries: "write to a file outside", Case: "03"},
	{Group: "files", Name: "create-outside", Tries: "make a file outside"},
	{Group: "files", Name: "delete-outside", Tries: "remove a file outside"},
	{Group: "files", Name: "move-in", Tries: "move a file in from outside"},
	{Group: "files", Name: "link-in", Tries: "link a file in from outside and read it"},
	{Group: "files", Name: "symbolic-link", Tries: "read through a symbolic link"},
	{Group: "files", Name: "dot-dot", Tries: "read by a path with .."},
	{Group: "files", Name: "truncate", Tries: "empty a file outside by its path"},
	{Group: "files", Name: "exchange", Tries: "exchange a folder of its own with one outside"},
	{Group: "files", Name: "change-mode", Tries: "change the mode of a file outside"},
	{Group: "files", Name: "change-time", Tries: "change the times of a file outside"},
	{Group: "files", Name: "change-owner", Tries: "change the group of a file outside"},
	{Group: "files", Name: "account-file", Tries: "read /etc/passwd"},
	{Group: "files", Name: "list-root", Tries: "list /"},
	{Group: "files", Name: "list-runs", Tries: "list the folders of other runs"},
	{Group: "files", Name: "process-root", Tries: "read by way of /proc/self/root", Case: "10"},
	{Group: "files", Name: "watch-folder", Tries: "be told of names in a folder that it may not list"},
	{Group: "files", Name: "file-handle", Tries: "get a handle on a file outside"},
	{Group: "files", Name: "learn-existence", Tries: "learn that a file exists, its size and times, by a path that it knows",
		Open: "Landlock does not check stat(2), and programs need it; it reads and changes nothing"},

	{Group: "processes", Name: "signal-runner", Tries: "signal the runner", Case: "10"},
	{Group: "processes", Name: "signal-other", Tries: "signal another run", Case: "10"},
	{Group: "processes", Name: "signal-group-of-other", Tries: "signal another run's group", Case: "10"},
	{Group: "processes", Name: "signal-all", Tries: "signal everything at once, kill(-1)", Case: "10", ByHarm: true},
	{Group: "processes", Name: "signal-thread", Tries: "signal another run by tkill", Case: "10"},
	{Group: "processes", Name: "signal-thread-of-group", Tries: "signal another run by tgkill", Case: "10"},
	{Group: "processes", Name: "queue-signal", Tries: "queue a signal for another run"},
	{Group: "processes", Name: "queue-signal-to-thread", Tries: "queue a signal for a thread of another run"},
	{Group: "processes", Name: "signal-by-handle", Tries: "signal another run by a pidfd"},
	{Group: "processes", Name: "signal-by-socket", Tries: "have a socket signal another run (FIOSETOWN)"},
	{Group: "processes", Name: "signal-by-file-owner", Tries: "have a pipe signal another run (F_SETOWN)"},
	{Group: "processes", Name: "signal-from-child", Tries: "signal another run from a child in a session of its own", Processes: 4},
	{Group: "processes", Name: "limit-other", Tries: "lower a limit of another run (prlimit)"},
	{Group: "processes", Name: "pin-other", Tries: "pin another run to one processor"},
	{Group: "processes", Name: "slow-other", Tries: "lower another run's priority"},
	{Group: "processes", Name: "schedule-other", Tries: "make another run idle"},
	{Group: "processes", Name: "starve-other-of-disk", Tries: "lower another run's disk priority"},
	{Group: "processes", Name: "trace-other", Tries: "trace another run", Case: "10"},
	{Group: "processes", Name: "open-memory-of-other", Tries: "open another run's memory for writing", Case: "10"},
	{Group: "processes", Name: "copy-memory-of-other", Tries: "copy another run's memory", Case: "10"},
	{Group: "processes", Name: "compare-with-other", Tries: "compare kernel objects with another run (kcmp)"},
	{Group: "processes", Name: "steal-descriptor", Tries: "take a descriptor of another run"},
	{Group: "processes", Name: "fork-undeclared", Tries: "fork without having declared it", Case: "05"},
	{Group: "processes", Name: "spawn-undeclared", Tries: "start a program without having declared it", Case: "05"},
	{Group: "processes", Name: "outlive-runner", Tries: "drop the signal that ends it with the runner", Case: "34"},

	{Group: "network", Name: "tcp-connect", Tries: "connect to a port of the host", Case: "03"},
	{Group: "network", Name: "tcp-listen", Tries: "listen on a port", Case: "23"},
	{Group: "network", Name: "udp-send", Tries: "send a datagram"},
	{Group: "network", Name: "udp-listen", Tries: "receive datagrams"},
	{Group: "network", Name: "inet6", Tries: "make an IPv6 socket"},
	{Group: "network", Name: "interfaces", Tries: "ask for the network's settings (netlink)"},
	{Group: "network", Name: "named-socket", Tries: "connect to a socket in the file system", Case: "10"},
	{Group: "network", Name: "abstract-socket", Tries: "connect to an abstract socket", Case: "23"},
	{Group: "network", Name: "datagram-pair", Tries: "send from a socket pair to a named socket"},
	{Group: "network", Name: "foreign-family", Tries: "make a socket of a rare family"},
	{Group: "network", Name: "ring", Tries: "make a socket by io_uring", Case: "33"},

	{Group: "ipc", Name: "shared-memory-file", Tries: "leave a file in /dev/shm", Case: "23"},
	{Group: "ipc", Name: "temporary-file", Tries: "leave a file in /tmp", Case: "23"},
	{Group: "ipc", Name: "other-temporary-file", Tries: "leave a file in /var/tmp", Case: "23"},
	{Group: "ipc", Name: "sysv-shared-memory", Tries: "make System V shared memory", Case: "23"},
	{Group: "ipc", Name: "sysv-semaphore", Tries: "make a System V semaphore", Case: "23"},
	{Group: "ipc", Name: "sysv-queue", Tries: "make a System V queue", Case: "23"},
	{Group: "ipc", Name: "posix-queue", Tries: "make a POSIX queue", Case: "23"},
	{Group: "ipc", Name: "anonymous-file", Tries: "keep memory in a memfd, which no limit counts"},
	{Group: "ipc", Name: "keyring", Tries: "leave a key in the keyring of the session", Case: "23"},
	{Group: "ipc", Name: "abstract-listener", Tries: "listen on an abstract socket", Case: "23"},
	{Group: "ipc", Name: "lock-of-other", Tries: "lock a file outside"},
	{Group: "ipc", Name: "large-pipe", Tries: "use up the pipes of the user"},

	{Group: "kernel", Name: "performance-events", Tries: "reach perf_event_open", Case: "33"},
	{Group: "kernel", Name: "user-faults", Tries: "reach userfaultfd", Case: "33"},
	{Group: "kernel", Name: "user-namespace", Tries: "make a user namespace", Case: "33"},
	{Group: "kernel", Name: "clone-namespace", Tries: "fork into a user namespace", Processes: 4},
	{Group: "kernel", Name: "clone3", Tries: "reach clone3, whose flags no filter can read"},
	{Group: "kernel", Name: "keyrings", Tries: "reach the keyrings", Case: "33"},
	{Group: "kernel", Name: "trace-me", Tries: "reach ptrace", Case: "33"},
	{Group: "kernel", Name: "execute-memory", Tries: "execute a program without a path"},
	{Group: "kernel", Name: "own-filter", Tries: "load a filter of its own"},
	{Group: "kernel", Name: "own-ruleset", Tries: "make a Landlock ruleset of its own"},
	{Group: "kernel", Name: "personality", Tries: "switch address randomisation off"},
	{Group: "kernel", Name: "splice", Tries: "reach vmsplice"},
	{Group: "kernel", Name: "foreign-gate", Tries: "call by the 32-bit gate", Case: "33", Ends: ends(sandbox.Blocked, sandbox.Signalled)},
	{Group: "kernel", Name: "foreign-number", Tries: "call by a number of the x32 table", Case: "33", Ends: ends(sandbox.Blocked)},

	{Group: "secrets", Name: "environment-of-runner", Tries: "read the runner's environment", Case: "10"},
	{Group: "secrets", Name: "environment-of-other", Tries: "read another run's environment", Case: "10"},
	{Group: "secrets", Name: "arguments-of-other", Tries: "read another run's arguments", Case: "10"},
	{Group: "secrets", Name: "folder-of-other", Tries: "list another run's folder by /proc", Case: "10"},
	{Group: "secrets", Name: "file-of-other", Tries: "read another run's file by a path that it knows"},
	{Group: "secrets", Name: "write-to-other", Tries: "write into another run's folder"},
	{Group: "secrets", Name: "descriptors-of-other", Tries: "list another run's descriptors", Case: "10"},
	{Group: "secrets", Name: "map-of-other", Tries: "read another run's memory map", Case: "10"},
	{Group: "secrets", Name: "list-processes", Tries: "list processes", Case: "10"},
	{Group: "secrets", Name: "init", Tries: "read the status of process 1", Case: "10"},
	{Group: "secrets", Name: "kernel-settings", Tries: "read kernel settings"},
	{Group: "secrets", Name: "machine", Tries: "list devices in /sys"},
	{Group: "secrets", Name: "become-root", Tries: "reach setuid"},
	{Group: "secrets", Name: "become-group", Tries: "reach setgid"},
	{Group: "secrets", Name: "undumpable", Tries: "hide from the watch"},

	{Group: "resources", Name: "memory", Tries: "use more memory than it may, at once", Case: "22", Limits: smallMemory},
	{Group: "resources", Name: "memory-bit-by-bit", Tries: "use more memory, bit by bit", Case: "22", Limits: smallMemory},
	{Group: "resources", Name: "shared-memory", Tries: "use more memory, as shared memory", Case: "22", Limits: smallMemory},
	{Group: "resources", Name: "memory-of-many", Summed: true, Tries: "use more memory in several processes", Case: "21", Processes: 8, Limits: smallMemory, Ends: ends(sandbox.MemoryLimit)},
	{Group: "resources", Name: "shared-memory-of-many", Summed: true, Tries: "use more shared memory in several processes", Case: "21", Processes: 8, Limits: smallMemory, Ends: ends(sandbox.MemoryLimit)},
	{Group: "resources", Name: "processes", Tries: "start more processes than declared", Case: "21", Processes: 8, Limits: fewProcesses, Ends: ends(sandbox.ProcessLimit)},
	{Group: "resources", Name: "processes-leaving", Tries: "start more, each in a session of its own", Case: "05", Processes: 8, Limits: fewProcesses, Ends: ends(sandbox.ProcessLimit)},
	{Group: "resources", Name: "cpu", Tries: "use more CPU time", Case: "21", Limits: shortCPU, Ends: ends(sandbox.CPULimit)},
	{Group: "resources", Name: "cpu-of-many", Tries: "use more CPU time in several processes", Case: "21", Processes: 8, Limits: shortCPU, Ends: ends(sandbox.CPULimit)},
	{Group: "resources", Name: "large-file", Tries: "write a file larger than it may", Case: "24", Limits: smallDisk},
	{Group: "resources", Name: "sparse-file", Tries: "make a sparse file larger than it may", Case: "24", Limits: smallDisk},
	{Group: "resources", Name: "reserved-file", Tries: "reserve more disk than it may", Case: "24", Limits: smallDisk},
	{Group: "resources", Name: "many-files", Tries: "write many files", Case: "24", Limits: smallDisk, Ends: ends(sandbox.DiskLimit)},
	{Group: "resources", Name: "many-names", Tries: "use up inodes", Case: "24", Limits: smallDisk, Ends: ends(sandbox.DiskLimit)},
	{Group: "resources", Name: "deep-folders", Tries: "nest folders without end", Case: "24", Limits: smallDisk, Ends: ends(sandbox.DiskLimit)},
	{Group: "resources", Name: "removed-files", Tries: "hide disk in removed files that are still open", Case: "24", Limits: smallDisk, Ends: ends(sandbox.DiskLimit)},
	{Group: "resources", Name: "open-files", Tries: "open more files", Limits: fewFiles},

	{Group: "timing", Name: "sleep", Tries: "sleep past its time", Case: "21", Limits: shortWall, Ends: ends(sandbox.Timeout)},
	{Group: "timing", Name: "ignore-signals", Tries: "ignore signals past its time", Case: "05", Limits: shortWall, Ends: ends(sandbox.Timeout)},
	{Group: "timing", Name: "stop", Tries: "stop itself past its time", Processes: 4, Limits: shortWall, Ends: ends(sandbox.Timeout)},
	{Group: "timing", Name: "wait-for-child", Tries: "wait for a child in another session past its time", Case: "04", Processes: 4, Limits: shortWall, Ends: ends(sandbox.Timeout)},
	{Group: "timing", Name: "ignore-cpu-signal", Tries: "ignore the warning of the CPU limit", Limits: shortCPU, Ends: ends(sandbox.CPULimit)},

	{Group: "output", Name: "flood", Tries: "print more than it may", Case: "11", Ends: ends(sandbox.OutputLimit)},
	{Group: "output", Name: "one-line", Tries: "print one line that is too long", Case: "11", Ends: ends(sandbox.OutputLimit)},
	{Group: "output", Name: "one-byte-more", Tries: "print one byte more than it may", Case: "11", Ends: ends(sandbox.OutputLimit)},
	{Group: "output", Name: "flood-by-child", Tries: "print more than it may from a child", Case: "11", Processes: 4, Ends: ends(sandbox.OutputLimit)},

	{Group: "own", Name: "connect", Tries: "call the runner on its socket", Case: "10"},
	{Group: "own", Name: "remove-socket", Tries: "remove the runner's socket"},
	{Group: "own", Name: "close-socket-to-others", Tries: "change the mode of the runner's socket"},
	{Group: "own", Name: "change-shim", Tries: "change the program that every run starts in"},
	{Group: "own", Name: "read-manifest", Tries: "read the runner's manifest"},
	{Group: "own", Name: "change-manifest", Tries: "change the runner's manifest"},
	{Group: "own", Name: "lease", Tries: "hold up the runner by a lease on a file"},
	{Group: "own", Name: "read-other-skill", Tries: "read a skill that is not its own"},
	{Group: "own", Name: "memory-of-runner", Tries: "open the runner's memory for writing", Case: "10"},
	{Group: "own", Name: "descriptors-of-runner", Tries: "list the runner's descriptors", Case: "10"},
	{Group: "own", Name: "limit-runner", Tries: "set a limit of the runner"},
	{Group: "own", Name: "trace-runner", Tries: "trace the runner", Case: "10"},
	{Group: "own", Name: "working-folder-away", Tries: "move its folder away from the runner"},

	{Group: "leftovers", Name: "child", Tries: "leave a process behind", Case: "04", Processes: 8, ByHarm: true},
	{Group: "leftovers", Name: "session", Tries: "leave a process in a session of its own", Case: "05", Processes: 8, ByHarm: true},
	{Group: "leftovers", Name: "double-fork", Tries: "leave a process by a double fork", Case: "05", Processes: 8, ByHarm: true},
	{Group: "leftovers", Name: "hopping", Tries: "leave a process that is always another one", Case: "05", Processes: 8, ByHarm: true},
	{Group: "leftovers", Name: "stopped-child", Tries: "leave a stopped process", Case: "26", Processes: 8, ByHarm: true},
	{Group: "leftovers", Name: "late-write", Tries: "write a file after its end", Case: "05", Processes: 8, ByHarm: true},
	{Group: "leftovers", Name: "listener", Tries: "leave a listener for the next run", Case: "23", Processes: 8, ByHarm: true},

	{Group: "manifest", Name: "change-script", Tries: "change its script for the next run", Case: "06"},
	{Group: "manifest", Name: "replace-script", Tries: "put another script in its place", Case: "06"},
	{Group: "manifest", Name: "remove-script", Tries: "remove its script"},
	{Group: "manifest", Name: "forge-cache", Tries: "put a cache beside its script", Case: "07"},
	{Group: "manifest", Name: "shadow-module", Tries: "put a module beside its script", Case: "07"},
	{Group: "manifest", Name: "link-over-script", Tries: "put a link beside its script", Case: "06"},
}
