// Xrayctl is the operator's command line: it calls the api's REST with an operator's or a viewer's token. See its own
// help, and docs/operate.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"xrayrunner/api/internal/ctl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(ctl.Run(ctx, os.Args[1:], ctl.World{Env: os.LookupEnv, In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
