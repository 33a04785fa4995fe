package sandbox

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// oomFiles count the processes of this container that the kernel ended for memory, in lines "oom_kill N": cgroup v2,
// then v1.
var oomFiles = []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"}

// oomKills tells a kill by the kernel for memory from any other. Each is given to one run: with several that die at once
// it may be the wrong one of them, as all were killed by the kernel in the same need.
type oomKills struct {
	mu    sync.Mutex
	files []string
	given uint64
}

// newOOMKills starts at what was counted so far.
func newOOMKills(files []string) oomKills { return oomKills{files: files, given: countOOM(files)} }

// died is asked when a process of a run was killed and we did not do it.
func (o *oomKills) died() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if countOOM(o.files) <= o.given {
		return false
	}
	o.given++
	return true
}

// countOOM is 0 where there is no such file: then a kill for memory is reported as killed.
func countOOM(files []string) uint64 {
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			if text, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
				return n
			}
		}
	}
	return 0
}
