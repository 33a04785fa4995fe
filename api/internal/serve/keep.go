package serve

import (
	"context"
	"log/slog"
	"time"

	"xrayrunner/api/internal/config"
	"xrayrunner/api/internal/store"
)

const (
	// keepEvery is how often the house is kept: calls of apis that have ended are closed, and the head is logged.
	keepEvery = time.Minute
	// retainEvery is how often what is too old is removed.
	retainEvery = time.Hour
)

// retention is who removes what is too old, as the record names it.
var retention = store.Actor{Token: "retention", Role: "system", Caller: "api"}

// keep does the house's work until ctx ends; the channel is closed when it has stopped.
func keep(ctx context.Context, cfg config.Config, db *store.DB, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h := house{cfg: cfg, db: db, log: log}
		tick := time.NewTicker(keepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				h.work(ctx, now)
			}
		}
	}()
	return done
}

type house struct {
	cfg      config.Config
	db       *store.DB
	log      *slog.Logger
	head     string // as it was last logged
	retained time.Time
}

func (h *house) work(ctx context.Context, now time.Time) {
	lost, err := h.db.CloseLost(ctx)
	if err != nil {
		h.log.Error("calls of ended apis not closed", "error", err.Error())
	}
	if lost > 0 {
		h.log.Warn("closed calls of an api that has ended", "lost_calls_closed", lost)
	}
	if h.cfg.AuditDays > 0 && now.Sub(h.retained) >= retainEvery {
		h.retained = now
		removed, err := h.db.Retain(ctx, retention, time.Duration(h.cfg.AuditDays)*24*time.Hour)
		if err != nil {
			h.log.Error("retention", "error", err.Error())
		}
		if removed > 0 {
			h.log.Info("retention", "events_removed", removed)
		}
	}
	h.logHead(ctx)
}

// logHead writes the head where the record's writer cannot reach it later, whenever it has changed.
func (h *house) logHead(ctx context.Context) {
	seq, head, err := h.db.Head(ctx)
	if err != nil || head == h.head {
		return
	}
	h.head = head
	h.log.Info("record", "events", seq, "head", head)
}
