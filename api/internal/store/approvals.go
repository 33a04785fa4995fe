package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// The states of a request. Whether it has ended by time is not a state: Approval.Expires says it.
const (
	Pending  = "pending"
	Approved = "approved"
	Denied   = "denied"
	Used     = "used"
)

// maxPending is how many requests of one session may wait (spec section 8): a flood would hide the one that matters.
// Sessions are for the asking, so what waits for one token is bounded too, well below what a list shows.
const (
	maxPending        = 3
	maxPendingOfToken = 50
	maxListed         = 200
)

// Approval is one request and what operators said to it.
type Approval struct {
	ID        string
	Session   string
	Token     string // of the requester
	Skill     string
	Script    string
	Class     manifests.Class
	Input     string // the judged bytes
	Binding   string // protocol.Binding
	Wanted    int    // different operators
	Status    string
	Run       string // the call that used it
	Created   time.Time
	Expires   time.Time
	Decisions []Decision // the oldest first
}

// Decision is one operator's word.
type Decision struct {
	Operator string    `json:"operator"` // token name
	Approve  bool      `json:"approve"`
	Reason   string    `json:"reason,omitempty"`
	Time     time.Time `json:"time"`
}

// ApprovedBy names the operators who approved.
func (a Approval) ApprovedBy() []string {
	var names []string
	for _, d := range a.Decisions {
		if d.Approve {
			names = append(names, d.Operator)
		}
	}
	return names
}

// Request asks Begin to make a request of the refused call, or to find the one that is open for the same.
type Request struct {
	Class   manifests.Class
	Binding string
	Life    time.Duration
}

// request gives the open request of this session for the same binding, else makes one; the zero value when too many wait.
func (db *DB) request(ctx context.Context, t *tx, c Call, r Request) (Approval, error) {
	now, stamp := db.stamp()
	a, err := approval(ctx, t, `session = ? AND binding = ? AND status IN ('pending', 'approved') AND expires > ?`, c.Session, r.Binding, stamp)
	if !errors.Is(err, ErrNotFound) {
		return a, err
	}
	full, err := crowded(ctx, t, c, now)
	if full || err != nil {
		return Approval{}, err
	}
	a = Approval{ID: uuid.NewString(), Session: c.Session, Token: c.Token, Skill: c.Skill, Script: c.Script, Class: r.Class, Input: string(c.Input),
		Binding: r.Binding, Wanted: r.Class.Operators(), Status: Pending, Created: now, Expires: now.Add(r.Life)}
	_, err = t.ExecContext(ctx, `INSERT INTO approvals (id, session, token, skill, script, class, input, binding, wanted, created, expires) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		a.ID, a.Session, a.Token, a.Skill, a.Script, string(a.Class), a.Input, a.Binding, a.Wanted, stamp, a.Expires.Format(timeForm))
	return a, err
}

// crowded reports whether as many requests wait as may wait. By created, which has an index: none lives longer than that.
func crowded(ctx context.Context, t *tx, c Call, now time.Time) (bool, error) {
	var session, token int
	err := t.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN session = ? THEN 1 ELSE 0 END), 0), count(*) FROM approvals
		WHERE token = ? AND status = 'pending' AND expires > ? AND created > ?`,
		c.Session, c.Token, now.Format(timeForm), now.Add(-protocol.MaxApproval-time.Minute).Format(timeForm)).Scan(&session, &token)
	return session >= maxPending || token >= maxPendingOfToken, err
}

const approvalColumns = `id, session, token, skill, script, class, input, binding, wanted, status, run, created, expires`

type scanner interface{ Scan(...any) error }

func scanApproval(row scanner) (Approval, error) {
	var a Approval
	var created, expires string
	err := row.Scan(&a.ID, &a.Session, &a.Token, &a.Skill, &a.Script, &a.Class, &a.Input, &a.Binding, &a.Wanted, &a.Status, &a.Run, &created, &expires)
	a.Created, a.Expires = parseTime(created), parseTime(expires)
	return a, err
}

