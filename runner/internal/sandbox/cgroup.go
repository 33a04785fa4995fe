package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// leafName is where the runner itself lives: a cgroup that has controllers for its children may hold no process
// (cgroups(7), "no internal processes").
const leafName = "xray-runner"

// spareThreads may be had beside Limits.Processes: pids.max counts threads, and an interpreter has some of its own.
const spareThreads = 64

// removeLimit is how long the kernel may take to empty a cgroup that was killed.
const removeLimit = 2 * time.Second

// cgroups makes one cgroup for each run, below the runner's own.
type cgroups struct {
	base   string // where the runs' cgroups are made
	needed []string
	joins  bool // clone3 is refused here: the shim enters by writing cgroup.procs
	serial atomic.Int64
}

// controllers without which the layer is not in force.
var controllers = []string{"memory", "pids"}

// openCgroups moves the runner to a leaf and switches the controllers on for what will be beside it. It may be called
// again, and by a second process beside a running runner (doctor): that one finds itself in the leaf.
func openCgroups(mountInfo, selfCgroup string, needed []string) (*cgroups, error) {
	own, err := ownCgroup(mountInfo, selfCgroup)
	if err != nil {
		return nil, err
	}
	c := &cgroups{base: own, needed: needed}
	if filepath.Base(own) == leafName {
		c.base = filepath.Dir(own)
	}
	if err := unix.Access(filepath.Join(c.base, "cgroup.procs"), unix.W_OK); err != nil {
		return nil, fmt.Errorf("write %s/cgroup.procs: %w", c.base, err)
	}
	if err := c.moveToLeaf(); err != nil {
		return nil, err
	}
	if err := c.enable(); err != nil {
		return nil, err
	}
	c.removeStale()
	return c, nil
}

// ownCgroup is the folder of the cgroup that we are in, in the version 2 hierarchy.
func ownCgroup(mountInfo, selfCgroup string) (string, error) {
	var path string
	for line := range strings.Lines(selfCgroup) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	if path == "" {
		return "", errors.New("no cgroup v2 here (no line 0:: in /proc/self/cgroup)")
	}
	for line := range strings.Lines(mountInfo) {
		// 36 35 98:0 ROOT MOUNTPOINT options - TYPE source options
		fields, kind, _ := strings.Cut(strings.TrimSpace(line), " - ")
		f := strings.Fields(fields)
		if len(f) < 5 || !strings.HasPrefix(kind, "cgroup2 ") {
			continue
		}
		inside, err := filepath.Rel(f[3], path)
		if err != nil || inside == ".." || strings.HasPrefix(inside, "../") {
			return "", fmt.Errorf("our cgroup %s is not below %s, which is mounted", path, f[3])
		}
		return filepath.Join(f[4], inside), nil
	}
	return "", errors.New("no cgroup v2 is mounted here")
}

// moveToLeaf moves us, and in a container all of it: there the cgroup is the container's (its namespace shows it as the
// root), and the engine's init is in it too. Elsewhere other processes are not ours to move.
func (c *cgroups) moveToLeaf() error {
	leaf := filepath.Join(c.base, leafName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for range 10 { // a process may be born meanwhile
		raw, err := os.ReadFile(filepath.Join(c.base, "cgroup.procs"))
		if err != nil {
			return err
		}
		pids := strings.Fields(string(raw))
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if pid != strconv.Itoa(os.Getpid()) && os.Getpid() != 1 && !inContainer() {
				return fmt.Errorf("process %s is in %s too: give the runner a cgroup of its own", pid, c.base)
			}
			err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return fmt.Errorf("processes keep being born in %s", c.base)
}

// inContainer: our cgroup namespace is not the host's, so that all we see in our cgroup is of our container.
func inContainer() bool {
	raw, err := os.ReadFile("/proc/1/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return p == "/" || p == "/"+leafName
		}
	}
	return false
}

func (c *cgroups) enable() error {
	if len(c.needed) == 0 {
		return nil
	}
	have, err := os.ReadFile(filepath.Join(c.base, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, name := range c.needed {
		if !strings.Contains(" "+strings.TrimSpace(string(have))+" ", " "+name+" ") {
			return fmt.Errorf("the controller %s is not given to us (cgroup.controllers: %q)", name, strings.TrimSpace(string(have)))
		}
	}
	return os.WriteFile(filepath.Join(c.base, "cgroup.subtree_control"), []byte("+"+strings.Join(c.needed, " +")), 0)
}

// runPrefix and a process number are in the names, so that one runner does not take another's for left over.
const runPrefix = "run-"

// removeStale removes what a runner left that was killed.
func (c *cgroups) removeStale() {
	left, _ := filepath.Glob(filepath.Join(c.base, runPrefix+"*"))
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), runPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err == nil && pid != os.Getpid() && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = (&group{dir: dir}).close() // what cannot be removed is in nobody's way
		}
	}
}

