package operate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"xrayrunner/api/internal/operations"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// Args are an operation's arguments, checked against its description.
type Args map[string]json.RawMessage

func (a Args) text(name string) string {
	var s string
	_ = json.Unmarshal(a[name], &s) // checked
	return s
}

func (a Args) flag(name string) bool { return string(a[name]) == "true" }

func (a Args) number(name string) int64 {
	var n int64
	_ = json.Unmarshal(a[name], &n)
	return n
}

// handlers do what operations.All describes, all but the export.
var handlers = map[string]func(*Desk, context.Context, store.Actor, Args) (any, *protocol.Problem, error){
	"status": func(d *Desk, ctx context.Context, _ store.Actor, _ Args) (any, *protocol.Problem, error) {
		return answer(d.Overview(ctx))
	},
	"skills_list":         (*Desk).list,
	"skills_agent_status": (*Desk).list,
	"skills_get": func(d *Desk, ctx context.Context, _ store.Actor, a Args) (any, *protocol.Problem, error) {
		return wide(d.Skill(ctx, a.text("name")))
	},
	"skills_put":         (*Desk).put,
	"skills_delete":      (*Desk).deleteSkill,
	"skills_publish":     (*Desk).publish,
	"skills_unpublish":   (*Desk).unpublish,
	"skills_file_put":    (*Desk).filePut,
	"skills_file_delete": (*Desk).fileDelete,
	"skills_agent_set":   (*Desk).agentSet,
	"tools_list":         (*Desk).toolsList,
	"tool_config_get": func(d *Desk, ctx context.Context, _ store.Actor, _ Args) (any, *protocol.Problem, error) {
		return answer(d.Tools(ctx))
	},
	"tool_config_set": (*Desk).toolSet,
	"sandbox_config_get": func(d *Desk, ctx context.Context, _ store.Actor, _ Args) (any, *protocol.Problem, error) {
		return answer(d.Store.Sandbox(ctx))
	},
	"sandbox_config_set": (*Desk).sandboxSet,
	"approvals_list":     (*Desk).approvals,
	"approvals_get":      (*Desk).approval,
	"approvals_approve":  (*Desk).approve,
	"approvals_deny":     (*Desk).deny,
	"sop_list":           (*Desk).procedures,
	"sop_put":            (*Desk).sopPut,
	"sop_delete":         (*Desk).sopDelete,
	"tokens_list":        (*Desk).tokens,
	"tokens_create":      (*Desk).tokenCreate,
	"tokens_revoke":      (*Desk).tokenRevoke,
	"audit_search":       (*Desk).search,
	"audit_verify": func(d *Desk, ctx context.Context, _ store.Actor, a Args) (any, *protocol.Problem, error) {
		return answer(d.Store.Verify(ctx, a.text("head")))
	},
}

// Do does one operation. raw is the JSON object of its arguments.
func (d *Desk) Do(ctx context.Context, who store.Actor, name string, raw json.RawMessage) (any, *protocol.Problem, error) {
	o, known := operations.Find(name)
	do := handlers[name]
	if !known || do == nil {
		return nil, protocol.NewProblem(protocol.NotFound, "there is no operation "+name), nil
	}
	args, refused := Arguments(o, raw)
	if refused != nil {
		return nil, refused, nil
	}
	v, refused, err := do(d, ctx, who, args)
	if errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrExists) {
		return nil, protocol.NewProblem(protocol.BadRequest, err.Error()), nil
	}
	return v, refused, err
}

// Arguments decodes strictly and checks against the description.
func Arguments(o operations.Operation, raw json.RawMessage) (Args, *protocol.Problem) {
	if len(raw) == 0 {
		raw = json.RawMessage(`{}`)
	}
	args := Args{}
	if err := manifests.DecodeStrict(raw, &args); err != nil {
		return nil, protocol.NewProblem(protocol.BadRequest, "arguments at "+err.Place()+": "+err.Message)
	}
	if why := o.Check(args); why != "" {
		return nil, protocol.NewProblem(protocol.BadRequest, why)
	}
	return args, nil
}

func answer[T any](v T, err error) (any, *protocol.Problem, error) { return v, nil, err }

func wide[T any](v T, refused *protocol.Problem, err error) (any, *protocol.Problem, error) {
	return v, refused, err
}

func (d *Desk) list(ctx context.Context, _ store.Actor, _ Args) (any, *protocol.Problem, error) {
	d.renew()
	skills, err := d.Status(ctx)
	if err != nil {
		return nil, nil, err
	}
	tools, err := d.OwnTools(ctx)
	return map[string]any{"skills": skills, "tools": tools}, nil, err
}

func (d *Desk) toolsList(ctx context.Context, _ store.Actor, _ Args) (any, *protocol.Problem, error) {
	tools, err := d.OwnTools(ctx)
	return map[string]any{"tools": tools}, nil, err
}

func (d *Desk) publish(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	if a.text("from") == "stored" {
		return d.published(ctx, who, a.text("name"), true)
	}
	return wide(d.Publish(ctx, who, a.text("name")))
}

func (d *Desk) unpublish(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	return d.published(ctx, who, a.text("name"), false)
}

func (d *Desk) published(ctx context.Context, who store.Actor, name string, on bool) (any, *protocol.Problem, error) {
	if refused, err := d.stored(name, d.Store.SetPublished(ctx, who, name, on)); refused != nil || err != nil {
		return nil, refused, err
	}
	return wide(d.one(ctx, name))
}

func (d *Desk) agentSet(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	d.renew()
	return wide(d.SetAgent(ctx, who, a.text("name"), a.flag("enabled"), a.flag("confirm_class")))
}

