// Package ctl is the operator's command line. Every command is an operation of the package operations (and a run is an
// agent's call), so it can do what MCP and REST can, and no more. Tables are for people; --json gives the api's answer as
// it came, for scripts.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1   // no connection, or the api itself failed
	ExitUsage   = 2   // a wrong command line
	ExitRefused = 3   // the api refused, with a code
	ExitBad     = 4   // it answered, and what it says is not good: not ready, drift, a record that is not whole, a run that failed
	ExitStopped = 130 // interrupted, as shells have it
)

// World is what the command touches.
type World struct {
	Env func(string) (string, bool)
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// usage is an error about the command line itself.
type usage struct{ text string }

func (u usage) Error() string { return u.text }

// What has been printed already: an answer that is not good, and a refusal among others that were done.
var errBad, errRefused = errors.New("not good"), errors.New("refused")

// call is one command at work.
type call struct {
	World
	*api
	options options
	args    []string
}

// command is one row of the help.
type command struct {
	name, args, text string
	more             string   // for its own help
	flags            []string // of options, beside the common ones
	do               func(context.Context, *call) error
}

// filters are the options that select events.
var filters = []string{"call", "session", "tool", "skill", "decision", "since", "until"}

const (
	moreEnable = `One of the manifest must be published. An external skill is opened as its folder
is now: a later change of it closes it as drift, until it is enabled again.
`
	moreRun = `The run is an agent's run with your token: the skill must be open, the run counts in
the day's limit and is in the record. xrayctl skills SKILL names the files; a
refusal says which properties of INPUT are missing. The result is on standard
output, all else on standard error.

  xrayctl run csv-stats stats.py '{"csv":"a\n1\n2"}'
  xrayctl run csv-stats stats.py - <input.json
`
	moreAudit = `  xrayctl audit           the newest events; all options but --head and --file
  xrayctl audit verify    takes --head and --file
  xrayctl audit export    as JSON lines; takes what selects events. One that selects by
                          more than time has gaps, and cannot be verified
`
	moreTools = `  xrayctl tools off skill_run     no script runs, from the next call on
  xrayctl tools off skill_load    no skill can be read, and so none can be run
`
	moreTokens = `  xrayctl tokens create NAME ROLE [MODE]    prints the secret, once
  xrayctl tokens revoke NAME                ends it, at once

NAME  1 to 64 of a-z 0-9 -
ROLE  agent (lists, loads and runs skills), viewer (what only shows), operator (everything here)
MODE  the ceiling of its calls: read-only (when absent), mutating-with-confirm, dual-sign-required
`
	moreSOP = `  xrayctl sop                                              those that the api has
  xrayctl sop sign --key FILE --file DOCUMENT              prints the signature
  xrayctl sop verify --keys FILE --file DOCUMENT --signature FILE
  xrayctl sop put --file DOCUMENT --signature FILE         stores both in the api

sign and verify need no api: a key that signs belongs on no server.
`
)

func commands() []command {
	return []command{
		{"status", "", "how the deployment is; exit code 4 when it is not ready", "", nil, status},
		{"skills", "[NAME]", "list the skills, or show one file by file", "", nil, skills},
		{"publish", "NAME...", "store the reviewed copy of a skill and publish it", "", []string{"stored"}, publish},
		{"unpublish", "NAME...", "take a skill back; its stored copy stays", "", nil, each("skills_unpublish")},
		{"enable", "NAME...", "open a skill to agents, from their next turn on", moreEnable, []string{"confirm-class"}, agent(true)},
		{"disable", "NAME...", "close a skill to agents, at their next call", "", nil, agent(false)},
		{"drift", "[NAME...]", "name stored files that are not the reviewed ones; exit code 4", "", nil, drift},
		{"run", "SKILL SCRIPT [INPUT|-]", "run a script; INPUT is a JSON object, - reads it from stdin", moreRun, nil, run},
		{"audit", "[verify|export]", "search the record, check that it is whole, or export it", moreAudit, append(slices.Clone(filters), "limit", "head", "file"), audit},
		{"tools", "[on|off TOOL]", "list the api's own tools, or turn skill_load or skill_run on or off", moreTools, nil, tools},
		{"limits", "", "show the limits, or set them with --daily and --timeout", "", []string{"daily", "timeout"}, limits},
		{"tokens", "[create|revoke ...]", "list tokens, make one, end one", moreTokens, nil, tokens},
		{"approvals", "[ID]", "list the requests that wait for operators, or show one whole", "", []string{"all"}, approvals},
		{"approve", "ID", "approve a request, for one run of exactly this", "", []string{"reason"}, decide("approvals_approve")},
		{"deny", "ID", "refuse a request", "", []string{"reason"}, decide("approvals_deny")},
		{"sop", "[sign|verify|put]", "list signed procedures; sign or verify one here, or store one", moreSOP, []string{"key", "keys", "file", "signature"}, procedures},
		{"completion", "bash|zsh", "print a completion script: source <(xrayctl completion bash)", "", nil, completion},
	}
}

// Run does one command line and gives its exit code.
func Run(ctx context.Context, args []string, w World) int {
	err := dispatch(ctx, args, w)
	var u usage
	var r *refusal
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errBad):
		return ExitBad
	case errors.As(err, &u):
		fmt.Fprintln(w.Err, "xrayctl: "+u.text)
		return ExitUsage
	case errors.As(err, &r):
		r.say(w.Err)
		return ExitRefused
	case errors.Is(err, errRefused):
		return ExitRefused
	case ctx.Err() != nil:
		fmt.Fprintln(w.Err, "xrayctl: interrupted; what was sent already may be done: xrayctl audit shows it")
		return ExitStopped
	}
	fmt.Fprintln(w.Err, "xrayctl: "+err.Error())
	return ExitFailure
}

