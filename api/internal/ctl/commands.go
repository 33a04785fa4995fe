package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

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

// change does an operation for each name and says how each skill is then.
func (c *call) change(ctx context.Context, operation string, args map[string]string) error {
	if err := c.names(); err != nil {
		return err
	}
	for _, name := range c.args {
		args["name"] = name
		var s operate.SkillStatus
		done, err := c.ask(ctx, operation, args, &s)
		if err == nil && !done {
			_, err = fmt.Fprintf(c.Out, "%s: %s\n", s.Name, sentence(s))
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		return c.change(ctx, "skills_agent_set", map[string]string{"enabled": strconv.FormatBool(enabled)})
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
	input, err := c.input()
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

func (c *call) input() ([]byte, error) {
	switch {
	case len(c.args) < 3:
		return []byte(`{}`), nil
	case c.args[2] == "-":
		return io.ReadAll(io.LimitReader(c.In, 1<<20))
	}
	return []byte(c.args[2]), nil
}

func audit(ctx context.Context, c *call) error {
	if len(c.args) == 0 {
		return search(ctx, c)
	}
	switch {
	case len(c.args) > 1:
	case c.args[0] == "verify":
		return verify(ctx, c)
	case c.args[0] == "export":
		return export(ctx, c)
	}
	return usage{"audit takes verify, export, or nothing (a search)"}
}

func (c *call) filter() map[string]string {
	args := map[string]string{}
	for _, name := range []string{"call", "session", "tool", "skill", "decision", "since", "until", "limit"} {
		args[name] = c.options.text[name]
	}
	return args
}

func search(ctx context.Context, c *call) error {
	args := c.filter()
	args["newest"], args["limit"] = "true", first(args["limit"], "20")
	var found struct{ Events []store.Event }
	done, err := c.ask(ctx, "audit_search", args, &found)
	if done || err != nil {
		return err
	}
	return eventTable(c.Out, found.Events)
}

func verify(ctx context.Context, c *call) error {
	var r store.VerifyReport
	var done bool
	var err error
	if name := c.options.text["file"]; name != "" {
		r, err = verifyFile(name, c.options.text["head"])
	} else {
		done, err = c.ask(ctx, "audit_verify", map[string]string{"head": c.options.text["head"]}, &r)
	}
	if err != nil {
		return err
	}
	if !done {
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
	path, err := exportPath(c.filter())
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
		return usage{"tools takes nothing, or: on TOOL, off TOOL (skill_load or skill_run)"}
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
	return usage{"tokens takes nothing, or: create NAME ROLE [MODE], revoke NAME"}
}
