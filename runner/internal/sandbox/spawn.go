package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// spawnerThreads start all children. The parent-death signal fires when the OS thread that forked ends, not when the
// process does (prctl(2); golang/go#27505: children die at random because some goroutine returned while locked to its
// thread). So children are started by threads that nothing else uses and that never end. Two, because fork waits for
// exec, and syscall.ForkLock lets one fork through at a time anyway: the second prepares meanwhile.
const spawnerThreads = 2

// startRequest asks a spawner for a child.
type startRequest struct {
	path    string
	argv    []string
	attr    *os.ProcAttr
	started chan<- startResult
}

type startResult struct {
	process *os.Process
	err     error
}

// spawners is started with the first run and lives as long as the process: there is no Close, because a closed spawner
// would kill what it started.
var spawners = sync.OnceValue(func() chan<- startRequest {
	requests := make(chan startRequest)
	for range spawnerThreads {
		go spawn(requests)
	}
	return requests
})

func spawn(requests <-chan startRequest) {
	runtime.LockOSThread()
	for r := range requests {
		process, err := os.StartProcess(r.path, r.argv, r.attr)
		r.started <- startResult{process, err}
	}
}

// start runs the shim with these descriptors 0 to 4. os.Process holds a pidfd where the kernel has one and otherwise
// never signals after the wait, so that a kill cannot hit a stranger with a reused number (case 26).
//
// It is born into its cgroup. Where clone3 is refused (seccomp profiles that check clone's flags cannot read clone3's)
// the shim moves itself there first of all, by descriptor 5.
func start(shim string, spec Spec, files []*os.File, g *group, joins bool) (*os.Process, error) {
	attributes := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	switch {
	case g != nil && joins:
		files = append(files, g.folder)
	case g != nil:
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(g.folder.Fd())
	}
	started := make(chan startResult, 1)
	spawners() <- startRequest{
		path: shim,
		argv: append([]string{shim}, spec.Argv...),
		attr: &os.ProcAttr{
			Dir:   spec.Dir,
			Env:   append([]string{}, spec.Env...), // never nil, which would mean "inherit ours"
			Files: files,
			Sys:   attributes,
		},
		started: started,
	}
	result := <-started
	if result.err != nil {
		return nil, fmt.Errorf("start shim: %w", result.err)
	}
	return result.process, nil
}
