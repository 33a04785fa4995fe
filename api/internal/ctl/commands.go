package ctl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/store"
)

// ask does an operation; with --json its answer is printed as it came and done is true.
func (c *call) ask(ctx context.Context, name string, args map[string]string, into any) (done bool, err error) {
	raw, err := c.do(ctx, name, args)
	if err != nil {
		return false, err
	}
	if c.options.json {
		_, err = c.Out.Write(raw)
	}
	return c.options.json, firstError(err, json.Unmarshal(raw, into))
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *call) none() error {
	if len(c.args) > 0 {
		return usage{"too many arguments: " + strings.Join(c.args, " ")}
	}
	return nil
}

func (c *call) names() error {
	if len(c.args) == 0 {
		return usage{"which skill? xrayctl skills lists them"}
	}
	return nil
}

func status(ctx context.Context, c *call) error {
	var o operate.Overview
	if err := c.none(); err != nil {
		return err
	}
	done, err := c.ask(ctx, "status", nil, &o)
	if err == nil && !done {
		err = overview(c.Out, o)
	}
	if err == nil && !o.Ready.Ready {
		return errBad
	}
	return err
}

type skillList struct {
	Skills []operate.SkillStatus `json:"skills"`
	Tools  []operate.OwnTool     `json:"tools"`
}

func skills(ctx context.Context, c *call) error {
	switch len(c.args) {
	case 0:
		var list skillList
		done, err := c.ask(ctx, "skills_list", nil, &list)
		if done || err != nil {
			return err
		}
		return skillTable(c.Out, list)
	case 1:
		var s operate.SkillDetail
		done, err := c.ask(ctx, "skills_get", map[string]string{"name": c.args[0]}, &s)
		if done || err != nil {
			return err
		}
		return skillDetail(c.Out, s)
	}
	return usage{"one name, or none"}
}

// change does an operation for each name and says how each skill is then. A name that is refused does not keep the others
// from being closed.
func (c *call) change(ctx context.Context, operation string, args map[string]string) error {
	if err := c.names(); err != nil {
		return err
	}
	var result error
	for _, name := range c.args {
		args["name"] = name
		err := c.changeOne(ctx, operation, args)
		var r *refusal
		switch {
		case errors.As(err, &r):
			r.say(c.Err)
			result = errRefused
		case err != nil: // the next would fail as well
			return err
		}
	}
	return result
}

func (c *call) changeOne(ctx context.Context, operation string, args map[string]string) error {
	var s operate.SkillStatus
	done, err := c.ask(ctx, operation, args, &s)
	if err == nil && !done {
		_, err = fmt.Fprintf(c.Out, "%s: %s\n", s.Name, sentence(s))
	}
	return err
}

func publish(ctx context.Context, c *call) error {
	from := "image"
	if c.options.given["stored"] {
		from = "stored"
	}
	return c.change(ctx, "skills_publish", map[string]string{"from": from})
}

func each(operation string) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error { return c.change(ctx, operation, map[string]string{}) }
}

func agent(enabled bool) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		return c.change(ctx, "skills_agent_set", map[string]string{"enabled": strconv.FormatBool(enabled), "confirm_class": flagText(c.options.given["confirm-class"])})
	}
}

func drift(ctx context.Context, c *call) error {
	var list skillList
	done, err := c.ask(ctx, "skills_agent_status", nil, &list)
	if err != nil {
		return err
	}
	found, err := driftTable(c.Out, list.Skills, c.args, done)
	if err == nil && found {
		return errBad
	}
	return err
}

// run makes a session of its own for each run, so that no count of an agent is touched but the day's.
func run(ctx context.Context, c *call) error {
	if len(c.args) < 2 || len(c.args) > 3 {
		return usage{"run needs SKILL SCRIPT [INPUT|-]; xrayctl skills NAME shows the scripts"}
	}
	input, err := c.input(ctx)
	if err != nil {
		return err
	}
	var session struct{ ID string }
	raw, err := c.send(ctx, "POST", "/v1/sessions", nil)
	if err := firstError(err, json.Unmarshal(raw, &session)); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"session": session.ID, "script": c.args[1], "input": string(input)})
	if err != nil {
		return err
	}
	if raw, err = c.send(ctx, "POST", "/v1/skills/"+escape(c.args[0])+"/run", body); err != nil {
		return err
	}
	return c.ran(raw)
}

func (c *call) input(ctx context.Context) ([]byte, error) {
	switch {
	case len(c.args) < 3:
		return []byte(`{}`), nil
	case c.args[2] == "-":
		return c.stdin(ctx)
	}
	return []byte(c.args[2]), nil
}

