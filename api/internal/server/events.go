package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"xrayrunner/api/internal/store"
	"xrayrunner/api/internal/trace"
	"xrayrunner/runner/protocol"
)

const (
	// eventsEvery is how often the record is looked at for a follower. Other apis write to it too, so there is nothing
	// in this process that could wake it.
	eventsEvery = 250 * time.Millisecond
	// eventsBeat is how often a quiet stream says that it lives; proxies end silent ones after a minute or less.
	eventsBeat = 15 * time.Second
	// maxFollowers bounds the streams of this api: each one reads the store four times a second.
	maxFollowers = 32
)

// events follows the trace: server-sent events from where Last-Event-ID stood, else from now on (or with ?from=0 from the
// beginning of the record).
func (s *Server) events(c echo.Context) error {
	f, err := s.follower(c)
	if err != nil {
		return err
	}
	if s.followers.Add(1) > maxFollowers {
		s.followers.Add(-1)
		return refused{protocol.NewProblem(protocol.Busy, "too many streams are open; close one")}
	}
	defer s.followers.Add(-1)
	h := c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.Response().WriteHeader(http.StatusOK)
	return f.follow(c, s)
}

// follower is one stream.
type follower struct {
	filter store.Filter
	resume int64 // the event of which some parts were sent
	part   int   // the first that was not
}

func (s *Server) follower(c echo.Context) (*follower, error) {
	ctx := c.Request().Context()
	f := &follower{filter: store.Filter{Session: c.QueryParam("session"), Limit: maxBatch}}
	id := c.Request().Header.Get("Last-Event-ID")
	switch {
	case id != "":
		seq, part, ok := trace.ParseID(id)
		if !ok {
			return nil, refused{protocol.NewProblem(protocol.BadRequest, "Last-Event-ID is none of ours: NUMBER-NUMBER")}
		}
		f.filter.AfterSeq, f.resume, f.part = seq-1, seq, part+1
	case c.QueryParam("from") == "0":
	case c.QueryParam("from") != "":
		return nil, refused{protocol.NewProblem(protocol.BadRequest, "from is 0 (the beginning), or absent (now)")}
	default:
		seq, _, err := s.Desk.Store.Head(ctx)
		if err != nil {
			return nil, err
		}
		f.filter.AfterSeq = seq
	}
	return f, nil
}

// maxBatch is how many events of the record one look takes.
const maxBatch = 500

// follow sends until the caller goes away. An error ends the stream, and the caller takes it up again.
func (f *follower) follow(c echo.Context, s *Server) error {
	tick, beat := time.NewTicker(eventsEvery), time.NewTicker(eventsBeat)
	defer tick.Stop()
	defer beat.Stop()
	if err := f.comment(c, "following"); err != nil {
		return nil
	}
	for {
		full, err := f.send(c, s)
		if err != nil {
			return nil // the answer has begun: there is no other way to say so than to end
		}
		if full {
			continue
		}
		select {
		case <-c.Request().Context().Done():
			return nil
		case <-s.Closing:
			return nil
		case <-beat.C:
			if err := f.comment(c, "beat"); err != nil {
				return nil
			}
		case <-tick.C:
		}
	}
}

func (f *follower) comment(c echo.Context, text string) error {
	_, err := fmt.Fprintf(c.Response(), ": %s\n\n", text)
	c.Response().Flush()
	return err
}

func (f *follower) send(c echo.Context, s *Server) (full bool, err error) {
	events, err := s.Desk.Store.Events(c.Request().Context(), f.filter)
	if err != nil {
		return false, err
	}
	for _, e := range events {
		steps, err := trace.Of(e)
		if err != nil {
			return false, err
		}
		for i, step := range steps {
			if e.Seq == f.resume && i < f.part {
				continue
			}
			if err := write(c, step); err != nil {
				return false, err
			}
		}
		f.filter.AfterSeq = e.Seq
	}
	c.Response().Flush()
	return len(events) == maxBatch, nil
}

func write(c echo.Context, step trace.Event) error {
	raw, err := json.Marshal(step)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Response(), "id: %s\nevent: %s\ndata: %s\n\n", step.ID, step.Event, raw)
	return err
}
