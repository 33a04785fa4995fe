package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/operations"
	"xrayrunner/api/internal/store"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// rows prints a table; the first row is its head. Lines do not end in blanks: they would wrap on a narrow terminal.
func rows(w io.Writer, all ...[]string) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	for _, r := range all {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func escape(s string) string { return url.PathEscape(s) }

func overview(w io.Writer, o operate.Overview) error {
	ready := yes(o.Ready.Ready)
	if len(o.Ready.Reasons) > 0 {
		ready += ": " + strings.Join(o.Ready.Reasons, "; ")
	}
	runner := o.Ready.Runner
	if o.Runner != nil {
		runner += fmt.Sprintf(", tier %s, %d of %d running, %d of %d waiting", o.Runner.Tier, o.Runner.Running, o.Runner.Slots, o.Runner.Waiting, o.Runner.Queue)
	}
	var states []string
	for _, state := range slices.Sorted(maps.Keys(o.Skills)) {
		states = append(states, fmt.Sprintf("%d %s", o.Skills[state], state))
	}
	return rows(w,
		[]string{"ready", ready},
		[]string{"version", o.Version},
		[]string{"runner", runner},
		[]string{"starts programs", "no (" + o.Ready.NoSpawn + ")"},
		[]string{"skills", strings.Join(states, ", ")},
		[]string{"switches", "skill_load " + onOff(o.Tools.SkillLoad) + ", skill_run " + onOff(o.Tools.SkillRun) + ", unlocked " + yes(o.Tools.Unlocked)},
		[]string{"runs today", today(o.DayRuns, o.Limits.DailyRunLimit)},
		[]string{"record", fmt.Sprintf("%d events, head %s", o.Record.Events, o.Record.Head)})
}

func today(runs, limit int) string {
	if limit == 0 {
		return fmt.Sprintf("%d, no limit", runs)
	}
	return fmt.Sprintf("%d of %d", runs, limit)
}

func skillTable(w io.Writer, list skillList) error {
	all := [][]string{{"NAME", "SCOPE", "KIND", "CLASS", "PUBLISHED", "ENABLED", "STATE", "WHY"}}
	for _, s := range list.Skills {
		all = append(all, []string{s.Name, s.Scope, string(s.Kind), string(s.Class), yes(s.Published), yes(s.AgentEnabled), s.State(), s.Why})
	}
	for _, t := range list.Tools {
		if slices.Contains(t.Roles, "agent") { // the operators' own are in: xrayctl tools
			all = append(all, []string{t.Name, t.Scope, "tool", "", "", "", onOff(t.Enabled), ""})
		}
	}
	return rows(w, all...)
}

func skillDetail(w io.Writer, s operate.SkillDetail) error {
	if _, err := fmt.Fprintf(w, "%s: %s\n%s\n\n", s.Name, sentence(s.SkillStatus), s.Description); err != nil {
		return err
	}
	if s.Digest != "" {
		if _, err := fmt.Fprintf(w, "folder %s\n\n", s.Digest); err != nil {
			return err
		}
	}
	all := [][]string{{"SCRIPT", "CLASS", "ASKS", "DRY RUN", "FOLDERS"}}
	for _, name := range slices.Sorted(maps.Keys(s.Scripts)) {
		f := s.Scripts[name]
		all = append(all, []string{visible(name), string(f.Class), asks(f.Asks), f.DryRun, folders(f.Mounts)})
	}
	if len(all) > 1 {
		if err := errors.Join(rows(w, all...), rows(w, nil)); err != nil {
			return err
		}
	}
	all = [][]string{{"FILE", "STATE", "REVIEWED", "STORED"}}
	for _, f := range s.Files {
		all = append(all, []string{f.Path, f.State, short(f.Reviewed), short(f.Stored)})
	}
	if len(all) == 1 { // an external skill: its digest stands for its files
		return nil
	}
	return rows(w, all...)
}

// asks is how many operators must agree.
func asks(operators int) string {
	if operators == 0 {
		return "nobody"
	}
	return fmt.Sprint(operators)
}

func folders(list []manifests.Mount) string {
	var out []string
	for _, m := range list {
		out = append(out, m.Name+":"+m.Mode)
	}
	return strings.Join(out, ",")
}

// sentence is a skill's state in words.
func sentence(s operate.SkillStatus) string {
	if s.Available {
		return "available to agents"
	}
	if strings.HasPrefix(s.Why, s.State()+": ") {
		return s.Why
	}
	return s.State() + ", " + s.Why
}

func short(hash string) string { return hash[:min(12, len(hash))] }

// driftTable names the files of the skills that drift; quiet looks only.
func driftTable(w io.Writer, all []operate.SkillStatus, only []string, quiet bool) (bool, error) {
	for _, name := range only {
		if !slices.ContainsFunc(all, func(s operate.SkillStatus) bool { return s.Name == name }) {
			return false, usage{"there is no skill " + name + "; xrayctl skills lists them"}
		}
	}
	table := [][]string{{"SKILL", "DRIFT"}}
	for _, s := range all {
		if len(only) > 0 && !slices.Contains(only, s.Name) {
			continue
		}
		for _, d := range s.Drift {
			table = append(table, []string{s.Name, d})
		}
	}
	found := len(table) > 1
	switch {
	case quiet:
		return found, nil
	case !found:
		_, err := fmt.Fprintln(w, "no drift: every stored copy is the reviewed one")
		return false, err
	}
	return true, rows(w, table...)
}

// ran prints how a run ended; the result itself stands alone, so that it can be piped.
func (c *call) ran(raw []byte) error {
	var r struct {
		CallID string `json:"call_id"`
		protocol.Result
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	var err error
	if c.options.json {
		_, err = c.Out.Write(raw)
	} else {
		if text := string(r.Result.Result); text != "" && (text != "null" || r.Outcome == protocol.OK) { // a run that failed has no result
			fmt.Fprintln(c.Out, text)
		}
		if r.Stderr != "" {
			fmt.Fprint(c.Err, r.Stderr)
		}
		_, err = fmt.Fprintf(c.Err, "%s in %.0f ms; in the record: xrayctl audit --call %s\n", strings.TrimSpace(string(r.Outcome)+" "+r.Detail), r.Usage.WallMS, r.CallID)
	}
	if err == nil && r.Outcome != protocol.OK {
		return errBad
	}
	return err
}

func eventTable(w io.Writer, events []store.Event) error {
	if len(events) == 0 {
		_, err := fmt.Fprintln(w, "no such event in the record")
		return err
	}
	all := [][]string{{"SEQ", "TIME (UTC)", "KIND", "TOOL", "SKILL", "SCRIPT", "DECISION", "OUTCOME", "TOKEN", "CALL OR CHANGE"}}
	for _, e := range slices.Backward(events) { // the newest last, where the eye is
		var b struct {
			Tool, Skill, Script, Decision, Code, Outcome, Token string
			Change                                              map[string]json.RawMessage
		}
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return err
		}
		if b.Code != "" {
			b.Decision += ": " + b.Code
		}
		all = append(all, []string{fmt.Sprint(e.Seq), e.Time.UTC().Format(time.DateTime), e.Kind, b.Tool, visible(b.Skill), visible(b.Script), b.Decision, b.Outcome, b.Token, first(e.Call, changeText(b.Change))})
	}
	return rows(w, all...)
}

// changeText is what an operator changed, like "to=false tool=skill_run". Of files it says how many.
func changeText(change map[string]json.RawMessage) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(change)) {
		text := strings.Trim(string(change[name]), `"`)
		var many map[string]json.RawMessage
		if json.Unmarshal(change[name], &many) == nil && many != nil {
			text = fmt.Sprint(len(many))
		}
		parts = append(parts, name+"="+visible(text))
	}
	return strings.Join(parts, " ")
}

