package server

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"xrayrunner/runner/protocol"
)

// lineWriter sends newline-delimited events. It is used by one goroutine at a time: the sandbox calls stderr from
// one goroutine, and result comes after it.
type lineWriter struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	log   *slog.Logger
}

func newLineWriter(w http.ResponseWriter, log *slog.Logger) *lineWriter {
	return &lineWriter{w: w, flush: http.NewResponseController(w), log: log}
}

func (l *lineWriter) stderr(line string, at time.Duration) {
	l.send(protocol.Event{Event: "stderr", TMS: at.Milliseconds(), Line: strings.ToValidUTF8(line, "\uFFFD")})
}

func (l *lineWriter) result(r *protocol.Result) { l.send(protocol.Event{Event: "result", Result: r}) }

// send does not report a failure to its caller: a reader who has gone ends the run through the request's context.
func (l *lineWriter) send(e protocol.Event) {
	err := encode(l.w, e)
	if err == nil {
		err = l.flush.Flush()
	}
	if err != nil {
		l.log.Debug("event not delivered", "error", err.Error())
	}
}
