package serve

import (
	"log/slog"
	"strings"
	"testing"

	"xrayrunner/runner/internal/config"
)

func TestMemoryIsDivided(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ set, limit, cells, runs uint64 }{
		{0, 384 * mib, 96 * mib, 256 * mib}, // the reference: cells are in the runner's own part
		{0, 1024 * mib, 256 * mib, 736 * mib},
		{64 * mib, 1024 * mib, 64 * mib, 896 * mib},
		{0, 64 * mib, 16 * mib, 16 * mib},
		{1024 * mib, 512 * mib, 1024 * mib, 16 * mib},
	} {
		cells := warmMemory(c.set, c.limit)
		if runs := runMemory(c.limit, cells); cells != c.cells || runs != c.runs {
			t.Errorf("%+v: cells %d, runs %d MiB", c, cells/mib, runs/mib)
		}
	}
}

// TestColdIsSaid: that there are no warm starts is no secret.
func TestColdIsSaid(t *testing.T) {
	for want, cfg := range map[string]config.Config{
		"RUNNER_WARM=off": {},
		"no warm starts":  {Warm: true, Shim: "/nowhere/xray-shim"},
	} {
		box, memory, remarks := withCells(cfg, "/nowhere", nil, 1<<30, slog.New(slog.DiscardHandler))
		if box != nil || memory != 0 || len(remarks) != 1 || !strings.Contains(remarks[0], want) {
			t.Errorf("%v %q, want %q", box, remarks, want)
		}
	}
}
