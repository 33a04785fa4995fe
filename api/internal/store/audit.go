package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Filter selects events; a zero field selects all.
type Filter struct {
	Session, Tool, Skill, Decision string
	Since, Until                   time.Time
	AfterSeq                       int64
	Limit                          int // 0: 100
}

const columns = `seq, time, kind, call, session, tool, skill, decision, body, prev, hash`

func scan(rows *sql.Rows) (row, error) {
	var r row
	err := rows.Scan(&r.seq, &r.time, &r.kind, &r.call, &r.session, &r.tool, &r.skill, &r.decision, &r.body, &r.prev, &r.hash)
	return r, err
}

// Events reads the record, the oldest first.
func (db *DB) Events(ctx context.Context, f Filter) ([]Event, error) {
	where, args := []string{`seq > ?`}, []any{f.AfterSeq}
	for _, c := range []struct{ column, value string }{{"session", f.Session}, {"tool", f.Tool}, {"skill", f.Skill}, {"decision", f.Decision}} {
		if c.value != "" {
			where, args = append(where, c.column+` = ?`), append(args, c.value)
		}
	}
	if !f.Since.IsZero() {
		where, args = append(where, `time >= ?`), append(args, f.Since.UTC().Format(timeForm))
	}
	if !f.Until.IsZero() {
		where, args = append(where, `time < ?`), append(args, f.Until.UTC().Format(timeForm))
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	rows, err := db.read.QueryContext(ctx, `SELECT `+columns+` FROM events WHERE `+strings.Join(where, ` AND `)+` ORDER BY seq LIMIT ?`, append(args, f.Limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Event
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, Event{Seq: r.seq, Time: parseTime(r.time), Kind: r.kind, Call: r.call, Body: json.RawMessage(r.body), Prev: r.prev, Hash: r.hash})
	}
	return out, rows.Err()
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

// VerifyReport says whether the record is whole.
type VerifyReport struct {
	OK     bool   `json:"ok"`
	Events int64  `json:"events"`
	Head   string `json:"head"`
	BadSeq int64  `json:"bad_seq,omitempty"` // the first event that is wrong
	Reason string `json:"reason,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Verify walks the whole chain. head, when not empty, is a hash that was kept outside: it must occur.
func (db *DB) Verify(ctx context.Context, head string) (VerifyReport, error) {
	rows, err := db.read.QueryContext(ctx, `SELECT `+columns+` FROM events ORDER BY seq`)
	if err != nil {
		return VerifyReport{}, err
	}
	defer rows.Close()
	report, seen, prev := VerifyReport{OK: true}, false, ""
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return report, err
		}
		if why := wrong(r, report.Events, prev); why != "" {
			report.OK, report.BadSeq, report.Reason = false, r.seq, why
			return report, nil
		}
		report.Events, prev = r.seq, r.hash
		seen = seen || r.hash == head
	}
	report.Head = prev
	switch {
	case head == "":
		report.Note = "no outside head was given: a rewrite from some event to the end cannot be seen"
	case !seen:
		report.OK, report.Reason = false, "the head "+head+" does not occur: the record was rewritten or cut after it was taken"
	}
	return report, rows.Err()
}

func wrong(r row, last int64, prev string) string {
	switch {
	case r.seq != last+1:
		return fmt.Sprintf("event %d is missing: after %d comes %d", last+1, last, r.seq)
	case r.prev != prev:
		return fmt.Sprintf("event %d does not follow event %d: one of them was changed, moved or put in", r.seq, last)
	case r.digest() != r.hash:
		return fmt.Sprintf("event %d was changed", r.seq)
	}
	return ""
}
