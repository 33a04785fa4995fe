package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// toolRetain is the tool that a retention event names.
const toolRetain = "audit_retain"

// retained is the change of a retention event: it keeps the chain provable, because the hash that the oldest event left
// stands on is now inside the chain itself.
type retained struct {
	Before  string `json:"before"`  // time
	Through int64  `json:"through"` // number of the newest event that was removed
	Hash    string `json:"hash"`    // of that event
	Removed int64  `json:"removed"` // how many
}

// accounts reports whether r is a retention event that names the event through with that hash.
func accounts(r row, through int64, hash string) bool {
	if r.kind != "operator" || r.tool != toolRetain {
		return false
	}
	var b struct{ Change retained }
	return json.Unmarshal([]byte(r.body), &b) == nil && b.Change.Through == through && b.Change.Hash == hash
}

// minRetention keeps what the counts of today and the sessions of the last hours need.
const minRetention = 48 * time.Hour

// retainAtOnce is how many events one transaction removes: nobody else can write meanwhile.
const retainAtOnce = 20_000

// Retain removes what is older than so long: whole calls from the beginning of the record, and the sessions and counts
// that belong to them. Each removal is itself on the record, with the hash that the rest stands on. It gives how many
// events were removed.
func (db *DB) Retain(ctx context.Context, who Actor, keep time.Duration) (int64, error) {
	if keep < minRetention {
		return 0, fmt.Errorf("%w: the record is kept for at least %v", ErrInvalid, minRetention)
	}
	before := db.now().UTC().Add(-keep)
	for total := int64(0); ; {
		n, err := db.retainSome(ctx, who, before)
		total += n
		if err != nil || n < retainAtOnce/2 { // a batch may be shorter, so that it does not part a call
			return total, err
		}
	}
}

func (db *DB) retainSome(ctx context.Context, who Actor, before time.Time) (int64, error) {
	var done retained
	err := db.writing(ctx, func(t *tx) error {
		var err error
		if done, err = cut(ctx, t, before.Format(timeForm)); err != nil || done.Through == 0 {
			return err
		}
		if err := forget(ctx, t, done, before); err != nil {
			return err
		}
		return db.operate(ctx, t, who, toolRetain, "", done)
	})
	return done.Removed, err
}

// cut finds the newest event that may go: older than before, and none of its calls ends after it.
func cut(ctx context.Context, t *tx, before string) (retained, error) {
	r := retained{Before: before}
	var first, through sql.NullInt64
	if err := t.QueryRowContext(ctx, `SELECT min(seq), min(seq) + ? FROM events`, retainAtOnce).Scan(&first, &through); err != nil || !first.Valid {
		return r, err
	}
	// The first event that is young enough ends it, whatever the clock did later.
	var young, open sql.NullInt64
	if err := t.QueryRowContext(ctx, `SELECT min(seq) FROM events WHERE time >= ?`, before).Scan(&young); err != nil {
		return r, err
	}
	if young.Valid {
		through.Int64 = min(through.Int64, young.Int64)
	}
	if err := t.QueryRowContext(ctx, `SELECT min(opened) FROM calls WHERE opened < ? AND (closed IS NULL OR closed >= ?)`, through.Int64, through.Int64).Scan(&open); err != nil {
		return r, err
	}
	if open.Valid {
		through.Int64 = min(through.Int64, open.Int64)
	}
	err := t.QueryRowContext(ctx, `SELECT seq, hash FROM events WHERE seq < ? ORDER BY seq DESC LIMIT 1`, through.Int64).Scan(&r.Through, &r.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	r.Removed = r.Through - first.Int64 + 1
	return r, err
}

func forget(ctx context.Context, t *tx, r retained, before time.Time) error {
	return all(ctx, t, []statement{
		{`DELETE FROM events WHERE seq <= ?`, []any{r.Through}},
		{`DELETE FROM calls WHERE closed <= ?`, []any{r.Through}},
		{`DELETE FROM sessions WHERE created < ? AND last_end < ?`, []any{r.Before, r.Before}}, // and their turns
		{`DELETE FROM approvals WHERE expires < ?`, []any{r.Before}},                           // and their decisions
		{`DELETE FROM daily_quota WHERE day < ?`, []any{before.Format(time.DateOnly)}},
	})
}
