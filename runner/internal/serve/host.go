package serve

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"xrayrunner/runner/internal/config"
	"xrayrunner/runner/internal/sandbox"
)

// reserve is what the runner itself may need of its container's memory, at least.
const reserve = 128 << 20

// memoryLimit is the limit of the container or the unit, or else the machine's memory.
func memoryLimit() uint64 {
	limit := ownLimit("memory", "memory.max", "memory.limit_in_bytes")
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		limit = min(limit, uint64(info.Totalram)*uint64(info.Unit))
	}
	return limit
}

// taskLimit is how many processes and threads the container or the unit may have. 0: no such bound can be seen.
func taskLimit() uint64 {
	if limit := ownLimit("pids", "pids.max", "pids.max"); limit != noLimit {
		return limit
	}
	return 0
}

const noLimit = math.MaxUint64

func ownLimit(controller, v2, v1 string) uint64 {
	own, _ := os.ReadFile("/proc/self/cgroup")
	return limitIn(string(own), "/sys/fs/cgroup", controller, v2, v1)
}

// limitIn is the smallest number that our cgroup and those above it have in the file v2, or v1 in the controller's own
// hierarchy. cgroup is /proc/self/cgroup. A container sees its own as the root; version 1 without a namespace for it
// names the host's path all the same, of which no folder is there but the root.
func limitIn(cgroup, root, controller, v2, v1 string) uint64 {
	limit := uint64(noLimit)
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 || f[1] != "" && f[1] != controller {
			continue
		}
		file := v2
		if f[1] != "" {
			file = v1
		}
		for at := filepath.Join("/", f[2]); ; at = filepath.Dir(at) {
			if n, ok := readUint(filepath.Join(root, f[1], at, file)); ok {
				limit = min(limit, n)
			}
			if at == "/" {
				break
			}
		}
	}
	return limit
}

// slotsOf is how many runs there may be at once.
func slotsOf(cfg config.Config) int {
	if cfg.Slots > 0 {
		return cfg.Slots
	}
	return cfg.DefaultedCPUs
}

// crowdRemark: all runs together must not get at what the runner needs to start another.
func crowdRemark(slots int, limit uint64) []string {
	runs := uint64(slots * sandbox.Limits{Processes: 1}.Tasks())
	if limit == 0 || runs <= limit/2 {
		return nil
	}
	return []string{fmt.Sprintf("%d runs at once may have %d processes and threads, and the container %d: when they take them, others fail to start; "+
		"set pids_limit to %d, or RUNNER_MAX_CONCURRENT lower", slots, runs, limit, 2*runs)}
}

// warmMemory is what cells may use: what was set, or a quarter of the limit.
func warmMemory(set, limit uint64) uint64 {
	if set > 0 {
		return set
	}
	return limit / 4
}

// runMemory is what all runs together may reserve: the limit less the runner's own part, of which the cells have the
// most; at least one smallest run.
func runMemory(limit, cells uint64) uint64 {
	const smallest, alone = 16 << 20, 32 << 20
	own := max(reserve, cells+alone)
	if limit < own+smallest {
		return smallest
	}
	return limit - own
}

func readUint(path string) (uint64, bool) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
	return n, err == nil // "max" is no number: no limit
}

// networkProblem says what of a network is there; "" when there is none but loopback. A run cannot make a socket
// anyway; that the container has no network is the second wall, and a missing wall is said.
func networkProblem() string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Sprintf("cannot list network interfaces: %v", err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Sprintf("RUNNER_NETWORK=none, but interface %s is up: start the runner with network_mode none (or RUNNER_DEV=1)", i.Name)
		}
	}
	for _, table := range []struct {
		path  string
		field int // of the interface's name
		skip  int // header lines
	}{{"/proc/net/route", 0, 1}, {"/proc/net/ipv6_route", 9, 0}} {
		if name := routedInterface(table.path, table.field, table.skip); name != "" {
			return fmt.Sprintf("RUNNER_NETWORK=none, but there is a route through %s: start the runner with network_mode none (or RUNNER_DEV=1)", name)
		}
	}
	return ""
}

func routedInterface(path string, field, skip int) string {
	f, err := os.Open(path)
	if err != nil {
		return "" // no such protocol family
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 0; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if n >= skip && len(fields) > field && fields[field] != "lo" {
			return fields[field]
		}
	}
	return ""
}
