// Package cli is the command manifestgen: it makes the lock file of a folder of skills, checks such a
// folder, and starts a new skill. It is apart from package main so that tests can call it.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"xrayrunner/manifests"
)

// Exit codes of manifestgen.
const (
	ExitOK     = 0
	ExitFailed = 1 // a finding that is an error, a stale lock file, or a file that cannot be read or written
	ExitUsage  = 2
)

const usage = `usage: manifestgen build --skills DIR --out FILE
       manifestgen check --skills DIR [--manifest FILE]
       manifestgen new --skills DIR NAME

build  writes the lock file; a skill with an error is in it as disabled, and the exit code is 1
check  prints all findings, the reviewer's list for scripts included; --manifest: is the lock file current?
new    makes a small working skill to start from
`

var errUsage = errors.New("wrong usage")

// Run is the whole command; it returns the exit code. Findings of build go to stderr, those of check,
// whose output they are, to stdout.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	commands := map[string]func([]string, io.Writer, io.Writer) error{"build": build, "check": check, "new": create}
	if len(args) == 0 || commands[args[0]] == nil {
		if len(args) > 0 && slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
			fmt.Fprint(stdout, usage)
			return ExitOK
		}
		fmt.Fprint(stderr, usage)
		return ExitUsage
	}
	switch err := commands[args[0]](args[1:], stdout, stderr); {
	case err == nil:
		return ExitOK
	case errors.Is(err, flag.ErrHelp):
		return ExitOK
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "manifestgen: %v\n%s", err, usage)
		return ExitUsage
	default:
		fmt.Fprintf(stderr, "manifestgen: %v\n", err)
		return ExitFailed
	}
}

// parse reads the flags of one command, all of which are names of files.
func parse(args []string, stderr io.Writer, command string, flags map[string]*string, required ...string) ([]string, error) {
	set := flag.NewFlagSet("manifestgen "+command, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for name, value := range flags {
		set.StringVar(value, name, "", "")
	}
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, usage)
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s: %w", errUsage, command, err)
	}
	for _, name := range required {
		if *flags[name] == "" {
			return nil, fmt.Errorf("%w: %s needs --%s", errUsage, command, name)
		}
	}
	return set.Args(), nil
}

// noMore refuses words that nobody reads.
func noMore(command string, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("%w: %s: what is %q?", errUsage, command, rest[0])
	}
	return nil
}

func printFindings(w io.Writer, findings []manifests.Finding) (errorCount, warningCount int) {
	for _, f := range findings {
		fmt.Fprintln(w, f)
		if f.Severity == manifests.Error {
			errorCount++
		} else {
			warningCount++
		}
	}
	return errorCount, warningCount
}

// count writes a number with its noun: "1 error", "2 errors".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
