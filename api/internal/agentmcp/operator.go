package agentmcp

import (
	"context"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/operations"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// Operator serves the operations as tools. log gets the causes of our own failures.
func Operator(d *operate.Desk, version string, log *slog.Logger) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: serverName + "-operator", Version: version}, &mcp.ServerOptions{
		Logger: sdkLog(), Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		Instructions: "Publish and open skills, turn the switches, read the record. Everything done here is on the record under your token's name.",
	})
	for _, o := range operations.All {
		if o.Name == operations.Export.Name {
			continue // many lines, and no tool result
		}
		server.AddTool(&mcp.Tool{Name: o.Name, Description: o.Text, InputSchema: o.Schema(),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: o.Reads, IdempotentHint: o.Name != "tokens_create", DestructiveHint: destroys(o), OpenWorldHint: no()}}, operation(d, o.Name, log))
	}
	return server
}

func destroys(o operations.Operation) *bool { d := o.Method == "DELETE"; return &d }

func operation(d *operate.Desk, name string, log *slog.Logger) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c := callerOf(req)
		answer, refused, err := d.Do(ctx, store.Actor{Token: c.Token.Name, Role: c.Token.Role, Caller: c.Via}, name, req.Params.Arguments)
		switch {
		case err != nil:
			log.Error("operator call failed", "tool", name, "error", err.Error())
			return refusal(protocol.NewProblem(guard.GuardError, guard.GuardErrorReason)), nil
		case refused != nil:
			return refusal(refused), nil
		}
		return jsonText(answer), nil
	}
}
