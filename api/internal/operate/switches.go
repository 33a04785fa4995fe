package operate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// ToolConfig is the two switches, and the key that no operator can turn from here.
type ToolConfig struct {
	SkillLoad bool   `json:"skill_load"`
	SkillRun  bool   `json:"skill_run"`
	Unlocked  bool   `json:"unlocked"` // XRAY_UNLOCK_DANGEROUS_TOOLS=1 in the api's environment
	Note      string `json:"note,omitempty"`
}

// Tools reads the switches.
func (d *Desk) Tools(ctx context.Context) (ToolConfig, error) {
	tools, err := d.Store.Tools(ctx)
	if err != nil {
		return ToolConfig{}, err
	}
	c := ToolConfig{SkillLoad: tools[guard.ToolLoad], SkillRun: tools[guard.ToolRun], Unlocked: d.Unlock}
	if c.SkillRun && !c.Unlocked {
		c.Note = "skill_run is on but locked: set XRAY_UNLOCK_DANGEROUS_TOOLS=1 in the api's environment and start it again"
	}
	return c, nil
}

// SetTool turns one switch; off binds at the next call, in every session.
func (d *Desk) SetTool(ctx context.Context, who store.Actor, tool string, on bool) (ToolConfig, *protocol.Problem, error) {
	if tool != guard.ToolLoad && tool != guard.ToolRun {
		return ToolConfig{}, protocol.NewProblem(protocol.BadRequest, "the switches are skill_load and skill_run"), nil
	}
	if err := d.Store.SetTool(ctx, who, tool, on); err != nil {
		return ToolConfig{}, nil, err
	}
	c, err := d.Tools(ctx)
	return c, nil, err
}

// SetSandbox sets the limits of the whole deployment.
func (d *Desk) SetSandbox(ctx context.Context, who store.Actor, c store.SandboxConfig) (store.SandboxConfig, *protocol.Problem, error) {
	if why := c.Wrong(); why != "" {
		return c, protocol.NewProblem(protocol.BadRequest, why), nil
	}
	if err := d.Store.SetSandbox(ctx, who, c); err != nil {
		return c, nil, err
	}
	c, err := d.Store.Sandbox(ctx)
	return c, nil, err
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

func hashed(files map[string]store.FileContent) map[string]store.StoredFile {
	out := map[string]store.StoredFile{}
	for path, f := range files {
		sum := sha256.Sum256(f.Bytes)
		out[path] = store.StoredFile{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(f.Bytes)), Exec: f.Exec}
	}
	return out
}