func approval(ctx context.Context, q querier, where string, args ...any) (Approval, error) {
	a, err := scanApproval(q.QueryRowContext(ctx, `SELECT `+approvalColumns+` FROM approvals WHERE `+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return a, fmt.Errorf("approval: %w", ErrNotFound)
	}
	if err == nil {
		a.Decisions, err = decisions(ctx, q, a.ID)
	}
	return a, err
}

func decisions(ctx context.Context, q querier, id string) ([]Decision, error) {
	rows, err := q.QueryContext(ctx, `SELECT operator, approve, reason, time FROM decisions WHERE approval = ? ORDER BY time, operator`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Decision
	for rows.Next() {
		var d Decision
		var at string
		if err := rows.Scan(&d.Operator, &d.Approve, &d.Reason, &at); err != nil {
			return nil, err
		}
		d.Time = parseTime(at)
		out = append(out, d)
	}
	return out, rows.Err()
}

// Approval finds one request.
func (db *DB) Approval(ctx context.Context, id string) (Approval, error) {
	return approval(ctx, db.read, `id = ?`, id)
}

// Approvals lists at most 200 requests, the newest first: those that can still be decided or used, or all. more says that
// there are others.
func (db *DB) Approvals(ctx context.Context, all bool) (out []Approval, more bool, err error) {
	_, now := db.stamp()
	rows, err := db.read.QueryContext(ctx, `SELECT `+approvalColumns+` FROM approvals WHERE ? OR (status IN ('pending', 'approved') AND expires > ?) ORDER BY created DESC, id LIMIT ?`, all, now, maxListed+1)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		a, err := scanApproval(rows)
		if err != nil {
			return nil, false, err
		}
		out = append(out, a)
	}
	if err := rows.Err(); err != nil {
		return nil, false, err
	}
	if more = len(out) > maxListed; more {
		out = out[:maxListed]
	}
	for i := range out {
		if out[i].Decisions, err = decisions(ctx, db.read, out[i].ID); err != nil {
			return nil, false, err
		}
	}
	return out, more, nil
}

// Decide takes an operator's word on a request, in one transaction: who may decide, whether it is open and whether he has
// decided before are read where the word is written. ErrOwn, ErrClosed and ErrTwice say why not. A refusal is taken until the
// approval is used, also from somebody who has approved: then it stands in place of his approval.
func (db *DB) Decide(ctx context.Context, who Actor, id string, approve bool, reason string) (Approval, error) {
	var a Approval
	tool := "approvals_deny"
	if approve {
		tool = "approvals_approve"
	}
	err := db.writing(ctx, func(t *tx) (err error) {
		if a, err = approval(ctx, t, `id = ?`, id); err != nil {
			return err
		}
		now, stamp := db.stamp()
		if err := a.open(who.Token, approve, now); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO decisions (approval, operator, approve, reason, time) VALUES (?,?,?,?,?)
			ON CONFLICT (approval, operator) DO UPDATE SET approve = excluded.approve, reason = excluded.reason, time = excluded.time`, id, who.Token, approve, Storable(reason), stamp); err != nil {
			return err
		}
		a.Decisions = append(slices.DeleteFunc(a.Decisions, func(d Decision) bool { return d.Operator == who.Token }), Decision{Operator: who.Token, Approve: approve, Reason: Storable(reason), Time: now})
		switch {
		case !approve:
			a.Status = Denied
		case len(a.ApprovedBy()) >= a.Wanted:
			a.Status = Approved
		}
		if err := oneRow(t.ExecContext(ctx, `UPDATE approvals SET status = ? WHERE id = ?`, a.Status, id)); err != nil {
			return err
		}
		return db.operate(ctx, t, who, tool, a.Skill, map[string]any{"approval": id, "script": a.Script, "session": a.Session, "requester": a.Token,
			"input": Storable(a.Input), "binding": a.Binding, "reason": Storable(reason), "status": a.Status, "approved": len(a.ApprovedBy()), "wanted": a.Wanted})
	})
	return a, err
}

func (a Approval) open(operator string, approve bool, now time.Time) error {
	for _, d := range a.Decisions {
		if d.Operator == operator && (approve || !d.Approve) {
			return ErrTwice
		}
	}
	switch {
	case a.Token == operator:
		return ErrOwn
	case a.Status != Pending && (approve || a.Status != Approved), !now.Before(a.Expires):
		return ErrClosed
	}
	return nil
}

// tokenRevoked is what stands in the place of an approval whose operator's token has ended.
const tokenRevoked = "the token that approved it was revoked"

// disown takes back what a token that ends has approved, and ends what it has asked for: whoever revokes a token that was
// stolen means what the thief has done with it, too. What was used stays as it was.
func (db *DB) disown(ctx context.Context, t *tx, token string) error {
	_, stamp := db.stamp()
	return all(ctx, t, []statement{
		{`UPDATE decisions SET approve = ?, reason = ?, time = ? WHERE operator = ? AND approve AND approval IN (SELECT id FROM approvals WHERE status IN ('pending', 'approved'))`,
			[]any{false, tokenRevoked, stamp, token}},
		{`UPDATE approvals SET status = 'denied' WHERE status IN ('pending', 'approved') AND (token = ? OR id IN (SELECT approval FROM decisions WHERE operator = ? AND NOT approve))`,
			[]any{token, token}},
	})
}

// useApproval marks it used by a call. It fails when it is not approved: the judge has said that it is.
func useApproval(ctx context.Context, t *tx, id, call string) error {
	return oneRow(t.ExecContext(ctx, `UPDATE approvals SET status = 'used', run = ? WHERE id = ? AND status = 'approved'`, call, id))
}

// unuseApproval gives it back when the run never started, as its places are given back.
func unuseApproval(ctx context.Context, t *tx, call string) error {
	_, err := t.ExecContext(ctx, `UPDATE approvals SET status = 'approved', run = '' WHERE run = ?`, call)
	return err
}
