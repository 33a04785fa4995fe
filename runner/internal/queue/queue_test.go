package queue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"xrayrunner/runner/internal/queue"
)

const plenty = 1 << 40

// caller is one Acquire that may be waiting. What it got is read after synctest.Wait, when nothing moves any more.
type caller struct {
	release func()
	err     error
	done    bool
}

func call(ctx context.Context, q *queue.Queue, memory uint64) *caller {
	c := &caller{}
	go func() {
		c.release, c.err = q.Acquire(ctx, memory)
		c.done = true
	}()
	synctest.Wait()
	return c
}

func (c *caller) runs() bool { return c.done && c.err == nil }

func load(t *testing.T, q *queue.Queue, running, waiting int) {
	t.Helper()
	if r, w := q.Load(); r != running || w != waiting {
		t.Errorf("running %d, waiting %d; want %d and %d", r, w, running, waiting)
	}
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestSlotsAndPlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(2, 1, plenty)
		first, second, third := call(t.Context(), q, 1), call(t.Context(), q, 1), call(t.Context(), q, 1)
		if !first.runs() || !second.runs() || third.done {
			t.Fatalf("two run and the third waits: %+v %+v %+v", first, second, third)
		}
		fourth := call(t.Context(), q, 1)
		if !fourth.done || !errors.Is(fourth.err, queue.ErrFull) || fourth.release != nil {
			t.Errorf("the fourth got %+v, want ErrFull at once", fourth)
		}
		load(t, q, 2, 1)
		first.release()
		synctest.Wait()
		if !third.runs() {
			t.Error("the third did not get the place that was given back")
		}
		load(t, q, 2, 0)
		first.release() // again: must not free a second place
		load(t, q, 2, 0)
		second.release()
		third.release()
		load(t, q, 0, 0)
	})
}

func TestNoPlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(1, 0, plenty)
		first, second := call(t.Context(), q, 1), call(t.Context(), q, 1)
		if !first.runs() || !errors.Is(second.err, queue.ErrFull) {
			t.Errorf("%+v %+v", first, second)
		}
		first.release()
		if third := call(t.Context(), q, 1); !third.runs() {
			t.Errorf("after the release: %+v", third)
		}
	})
}

func TestMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(9, 9, 100)
		for _, c := range []struct {
			memory uint64
			runs   bool
		}{{60, true}, {40, true}, {1, false}} {
			if got := call(t.Context(), q, c.memory); got.runs() != c.runs {
				t.Errorf("%d bytes: runs %v, want %v", c.memory, got.runs(), c.runs)
			}
		}
		load(t, q, 2, 1)
	})
}

// TestMoreThanAllMemory: what can never fit does not wait for ever; it runs alone.
func TestMoreThanAllMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(9, 9, 100)
		small, huge := call(t.Context(), q, 1), call(t.Context(), q, 1<<63)
		if !small.runs() || huge.done {
			t.Fatalf("the small one runs and the huge one waits: %+v %+v", small, huge)
		}
		small.release()
		synctest.Wait()
		if !huge.runs() {
			t.Fatal("the huge one does not run alone")
		}
		if next := call(t.Context(), q, 1); next.done {
			t.Error("another runs beside the huge one")
		}
		huge.release()
		synctest.Wait()
		load(t, q, 1, 0)
	})
}

// TestFIFO: a small one that came later does not overtake a large one, which would otherwise starve.
func TestFIFO(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(9, 9, 100)
		running := call(t.Context(), q, 60)
		large, small := call(t.Context(), q, 50), call(t.Context(), q, 10)
		if large.done || small.done {
			t.Fatalf("both must wait: %+v %+v", large, small)
		}
		running.release()
		synctest.Wait()
		if !large.runs() || !small.runs() {
			t.Errorf("both fit now: %+v %+v", large, small)
		}
	})
}