// stdin reads to its end, or until the command is interrupted: a terminal's read does not end by itself.
func (c *call) stdin(ctx context.Context) ([]byte, error) {
	type read struct {
		text []byte
		err  error
	}
	ended := make(chan read, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(c.In, 1<<20))
		ended <- read{text, err}
	}()
	select {
	case r := <-ended:
		return r.text, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// audit is three commands in one. An option of another of them is refused: else its answer would be taken for filtered.
func audit(ctx context.Context, c *call) error {
	do, options := search, append(slices.Clone(filters), "limit")
	switch strings.Join(c.args, " ") {
	case "":
	case "verify":
		do, options = verify, []string{"head", "file"}
	case "export":
		do, options = export, filters
	default:
		return usage{"audit takes verify, export, or nothing (a search)"}
	}
	for name := range c.options.given {
		if !common(name) && !slices.Contains(options, name) {
			return usage{fmt.Sprintf("%s has no option --%s; xrayctl help audit shows which has it", strings.Join(append([]string{"audit"}, c.args...), " "), name)}
		}
	}
	return do(ctx, c)
}

// filter is what selects events, as the api wants it.
func (c *call) filter() (map[string]string, error) {
	args := map[string]string{}
	for _, name := range filters {
		args[name] = c.options.text[name]
	}
	for _, name := range []string{"since", "until"} {
		if args[name] == "" {
			continue
		}
		t, err := moment(args[name], time.Now())
		if err != nil {
			return nil, usage{"--" + name + err.Error()}
		}
		args[name] = t.UTC().Format(time.RFC3339Nano)
	}
	return args, nil
}

// moment reads a time as people write it, and as our own tables print it, in UTC; a duration is that long ago.
func moment(text string, now time.Time) (time.Time, error) {
	for _, form := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf(" must be a time like 2026-01-31 or 2026-01-31T12:00:00Z, or how long ago, like 2h or 30m; not %q", text)
}

func search(ctx context.Context, c *call) error {
	args, err := c.filter()
	if err != nil {
		return err
	}
	args["newest"], args["limit"] = "true", first(c.options.text["limit"], "20")
	var found struct{ Events []store.Event }
	done, err := c.ask(ctx, "audit_search", args, &found)
	if done || err != nil {
		return err
	}
	return eventTable(c.Out, found.Events)
}

func verify(ctx context.Context, c *call) error {
	head, file := strings.ToLower(c.options.text["head"]), c.options.text["file"]
	if raw, err := hex.DecodeString(head); head != "" && (err != nil || len(raw) != sha256.Size) {
		return usage{"--head needs 64 hexadecimal digits, as status and verify show them"} // a slip of the hand is no broken record
	}
	var r store.VerifyReport
	var done bool
	var err error
	if file != "" {
		done = c.options.json
		r, err = verifyFile(file, head)
		if err == nil && done {
			err = json.NewEncoder(c.Out).Encode(r)
		}
	} else {
		done, err = c.ask(ctx, "audit_verify", map[string]string{"head": head}, &r)
	}
	if err == nil && !done {
		err = verdict(c.Out, r)
	}
	if err == nil && !r.OK {
		return errBad
	}
	return err
}

func verifyFile(name, head string) (store.VerifyReport, error) {
	f, err := os.Open(name)
	if err != nil {
		return store.VerifyReport{}, usage{err.Error()}
	}
	defer f.Close()
	return store.VerifyExport(f, head)
}

func export(ctx context.Context, c *call) error {
	args, err := c.filter()
	if err != nil {
		return err
	}
	path, err := exportPath(args)
	if err != nil {
		return err
	}
	resp, err := c.open(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(c.Out, resp.Body); err != nil {
		return fmt.Errorf("the export broke off, so the file is not whole: %w", err)
	}
	return nil
}

func tools(ctx context.Context, c *call) error {
	if len(c.args) == 0 {
		var list skillList
		done, err := c.ask(ctx, "tools_list", nil, &list)
		if done || err != nil {
			return err
		}
		return toolTable(c.Out, list.Tools)
	}
	if len(c.args) != 2 || c.args[0] != "on" && c.args[0] != "off" {
		return usage{"tools takes nothing, or: on TOOL, off TOOL; TOOL is skill_load or skill_run"}
	}
	var t operate.ToolConfig
	done, err := c.ask(ctx, "tool_config_set", map[string]string{"tool": c.args[1], "enabled": strconv.FormatBool(c.args[0] == "on")}, &t)
	if done || err != nil {
		return err
	}
	return switchText(c.Out, t)
}

func limits(ctx context.Context, c *call) error {
	if err := c.none(); err != nil {
		return err
	}
	var l store.SandboxConfig
	daily, timeout := c.options.text["daily"], c.options.text["timeout"]
	if daily == "" && timeout == "" {
		done, err := c.ask(ctx, "sandbox_config_get", nil, &l)
		if done || err != nil {
			return err
		}
		return limitText(c.Out, l)
	}
	raw, err := c.do(ctx, "sandbox_config_get", nil) // what is not named stays
	if err := firstError(err, json.Unmarshal(raw, &l)); err != nil {
		return err
	}
	done, err := c.ask(ctx, "sandbox_config_set", map[string]string{"daily_run_limit": first(daily, strconv.Itoa(l.DailyRunLimit)), "total_timeout_ms": first(timeout, strconv.Itoa(l.TotalTimeoutMS))}, &l)
	if done || err != nil {
		return err
	}
	return limitText(c.Out, l)
}

func tokens(ctx context.Context, c *call) error {
	arg := func(i int) string {
		if i < len(c.args) {
			return c.args[i]
		}
		return ""
	}
	switch verb, n := arg(0), len(c.args); {
	case n == 0:
		var list struct{ Tokens []store.Token }
		done, err := c.ask(ctx, "tokens_list", nil, &list)
		if done || err != nil {
			return err
		}
		return tokenTable(c.Out, list.Tokens)
	case verb == "create" && (n == 3 || n == 4):
		var made struct{ Secret string }
		done, err := c.ask(ctx, "tokens_create", map[string]string{"name": arg(1), "role": arg(2), "permission_mode": arg(3)}, &made)
		if done || err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.Out, made.Secret)
		return err
	case verb == "revoke" && n == 2:
		var ended struct{ Name string }
		done, err := c.ask(ctx, "tokens_revoke", map[string]string{"name": arg(1)}, &ended)
		if done || err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.Out, "%s is ended\n", ended.Name)
		return err
	}
	return usage{"tokens takes nothing, or: create NAME ROLE [MODE], revoke NAME; ROLE is agent, viewer or operator"}
}