func (d *Desk) toolSet(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	return wide(d.SetTool(ctx, who, a.text("tool"), a.flag("enabled")))
}

func (d *Desk) sandboxSet(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	return wide(d.SetSandbox(ctx, who, store.SandboxConfig{DailyRunLimit: int(a.number("daily_run_limit")), TotalTimeoutMS: int(a.number("total_timeout_ms"))}))
}

func (d *Desk) deleteSkill(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	name := a.text("name")
	refused, err := d.stored(name, d.Store.DeleteSkill(ctx, who, name))
	return map[string]any{"name": name, "stored": false}, refused, err
}

func (d *Desk) fileDelete(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	err := d.Store.DeleteFile(ctx, who, a.text("name"), a.text("path"))
	if isNotFound(err) {
		return nil, protocol.NewProblem(protocol.NotFound, "skill "+a.text("name")+" has no stored file "+a.text("path")), nil
	}
	if err != nil {
		return nil, nil, err
	}
	return wide(d.one(ctx, a.text("name")))
}

func (d *Desk) filePut(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	f, refused := content(a.text("content"), a.text("encoding"), a.flag("exec"))
	if refused != nil {
		return nil, refused, nil
	}
	if refused, err := d.stored(a.text("name"), d.Store.PutFile(ctx, who, a.text("name"), a.text("path"), f)); refused != nil || err != nil {
		return nil, refused, err
	}
	return wide(d.one(ctx, a.text("name")))
}

func (d *Desk) put(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	var given map[string]struct {
		Content  string `json:"content"`
		Encoding string `json:"encoding"`
		Exec     bool   `json:"exec"`
	}
	if err := manifests.DecodeStrict(a["files"], &given); err != nil {
		return nil, protocol.NewProblem(protocol.BadRequest, "files at "+err.Place()+": "+err.Message), nil
	}
	name := a.text("name")
	if d.lock().Skills[name] == nil {
		return nil, d.unknown(name), nil
	}
	files := map[string]store.FileContent{}
	for path, g := range given {
		f, refused := content(g.Content, g.Encoding, g.Exec)
		if refused != nil {
			return nil, refused, nil
		}
		files[path] = f
	}
	if err := d.Store.PutSkill(ctx, who, name, files); err != nil {
		return nil, nil, err
	}
	return wide(d.one(ctx, name))
}

func content(text, encoding string, exec bool) (store.FileContent, *protocol.Problem) {
	f := store.FileContent{Bytes: []byte(text), Exec: exec}
	if encoding != "base64" {
		return f, nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return f, protocol.NewProblem(protocol.BadRequest, "content is not base64")
	}
	f.Bytes = raw
	return f, nil
}

// stored turns "there is no such row" into what to do about it.
func (d *Desk) stored(name string, err error) (*protocol.Problem, error) {
	switch {
	case !isNotFound(err):
		return nil, err
	case d.lock().Skills[name] == nil:
		return d.unknown(name), nil
	}
	return protocol.NewProblem(protocol.NotFound, "skill "+name+" is not stored yet: call skills_publish first"), nil
}

func (d *Desk) tokens(ctx context.Context, _ store.Actor, _ Args) (any, *protocol.Problem, error) {
	all, err := d.Store.Tokens(ctx)
	if all == nil {
		all = []store.Token{}
	}
	return map[string]any{"tokens": all}, nil, err
}

func (d *Desk) tokenCreate(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	mode := store.Mode(a.text("permission_mode"))
	if mode == "" {
		mode = store.ModeReadOnly
	}
	secret, err := d.Store.CreateToken(ctx, who, a.text("name"), store.Role(a.text("role")), mode)
	return map[string]any{"name": a.text("name"), "role": a.text("role"), "permission_mode": mode, "secret": secret}, nil, err
}

func (d *Desk) tokenRevoke(ctx context.Context, who store.Actor, a Args) (any, *protocol.Problem, error) {
	if a.text("name") == who.Token { // the last operator's token would be gone, and only the api's host could make another
		return nil, protocol.NewProblem(protocol.BadRequest, who.Token+" is the token of this call, and ending it would lock you out: make another operator's token and end this one with that"), nil
	}
	err := d.Store.RevokeToken(ctx, who, a.text("name"))
	if isNotFound(err) {
		return nil, protocol.NewProblem(protocol.NotFound, "there is no valid token "+a.text("name")), nil
	}
	return map[string]any{"name": a.text("name"), "revoked": true}, nil, err
}

func (d *Desk) search(ctx context.Context, _ store.Actor, a Args) (any, *protocol.Problem, error) {
	f, refused := Filter(a)
	if refused != nil {
		return nil, refused, nil
	}
	events, err := d.Store.Events(ctx, f)
	return map[string]any{"events": events}, nil, err
}

// Filter reads what the search and the export select.
func Filter(a Args) (store.Filter, *protocol.Problem) {
	f := store.Filter{Call: a.text("call"), Session: a.text("session"), Tool: a.text("tool"), Skill: a.text("skill"), Decision: a.text("decision"),
		AfterSeq: a.number("after_seq"), Limit: int(a.number("limit")), Newest: a.flag("newest")}
	for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		v := a.text(name)
		if v == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return f, protocol.NewProblem(protocol.BadRequest, name+" must be a time like 2026-01-31T12:00:00Z")
		}
		*to = t
	}
	return f, nil
}

// switchOf is the switch of an agent's tool, "" when it has none.
func switchOf(tool string) string {
	if tool == guard.ToolLoad || tool == guard.ToolRun {
		return tool
	}
	return ""
}
