package agentmcp

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// Operator serves the operator's tools. log gets the causes of our own failures.
func Operator(d *operate.Desk, version string, log *slog.Logger) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: serverName + "-operator", Version: version}, &mcp.ServerOptions{
		Logger: sdkLog(), Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		Instructions: "Publish and open skills, and turn the switches. Everything done here is on the record under your token's name.",
	})
	o := operator{d, log}
	for _, t := range o.tools() {
		t.spec.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: t.reads, IdempotentHint: true, DestructiveHint: no(), OpenWorldHint: no()}
		server.AddTool(t.spec, o.handler(t))
	}
	return server
}

type operator struct {
	*operate.Desk
	log *slog.Logger
}

type operatorTool struct {
	spec  *mcp.Tool
	reads bool
	do    func(ctx context.Context, who store.Actor, args json.RawMessage) (any, *protocol.Problem, error)
}

const (
	nameSchema    = `{"type":"object","properties":{"name":{"type":"string","description":"name of the skill","maxLength":128}},"required":["name"],"additionalProperties":false}`
	agentSchema   = `{"type":"object","properties":{"name":{"type":"string","description":"name of the skill","maxLength":128},"enabled":{"type":"boolean"}},"required":["name","enabled"],"additionalProperties":false}`
	switchSchema  = `{"type":"object","properties":{"tool":{"type":"string","enum":["skill_load","skill_run"]},"enabled":{"type":"boolean"}},"required":["tool","enabled"],"additionalProperties":false}`
	sandboxSchema = `{"type":"object","properties":{"daily_run_limit":{"type":"integer","minimum":0,"description":"runs a day of the whole deployment; 0: no limit"},"total_timeout_ms":{"type":"integer","minimum":5000,"maximum":120000}},"required":["daily_run_limit","total_timeout_ms"],"additionalProperties":false}`
)

func (o operator) tools() []operatorTool {
	spec := func(name, schema, description string) *mcp.Tool {
		return &mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}
	}
	return []operatorTool{
		{spec("skills_list", emptySchema, "List the skills: kind, class, published, open to agents."), true, o.status},
		{spec("skills_agent_status", emptySchema, "Say for each skill: stored? published? open to agents? same or drift? available, and if not, why."), true, o.status},
		{spec("skills_publish", nameSchema, "Store the reviewed copy of a skill that this image carries, and publish it."), false, o.publish},
		{spec("skills_agent_set", agentSchema, "Open a skill to agents (binds at the next turn) or close it (binds at the next call)."), false, o.setAgent},
		{spec("tool_config_get", emptySchema, "Read the switches skill_load and skill_run, and whether skill_run is unlocked."), true, o.toolConfig},
		{spec("tool_config_set", switchSchema, "Turn skill_load or skill_run on or off, for everybody, at the next call."), false, o.setTool},
		{spec("sandbox_config_get", emptySchema, "Read the daily limit of runs and the time limit of a run."), true, o.sandboxConfig},
		{spec("sandbox_config_set", sandboxSchema, "Set the daily limit of runs (0: none) and the time limit of a run in milliseconds."), false, o.setSandbox},
	}
}

func (o operator) handler(t operatorTool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		raw := req.Params.Arguments
		if len(raw) == 0 {
			raw = json.RawMessage(`{}`)
		}
		c := callerOf(req)
		answer, refused, err := t.do(ctx, store.Actor{Token: c.Token.Name, Role: c.Token.Role, Caller: c.Via}, raw)
		switch {
		case err != nil:
			o.log.Error("operator call failed", "tool", t.spec.Name, "error", err.Error())
			return refusal(protocol.NewProblem(guard.GuardError, guard.GuardErrorReason)), nil
		case refused != nil:
			return refusal(refused), nil
		}
		return jsonText(answer), nil
	}
}

// arguments decodes strictly.
func arguments(raw json.RawMessage, into any) *protocol.Problem {
	if err := manifests.DecodeStrict(raw, into); err != nil {
		return protocol.NewProblem(protocol.BadRequest, "arguments at "+err.Place()+": "+err.Message)
	}
	return nil
}

func (o operator) status(ctx context.Context, _ store.Actor, raw json.RawMessage) (any, *protocol.Problem, error) {
	if refused := arguments(raw, &struct{}{}); refused != nil {
		return nil, refused, nil
	}
	all, err := o.Status(ctx)
	return map[string]any{"skills": all}, nil, err
}

func (o operator) publish(ctx context.Context, who store.Actor, raw json.RawMessage) (any, *protocol.Problem, error) {
	var args struct {
		Name string `json:"name"`
	}
	if refused := arguments(raw, &args); refused != nil {
		return nil, refused, nil
	}
	return result(o.Publish(ctx, who, args.Name))
}

func (o operator) setAgent(ctx context.Context, who store.Actor, raw json.RawMessage) (any, *protocol.Problem, error) {
	var args struct {
		Name    string `json:"name"`
		Enabled *bool  `json:"enabled"`
	}
	if refused := arguments(raw, &args); refused != nil {
		return nil, refused, nil
	}
	if args.Enabled == nil {
		return nil, protocol.NewProblem(protocol.BadRequest, "enabled must be true or false"), nil
	}
	return result(o.SetAgent(ctx, who, args.Name, *args.Enabled))
}

func (o operator) toolConfig(ctx context.Context, _ store.Actor, raw json.RawMessage) (any, *protocol.Problem, error) {
	if refused := arguments(raw, &struct{}{}); refused != nil {
		return nil, refused, nil
	}
	c, err := o.Tools(ctx)
	return c, nil, err
}

func (o operator) setTool(ctx context.Context, who store.Actor, raw json.RawMessage) (any, *protocol.Problem, error) {
	var args struct {
		Tool    string `json:"tool"`
		Enabled *bool  `json:"enabled"`
	}
	if refused := arguments(raw, &args); refused != nil {
		return nil, refused, nil
	}
	if args.Enabled == nil {
		return nil, protocol.NewProblem(protocol.BadRequest, "enabled must be true or false"), nil
	}
	return result(o.SetTool(ctx, who, args.Tool, *args.Enabled))
}

func (o operator) sandboxConfig(ctx context.Context, _ store.Actor, raw json.RawMessage) (any, *protocol.Problem, error) {
	if refused := arguments(raw, &struct{}{}); refused != nil {
		return nil, refused, nil
	}
	c, err := o.Store.Sandbox(ctx)
	return c, nil, err
}

func (o operator) setSandbox(ctx context.Context, who store.Actor, raw json.RawMessage) (any, *protocol.Problem, error) {
	var args struct {
		DailyRunLimit  *int `json:"daily_run_limit"`
		TotalTimeoutMS *int `json:"total_timeout_ms"`
	}
	if refused := arguments(raw, &args); refused != nil {
		return nil, refused, nil
	}
	if args.DailyRunLimit == nil || args.TotalTimeoutMS == nil {
		return nil, protocol.NewProblem(protocol.BadRequest, "daily_run_limit and total_timeout_ms are both needed: read them with sandbox_config_get"), nil
	}
	return result(o.SetSandbox(ctx, who, store.SandboxConfig{DailyRunLimit: *args.DailyRunLimit, TotalTimeoutMS: *args.TotalTimeoutMS}))
}

// result widens a typed answer.
func result[T any](v T, refused *protocol.Problem, err error) (any, *protocol.Problem, error) {
	return v, refused, err
}
