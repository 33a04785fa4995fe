package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/labstack/echo/v4"

	"xrayrunner/api/internal/calls"
	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

func writeProblem(w http.ResponseWriter, p *protocol.Problem) {
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, p.Status, protocol.TypeProblem, p)
}

// writeJSON keeps a script's digits and characters, but shows what cannot be seen as \u escapes: the answer is
// read by people too, and in JSON the escape means the same.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		status, contentType = http.StatusInternalServerError, protocol.TypeProblem
		b.Reset()
		b.WriteString(`{"code":"guard_error","status":500}` + "\n")
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, calls.Visible(b.String())) // the caller has gone: nobody is left to tell
}

func ok(c echo.Context, v any) error {
	writeJSON(c.Response(), http.StatusOK, protocol.TypeJSON, v)
	return nil
}

// limitBody bounds what is read, and refuses compressed bodies: their size is not what was sent.
func limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.Header.Get("Content-Encoding") != "" {
			return refused{protocol.NewProblem(protocol.BadRequest, "send the body uncompressed")}
		}
		r.Body = http.MaxBytesReader(c.Response(), r.Body, maxBody)
		return next(c)
	}
}

// bind decodes a body once and strictly. A fault inside input has the code that the guard would give it.
func bind(c echo.Context, v any) error {
	if kind, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type")); err != nil || kind != protocol.TypeJSON {
		return refused{protocol.NewProblem(protocol.BadRequest, "send Content-Type: application/json")}
	}
	raw, err := io.ReadAll(c.Request().Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return refused{protocol.NewProblem(guard.InputTooLarge, "the request is longer than any allowed input")}
	}
	if err != nil {
		return refused{protocol.NewProblem(protocol.BadRequest, "the body could not be read")}
	}
	if p := calls.CheckNesting(raw); p != nil {
		return refused{p}
	}
	if err := manifests.DecodeStrict(raw, v); err != nil {
		return refused{calls.EnvelopeProblem("", err)}
	}
	return nil
}
