package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"xrayrunner/guard"
)

// guardPanic is the verdict on a judge that panicked: rule 6, in the guard's own words.
var guardPanic = Verdict{Code: string(guard.GuardError), Rule: 6, Reason: guard.GuardErrorReason}

// Begin judges a call and, when it is allowed, reserves its places and opens it, all in one transaction. A refused
// call is opened and closed at once.
func (db *DB) Begin(ctx context.Context, c Call, judge func(State) Verdict) (Verdict, error) {
	var v Verdict
	err := db.writing(ctx, func(tx *sql.Tx) error {
		now, _ := db.stamp()
		day := now.Format(time.DateOnly)
		st, err := state(ctx, tx, c, day)
		if err != nil {
			return err
		}
		v = judged(judge, st)
		body := openedBody(c, v)
		if err := db.append(ctx, tx, "opened", c.ID, body); err != nil {
			return err
		}
		if !v.Allowed {
			if err := db.append(ctx, tx, "closed", c.ID, closedBody(body, Closing{Outcome: v.Code, Error: v.Reason})); err != nil {
				return err
			}
			return db.touch(ctx, tx, c.Session) // a refused call is one too: a client that hammers is neither quiet nor idle
		}
		return reserve(ctx, tx, c, day, body)
	})
	if err != nil {
		return Verdict{}, fmt.Errorf("begin call: %w", err)
	}
	return v, nil
}

func judged(judge func(State) Verdict, st State) (v Verdict) {
	defer func() {
		if recover() != nil {
			v = guardPanic
		}
	}()
	return judge(st)
}

func state(ctx context.Context, tx *sql.Tx, c Call, day string) (State, error) {
	var st State
	var err error
	if c.Session != "" {
		if st.Session, err = session(ctx, tx, `id = ? AND token = ?`, c.Session, c.Token); err != nil {
			return st, err
		}
		if err := counts(ctx, tx, c, &st); err != nil {
			return st, err
		}
	}
	err = tx.QueryRowContext(ctx, `SELECT runs FROM daily_quota WHERE day = ?`, day).Scan(&st.DayRuns)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return st, err
	}
	if st.Tools, err = tools(ctx, tx); err != nil {
		return st, err
	}
	if st.Skills, err = skills(ctx, tx, c.Skill); err != nil {
		return st, err
	}
	st.Sandbox, err = sandbox(ctx, tx)
	return st, err
}

func counts(ctx context.Context, tx *sql.Tx, c Call, st *State) error {
	if err := tx.QueryRowContext(ctx, `SELECT runs FROM sessions WHERE id = ?`, c.Session).Scan(&st.SessionRuns); err != nil {
		return err
	}
	err := tx.QueryRowContext(ctx, `SELECT runs FROM turns WHERE session = ? AND turn = ?`, c.Session, c.Turn).Scan(&st.TurnRuns)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

func reserve(ctx context.Context, tx *sql.Tx, c Call, day string, body map[string]any) error {
	if c.Counts {
		if err := count(ctx, tx, c.Session, c.Turn, day, +1); err != nil {
			return err
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO open_calls (id, session, turn, counted, day, body) VALUES (?, ?, ?, ?, ?, ?)`, c.ID, c.Session, c.Turn, c.Counts, day, string(text))
	return err
}

// count adds one place to turn, session and day, or gives one back.
func count(ctx context.Context, tx *sql.Tx, session, turn, day string, d int) error {
	for _, s := range []struct {
		statement string
		args      []any
	}{
		{`UPDATE sessions SET runs = runs + ? WHERE id = ?`, []any{d, session}},
		{`INSERT INTO turns (session, turn, runs) VALUES (?, ?, max(0, ?)) ON CONFLICT (session, turn) DO UPDATE SET runs = runs + ?`, []any{session, turn, d, d}},
		{`INSERT INTO daily_quota (day, runs) VALUES (?, max(0, ?)) ON CONFLICT (day) DO UPDATE SET runs = runs + ?`, []any{day, d, d}},
	} {
		if _, err := tx.ExecContext(ctx, s.statement, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// endTime is how long a closing may take: the caller may have gone, the record must be closed all the same.
const endTime = 10 * time.Second

// End closes an open call. It gives the places back when the run never started. ErrNotOpen when it is not open:
// there is never a second closed event.
func (db *DB) End(ctx context.Context, c Call, cl Closing) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := db.writing(ctx, func(tx *sql.Tx) error { return db.end(ctx, tx, c.ID, cl) })
	if err != nil {
		return fmt.Errorf("end call %s: %w", c.ID, err)
	}
	return nil
}

func (db *DB) end(ctx context.Context, tx *sql.Tx, id string, cl Closing) error {
	var session, turn, day, text string
	var counted bool
	err := tx.QueryRowContext(ctx, `DELETE FROM open_calls WHERE id = ? RETURNING session, turn, counted, day, body`, id).Scan(&session, &turn, &counted, &day, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotOpen
	}
	if err != nil {
		return err
	}
	if counted && !cl.Started {
		if err := count(ctx, tx, session, turn, day, -1); err != nil {
			return err
		}
	}
	var opened map[string]any
	if err := json.Unmarshal([]byte(text), &opened); err != nil {
		return err
	}
	if err := db.append(ctx, tx, "closed", id, closedBody(opened, cl)); err != nil {
		return err
	}
	return db.touch(ctx, tx, session)
}

// CloseLost closes every call that a former life left open, with the outcome lost: the run may have happened, so
// the quota is kept.
func (db *DB) CloseLost(ctx context.Context) (int, error) {
	n := 0
	err := db.writing(ctx, func(tx *sql.Tx) error {
		ids, err := openCalls(ctx, tx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := db.end(ctx, tx, id, Closing{Outcome: "lost", Error: "the api ended before the answer came", Started: true}); err != nil {
				return err
			}
		}
		n = len(ids)
		return nil
	})
	return n, err
}

func openCalls(ctx context.Context, tx *sql.Tx) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT id FROM open_calls ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
