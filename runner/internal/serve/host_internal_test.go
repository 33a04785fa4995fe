package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLimitIn(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"pids.max": "640\n", "a/pids.max": "100\n", "b/pids.max": "max\n", "pids/pids.max": "256\n", "pids/docker/1/pids.max": "128\n",
		"a/memory.max": "900\n", "a/leaf/memory.max": "max\n", "memory/memory.limit_in_bytes": "700\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		cgroup       string
		pids, memory uint64
	}{
		"a container, version 2":                    {"0::/\n", 640, noLimit},
		"a unit of the host, version 2":             {"0::/a\n", 100, 900},
		"a leaf of that unit":                       {"0::/a/leaf\n", 100, 900},
		"a container, version 1":                    {"4:memory:/docker/9\n8:pids:/docker/9\n", 256, 700},
		"both versions":                             {"8:pids:/docker/9\n0::/a\n", 100, 900},
		"a group of the host, version 1":            {"8:pids:/docker/1\n", 128, noLimit},
		"no bound of its own: that of all above it": {"0::/b\n", 640, noLimit},
		"nothing":           {"", noLimit, noLimit},
		"no line of either": {"4:cpu:/docker/9\n", noLimit, noLimit},
	} {
		if got := limitIn(c.cgroup, root, "pids", "pids.max", "pids.max"); got != c.pids {
			t.Errorf("%s: %d processes, want %d", name, got, c.pids)
		}
		if got := limitIn(c.cgroup, root, "memory", "memory.max", "memory.limit_in_bytes"); got != c.memory {
			t.Errorf("%s: %d bytes, want %d", name, got, c.memory)
		}
	}
}

func TestCrowdRemark(t *testing.T) {
	for _, c := range []struct {
		slots int
		limit uint64
		said  string
	}{
		{4, 640, ""}, {4, 536, ""}, {4, 535, "pids_limit to 536"}, {16, 640, "pids_limit to 2144"}, {16, 0, ""},
	} {
		got := strings.Join(crowdRemark(c.slots, c.limit), "")
		if (got == "") != (c.said == "") || !strings.Contains(got, c.said) {
			t.Errorf("%d runs of %d: %q", c.slots, c.limit, got)
		}
	}
}
