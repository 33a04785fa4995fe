package ctl

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"xrayrunner/api/internal/operate"
	"xrayrunner/internal/sop"
)

func approvals(ctx context.Context, c *call) error {
	switch len(c.args) {
	case 0:
		var list struct {
			Approvals []operate.ApprovalView
			More      bool
		}
		done, err := c.ask(ctx, "approvals_list", map[string]string{"all": flagText(c.options.given["all"])}, &list)
		if done || err != nil {
			return err
		}
		if err := approvalTable(c.Out, list.Approvals); err != nil || !list.More {
			return err
		}
		_, err = fmt.Fprintln(c.Out, "There are more, which are older: decide on some of these first.")
		return err
	case 1:
		var v operate.ApprovalView
		done, err := c.ask(ctx, "approvals_get", map[string]string{"id": c.args[0]}, &v)
		if done || err != nil {
			return err
		}
		return approvalDetail(c.Out, v)
	}
	return usage{"one id, or none"}
}

func flagText(given bool) string {
	if given {
		return "true"
	}
	return ""
}

// decide approves or refuses one request. It shows what was decided on: the whole of it, not its name.
func decide(operation string) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		if len(c.args) != 1 {
			return usage{"which request? xrayctl approvals lists them"}
		}
		var v operate.ApprovalView
		done, err := c.ask(ctx, operation, map[string]string{"id": c.args[0], "reason": c.options.text["reason"]}, &v)
		if done || err != nil {
			return err
		}
		return approvalDetail(c.Out, v)
	}
}

func approvalTable(w io.Writer, all []operate.ApprovalView) error {
	table := [][]string{{"ID", "STATUS", "CLASS", "SKILL", "SCRIPT", "FOR", "APPROVED", "ENDS"}}
	for _, v := range all {
		table = append(table, []string{v.ID, v.Status, string(v.Class), visible(v.Skill), visible(v.Script), v.RequestedBy, approvedOf(v), v.Expires.UTC().Format(time.DateTime)})
	}
	return rows(w, table...)
}

func approvedOf(v operate.ApprovalView) string {
	n := 0
	for _, d := range v.Decisions {
		if d.Approve {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, v.Wanted)
}

// oneLine is for text whose hidden characters the api has escaped already: its quotes stay readable.
var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`)

func approvalDetail(w io.Writer, v operate.ApprovalView) error {
	table := [][]string{{"id", v.ID}, {"status", v.Status + " (" + approvedOf(v) + " have approved)"}, {"class", string(v.Class)},
		{"runs", visible(v.Script) + " of skill " + visible(v.Skill)}, {"which does", visible(v.Description)}, {"script sha256", v.ScriptSHA256},
		{"unchanged", yes(v.Current)}, {"input", oneLine.Replace(v.Input)}, {"for", v.RequestedBy + ", session " + v.Session},
		{"ends", v.Expires.UTC().Format(time.DateTime)}}
	if v.Procedure != "" {
		table = append(table, []string{"procedure", visible(v.Procedure)})
	}
	for _, d := range v.Decisions {
		word := "refused"
		if d.Approve {
			word = "approved"
		}
		table = append(table, []string{word + " by", strings.TrimSpace(d.Operator + " " + visible(d.Reason))})
	}
	return rows(w, table...)
}

// procedures signs and verifies here, without the api: a key that signs belongs on no server.
func procedures(ctx context.Context, c *call) error {
	verb := ""
	if len(c.args) > 0 {
		verb = c.args[0]
	}
	switch {
	case verb == "":
		return sopList(ctx, c)
	case verb == "sign" && len(c.args) == 1:
		return sopSign(c)
	case verb == "verify" && len(c.args) == 1:
		return sopVerify(c)
	case verb == "put" && len(c.args) == 1:
		return sopPut(ctx, c)
	}
	return usage{"sop takes nothing (a list), or: sign --key FILE --file DOCUMENT, verify --keys FILE --file DOCUMENT --signature FILE, put --file DOCUMENT --signature FILE"}
}

// contents reads the files that options name.
func (c *call) contents(options ...string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, o := range options {
		if c.options.text[o] == "" {
			return nil, usage{"--" + o + " is missing; xrayctl help sop shows how"}
		}
		raw, err := os.ReadFile(c.options.text[o])
		if err != nil {
			return nil, usage{err.Error()}
		}
		out[o] = raw
	}
	return out, nil
}

func sopSign(c *call) error {
	in, err := c.contents("key", "file")
	if err != nil {
		return err
	}
	signature, err := sop.Sign(in["key"], in["file"])
	if err != nil {
		return usage{err.Error()}
	}
	_, err = fmt.Fprintln(c.Out, sop.EncodeSignature(signature))
	return err
}

// sopVerify checks what can be checked without the script: who signed, and whether it is valid now.
func sopVerify(c *call) error {
	in, err := c.contents("keys", "file", "signature")
	if err != nil {
		return err
	}
	keys, err := sop.ParseKeys(in["keys"])
	if err != nil {
		return usage{"--keys: " + err.Error()}
	}
	signature, err := sop.DecodeSignature(string(in["signature"]))
	var d sop.Document
	if err == nil {
		d, err = sop.Parse(in["file"])
	}
	if err == nil {
		d, err = keys.Verify(in["file"], signature, sop.Target{Skill: d.Skill, Script: d.Script, ScriptSHA256: d.ScriptSHA256}, time.Now())
	}
	if err != nil {
		fmt.Fprintln(c.Out, "IT DOES NOT HOLD: "+visible(err.Error()))
		return errBad
	}
	_, err = fmt.Fprintf(c.Out, "it holds: %s, for %s of skill %s with sha256 %s, until %s\n", visible(d.Title), visible(d.Script), visible(d.Skill), d.ScriptSHA256, d.NotAfter.UTC().Format(time.DateTime))
	return err
}

func sopPut(ctx context.Context, c *call) error {
	in, err := c.contents("file", "signature")
	if err != nil {
		return err
	}
	var v operate.ProcedureView
	done, err := c.ask(ctx, "sop_put", map[string]string{"document": string(in["file"]), "signature": strings.TrimSpace(string(in["signature"]))}, &v)
	if done || err != nil {
		return err
	}
	return procedureTable(c.Out, []operate.ProcedureView{v})
}

func sopList(ctx context.Context, c *call) error {
	var list struct{ Procedures []operate.ProcedureView }
	done, err := c.ask(ctx, "sop_list", nil, &list)
	if done || err != nil {
		return err
	}
	return procedureTable(c.Out, list.Procedures)
}

func procedureTable(w io.Writer, all []operate.ProcedureView) error {
	table := [][]string{{"SKILL", "SCRIPT", "TITLE", "UNTIL", "HOLDS", "WHY"}}
	for _, p := range all {
		table = append(table, []string{visible(p.Skill), visible(p.Script), visible(p.Title), p.NotAfter.UTC().Format(time.DateTime), yes(p.Holds), visible(p.Why)})
	}
	return rows(w, table...)
}
