package nospawn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Install puts the filter on every thread of this process, and proves that it holds (Check). It is the first thing that
// main does. An error means that the process could start programs: do not go on.
func Install() error {
	runtime.LockOSThread() // no_new_privs belongs to a thread, and the filter goes on from the one that has it
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	filter := program()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// TSYNC: all threads or none; a positive answer is the thread that could not follow.
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return fmt.Errorf("the kernel refuses the seccomp filter that keeps this process from starting programs: %w", errno)
	case thread != 0:
		return fmt.Errorf("thread %d did not take the filter", thread)
	}
	return Check()
}

// tries are calls that the filter must refuse, and that do no harm where there is none: without it each gives another
// answer than the one wanted here. (fork and vfork have no harmless form; the tests try them in a process of their own.)
var tries = []struct {
	name   string
	number uintptr
	args   [2]uintptr
	want   unix.Errno
}{
	{"execve", unix.SYS_EXECVE, [2]uintptr{}, unix.EPERM},                                  // EFAULT
	{"execveat", unix.SYS_EXECVEAT, [2]uintptr{}, unix.EPERM},                              // EFAULT
	{"clone without a thread", unix.SYS_CLONE, [2]uintptr{unix.CLONE_SIGHAND}, unix.EPERM}, // EINVAL: CLONE_SIGHAND needs CLONE_VM
	{"clone3", unix.SYS_CLONE3, [2]uintptr{}, unix.ENOSYS},                                 // EINVAL
	{"unshare", unix.SYS_UNSHARE, [2]uintptr{}, unix.EPERM},                                // 0
}

// Check tries what must be refused, and reads the state of every thread (proc_pid_status(5)). The error says what does
// not hold.
func Check() error {
	for _, t := range tries {
		if _, _, errno := unix.RawSyscall(t.number, t.args[0], t.args[1], 0); errno != t.want {
			return fmt.Errorf("%s gave %v, not %v: the filter is not in force", t.name, errno, t.want)
		}
	}
	return checkThreads("/proc/self/task")
}

func checkThreads(folder string) error {
	threads, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("the threads cannot be seen: %w", err)
	}
	seen := 0
	for _, t := range threads {
		status, err := os.ReadFile(filepath.Join(folder, t.Name(), "status"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended since
		}
		if err != nil {
			return fmt.Errorf("thread %s cannot be seen: %w", t.Name(), err)
		}
		for _, line := range []string{"\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n"} {
			if !strings.Contains(string(status), line) {
				return fmt.Errorf("thread %s is without %q", t.Name(), strings.TrimSpace(line))
			}
		}
		seen++
	}
	if seen == 0 {
		return errors.New("no thread was seen")
	}
	return nil
}
