package store

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// VerifyReport says whether the record is whole.
type VerifyReport struct {
	OK     bool   `json:"ok"`
	First  int64  `json:"first"`  // the oldest event that is left; more than 1 after retention
	Events int64  `json:"events"` // number of the newest event
	Head   string `json:"head"`
	BadSeq int64  `json:"bad_seq,omitempty"` // the first event that is wrong
	Reason string `json:"reason,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Verify walks the whole chain. head, when not empty, is a hash that was kept outside: it must occur.
func (db *DB) Verify(ctx context.Context, head string) (VerifyReport, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	batches, failed := db.batches(ctx)
	c := &chain{outside: head}
	for rows := range batches {
		for _, r := range rows {
			if !c.next(r) {
				return db.explain(ctx, c.report(), c.bad)
			}
		}
	}
	return c.end(), <-failed
}

// batches reads the record ahead of the checking: the one waits for the disk, the other computes.
func (db *DB) batches(ctx context.Context) (<-chan []row, <-chan error) {
	out, failed := make(chan []row, 2), make(chan error, 1)
	go func() {
		defer close(failed)
		defer close(out)
		for f := (Filter{AfterSeq: -1, Limit: batch}); ; {
			rows, err := db.rows(ctx, f)
			if err != nil {
				failed <- err
				return
			}
			if len(rows) == 0 {
				return
			}
			f.AfterSeq = rows[len(rows)-1].seq
			select {
			case out <- rows:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	}()
	return out, failed
}

// chain checks events in their order.
type chain struct {
	outside string // a head that must occur
	seen    bool

	first, last int64
	base, prev  string // what the first event stands on; the hash of the last one
	accounted   bool   // a retention event names base: what is missing before first was removed on the record
	bad         row
	reason      string
}

// next takes one event and reports whether it fits.
func (c *chain) next(r row) bool {
	if c.last == 0 && r.seq > 1 && c.first == 0 { // after retention; accounted for at the end
		c.first, c.base, c.last, c.prev = r.seq, r.prev, r.seq-1, r.prev
	}
	if c.reason = c.wrong(r); c.reason != "" {
		c.bad = r
		return false
	}
	if c.first == 0 {
		c.first = r.seq
	}
	c.last, c.prev = r.seq, r.hash
	c.seen = c.seen || r.hash == c.outside
	c.accounted = c.accounted || c.first > 1 && accounts(r, c.first-1, c.base)
	return true
}

func (c *chain) wrong(r row) string {
	switch {
	case r.seq != c.last+1:
		return fmt.Sprintf("event %d is missing: after %d comes %d", c.last+1, c.last, r.seq)
	case r.digest() != r.hash:
		return fmt.Sprintf("event %d was changed", r.seq)
	case r.prev != c.prev:
		return fmt.Sprintf("event %d does not follow event %d: one of them was changed, moved or put in", r.seq, c.last)
	}
	return ""
}

func (c *chain) report() VerifyReport {
	return VerifyReport{OK: c.reason == "", First: c.first, Events: c.last, Head: c.prev, Reason: c.reason, BadSeq: c.bad.seq}
}

func (c *chain) end() VerifyReport {
	r := c.report()
	switch {
	case c.first > 1 && !c.accounted:
		r.OK, r.BadSeq = false, c.first
		r.Reason = fmt.Sprintf("events 1 to %d are missing, and no retention event accounts for them", c.first-1)
	case c.outside == "":
		r.Note = "no outside head was given: a rewrite from some event to the end cannot be seen"
	case !c.seen:
		r.OK = false
		r.Reason = "the head " + c.outside + " does not occur: the record was rewritten or cut after it was taken"
		if c.first > 1 {
			r.Reason += fmt.Sprintf(", or it is older than event %d, the oldest that retention has left: look for it in the export of that time", c.first)
		}
	}
	return r
}

// explain looks whether the event that does not fit stood elsewhere: its hash is right for another number.
func (db *DB) explain(ctx context.Context, r VerifyReport, bad row) (VerifyReport, error) {
	newest, _, err := db.Head(ctx)
	if err != nil {
		return r, err
	}
	moved := bad
	for moved.seq = 1; moved.seq <= newest+1; moved.seq++ {
		if moved.seq != bad.seq && moved.digest() == bad.hash {
			r.Reason = fmt.Sprintf("event %d was moved here: it is event %d", bad.seq, moved.seq)
			break
		}
	}
	return r, nil
}

// VerifyExport checks what Each gave as JSON lines, a whole stretch of the record: the way to prove what retention has
// removed. Its last hash is what the record that is left stands on.
func VerifyExport(in io.Reader, head string) (VerifyReport, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	c := &chain{outside: head, accounted: true}
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return c.broken("the line after event %d is not an event: %v", c.last, err), nil
		}
		r, err := e.row()
		if err != nil {
			return c.broken("event %d cannot be read: %v", e.Seq, err), nil
		}
		if !c.next(r) {
			return c.report(), nil
		}
	}
	if err := lines.Err(); err != nil {
		return c.report(), err
	}
	if c.last == 0 { // what an export that failed leaves behind
		return c.broken("there is no event in it"), nil
	}
	return c.end(), nil
}

// broken reports what cannot be read as an event: for whoever asks it is as bad as one that was changed.
func (c *chain) broken(format string, args ...any) VerifyReport {
	c.reason = fmt.Sprintf(format, args...)
	return c.report()
}

// maxLine bounds one exported event: three values of 4 KiB, escaped, and the rest.
const maxLine = 1 << 20

func (e Event) row() (row, error) {
	var b struct{ Session, Tool, Skill, Decision string }
	if err := json.Unmarshal(e.Body, &b); err != nil {
		return row{}, err
	}
	return row{seq: e.Seq, time: e.Time.UTC().Format(timeForm), kind: e.Kind, call: e.Call, session: b.Session, tool: b.Tool, skill: b.Skill,
		decision: b.Decision, body: strings.TrimSpace(string(e.Body)), prev: e.Prev, hash: e.Hash}, nil
}