func dispatch(ctx context.Context, args []string, w World) error {
	o, rest, err := parse(args)
	switch {
	case err != nil:
		return err
	case len(rest) == 0 && o.help, len(rest) == 1 && rest[0] == "help":
		return help(w.Out)
	case len(rest) == 0:
		_ = help(w.Err)
		return usage{"which command?"}
	}
	if rest[0] == "help" {
		rest, o.help = rest[1:], true
	}
	c, err := find(rest[0])
	if err != nil {
		return err
	}
	if o.help {
		return helpOf(w.Out, c)
	}
	for name := range o.given {
		if !common(name) && !slices.Contains(c.flags, name) {
			return usage{fmt.Sprintf("%s has no option --%s; xrayctl help %s shows those it has", c.name, name, c.name)}
		}
	}
	a, err := connect(o, w.Env)
	switch {
	case err == nil:
	case offline(c.name, rest[1:], o):
		a = nil
	default:
		return err
	}
	return c.do(ctx, &call{World: w, api: a, options: o, args: rest[1:]})
}

// offline is what needs no api: a key that signs, and an exported file, may be where none is.
func offline(command string, args []string, o options) bool {
	switch command {
	case "completion":
		return true
	case "audit":
		return o.text["file"] != ""
	case "sop":
		return len(args) > 0 && (args[0] == "sign" || args[0] == "verify")
	}
	return false
}

func find(name string) (command, error) {
	all := commands()
	if i := slices.IndexFunc(all, func(c command) bool { return c.name == name }); i >= 0 {
		return all[i], nil
	}
	var near []string
	for _, c := range all {
		if strings.HasPrefix(c.name, name[:min(3, len(name))]) {
			near = append(near, c.name)
		}
	}
	text := fmt.Sprintf("there is no command %q", name)
	if len(near) > 0 {
		text += " (did you mean " + strings.Join(near, " or ") + "?)"
	}
	return command{}, usage{text + "; xrayctl help lists them"}
}
