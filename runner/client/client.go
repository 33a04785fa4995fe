// Package client calls the runner over its unix socket (or loopback TCP in development).
//
// The difference that matters to a caller is whether a run may have happened. When the connection itself failed,
// nothing was started: ErrUnavailable. When it broke later, the request may have arrived: ErrLost, and nobody may
// repeat the call. To keep the two apart every call has a connection of its own: a kept one that the other side has
// just closed would blur them (golang/go#22158).
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"xrayrunner/runner/protocol"
)

var (
	// ErrUnavailable is returned when no connection could be made: nothing was started.
	ErrUnavailable = errors.New("the runner cannot be reached")
	// ErrLost is returned when the connection broke after the request may have been sent.
	ErrLost = errors.New("the connection to the runner broke")
)

// Client calls one runner. Make it with New.
type Client struct {
	base  string
	token string
	http  *http.Client
}

const (
	dialTimeout    = 2 * time.Second
	maxAnswerBytes = 4 << 20 // 64 KiB of result and 64 KiB of stderr, escaped, and room
)

// New accepts unix:/path, unix:///path and http://127.0.0.1:port, nothing else. token may be empty for a socket.
func New(address, token string) (*Client, error) {
	dial := net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	c := &Client{token: token, http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	refused := fmt.Errorf("%q: write unix:/path or http://127.0.0.1:port", address)
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		path = strings.TrimPrefix(path, "//") // unix:///path
		if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
			return nil, refused
		}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return marked(dial.DialContext(ctx, "unix", path))
		}
		c.base = "http://runner"
		return c, nil
	}
	// Not by url.Parse: what it would put aside ("?", "#") would take the paths of our calls with it.
	to, err := netip.ParseAddrPort(strings.TrimPrefix(address, "http://"))
	if err != nil || address != "http://"+to.String() || to.Addr() != netip.AddrFrom4([4]byte{127, 0, 0, 1}) || to.Port() == 0 {
		return nil, refused
	}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return marked(dial.DialContext(ctx, network, addr))
	}
	c.base = address
	return c, nil
}

// dialError marks the one kind of failure after which nothing can have happened.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

func marked(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, dialError{err}
	}
	return c, nil
}

// Run posts one run. Exactly one of the three is set: the result of a started run, the refusal, or an error that
// is ErrUnavailable or ErrLost.
func (c *Client) Run(ctx context.Context, req protocol.RunRequest, manifestDigest string) (*protocol.Result, *protocol.Problem, error) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(req); err != nil {
		return nil, nil, fmt.Errorf("%w: BUG: %w", ErrUnavailable, err)
	}
	parent := ""
	if req.Trace != "" {
		parent = protocol.Traceparent(req.Trace, req.RunID)
	}
	status, answer, err := c.do(ctx, http.MethodPost, protocol.PathRun, &body, manifestDigest, parent)
	if err != nil {
		return nil, nil, err
	}
	if status == http.StatusOK {
		var r protocol.Result
		if err := json.Unmarshal(answer, &r); err != nil {
			return nil, nil, fmt.Errorf("%w: unreadable result: %w", ErrLost, err)
		}
		if r.Outcome == "" {
			return nil, nil, fmt.Errorf("%w: a result without an outcome", ErrLost)
		}
		return &r, nil, nil
	}
	var p protocol.Problem
	if err := json.Unmarshal(answer, &p); err != nil || p.Code == "" {
		return nil, nil, fmt.Errorf("%w: unreadable answer with status %d", ErrLost, status)
	}
	return nil, &p, nil
}

// Health asks how the runner is.
func (c *Client) Health(ctx context.Context) (*protocol.Health, error) {
	_, answer, err := c.do(ctx, http.MethodGet, protocol.PathHealthz, nil, "", "")
	if err != nil {
		return nil, err
	}
	var h protocol.Health
	if err := json.Unmarshal(answer, &h); err != nil {
		return nil, fmt.Errorf("unreadable health: %w", err)
	}
	return &h, nil
}

// External asks which external skills the runner has loaded.
func (c *Client) External(ctx context.Context) (*protocol.External, error) {
	status, answer, err := c.do(ctx, http.MethodGet, protocol.PathExternal, nil, "", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("runner answered %d", status)
	}
	if err != nil {
		return nil, err
	}
	var told protocol.External
	if err := json.Unmarshal(answer, &told); err != nil {
		return nil, fmt.Errorf("unreadable external skills: %w", err)
	}
	return &told, nil
}

// Metrics fetches the runner's series as text.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	status, answer, err := c.do(ctx, http.MethodGet, protocol.PathMetrics, nil, "", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("runner answered %d", status)
	}
	return answer, err
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader, digest, parent string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: BUG: %w", ErrUnavailable, err)
	}
	req.GetBody = nil // never sent twice
	req.Header.Set("Content-Type", protocol.TypeJSON)
	if digest != "" {
		req.Header.Set(protocol.HeaderManifest, digest)
	}
	if parent != "" {
		req.Header.Set(protocol.HeaderTrace, parent)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	var notSent dialError
	if errors.As(err, &notSent) {
		return 0, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return resp.StatusCode, answer, nil
}
