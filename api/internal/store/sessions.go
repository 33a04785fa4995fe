package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"xrayrunner/runner/protocol"
)

const maxTurns = 1000

// NewSession makes a session that a REST caller names itself.
func (db *DB) NewSession(ctx context.Context, token string) (Session, error) {
	var s Session
	err := db.writing(ctx, func(t *tx) (err error) {
		s, err = db.insertSession(ctx, t, token, "rest")
		return err
	})
	return s, err
}

func (db *DB) insertSession(ctx context.Context, t *tx, token, kind string) (Session, error) {
	now, text := db.stamp()
	s := Session{ID: random(16), TokenName: token, Created: now}
	_, err := t.ExecContext(ctx, `INSERT INTO sessions (id, token, kind, created) VALUES (?, ?, ?, ?)`, s.ID, token, kind, text)
	return s, err
}

// Session finds a token's own session; another token's is ErrNotFound.
func (db *DB) Session(ctx context.Context, token, id string) (Session, error) {
	return session(ctx, db.read, `id = ? AND token = ?`, id, token)
}

func session(ctx context.Context, q querier, where string, args ...any) (Session, error) {
	var s Session
	var offered, created, lastEnd string
	err := q.QueryRowContext(ctx, `SELECT id, token, turn, offered, created, last_end FROM sessions WHERE `+where, args...).
		Scan(&s.ID, &s.TokenName, &s.Turn, &offered, &created, &lastEnd)
	if errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("session: %w", ErrNotFound)
	}
	if err != nil {
		return s, err
	}
	s.Created, s.LastEnd = parseTime(created), parseTime(lastEnd)
	return s, json.Unmarshal([]byte(offered), &s.Offered)
}

// TokenSession is the one session of a token's MCP clients. It is renewed only after it has been idle for so long,
// counted from the end of its last call (or from its making): reconnecting does not renew what it may run.
func (db *DB) TokenSession(ctx context.Context, token string, idle time.Duration) (Session, error) {
	const latest = `token = ? AND kind = 'mcp' ORDER BY created DESC, id DESC LIMIT 1`
	s, err := session(ctx, db.read, latest, token)
	if err == nil && !db.idle(s, idle) {
		return s, nil
	}
	err = db.writing(ctx, func(t *tx) (err error) {
		s, err = session(ctx, t, latest, token)
		if err == nil && !db.idle(s, idle) {
			return nil
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		s, err = db.insertSession(ctx, t, token, "mcp")
		return err
	})
	return s, err
}

func (db *DB) idle(s Session, idle time.Duration) bool {
	last := s.Created
	if s.LastEnd.After(last) {
		last = s.LastEnd
	}
	return db.now().Sub(last) > idle
}

// StartTurn makes turn the session's current one; an empty name makes one up. Counts are kept by name, so that
// going back to an earlier turn does not renew it.
func (db *DB) StartTurn(ctx context.Context, s Session, turn string, offered []string) (Session, error) {
	if turn == "" {
		turn = random(9)
	}
	if !protocol.TurnName(turn) {
		return s, fmt.Errorf("%w: turn", ErrInvalid)
	}
	err := db.writing(ctx, func(t *tx) (err error) {
		s, err = db.startTurn(ctx, t, s, turn, offered)
		return err
	})
	return s, err
}

// NextTurn begins a made-up turn, unless somebody has begun one since s was read: then that one is the answer. Of a
// burst of calls after a quiet time each would else have a turn, and its runs, to itself.
func (db *DB) NextTurn(ctx context.Context, s Session, offered []string) (Session, error) {
	err := db.writing(ctx, func(t *tx) error {
		now, err := session(ctx, t, `id = ?`, s.ID)
		if err != nil {
			return err
		}
		if now.Turn == s.Turn {
			now, err = db.startTurn(ctx, t, now, random(9), offered)
		}
		s = now
		return err
	})
	return s, err
}

func (db *DB) startTurn(ctx context.Context, t *tx, s Session, turn string, offered []string) (Session, error) {
	if offered == nil {
		offered = []string{}
	}
	list, err := json.Marshal(offered)
	if err != nil {
		return s, err
	}
	var others int
	if err := t.QueryRowContext(ctx, `SELECT count(*) FROM turns WHERE session = ? AND turn <> ?`, s.ID, turn).Scan(&others); err != nil {
		return s, err
	}
	if others >= maxTurns {
		return s, ErrTooManyTurns
	}
	now, text := db.stamp()
	if err := oneRow(t.ExecContext(ctx, `UPDATE sessions SET turn = ?, offered = ?, last_end = ? WHERE id = ?`, turn, string(list), text, s.ID)); err != nil {
		return s, err
	}
	if _, err := t.ExecContext(ctx, `INSERT INTO turns (session, turn) VALUES (?, ?) ON CONFLICT DO NOTHING`, s.ID, turn); err != nil {
		return s, err
	}
	s.Turn, s.Offered, s.LastEnd = turn, offered, now
	return s, nil
}

// touch notes that a call of the session has ended: from here its quiet and its idle time count.
func (db *DB) touch(ctx context.Context, t *tx, id string) error {
	_, now := db.stamp()
	_, err := t.ExecContext(ctx, `UPDATE sessions SET last_end = ? WHERE id = ?`, now, id)
	return err
}
