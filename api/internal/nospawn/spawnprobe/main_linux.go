// Spawnprobe tries to start a program, in one way per call, and says how the kernel answered. It is the attacker in the
// tests of nospawn, and the control of the proof that the api links nothing that starts programs. It is not shipped.
//
//	spawnprobe list            print the ways
//	spawnprobe [-filter] WAY   exit 0: it worked; 1: refused, with the errno on stdout; killed by SIGSYS: killed
//	spawnprobe [-filter] all   one line for each way that does not end the process when it is refused
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"xrayrunner/api/internal/nospawn"
)

var errNoSuchCall = errors.New("this architecture has no such call")

// ways are the attempts. threads is started before the filter is put on.
func ways(threads *oldThread) map[string]func() error {
	self := "/proc/self/exe"
	return map[string]func() error{
		"start":        func() error { return start(self) },
		"start-thread": func() error { return threads.do(func() error { return start(self) }) },
		"exec":         func() error { return syscall.Exec(self, []string{"spawnprobe", "list"}, nil) },
		"execveat":     func() error { return execveat(self) },
		"fork":         func() error { return answer(fork()) },
		"vfork":        func() error { return answer(vfork()) },
		"clone3":       clone3,
		"memfd":        memfd,
		"int80":        func() error { return answer(int80()) },
		"x32":          func() error { return answer(x32()) },
	}
}

func main() {
	args := os.Args[1:]
	threads := newOldThread()
	filter := len(args) > 0 && args[0] == "-filter"
	if filter {
		args = args[1:]
		if err := nospawn.Install(); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
	}
	all := ways(threads)
	if len(args) == 1 && args[0] == "all" {
		for _, way := range survivable {
			fmt.Printf("%s: %s\n", way, word(all[way]()))
		}
		return
	}
	if len(args) != 1 || args[0] != "list" && all[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: spawnprobe list | spawnprobe [-filter] WAY | spawnprobe [-filter] all")
		os.Exit(2)
	}
	if args[0] == "list" {
		var names []string
		for n := range all {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			fmt.Println(n)
		}
		return
	}
	err := all[args[0]]()
	fmt.Println(word(err))
	if err != nil {
		os.Exit(1)
	}
}

// survivable leaves a process that can go on when the kernel refuses. What works replaces it, so these two come last.
var survivable = []string{"start", "start-thread", "fork", "vfork", "memfd", "clone3", "execveat", "exec"}

func word(err error) string {
	if err != nil {
		return err.Error()
	}
	return "worked"
}

func start(program string) error {
	p, err := os.StartProcess(program, []string{"spawnprobe", "list"}, &os.ProcAttr{})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

func execveat(program string) error {
	path, err := unix.BytePtrFromString(program)
	if err != nil {
		return err
	}
	return rawExecveat(path)
}

func memfd() error {
	_, err := unix.MemfdCreate("program", 0)
	return err
}

// answer turns a raw result of the kernel into an error.
func answer(r int64) error {
	if r == notHere {
		return errNoSuchCall
	}
	if r < 0 {
		return unix.Errno(-r)
	}
	return nil
}

// oldThread is a thread of its own that was there before the filter.
type oldThread struct {
	work chan func() error
	done chan error
}

func newOldThread() *oldThread {
	t := &oldThread{make(chan func() error), make(chan error)}
	up := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(up)
		for f := range t.work {
			t.done <- f()
		}
	}()
	<-up
	return t
}

func (t *oldThread) do(f func() error) error {
	t.work <- f
	return <-t.done
}
