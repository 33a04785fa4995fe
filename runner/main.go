// The runner is the sidecar that runs reviewed scripts, each in a fresh sandbox. It has no network and writes
// nowhere but its work folder. See README.md, and internal/serve for the order of its start.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"xrayrunner/runner/internal/serve"
)

const usage = `usage: runner serve|healthcheck|version

  serve        listen on RUNNER_LISTEN and run scripts
  healthcheck  ask the runner on RUNNER_LISTEN: exit 0 when it is ready
  version      print the version
`

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) != 1 {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	switch args[0] {
	case "serve":
		err = serve.Serve(ctx, os.Environ(), os.Stderr)
	case "healthcheck":
		err = serve.Healthcheck(ctx, os.Environ(), os.Stdout)
	case "version":
		fmt.Println(serve.Version)
	default:
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner: "+err.Error())
		return exitFailure
	}
	return 0
}
