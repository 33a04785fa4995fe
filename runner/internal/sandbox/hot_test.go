package sandbox

import (
	"strings"
	"testing"
)

// A fork has the pages that the rehearsal of its cell has found before it comes to its gate. The control is a fork of a cell
// that was told of none.
func TestForksHaveTheirPages(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, says, "json")
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		c := w.skills[s.Warm.Skill].cell
		own := func() (pages int) {
			f, err := w.fork(c, s)
			if err != nil {
				t.Fatal(err)
			}
			hot, err := f.hotPages(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hot {
				pages += int(h.Length*h.Write) / pageSize
			}
			if err := f.discard(); err != nil {
				t.Error(err)
			}
			return pages
		}
		told := own()
		if err := c.tellHot(nil); err != nil {
			t.Fatal(err)
		}
		untold := own()
		t.Logf("%d pages of its own at the gate, %d without the rehearsal", told, untold)
		if told < 2*untold {
			t.Error("nothing was got ahead")
		}
	})
}

// A module may print when it ends, or switch the collector off: the forks are slower, and there.
func TestRehearsalThatFails(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		s := w.spec(t, says+"print(1)\n", "json")
		text := rehearsal
		defer func() { rehearsal = text }()
		rehearsal = []byte("import os\nos._exit(3)\n")
		if err := w.Prepare(s); err != nil {
			t.Fatal(err)
		}
		if exit, err := w.Run(t.Context(), w.again(t, s)); err != nil || !exit.Warm || string(exit.Stdout) != "1\n" {
			t.Errorf("%+v %v", exit, err)
		}
		if !strings.Contains(w.logs.String(), "the pages that forks need are not known") {
			t.Errorf("not said: %s", w.logs)
		}
	})
}

// A cell that is told nonsense, or of memory that is not there, is no danger to its runs: it ends, or they go on.
func TestOddHotPages(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		lives bool
	}{
		"half a range": {"1234567", false}, "too many": {strings.Repeat("\x00", 16*(hotRanges+1)), false},
		"nowhere": {strings.Repeat("\xff", 16), true}, "page zero": {strings.Repeat("\x00", 16), true}, "none": {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := warmBoxOn(t, full(t))
			s := w.spec(t, says)
			if err := w.Prepare(s); err != nil {
				t.Fatal(err)
			}
			if err := w.skills[s.Warm.Skill].cell.ask('H', c.text); (err == nil) != c.lives {
				t.Fatalf("the cell answers %v", err)
			}
			if exit, err := w.Run(t.Context(), s); err != nil || exit.ExitCode != 0 {
				t.Errorf("%+v %v", exit, err)
			}
		})
	}
}
