package serve

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"xrayrunner/runner/internal/config"
	"xrayrunner/runner/internal/sandbox"
)

// cellLibrary lies beside the shim: both are built from the same code.
const cellLibrary = "xray-cell.so"

// withCells puts warm starts around the sandbox, for runs whose working folders are below root, and says how much memory is theirs. Without them runs are as safe and
// slower, so that what is missing does not keep the runner from starting, and is said: by doctor, in the log and in /healthz.
func withCells(cfg config.Config, root string, box sandbox.Sandbox, limit uint64, log *slog.Logger) (sandbox.Sandbox, uint64, []string) {
	if !cfg.Warm {
		return box, 0, []string{"RUNNER_WARM=off: every run is a cold start"}
	}
	shim, err := shimPath(cfg)
	if err != nil {
		return box, 0, []string{coldFor(err)}
	}
	budget := warmMemory(cfg.WarmMemory, limit)
	warm, err := sandbox.WithCells(box, sandbox.CellConfig{
		Library: filepath.Join(filepath.Dir(shim), cellLibrary), Root: root, Budget: budget, Log: log.Info,
	})
	if err != nil {
		return box, 0, []string{coldFor(err)}
	}
	return warm, budget, nil
}

func coldFor(err error) string {
	return fmt.Sprintf("no warm starts, every run is a cold start: %v", err)
}

// tend looks after the cells, if there are any, and returns what ends them.
func tend(box sandbox.Sandbox, log *slog.Logger) (end func()) {
	warm, ok := box.(*sandbox.Cells)
	if !ok {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	go warm.Tend(ctx)
	return func() {
		stop()
		if err := warm.Close(); err != nil {
			log.Warn("ending the cells", "reason", err.Error())
		}
	}
}
