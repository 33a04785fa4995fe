// Package sandbox runs one program confined and reports how it ended.
//
// The confinement is not done here but by a small static C program, the shim (shim/), which every run starts in and
// which becomes the program by execve. A Go process cannot confine "itself": Landlock and seccomp bind the calling
// thread, and the scheduler decides which thread forks (go-landlock#5, mcpproxy-go#932). The shim has one thread, holds
// no policy, and takes all it needs from a plan: bytes that this package makes once per distinct set of limits and paths
// and hands over in a sealed memfd.
//
//	runner (Go)                                  shim (C)
//	-----------                                  --------
//	plan, pipes; stdin filled and closed
//	locked spawner thread: fork, setsid,
//	  PDEATHSIG, chdir, execve  ---------------> check the plan; close descriptors from 5; reset signals, umask
//	                                             Processes > 1: become supervisor, fork, setsid in the child
//	                                             oom_score_adj, not dumpable, rlimits
//	                                             no_new_privs
//	                                             Landlock: files, TCP, scopes
//	                                             seccomp (last: it refuses the calls above)
//	                                             read back: ask, and try what must be refused
//	status pipe  <------------------------------ 'K', or 'E' and the step that failed
//	read stdout, stderr to their caps            execve of the program; the pipe closes by itself
//	timeout, hang-up, flood: kill by pidfd
//	wait4; 1 s for pipes; cause  <-------------- supervisor: sweep all descendants, then 'R' and the leader's status
//
// What each layer stops. None is enough alone; attack_test.go tries each with the others off.
//
//	no_new_privs     set-user-ID programs; what Landlock and seccomp need to be allowed
//	rlimits          memory, CPU, file size and open files of a process; that runs take what the runner needs to start another
//	oom_score_adj    the kernel killing the runner in place of the script
//	landlock         files: reads outside /usr, the skill and a few named files; writes outside the working folder;
//	                 tracing and /proc/PID of other processes
//	landlock_net     TCP, should a socket ever come into a run's hands
//	landlock_scope   signals and abstract sockets to what is not of the run: scripts share the runner's uid
//	seccomp          sockets, namespaces, fork (one process), prlimit and friends on other processes, memory that is not
//	                 counted, System V and POSIX IPC, kernel interfaces with a history, foreign call tables
//	signals          signals to what is not of the run, also where Landlock has no scope (before Linux 6.12)
//	sweep            what left the session, the process group or its parent
//	watch            memory and CPU of several processes together, files of the working folder together, threads; polled. And
//	                 that a run has more of the processors by being many
//	cgroup           memory and processes of a run together, strictly; all of them end in one step (where it is granted)
//	namespaces       all of the above once more, by there being nothing else in sight: own processes, mounts, network, IPC,
//	                 host name and users; a working folder with a size of its own; strict processes (where it is granted)
//
// New tries each layer with its control (the same attempt must succeed without it) and runs are made with exactly the
// layers that held: one that is missing later ends the run before the program starts. What is enough is the caller's
// decision; nothing is left out silently.
//
// WithCells adds warm starts: runs forked from a prepared interpreter, confined by the same plan and the same code
// (cells.go), in either tier.
//
// Known limits of this tier. What a run uses in sum is polled (watch.go): strict sums need a cgroup. Landlock does not
// check stat(2) (landlock(7)), and scripts share the runner's uid: with a path that it knows or guesses a script can learn
// that a file is there, its size and times; chmod, chown and utime are seccomp's to stop.
package sandbox
