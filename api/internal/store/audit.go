package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Filter selects events; a zero field selects all.
type Filter struct {
	Call, Session, Tool, Skill, Decision string
	Since, Until                         time.Time // until is open: events before it
	AfterSeq                             int64
	Limit                                int  // 0: 100
	Newest                               bool // the newest first, instead of the oldest
}

const columns = `seq, time, kind, call, session, tool, skill, decision, body, prev, hash`

func scan(rows *sql.Rows) (row, error) {
	var r row
	err := rows.Scan(&r.seq, &r.time, &r.kind, &r.call, &r.session, &r.tool, &r.skill, &r.decision, &r.body, &r.prev, &r.hash)
	return r, err
}

// where is the filter as SQL.
func (f Filter) where() (string, []any) {
	where, args := []string{`seq > ?`}, []any{f.AfterSeq}
	add := func(condition string, arg any) { where, args = append(where, condition), append(args, arg) }
	for _, c := range []struct{ column, value string }{{"call", f.Call}, {"session", f.Session}, {"tool", f.Tool}, {"skill", f.Skill}, {"decision", f.Decision}} {
		if c.value != "" {
			add(c.column+` = ?`, c.value)
		}
	}
	if !f.Since.IsZero() {
		add(`time >= ?`, f.Since.UTC().Format(timeForm))
	}
	if !f.Until.IsZero() {
		add(`time < ?`, f.Until.UTC().Format(timeForm))
	}
	return strings.Join(where, ` AND `), args
}

// Events reads the record, the oldest first unless the filter says otherwise.
func (db *DB) Events(ctx context.Context, f Filter) ([]Event, error) {
	rows, err := db.rows(ctx, f)
	if err != nil {
		return nil, err
	}
	out := make([]Event, 0, len(rows))
	for _, r := range rows {
		out = append(out, Event{Seq: r.seq, Time: parseTime(r.time), Kind: r.kind, Call: r.call, Body: json.RawMessage(r.body), Prev: r.prev, Hash: r.hash})
	}
	return out, nil
}

func (db *DB) rows(ctx context.Context, f Filter) ([]row, error) {
	where, args := f.where()
	order := `seq`
	if f.Newest {
		order = `seq DESC`
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	rows, err := db.read.QueryContext(ctx, `SELECT `+columns+` FROM events WHERE `+where+` ORDER BY `+order+` LIMIT ?`, append(args, f.Limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []row
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// batch is how many events one read holds at once: a reader that stays open keeps SQLite's log from being emptied.
const batch = 5000

// Each gives every event that the filter selects, the oldest first, however many there are.
func (db *DB) Each(ctx context.Context, f Filter, give func(Event) error) error {
	f.Limit, f.Newest = batch, false
	for {
		events, err := db.Events(ctx, f)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := give(e); err != nil {
				return err
			}
			f.AfterSeq = e.Seq
		}
		if len(events) < batch {
			return nil
		}
	}
}

// Head is the last event's number and hash; 0 and "" when there is none.
func (db *DB) Head(ctx context.Context) (int64, string, error) { return head(ctx, db.read) }

func head(ctx context.Context, q querier) (seq int64, hash string, err error) {
	err = q.QueryRowContext(ctx, `SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1`).Scan(&seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return seq, hash, err
}
