package queue_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"

	"xrayrunner/runner/internal/queue"
)

// TestGrantMeetsCancel: a place that is granted in the moment in which the caller goes away is either had or passed on,
// whichever of the two the caller sees first; it is never lost.
func TestGrantMeetsCancel(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			q := queue.New(1, 2, plenty)
			running := call(t.Context(), q, 1)
			ctx, cancel := context.WithCancel(t.Context())
			leaving, behind := call(ctx, q, 1), call(t.Context(), q, 1)
			running.release() // grants; the one that waits has not seen it yet
			cancel()
			synctest.Wait()
			switch {
			case leaving.runs() && !behind.done:
				leaving.release()
				synctest.Wait()
			case errors.Is(leaving.err, context.Canceled) && leaving.release == nil:
			default:
				t.Fatalf("leaving %+v, behind %+v", leaving, behind)
			}
			if !behind.runs() {
				t.Fatal("the place was lost")
			}
			behind.release()
			load(t, q, 0, 0)
		})
	}
}

// TestMemoryDoesNotWrap: with all of a uint64 to give, one byte more is still one too many.
func TestMemoryDoesNotWrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(9, 9, math.MaxUint64)
		all := call(t.Context(), q, math.MaxUint64)
		if more := call(t.Context(), q, 1); !all.runs() || more.done {
			t.Errorf("all %+v, one more %+v; want that it waits", all, more)
		}
		all.release()
		synctest.Wait()
		load(t, q, 1, 0)
	})
}

// TestCloseInTheMiddle: callers that meet a Close are served or refused, and when it is idle nothing is left.
func TestCloseInTheMiddle(t *testing.T) {
	for range 20 {
		q := queue.New(2, 10, plenty)
		ready := make(chan struct{}, 8)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				first := true
				for {
					release, err := q.Acquire(t.Context(), 1)
					if err == nil {
						release()
						release()
					} else if errors.Is(err, queue.ErrClosed) {
						if first {
							ready <- struct{}{}
						}
						return
					} else if !errors.Is(err, queue.ErrFull) {
						t.Errorf("unexpected: %v", err)
					}
					if first {
						first = false
						ready <- struct{}{}
					}
				}
			})
		}
		<-ready // one has been through, so Close comes in the middle
		<-q.Close()
		load(t, q, 0, 0)
		wg.Wait()
		load(t, q, 0, 0)
	}
}
