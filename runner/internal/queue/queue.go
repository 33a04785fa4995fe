// Package queue admits runs: so many at once, so much memory at once, so many waiting, in the order in which they
// came. When the waiting places are taken the answer is no, at once: a caller can do something with a refusal, and
// nothing with a queue that grows.
package queue

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// ErrFull is returned when every waiting place is taken, ErrClosed when the runner is shutting down.
var (
	ErrFull   = errors.New("all places are taken")
	ErrClosed = errors.New("shutting down")
)

// Queue admits runs. Make it with New.
type Queue struct {
	slots, places int
	memory        uint64

	mu      sync.Mutex
	running int
	used    uint64
	waiting list.List // of *waiter
	closed  bool
	idle    chan struct{} // closed when closed and nothing runs or waits
}

type waiter struct {
	memory  uint64
	granted chan error // buffered 1: nil, or why not
}

// New admits up to slots runs that together reserve up to memory bytes, and lets up to places wait.
func New(slots, places int, memory uint64) *Queue {
	return &Queue{slots: slots, places: places, memory: memory, idle: make(chan struct{})}
}

// Acquire waits for a place and returns its release, which must be called exactly once and is safe to call again.
// The errors are ErrFull, ErrClosed and the context's.
func (q *Queue) Acquire(ctx context.Context, memory uint64) (release func(), err error) {
	memory = min(memory, q.memory) // what can never fit runs alone
	w := &waiter{memory: memory, granted: make(chan error, 1)}
	element, err := q.enter(w)
	if err != nil {
		return nil, err
	}
	if element != nil {
		if err := q.wait(ctx, element, w); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil { // gone before it began: the place is for one who is still there
		q.release(memory)
		return nil, err
	}
	return sync.OnceFunc(func() { q.release(memory) }), nil
}

func (q *Queue) enter(w *waiter) (*list.Element, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, ErrClosed
	case q.waiting.Len() == 0 && q.fits(w):
		q.take(w)
		return nil, nil
	case q.waiting.Len() >= q.places:
		return nil, ErrFull
	}
	return q.waiting.PushBack(w), nil
}

func (q *Queue) wait(ctx context.Context, element *list.Element, w *waiter) error {
	select {
	case err := <-w.granted:
		return err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-w.granted: // granted in the same moment: give it to the next one
		if err == nil {
			q.giveBack(w.memory)
		}
	default:
		q.waiting.Remove(element)
		q.admit() // it may have stood in the way of smaller ones
	}
	return ctx.Err()
}

func (q *Queue) fits(w *waiter) bool {
	return q.running < q.slots && w.memory <= q.memory-q.used
}

func (q *Queue) take(w *waiter) { q.running++; q.used += w.memory }

func (q *Queue) release(memory uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giveBack(memory)
}

func (q *Queue) giveBack(memory uint64) {
	q.running--
	q.used -= memory
	q.admit()
}

func (q *Queue) admit() {
	for e := q.waiting.Front(); e != nil; e = q.waiting.Front() {
		w := e.Value.(*waiter)
		if !q.fits(w) {
			break
		}
		q.waiting.Remove(e)
		q.take(w)
		w.granted <- nil
	}
	q.signalIdle()
}

func (q *Queue) signalIdle() {
	if !q.closed || q.running > 0 || q.waiting.Len() > 0 {
		return
	}
	select {
	case <-q.idle:
	default:
		close(q.idle)
	}
}

// Close refuses newcomers and all that wait, and returns a channel that is closed when the last run has ended.
func (q *Queue) Close() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for e := q.waiting.Front(); e != nil; e = q.waiting.Front() {
		q.waiting.Remove(e)
		e.Value.(*waiter).granted <- ErrClosed
	}
	q.signalIdle()
	return q.idle
}

// Load is what is going on now.
func (q *Queue) Load() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running, q.waiting.Len()
}
