package counts_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"xrayrunner/guard"
	"xrayrunner/runner/internal/counts"
)

// clock is a clock that a test moves by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// byGuard judges by the guard's own bounds.
func byGuard(turnRuns, sessionRuns int) bool {
	return turnRuns < guard.RunsPerTurn && sessionRuns < guard.RunsPerSession
}

// seen asks for the counts and takes nothing.
func seen(t *testing.T, table *counts.Table, session, turn string) (turnRuns, sessionRuns int) {
	t.Helper()
	undo, err := table.Reserve(session, turn, func(a, b int) bool { turnRuns, sessionRuns = a, b; return false })
	if undo != nil || err != nil {
		t.Fatalf("a no took something: %v", err)
	}
	return turnRuns, sessionRuns
}

// TestCase14ParallelReserve: however many call at once, exactly 3 of a turn and 12 of a session pass.
func TestCase14ParallelReserve(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls int
		turns int
		want  int
	}{
		{"one turn", 50, 1, 3},
		{"three turns", 60, 3, 9},
		{"four turns fill the session", 80, 4, 12},
		{"more turns do not help", 200, 50, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := counts.New(time.Now)
			start, taken := make(chan struct{}), make(chan bool, c.calls)
			var wg sync.WaitGroup
			for i := range c.calls {
				wg.Go(func() {
					<-start
					undo, err := table.Reserve("s", fmt.Sprint("turn", i%c.turns), byGuard)
					if err != nil {
						t.Error(err)
					}
					taken <- undo != nil
				})
			}
			close(start)
			wg.Wait()
			close(taken)
			got := 0
			for yes := range taken {
				if yes {
					got++
				}
			}
			if _, session := seen(t, table, "s", "x"); got != c.want || session != c.want {
				t.Errorf("%d passed and %d are counted, want %d", got, session, c.want)
			}
		})
	}
}

// TestCase14Undo: a run that never started gives its place back, once.
func TestCase14Undo(t *testing.T) {
	table := counts.New(time.Now)
	var undo func()
	for range 3 {
		var err error
		if undo, err = table.Reserve("s", "t", byGuard); err != nil || undo == nil {
			t.Fatalf("undo is nil: %v, %v", undo == nil, err)
		}
	}
	if none, err := table.Reserve("s", "t", byGuard); none != nil || err != nil {
		t.Fatalf("the fourth passed (%v)", err)
	}
	undo()
	undo() // again: gives nothing back
	if turn, session := seen(t, table, "s", "t"); turn != 2 || session != 2 {
		t.Errorf("turn %d, session %d after the undo, want 2 and 2", turn, session)
	}
	if again, err := table.Reserve("s", "t", byGuard); again == nil || err != nil {
		t.Errorf("the place that was given back is not to be had (%v)", err)
	}
	if other, err := table.Reserve("another", "t", byGuard); other == nil || err != nil {
		t.Errorf("another session is held up (%v)", err)
	}
}

