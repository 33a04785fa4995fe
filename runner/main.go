// The runner is the sidecar that runs reviewed scripts, each in a fresh sandbox. It has no network and writes
// nowhere but its work folder. See README.md, and internal/serve for the order of its start.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"xrayrunner/runner/internal/serve"
)

const usage = `usage: runner serve|doctor|healthcheck|version

  serve        listen on RUNNER_LISTEN and run scripts
  doctor       say which layers are in force on this host, what is missing and what to do
               --attack          try to break out, with every attack there is
               --cost            measure what the sandbox costs here beside a bare start of the interpreter
               --neighbour       measure what runs feel of another that takes all it can get
               --rounds N        how often --cost and --neighbour measure (default 100)
               --warm            --attack from prepared interpreters, where a run would be
               --json            for programs
               --landlock-abi N  as if the kernel were older (2: Linux 6.1, 4: 6.8)
  healthcheck  ask the runner on RUNNER_LISTEN: exit 0 when it is ready
  version      print the version
`

// Exit codes.
const (
	exitFailure = 1 // also: doctor found that serve would not start, or an attack succeeded
	exitUsage   = 2
	exitWeaker  = 3 // doctor: serve would start, and a layer is missing
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 0 || len(args) > 1 && args[0] != "doctor" {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	switch args[0] {
	case "serve":
		err = serve.Serve(ctx, os.Environ(), os.Stderr)
	case "doctor":
		return doctor(ctx, args[1:])
	case "healthcheck":
		err = serve.Healthcheck(ctx, os.Environ(), os.Stdout)
	case "version":
		fmt.Println(serve.Version)
	default:
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	return failure(err)
}

func failure(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner: "+err.Error())
		return exitFailure
	}
	return 0
}

func doctor(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	options := serve.DoctorOptions{}
	attack, cost, neighbour := flags.Bool("attack", false, ""), flags.Bool("cost", false, ""), flags.Bool("neighbour", false, "")
	flags.BoolVar(&options.Warm, "warm", false, "")
	flags.IntVar(&options.Rounds, "rounds", 100, "")
	flags.BoolVar(&options.JSON, "json", false, "")
	flags.IntVar(&options.LandlockABI, "landlock-abi", 0, "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage
	} else if flags.NArg() > 0 || *attack && (*cost || *neighbour) || *cost && *neighbour || options.Warm && !*attack || options.Rounds < 1 {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	var verdict serve.Verdict
	var err error
	switch {
	case *attack:
		verdict, err = serve.Attack(ctx, os.Environ(), options, os.Stdout)
	case *neighbour:
		verdict, err = serve.Neighbour(ctx, os.Environ(), options, os.Stdout)
	case *cost:
		verdict, err = serve.Cost(ctx, os.Environ(), options, os.Stdout)
	default:
		verdict, err = serve.Doctor(os.Environ(), options, os.Stdout)
	}
	switch {
	case err != nil:
		return failure(err)
	case verdict == serve.Refused:
		return exitFailure
	case verdict == serve.Weaker:
		return exitWeaker
	}
	return 0
}
