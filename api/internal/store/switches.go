package store

import (
	"context"
	"fmt"
	"time"

	"xrayrunner/runner/protocol"
)

// Tools reads the switches.
func (db *DB) Tools(ctx context.Context) (map[string]bool, error) { return tools(ctx, db.read) }

func tools(ctx context.Context, q querier) (map[string]bool, error) {
	rows, err := q.QueryContext(ctx, `SELECT tool, enabled FROM tool_config`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]bool{}
	for rows.Next() {
		var tool string
		var on bool
		if err := rows.Scan(&tool, &on); err != nil {
			return nil, err
		}
		out[tool] = on
	}
	return out, rows.Err()
}

// SetTool turns a switch: skill_load or skill_run.
func (db *DB) SetTool(ctx context.Context, who Actor, tool string, on bool) error {
	err := db.operator(ctx, who, "tool_config_set", "", func(t *tx) (any, error) {
		return map[string]any{"tool": tool, "to": on}, oneRow(t.ExecContext(ctx, `UPDATE tool_config SET enabled = ? WHERE tool = ?`, on, tool))
	})
	if err != nil {
		return fmt.Errorf("switch %q: %w", tool, err)
	}
	return nil
}

// Sandbox reads the limits of the deployment.
func (db *DB) Sandbox(ctx context.Context) (SandboxConfig, error) { return sandbox(ctx, db.read) }

func sandbox(ctx context.Context, q querier) (SandboxConfig, error) {
	var c SandboxConfig
	err := q.QueryRowContext(ctx, `SELECT daily_run_limit, total_timeout_ms FROM sandbox_config WHERE one = 1`).Scan(&c.DailyRunLimit, &c.TotalTimeoutMS)
	return c, err
}

// DayRuns are the runs of this day (UTC) of the whole deployment.
func (db *DB) DayRuns(ctx context.Context) (int, error) {
	now, _ := db.stamp()
	var n int
	err := db.read.QueryRowContext(ctx, `SELECT coalesce((SELECT runs FROM daily_quota WHERE day = ?), 0)`, now.Format(time.DateOnly)).Scan(&n)
	return n, err
}

// Wrong says what is out of range; "" when nothing is.
func (c SandboxConfig) Wrong() string {
	if c.DailyRunLimit < 0 || c.TotalTimeoutMS < 5000 || c.TotalTimeoutMS > protocol.MaxTimeoutMS {
		return "daily_run_limit is 0 (none) or more; total_timeout_ms is from 5000 to 120000"
	}
	return ""
}

// SetSandbox sets the limits of the deployment.
func (db *DB) SetSandbox(ctx context.Context, who Actor, c SandboxConfig) error {
	if why := c.Wrong(); why != "" {
		return fmt.Errorf("%w: %s", ErrInvalid, why)
	}
	return db.operator(ctx, who, "sandbox_config_set", "", func(t *tx) (any, error) {
		return c, oneRow(t.ExecContext(ctx, `UPDATE sandbox_config SET daily_run_limit = ?, total_timeout_ms = ? WHERE one = 1`, c.DailyRunLimit, c.TotalTimeoutMS))
	})
}
