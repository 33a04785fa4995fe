package calls

import (
	"context"
	"sync"
	"time"

	"xrayrunner/runner/client"
)

// placesFresh is how long the number of places is taken to hold: a runner that was started anew may have another.
// placesAgain is after how long one that did not answer is asked again.
const (
	placesFresh = 30 * time.Second
	placesAgain = time.Second
)

// places is how many runs the runner lets run or wait at once. The runner says so; it is not a setting of the api.
type places struct {
	mu    sync.Mutex
	n     int // 0: not known yet
	asked time.Time
	fresh time.Duration
}

// look asks the runner when the number is not fresh. One that does not answer keeps the old number; before the first
// answer there is no bound, and nothing that could run.
func (p *places) look(ctx context.Context, runner *client.Client, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.asked).Abs() < p.fresh {
		return
	}
	p.asked, p.fresh = now, placesAgain
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if h, err := runner.Health(ctx); err == nil {
		p.n, p.fresh = h.Slots+h.Queue, placesFresh
	}
}

// half is what one token may hold at once: at least one place, 0 when the number is not known.
func (p *places) half() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 {
		return 0
	}
	return max(1, p.n/2)
}
