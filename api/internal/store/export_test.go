package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
)

// Pools gives the tests both pools: what holds on one connection must hold on each.
func (db *DB) Pools() (write, read *sql.DB) { return db.write.DB, db.read.DB }

// What the tests compare with.
const (
	MaxValue     = maxValue
	MaxTurns     = maxTurns
	Batch        = batch
	MinRetention = minRetention
)

// Fill appends n events of so many bytes, many in one transaction: what a year of calls leaves behind.
func (db *DB) Fill(ctx context.Context, n, bytes int) error {
	body, err := json.Marshal(map[string]string{"decision": "allow", "session": "s", "skill": "text-lines", "tool": "skill_run", "input": strings.Repeat("x", bytes)})
	if err != nil {
		return err
	}
	return db.writing(ctx, func(t *tx) error {
		r := row{kind: "opened", call: "c", session: "s", tool: "skill_run", skill: "text-lines", decision: "allow", body: string(body)}
		if r.seq, r.prev, err = head(ctx, t); err != nil {
			return err
		}
		for range n {
			r.seq++
			_, r.time = db.stamp()
			r.hash = r.digest()
			if _, err := t.ExecContext(ctx, `INSERT INTO events (seq, time, kind, call, session, tool, skill, decision, body, prev, hash) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
				r.seq, r.time, r.kind, r.call, r.session, r.tool, r.skill, r.decision, r.body, r.prev, r.hash); err != nil {
				return err
			}
			r.prev = r.hash
		}
		return nil
	})
}
