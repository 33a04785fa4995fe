package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"xrayrunner/api/internal/operations"
	"xrayrunner/runner/protocol"
)

// api is the other side.
type api struct {
	url, token string
}

// refusal is a problem that the api answered.
type refusal struct{ protocol.Problem }

func (r *refusal) Error() string { return fmt.Sprintf("%s: %s", r.Code, r.Detail) }

const defaultURL = "http://127.0.0.1:8080"

// connect finds address and token. Nothing is sent yet.
func connect(o options, env func(string) (string, bool)) (*api, error) {
	a := &api{url: strings.TrimSuffix(first(o.text["url"], from(env, "XRAYCTL_URL"), defaultURL), "/")}
	if u, err := url.Parse(a.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usage{fmt.Sprintf("the api's address %q: write http://HOST:PORT", a.url)}
	}
	file := first(o.text["token-file"], from(env, "XRAYCTL_TOKEN_FILE"))
	a.token = from(env, "XRAYCTL_TOKEN")
	switch {
	case file != "":
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, usage{"the token: " + err.Error()}
		}
		a.token = strings.TrimSpace(string(raw))
	case a.token == "":
		return nil, usage{"a token is needed: --token-file FILE, XRAYCTL_TOKEN_FILE or XRAYCTL_TOKEN (make one with: api token create NAME operator)"}
	}
	return a, nil
}

func from(env func(string) (string, bool), name string) string {
	v, _ := env(name)
	return v
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// do does one operation and gives the answer's bytes. Arguments that are empty are left out.
func (a *api) do(ctx context.Context, name string, texts map[string]string) ([]byte, error) {
	o, known := operations.Find(name)
	if !known {
		return nil, errors.New("BUG: no operation " + name)
	}
	args := map[string]json.RawMessage{}
	for _, arg := range o.Args {
		if text, given := texts[arg.Name]; given && text != "" {
			args[arg.Name] = arg.FromText(text)
		}
	}
	if why := o.Check(args); why != "" {
		return nil, usage{why}
	}
	path, body := o.Request(args)
	return a.send(ctx, o.Method, path, body)
}

func (a *api) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	resp, err := a.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// open sends, and turns whatever is not a success into an error.
func (a *api) open(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the api at %s cannot be reached: %w", a.url, unwrap(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var r refusal
	if err != nil || json.Unmarshal(raw, &r.Problem) != nil || r.Code == "" {
		return nil, fmt.Errorf("%s answered %s; is it the api?", a.url, resp.Status)
	}
	if resp.StatusCode >= 500 && r.Retry == protocol.RetryNo {
		return nil, errors.New("the api failed: " + r.Error())
	}
	return nil, &r
}

// unwrap leaves out what net/http puts before a cause: the address is in our own words.
func unwrap(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