func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(1, 9, plenty)
		running := call(t.Context(), q, 1)
		var waiting []*caller
		for range 9 {
			waiting = append(waiting, call(t.Context(), q, 1))
		}
		for i, next := range waiting {
			running.release()
			synctest.Wait()
			if !next.runs() {
				t.Fatalf("number %d is not the next", i)
			}
			load(t, q, 1, len(waiting)-i-1)
			running = next
		}
	})
}

// TestCase27CancelWhileWaiting: who goes away while waiting leaves no trace, and who stood behind moves up.
func TestCase27CancelWhileWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(9, 200, 100)
		running := call(t.Context(), q, 60)
		ctx, cancel := context.WithCancel(t.Context())
		var gone []*caller
		for range 100 {
			gone = append(gone, call(ctx, q, 50))
		}
		behind := call(t.Context(), q, 40) // fits beside the one that runs, once nobody stands before it
		load(t, q, 1, 101)
		cancel()
		synctest.Wait()
		for _, g := range gone {
			if !g.done || !errors.Is(g.err, context.Canceled) || g.release != nil {
				t.Fatalf("a cancelled one got %+v", g)
			}
		}
		if !behind.runs() {
			t.Error("the one behind did not move up")
		}
		running.release()
		behind.release()
		load(t, q, 0, 0)
	})
}

// TestGoneBeforeItBegan: a free place is not for a caller who has gone already, and not for one who goes in the same
// moment in which it is granted.
func TestGoneBeforeItBegan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(1, 1, plenty)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if c := call(ctx, q, 1); !errors.Is(c.err, context.Canceled) || c.release != nil {
			t.Errorf("got %+v, want Canceled", c)
		}
		load(t, q, 0, 0)
		for range 100 { // which of two that are ready a select takes is left to chance
			running := call(t.Context(), q, 1)
			ctx, cancel := context.WithCancel(t.Context())
			waiting := call(ctx, q, 1)
			cancel()
			running.release()
			synctest.Wait()
			if !errors.Is(waiting.err, context.Canceled) || waiting.release != nil {
				t.Fatalf("got %+v, want Canceled", waiting)
			}
			load(t, q, 0, 0)
		}
	})
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := queue.New(1, 9, plenty)
		running, waiting := call(t.Context(), q, 1), call(t.Context(), q, 1)
		idle := q.Close()
		synctest.Wait()
		if !waiting.done || !errors.Is(waiting.err, queue.ErrClosed) {
			t.Errorf("who waited got %+v, want ErrClosed", waiting)
		}
		if late := call(t.Context(), q, 1); !errors.Is(late.err, queue.ErrClosed) {
			t.Errorf("who came late got %+v, want ErrClosed", late)
		}
		select {
		case <-idle:
			t.Error("idle while one runs")
		default:
		}
		running.release()
		<-idle
		<-q.Close() // again
		load(t, q, 0, 0)
	})
}

func TestCloseWhenIdle(t *testing.T) { <-queue.New(1, 1, 1).Close() }

// TestStress: many callers, some of whom go away, never exceed slots or memory, and leave the queue empty.
func TestStress(t *testing.T) {
	const slots, places, memory = 3, 20, 100
	q := queue.New(slots, places, memory)
	var running, used, served, full, gone atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(3) == 0 {
					go cancel()
				}
				size := int64(random.IntN(60))
				release, err := q.Acquire(ctx, uint64(size))
				switch {
				case err == nil:
					served.Add(1)
					if n := running.Add(1); n > slots {
						t.Errorf("%d run at once", n)
					}
					if n := used.Add(size); n > memory {
						t.Errorf("%d bytes at once", n)
					}
					used.Add(-size)
					running.Add(-1)
					release()
				case errors.Is(err, queue.ErrFull):
					full.Add(1)
				case errors.Is(err, context.Canceled):
					gone.Add(1)
				default:
					t.Errorf("unexpected: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	load(t, q, 0, 0)
	if got := served.Load() + full.Load() + gone.Load(); got != 40*200 || served.Load() == 0 {
		t.Errorf("served %d, full %d, gone %d", served.Load(), full.Load(), gone.Load())
	}
	<-q.Close()
}