// visible quotes what a terminal would act upon.
func visible(s string) string { q := fmt.Sprintf("%q", s); return q[1 : len(q)-1] }

func verdict(w io.Writer, r store.VerifyReport) error {
	text := fmt.Sprintf("the record is whole: events %d to %d, head %s\n", r.First, r.Events, r.Head)
	if !r.OK {
		text = "THE RECORD IS NOT WHOLE: " + r.Reason + "\n"
	}
	if r.Note != "" {
		text += "note: " + r.Note + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func exportPath(args map[string]string) (string, error) {
	given := map[string]json.RawMessage{}
	for _, a := range operations.Export.Args {
		if args[a.Name] != "" {
			given[a.Name] = a.FromText(args[a.Name])
		}
	}
	if why := operations.Export.Check(given); why != "" {
		return "", usage{why}
	}
	path, _ := operations.Export.Request(given)
	return path, nil
}

func toolTable(w io.Writer, tools []operate.OwnTool) error {
	all := [][]string{{"NAME", "SCOPE", "ROLES", "CHANGES", "STATE", "WHAT"}}
	for _, t := range tools {
		all = append(all, []string{t.Name, t.Scope, strings.Join(t.Roles, ","), yes(!t.Reads), onOff(t.Enabled), t.Text})
	}
	return rows(w, all...)
}

func switchText(w io.Writer, t operate.ToolConfig) error {
	text := fmt.Sprintf("skill_load %s, skill_run %s, unlocked %s\n", onOff(t.SkillLoad), onOff(t.SkillRun), yes(t.Unlocked))
	if t.Note != "" {
		text += "note: " + t.Note + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func limitText(w io.Writer, l store.SandboxConfig) error {
	daily := "no limit"
	if l.DailyRunLimit > 0 {
		daily = fmt.Sprint(l.DailyRunLimit)
	}
	return rows(w, []string{"runs a day", daily}, []string{"time of a run", fmt.Sprintf("%d ms", l.TotalTimeoutMS)})
}

func tokenTable(w io.Writer, tokens []store.Token) error {
	all := [][]string{{"NAME", "ROLE", "MODE", "CREATED (UTC)", "STATE"}}
	for _, t := range tokens {
		state := "valid"
		if t.Revoked {
			state = "revoked"
		}
		all = append(all, []string{t.Name, string(t.Role), string(t.Mode), t.Created.UTC().Format(time.DateTime), state})
	}
	return rows(w, all...)
}
