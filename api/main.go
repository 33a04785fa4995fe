// The api is what agents and operators talk to. It never starts a program: it judges a call, posts it to the runner
// over a unix socket, and keeps the record. Before anything else it makes itself unable to start one (internal/nospawn).
// See README.md, and internal/serve for the order of its start.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"xrayrunner/api/internal/nospawn"
	"xrayrunner/api/internal/serve"
)

const usage = `usage: api serve|healthcheck|migrate|smoke|token|version

  serve                                    serve REST and MCP on XRAY_LISTEN
  healthcheck                              ask the api on XRAY_LISTEN: exit 0 when it answers
  migrate                                  bring the store (XRAY_DB) up to date and print its version
  smoke                                    ask the runner for a script that is not in the manifest: exit 0 when refused
  token create NAME ROLE [PERMISSION_MODE] make a token and print it once (roles: agent, viewer, operator)
  token list                               list tokens
  token revoke NAME                        end one
  version                                  print the version
`

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	if err := nospawn.Install(); err != nil && !developing() {
		fmt.Fprintln(os.Stderr, "api: refusing to start, because this process could start programs: "+err.Error())
		os.Exit(exitFailure)
	}
	os.Exit(run(os.Args[1:]))
}

// developing is asked for on a system that has no seccomp; on Linux nothing lifts the filter. /readyz stays not ready.
func developing() bool {
	return runtime.GOOS != "linux" && os.Getenv("XRAY_DEV") == "1"
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	commands := map[string]func() error{
		"serve":       func() error { return serve.Serve(ctx, os.Environ(), os.Stderr) },
		"healthcheck": func() error { return serve.Healthcheck(ctx, os.Environ()) },
		"migrate":     func() error { return serve.Migrate(ctx, os.Environ(), os.Stdout) },
		"smoke":       func() error { return serve.Smoke(ctx, os.Environ(), os.Stdout) },
		"version":     func() error { _, err := fmt.Println(serve.Version); return err },
	}
	do, ok := commands[args[0]]
	switch {
	case args[0] == "token" && len(args) > 1:
		do = func() error { return serve.Token(ctx, os.Environ(), args[1:], os.Stdout) }
	case !ok || len(args) > 1:
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "api: "+err.Error())
		return exitFailure
	}
	return 0
}