// TestFullNeverForgets: 10,000 sessions and no more; the ones that are counted stay counted.
func TestFullNeverForgets(t *testing.T) {
	const most = 10_000
	c := newClock()
	table := counts.New(c.Now)
	for i := range most {
		if undo, err := table.Reserve(fmt.Sprint(i), "t", byGuard); undo == nil || err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
	for range 3 {
		if undo, err := table.Reserve("one more", "t", byGuard); undo != nil || !errors.Is(err, counts.ErrFull) {
			t.Fatalf("session %d: %v, want ErrFull", most+1, err)
		}
	}
	for _, i := range []int{0, most / 2, most - 1} {
		if turn, session := seen(t, table, fmt.Sprint(i), "t"); turn != 1 || session != 1 {
			t.Errorf("session %d was forgotten: %d, %d", i, turn, session)
		}
	}
	if undo, err := table.Reserve("0", "t", byGuard); undo == nil || err != nil {
		t.Errorf("a session that is known is refused: %v", err)
	}
	c.add(time.Hour + time.Second)
	if undo, err := table.Reserve("one more", "t", byGuard); undo == nil || err != nil {
		t.Errorf("after an hour: %v", err)
	}
}

// TestNeverStartedFillsNothing: sessions of which no run ever started take no room, or refused calls could fill the
// table for everybody.
func TestNeverStartedFillsNothing(t *testing.T) {
	table := counts.New(newClock().Now)
	for i := range 20_000 {
		undo, err := table.Reserve(fmt.Sprint(i), "t", byGuard)
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		undo()
	}
}

func TestSessionsExpire(t *testing.T) {
	c := newClock()
	table := counts.New(c.Now)
	reserve := func() {
		t.Helper()
		if undo, err := table.Reserve("s", "t", byGuard); undo == nil || err != nil {
			t.Fatalf("%v", err)
		}
	}
	reserve()
	c.add(time.Hour)
	if _, session := seen(t, table, "s", "t"); session != 1 {
		t.Errorf("after an hour %d runs are known, want 1", session)
	}
	reserve() // which keeps it for another hour
	c.add(time.Hour)
	if _, session := seen(t, table, "s", "t"); session != 2 {
		t.Errorf("an hour after the last %d runs are known, want 2", session)
	}
	c.add(2 * time.Second)
	if _, session := seen(t, table, "s", "t"); session != 0 {
		t.Errorf("later %d runs are known, want 0", session)
	}
}

// TestClockStepsBack: a clock that is set back forgets nothing.
func TestClockStepsBack(t *testing.T) {
	c := newClock()
	table := counts.New(c.Now)
	if undo, err := table.Reserve("s", "t", byGuard); undo == nil || err != nil {
		t.Fatal(err)
	}
	c.add(-48 * time.Hour)
	if _, session := seen(t, table, "s", "t"); session != 1 {
		t.Errorf("%d runs are known, want 1", session)
	}
}

// stamped is a UUIDv7 of a moment.
func stamped(at time.Time) string {
	id := uuid.Must(uuid.NewRandom())
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	return id.String()
}

func TestClaim(t *testing.T) {
	c := newClock()
	table := counts.New(c.Now)
	c.add(time.Hour) // the start is long ago, except where a row asks for it
	v7 := stamped(c.Now())
	for _, r := range []struct {
		name, id string
		want     error
	}{
		{"of now", v7, nil},
		{"of now, seen", v7, counts.ErrDuplicate},
		{"in capitals", stamped(c.Now())[:35] + "A", counts.ErrMalformed},
		{"in braces", "{" + stamped(c.Now()) + "}", counts.ErrMalformed},
		{"as a URN", "urn:uuid:" + stamped(c.Now()), counts.ErrMalformed},
		{"without hyphens", "01a22b0cc2967c9a812089d30a01c194", counts.ErrMalformed},
		{"version 4", uuid.NewString(), counts.ErrMalformed},
		{"the zero id", uuid.Nil.String(), counts.ErrMalformed},
		{"no id at all", "run-1", counts.ErrMalformed},
		{"5 minutes old", stamped(c.Now().Add(-5 * time.Minute)), nil},
		{"a little older", stamped(c.Now().Add(-5*time.Minute - time.Millisecond)), counts.ErrDuplicate},
		{"5 minutes ahead", stamped(c.Now().Add(5 * time.Minute)), nil},
		{"a little more", stamped(c.Now().Add(5*time.Minute + time.Millisecond)), counts.ErrDuplicate},
	} {
		t.Run(r.name, func(t *testing.T) {
			got, undo, err := table.Claim(r.id)
			if !errors.Is(err, r.want) || (err == nil) != (undo != nil) {
				t.Fatalf("err = %v, want %v", err, r.want)
			}
			if err == nil && got.String() != r.id {
				t.Errorf("got %s, want %s", got, r.id)
			}
		})
	}
}

// TestClaimBeforeStart: an id stamped before the start may have been used before a crash.
func TestClaimBeforeStart(t *testing.T) {
	c := newClock()
	table := counts.New(c.Now)
	for _, r := range []struct {
		off  time.Duration
		want error
	}{{0, nil}, {-time.Millisecond, counts.ErrDuplicate}, {time.Millisecond, nil}} {
		if _, _, err := table.Claim(stamped(c.Now().Add(r.off))); !errors.Is(err, r.want) {
			t.Errorf("%s off the start: %v, want %v", r.off, err, r.want)
		}
	}
}

func TestClaimMakesOne(t *testing.T) {
	table := counts.New(time.Now)
	first, _, err1 := table.Claim("")
	second, _, err2 := table.Claim("")
	if err1 != nil || err2 != nil || first == second || first.Version() != 7 {
		t.Errorf("%s (%v), %s (%v)", first, err1, second, err2)
	}
	if _, _, err := table.Claim(first.String()); !errors.Is(err, counts.ErrDuplicate) {
		t.Errorf("one that was made passes again: %v", err)
	}
}

// TestClaimIsForgotten: by undo at once, and by time only when its stamp alone refuses it already.
func TestClaimIsForgotten(t *testing.T) {
	c := newClock()
	table := counts.New(c.Now)
	ahead := stamped(c.Now().Add(5 * time.Minute)) // the id that stays of this time for longest
	_, undo, err := table.Claim(ahead)
	if err != nil {
		t.Fatal(err)
	}
	undo()
	if _, _, err := table.Claim(ahead); err != nil {
		t.Fatalf("after the undo: %v", err)
	}
	for range 20 {
		c.add(time.Minute)
		if _, _, err := table.Claim(ahead); !errors.Is(err, counts.ErrDuplicate) {
			t.Errorf("at %s: %v, want ErrDuplicate", c.Now(), err)
		}
	}
}

func TestClaimInParallel(t *testing.T) {
	table := counts.New(time.Now)
	id := uuid.Must(uuid.NewV7()).String()
	won := make(chan struct{}, 50)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, _, err := table.Claim(id); err == nil {
				won <- struct{}{}
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d calls got the same id, want 1", len(won))
	}
}
