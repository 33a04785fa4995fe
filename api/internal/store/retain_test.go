package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"xrayrunner/api/internal/store"
)

// aged is a store with a call of each of so many days, one of them never closed, and its clock at the last day.
func aged(t *testing.T, days, open int) (string, *store.DB, *clock) {
	t.Helper()
	c, dsn := newClock(), place(t)
	db := openAt(t, dsn, c)
	for day := range days {
		k := run(session(t, db, "agent", "one"))
		k.Input = []byte(fmt.Sprintf(`{"day":%d,"text":"a\u202eb <&> é"}`, day))
		begin(t, db, k, allow)
		if day != open {
			end(t, db, k, store.Closing{Outcome: "ok", Started: true})
		}
		if day < days-1 {
			c.pass(24 * time.Hour)
		}
	}
	return dsn, db, c
}

func openAt(t *testing.T, dsn string, c *clock) *store.DB {
	return open(t, dsn, store.Options{Now: c.now})
}

// exported is the whole record as JSON lines.
func exported(t *testing.T, db *store.DB) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := db.Each(t.Context(), store.Filter{}, func(event store.Event) error { return e.Encode(event) }); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestRetain: what is old goes, whole calls at a time; what is left stands on a hash that the chain itself names, and an
// export from before proves what has gone.
func TestRetain(t *testing.T) {
	dsn, db, _ := aged(t, 10, -1)
	export := exported(t, db)
	_, oldHead, err := db.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	removed, err := db.Retain(t.Context(), store.Actor{Token: "retention"}, 4*24*time.Hour)
	if err != nil || removed != 10 { // five days of two events
		t.Fatalf("%d events were removed (%v), want 10", removed, err)
	}
	r := verify(t, db, oldHead)
	if !r.OK || r.First != 11 {
		t.Errorf("%+v, want a whole record from event 11 on, with the head from before", r)
	}
	if r := verify(t, db, strings.Repeat("a", 64)); r.OK || !strings.Contains(r.Reason, "older than event 11") {
		t.Errorf("a head that may have been removed: %+v", r)
	}
	left := events(t, db, store.Filter{})
	if err := onceEach(left); err != nil {
		t.Error(err)
	}
	if proof, err := store.VerifyExport(export, left[0].Prev); err != nil || !proof.OK || proof.Events != 20 {
		t.Errorf("the export holds what was removed: %+v (%v)", proof, err)
	}
	if removed, err := db.Retain(t.Context(), store.Actor{}, 4*24*time.Hour); removed != 0 || err != nil {
		t.Errorf("a second time: %d (%v)", removed, err)
	}
	// Whoever removes more than the retention did is found.
	exec(t, raw(t, dsn), `DELETE FROM events WHERE seq < 13`)
	if r := verify(t, db, ""); r.OK || r.BadSeq != 13 || !strings.Contains(r.Reason, "events 1 to 12 are missing") {
		t.Errorf("%+v", r)
	}
}

// TestRetainKeepsOpenCalls: nothing after the beginning of a call that has not ended goes.
func TestRetainKeepsOpenCalls(t *testing.T) {
	_, db, _ := aged(t, 10, 2)
	if removed, err := db.Retain(t.Context(), store.Actor{}, store.MinRetention); err != nil || removed != 4 {
		t.Errorf("%d events were removed (%v), want the 4 before the call that is open", removed, err)
	}
	if n, err := db.CloseLost(t.Context()); n != 1 || err != nil {
		t.Errorf("%d closed (%v): the opened event was removed", n, err)
	}
	if r := verify(t, db, ""); !r.OK {
		t.Errorf("%+v", r)
	}
	if _, err := db.Retain(t.Context(), store.Actor{}, store.MinRetention-time.Second); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("less than is needed: %v", err)
	}
}

// TestExportIsExact: a changed byte of an export is found, and so is a line that was left out; what holds no event at all
// (an export that failed) is not whole either.
func TestExportIsExact(t *testing.T) {
	_, db, _ := aged(t, 3, -1)
	whole := exported(t, db).String()
	lines := strings.SplitAfter(whole, "\n")
	for name, text := range map[string]string{
		"a byte":        strings.Replace(whole, `\"day\":1`, `\"day\":2`, 1),
		"a line less":   strings.Join(append(lines[:1:1], lines[2:]...), ""),
		"a time":        strings.Replace(whole, "2026-02-01T12:00:00Z", "2026-02-01T12:00:01Z", 1),
		"lines swapped": lines[1] + lines[0],
		"nothing":       "",
		"another file":  "#!/bin/sh\n",
		"cut off":       whole[:len(whole)-20],
		"no body":       `{"seq":1,"body":"x"}`,
	} {
		if r, err := store.VerifyExport(strings.NewReader(text), ""); err != nil || r.OK || r.Reason == "" {
			t.Errorf("%s: %+v (%v)", name, r, err)
		}
	}
	if r, err := store.VerifyExport(strings.NewReader(whole), ""); err != nil || !r.OK {
		t.Errorf("whole: %+v (%v)", r, err)
	}
}

// TestVerifyManyEvents: a million events of 1 KiB in less than 20 s (asked for with XRAY_LOAD=1; else fewer, without a
// bound on the time), and a byte flipped anywhere is named.
func TestVerifyManyEvents(t *testing.T) {
	const bound = 20 * time.Second
	load := os.Getenv("XRAY_LOAD") != ""
	n := 3*store.Batch + 7
	if load {
		n = 1_000_000
	}
	dsn := place(t)
	db := open(t, dsn, store.Options{})
	for left := n; left > 0; left -= min(left, 50_000) {
		if err := db.Fill(t.Context(), min(left, 50_000), 900); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	r := verify(t, db, "")
	took := time.Since(began)
	t.Logf("%d events verified in %v", n, took)
	if !r.OK || r.Events != int64(n) {
		t.Errorf("%+v", r)
	}
	if load && took > bound {
		t.Errorf("%v, want less than %v", took, bound)
	}
	bad := int64(n) - 3
	exec(t, raw(t, dsn), fmt.Sprintf(`UPDATE events SET body = replace(body, 'xxxx"', 'xxxy"') WHERE seq = %d`, bad))
	if r := verify(t, db, ""); r.OK || r.BadSeq != bad {
		t.Errorf("%+v, want event %d", r, bad)
	}
}
