package sandbox

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxCachedPlans bounds the descriptors that are held: one per distinct plan, so one per skill and set of limits.
const maxCachedPlans = 128

// planCache holds one sealed memfd per distinct plan, so that a run costs no encoding.
type planCache struct {
	mu    sync.Mutex
	files map[planKey]*os.File
}

// planKey is all that a plan is made of, beside what was found at start.
type planKey struct {
	program, readable string
	writable          string
	memory, files     uint64
	cpu, open         uint64
	processes         int
	interpreter       Interpreter
}

func keyOf(spec Spec) planKey {
	l := spec.Limits
	return planKey{
		program: spec.Argv[0], readable: strings.Join(spec.Readable, "\x00"), writable: strings.Join(spec.Writable, "\x00"),
		memory: l.MemoryBytes, files: l.FileBytes, cpu: l.cpuSeconds(), open: l.OpenFiles,
		processes: l.Processes, interpreter: l.Interpreter,
	}
}

// get returns the memfd and what to do with it after the start. Nothing is ever thrown out, so that a held file cannot
// be closed under a run that is starting; a plan beyond the bound is made for one run.
func (c *planCache) get(spec Spec, f inForce) (*os.File, func(), error) {
	key := keyOf(spec)
	c.mu.Lock()
	defer c.mu.Unlock()
	if file, ok := c.files[key]; ok {
		return file, func() {}, nil
	}
	p, err := f.planFor(spec)
	if err != nil {
		return nil, nil, err
	}
	file, err := sealed("xray-plan", p.encode())
	if err != nil {
		return nil, nil, err
	}
	if len(c.files) >= maxCachedPlans {
		return file, func() { _ = file.Close() }, nil
	}
	if c.files == nil {
		c.files = map[planKey]*os.File{}
	}
	c.files[key] = file
	return file, func() {}, nil
}

// sealed makes a memfd that nobody can change any more, not even we: all runs with this plan share it.
func sealed(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err = file.Write(content)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("seal plan: %w", err)
	}
	return file, nil
}

// close is for a cache that no run uses any more: the prober's.
func (c *planCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, file := range c.files {
		_ = file.Close()
	}
	c.files = nil
}
