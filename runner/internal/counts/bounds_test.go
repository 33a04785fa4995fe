package counts_test

import (
	"errors"
	"testing"
	"time"

	"xrayrunner/runner/internal/counts"
)

// TestUndoOfAClaimCountsOnce: an undo that comes again must not forget what somebody else has claimed by then.
func TestUndoOfAClaimCountsOnce(t *testing.T) {
	c := newClock()
	table := counts.New(c.Now)
	id := stamped(c.Now())
	_, undo, err := table.Claim(id)
	if err != nil {
		t.Fatal(err)
	}
	undo()
	if _, _, err := table.Claim(id); err != nil {
		t.Fatalf("after the undo: %v", err)
	}
	undo()
	if _, _, err := table.Claim(id); !errors.Is(err, counts.ErrDuplicate) {
		t.Errorf("after a second undo: %v, want ErrDuplicate", err)
	}
}

// TestRunIDsAreBounded: a full table of run ids refuses newcomers, keeps what it has, and has room after an undo and
// after ten minutes.
func TestRunIDsAreBounded(t *testing.T) {
	const most = 200_000
	c := newClock()
	table := counts.New(c.Now)
	first := stamped(c.Now())
	_, undo, err := table.Claim(first)
	if err != nil {
		t.Fatal(err)
	}
	for i := range most - 1 {
		if _, _, err := table.Claim(""); err != nil {
			t.Fatalf("id %d: %v", i+2, err)
		}
	}
	for _, id := range []string{"", stamped(c.Now())} {
		if _, none, err := table.Claim(id); none != nil || !errors.Is(err, counts.ErrFull) {
			t.Errorf("id %d (%q): %v, want ErrFull", most+1, id, err)
		}
	}
	if _, _, err := table.Claim(first); !errors.Is(err, counts.ErrDuplicate) {
		t.Errorf("the first was forgotten to make room: %v", err)
	}
	undo()
	if _, _, err := table.Claim(""); err != nil {
		t.Errorf("after an undo: %v", err)
	}
	c.add(10 * time.Minute)
	if _, _, err := table.Claim(""); !errors.Is(err, counts.ErrFull) {
		t.Errorf("after ten minutes sharp: %v, want ErrFull", err)
	}
	c.add(time.Second)
	if _, _, err := table.Claim(""); err != nil {
		t.Errorf("after more than ten minutes: %v", err)
	}
}

// TestExpiryLeavesOthers: an undo that comes after its session has expired does not touch the session of that name that
// is there now.
func TestExpiryLeavesOthers(t *testing.T) {
	c := newClock()
	table := counts.New(c.Now)
	old, err := table.Reserve("s", "t", byGuard)
	if old == nil || err != nil {
		t.Fatal(err)
	}
	c.add(time.Hour + time.Second)
	if young, err := table.Reserve("s", "t", byGuard); young == nil || err != nil {
		t.Fatal(err)
	}
	old()
	if turn, session := seen(t, table, "s", "t"); turn != 1 || session != 1 {
		t.Errorf("turn %d, session %d; want 1 and 1", turn, session)
	}
}