// group is the cgroup of one run.
type group struct {
	dir    string
	folder *os.File // for CLONE_INTO_CGROUP, or the shim
}

// make is called before the run starts; close must follow.
func (c *cgroups) make(l Limits) (*group, error) {
	dir := filepath.Join(c.base, fmt.Sprintf("%s%d-%d", runPrefix, os.Getpid(), c.serial.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	g := &group{dir: dir}
	err := g.limit(c.needed, l)
	if err == nil {
		g.folder, err = os.Open(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", errors.Join(err, g.close()))
	}
	return g, nil
}

// limit writes the bounds. The working folder lies in memory and has its own bound, so that it is added. Without swap:
// what is above the limit would go there instead of ending.
func (g *group) limit(needed []string, l Limits) error {
	if len(needed) == 0 {
		return nil
	}
	if err := g.write("memory.swap.max", "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(g.write("memory.max", strconv.FormatUint(l.MemoryBytes+l.DiskBytes, 10)), g.write("pids.max", strconv.Itoa(l.Tasks())))
}

// Tasks are all processes and threads that a run may have, with its supervisor and, for a moment, who makes the room. A cgroup
// and a user namespace of its own hold it strictly, else the watch does.
func (l Limits) Tasks() int { return l.Processes + 2 + spareThreads }

func (g *group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0)
}

// take moves a process of one thread there, and looks whether it is.
func (g *group) take(pid int) error {
	number := strconv.Itoa(pid)
	if err := g.write("cgroup.procs", number); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	in, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err == nil && strings.TrimSpace(string(in)) != number {
		err = fmt.Errorf("it has %q in it, and not %s", in, number)
	}
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}

// counted is a counter of one of the cgroup's event files; 0 when it cannot be read.
func (g *group) counted(file, name string) uint64 {
	if g == nil {
		return 0
	}
	raw, _ := os.ReadFile(filepath.Join(g.dir, file))
	for line := range strings.Lines(string(raw)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
			return n
		}
	}
	return 0
}

// outOfMemory: the kernel ended a process of this run for memory.
func (g *group) outOfMemory() bool { return g.counted("memory.events", "oom_kill") > 0 }

// crowded: a fork was refused.
func (g *group) crowded() bool { return g.counted("pids.events", "max") > 0 }

// close ends whatever is left in one step that no fork can slip through, and removes the cgroup.
func (g *group) close() error {
	if g == nil {
		return nil
	}
	if g.folder != nil {
		_ = g.folder.Close()
	}
	err := unix.Rmdir(g.dir)
	if errors.Is(err, unix.EBUSY) {
		err = g.write("cgroup.kill", "1")
		for end := time.Now().Add(removeLimit); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if err = unix.Rmdir(g.dir); !errors.Is(err, unix.EBUSY) {
				break
			}
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("cgroup not removed: %w", err)
	}
	return nil
}
