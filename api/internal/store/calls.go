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
	err := db.writing(ctx, func(t *tx) error {
		now, _ := db.stamp()
		day := now.Format(time.DateOnly)
		st, err := db.state(ctx, t, c, day)
		if err != nil {
			return err
		}
		v = judged(judge, st)
		if v.Request != nil && !v.Allowed {
			if v.Approval, err = db.request(ctx, t, c, *v.Request); err != nil {
				return err
			}
		}
		body := openedBody(c, v)
		opened, err := db.append(ctx, t, "opened", c.ID, body)
		if err != nil {
			return err
		}
		if v.Allowed {
			return db.reserve(ctx, t, c, v, day, opened)
		}
		return db.refuse(ctx, t, c, v, day, opened, body)
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

func (db *DB) state(ctx context.Context, t *tx, c Call, day string) (State, error) {
	var st State
	var err error
	if c.Session != "" {
		if st.Session, err = session(ctx, t, `id = ? AND token = ?`, c.Session, c.Token); err != nil {
			return st, err
		}
	}
	if err := db.counts(ctx, t, c, day, &st); err != nil {
		return st, err
	}
	if st.Tools, err = tools(ctx, t); err != nil {
		return st, err
	}
	if st.Skills, err = skills(ctx, t, c.Skill); err != nil {
		return st, err
	}
	if err := approved(ctx, t, c, &st); err != nil {
		return st, err
	}
	st.Sandbox, err = sandbox(ctx, t)
	return st, err
}

// approved reads the approval that a call names. Another session's is nobody's here.
func approved(ctx context.Context, t *tx, c Call, st *State) error {
	if c.Approval == "" {
		return nil
	}
	a, err := approval(ctx, t, `id = ? AND session = ? AND token = ?`, c.Approval, c.Session, c.Token)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	st.Approval = &a
	st.Procedure, err = procedure(ctx, t, c.Skill, c.Script)
	return err
}

// counts reads all four counts; what has no row yet counts 0.
func (db *DB) counts(ctx context.Context, t *tx, c Call, day string, st *State) error {
	return t.QueryRowContext(ctx, `SELECT
		coalesce((SELECT runs FROM sessions WHERE id = ?), 0),
		coalesce((SELECT runs FROM turns WHERE session = ? AND turn = ?), 0),
		coalesce((SELECT runs FROM daily_quota WHERE day = ?), 0),
		(SELECT count(*) FROM calls WHERE closed IS NULL AND token = ? AND instance = ? AND counted)`, c.Session, c.Session, c.Turn, day, c.Token, db.alive.instance).
		Scan(&st.SessionRuns, &st.TurnRuns, &st.DayRuns, &st.TokenHolds)
}

func (db *DB) reserve(ctx context.Context, t *tx, c Call, v Verdict, day string, opened int64) error {
	if v.Uses {
		if err := useApproval(ctx, t, c.Approval, c.ID); err != nil {
			return err
		}
	}
	if c.Counts {
		if err := take(ctx, t, c.Session, c.Turn, day); err != nil {
			return err
		}
	}
	return db.insertCall(ctx, t, c, "allow", day, opened)
}

// refuse opens and closes. The session is touched: a client that hammers is neither quiet nor idle.
func (db *DB) refuse(ctx context.Context, t *tx, c Call, v Verdict, day string, opened int64, body map[string]any) error {
	c.Counts = false
	if err := db.insertCall(ctx, t, c, "deny", day, opened); err != nil {
		return err
	}
	if err := db.closeCall(ctx, t, c.ID, body, Closing{Outcome: v.Code, Error: v.Reason}); err != nil {
		return err
	}
	return db.touch(ctx, t, c.Session)
}

func (db *DB) insertCall(ctx context.Context, t *tx, c Call, decision, day string, opened int64) error {
	_, err := t.ExecContext(ctx, `INSERT INTO calls (id, session, turn, token, tool, skill, decision, counted, day, instance, opened) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		c.ID, c.Session, c.Turn, c.Token, c.Tool, Storable(c.Skill), decision, c.Counts, day, db.alive.instance, opened)
	return err
}

func (db *DB) closeCall(ctx context.Context, t *tx, id string, opened map[string]any, cl Closing) error {
	seq, err := db.append(ctx, t, "closed", id, closedBody(opened, cl))
	if err != nil {
		return err
	}
	return oneRow(t.ExecContext(ctx, `UPDATE calls SET closed = ?, outcome = ? WHERE id = ?`, seq, cl.Outcome, id))
}

// statement is one of several that belong together.
type statement struct {
	query string
	args  []any
}

// take adds one place to turn, session and day.
func take(ctx context.Context, t *tx, session, turn, day string) error {
	return all(ctx, t, []statement{
		{`UPDATE sessions SET runs = runs + 1 WHERE id = ?`, []any{session}},
		{`INSERT INTO turns (session, turn, runs) VALUES (?, ?, 1) ON CONFLICT (session, turn) DO UPDATE SET runs = turns.runs + 1`, []any{session, turn}},
		{`INSERT INTO daily_quota (day, runs) VALUES (?, 1) ON CONFLICT (day) DO UPDATE SET runs = daily_quota.runs + 1`, []any{day}},
	})
}

// giveBack undoes take.
func giveBack(ctx context.Context, t *tx, session, turn, day string) error {
	return all(ctx, t, []statement{
		{`UPDATE sessions SET runs = runs - 1 WHERE id = ?`, []any{session}},
		{`UPDATE turns SET runs = runs - 1 WHERE session = ? AND turn = ?`, []any{session, turn}},
		{`UPDATE daily_quota SET runs = runs - 1 WHERE day = ?`, []any{day}},
	})
}

func all(ctx context.Context, t *tx, statements []statement) error {
	for _, s := range statements {
		if _, err := t.ExecContext(ctx, s.query, s.args...); err != nil {
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
	err := db.writing(ctx, func(t *tx) error { return db.end(ctx, t, c.ID, cl) })
	if err != nil {
		return fmt.Errorf("end call %s: %w", c.ID, err)
	}
	return nil
}

func (db *DB) end(ctx context.Context, t *tx, id string, cl Closing) error {
	var session, turn, day, text string
	var counted bool
	err := t.QueryRowContext(ctx, `SELECT c.session, c.turn, c.counted, c.day, e.body FROM calls c JOIN events e ON e.seq = c.opened WHERE c.id = ? AND c.closed IS NULL`, id).
		Scan(&session, &turn, &counted, &day, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotOpen
	}
	if err != nil {
		return err
	}
	if counted && !cl.Started {
		if err := giveBack(ctx, t, session, turn, day); err != nil {
			return err
		}
		if err := unuseApproval(ctx, t, id); err != nil {
			return err
		}
	}
	var opened map[string]any
	if err := json.Unmarshal([]byte(text), &opened); err != nil {
		return err
	}
	if err := db.closeCall(ctx, t, id, opened, cl); err != nil {
		return err
	}
	return db.touch(ctx, t, session)
}

// CloseLost closes every call whose api has ended before its answer came, with the outcome lost: the run may have
// happened, so the quota is kept. Calls of instances that are alive stay open.
func (db *DB) CloseLost(ctx context.Context) (int, error) {
	n := 0
	err := db.writing(ctx, func(t *tx) error {
		ids, err := db.orphans(ctx, t)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := db.end(ctx, t, id, Closing{Outcome: "lost", Error: "the api ended before the answer came", Started: true}); err != nil {
				return err
			}
		}
		n = len(ids)
		return nil
	})
	return n, err
}

// orphans are the open calls of instances that have ended, the oldest first.
func (db *DB) orphans(ctx context.Context, t *tx) ([]string, error) {
	open, err := openCalls(ctx, t)
	if err != nil {
		return nil, err
	}
	var ids []string
	gone := map[int64]bool{}
	for _, c := range open {
		if _, asked := gone[c.instance]; !asked {
			if gone[c.instance], err = db.kind.gone(ctx, t, c.instance); err != nil {
				return nil, err
			}
		}
		if gone[c.instance] {
			ids = append(ids, c.id)
		}
	}
	return ids, nil
}

type openCall struct {
	id       string
	instance int64
}

func openCalls(ctx context.Context, t *tx) ([]openCall, error) {
	rows, err := t.QueryContext(ctx, `SELECT id, instance FROM calls WHERE closed IS NULL ORDER BY opened`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var open []openCall
	for rows.Next() {
		var c openCall
		if err := rows.Scan(&c.id, &c.instance); err != nil {
			return nil, err
		}
		open = append(open, c)
	}
	return open, rows.Err()
}
