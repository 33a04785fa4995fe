package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"xrayrunner/api/internal/store"
)

// filled has a record of three runs, 6 events.
func filled(t *testing.T) (string, *store.DB) {
	t.Helper()
	path := place(t)
	db := open(t, path)
	s := session(t, db, "agent", "one")
	for range 3 {
		c := run(s)
		begin(t, db, c, allow)
		end(t, db, c, store.Closing{Outcome: "ok", Started: true})
	}
	return path, db
}

// TestVerifyFindsAnInsertedRow: at the end and in the middle, with whatever hash its writer made up.
func TestVerifyFindsAnInsertedRow(t *testing.T) {
	insert := func(seq int, prev, hash string) string {
		return fmt.Sprintf(`INSERT INTO events SELECT %d, time, kind, call, session, tool, skill, decision, body, %s, %s FROM events WHERE seq = 2`, seq, prev, hash)
	}
	for _, c := range []struct {
		name  string
		shell []string
		bad   int64
	}{
		{"at the end, without a hash", []string{insert(7, `(SELECT hash FROM events WHERE seq = 6)`, `''`)}, 7},
		{"at the end, with another's hash", []string{insert(7, `(SELECT hash FROM events WHERE seq = 6)`, `hash`)}, 7},
		{"at the end, with nothing before it", []string{insert(7, `''`, `hash`)}, 7},
		{"in the middle", []string{`UPDATE events SET seq = seq + 100 WHERE seq > 3`, `UPDATE events SET seq = seq - 99 WHERE seq > 100`, insert(4, `(SELECT hash FROM events WHERE seq = 3)`, `hash`)}, 4},
		{"before the first", []string{insert(0, `''`, `hash`)}, 0},
		{"the first is gone", []string{`DELETE FROM events WHERE seq = 1`}, 2},
		{"a time", []string{`UPDATE events SET time = '2020-01-01T00:00:00.000000Z' WHERE seq = 5`}, 5},
		{"a kind", []string{`UPDATE events SET kind = 'operator' WHERE seq = 5`}, 5},
		{"a call", []string{`UPDATE events SET call = 'x' WHERE seq = 5`}, 5},
		{"a decision", []string{`UPDATE events SET decision = 'deny' WHERE seq = 5`}, 5},
		{"a link", []string{`UPDATE events SET prev = '' WHERE seq = 5`}, 5},
		{"a hash", []string{`UPDATE events SET hash = 'x' WHERE seq = 5`}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, db := filled(t)
			if r := verify(t, db, ""); !r.OK || r.Events != 6 {
				t.Fatalf("before: %+v", r)
			}
			exec(t, raw(t, path), c.shell...)
			if r := verify(t, db, ""); r.OK || r.BadSeq != c.bad {
				t.Errorf("%+v, want event %d to be named", r, c.bad)
			}
		})
	}
}

// TestVerifyNeedsAHead: what the chain alone cannot show, a head that was kept elsewhere does.
func TestVerifyNeedsAHead(t *testing.T) {
	for _, c := range []struct {
		name  string
		shell []string
		more  bool // events that the store itself writes afterwards
	}{
		{"the end is cut off", []string{`DELETE FROM events WHERE seq > 4`}, false},
		{"all of it is gone", []string{`DELETE FROM events`}, false},
		{"the end is cut off and written anew", []string{`DELETE FROM events WHERE seq > 4`}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, db := filled(t)
			_, head, err := db.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r := verify(t, db, head); !r.OK || r.Note != "" || r.Head != head {
				t.Fatalf("before: %+v", r)
			}
			exec(t, raw(t, path), c.shell...)
			if c.more {
				begin(t, db, run(session(t, db, "agent", "two")), allow)
			}
			if r := verify(t, db, ""); !r.OK || !strings.Contains(r.Note, "cannot be seen") {
				t.Errorf("without a head: %+v, want OK that says what it does not know", r)
			}
			if r := verify(t, db, head); r.OK || !strings.Contains(r.Reason, head) {
				t.Errorf("with the head: %+v, want that it does not occur", r)
			}
		})
	}
	path, db := filled(t)
	_, head, err := db.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	begin(t, db, run(session(t, db, "agent", "two")), allow)
	if r := verify(t, db, head); !r.OK {
		t.Errorf("%s went on after the head was kept: %+v", path, r)
	}
}

// TestLongValuesAreCut: 4 KiB are kept, of what is longer also the digest of the whole.
func TestLongValuesAreCut(t *testing.T) {
	for _, c := range []struct {
		name, value string
		cut         bool
	}{
		{"at the limit", strings.Repeat("a", store.MaxValue), false},
		{"one more", strings.Repeat("a", store.MaxValue+1), true},
		{"cut within a character", strings.Repeat("a", store.MaxValue-1) + "€", true},
		{"what people do not see", strings.Repeat("\u202e\x00\xff", store.MaxValue), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := open(t, place(t))
			k := run(session(t, db, "agent", "one"))
			k.Input = []byte(c.value)
			begin(t, db, k, allow)
			end(t, db, k, store.Closing{Outcome: "ok", Started: true, Result: []byte(c.value), Stderr: c.value, Details: json.RawMessage(`{"usage":{"wall_ms":1}}`)})
			for i, key := range []string{"input", "result", "stderr"} {
				b := body(t, events(t, db, store.Filter{})[min(i, 1)])
				kept, _ := b[key].(string)
				if c.cut != (b[key+"_cut"] == true) || c.cut != (b[key+"_sha256"] == sha(c.value)) || !c.cut && kept != c.value {
					t.Errorf("%s: cut %v, digest %v, %d bytes kept", key, b[key+"_cut"], b[key+"_sha256"], len(kept))
				}
				if kept == "" || !utf8.ValidString(kept) || strings.ContainsRune(kept, 0) {
					t.Errorf("%s: %d bytes that not every database takes", key, len(kept))
				}
			}
			if r := verify(t, db, ""); !r.OK {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestFuzzSeedsExist: a fuzz test without seeds tests nothing in an ordinary run.
func TestFuzzSeedsExist(t *testing.T) {
	seeds, err := os.ReadDir("testdata/fuzz/FuzzStorable")
	if err != nil || len(seeds) < 5 {
		t.Errorf("%d seeds (%v), want at least 5", len(seeds), err)
	}
}
