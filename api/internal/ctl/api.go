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
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// api is the other side.
type api struct {
	url, token string
}

// refusal is a problem that the api answered.
type refusal struct{ protocol.Problem }

func (r *refusal) Error() string { return fmt.Sprintf("%s: %s", r.Code, r.Detail) }

// hints are what an operator does about a refusal. Its own words are for whoever called, who may be an agent.
var hints = map[guard.Code]string{
	guard.UnknownSkill:    "xrayctl skills lists the skills",
	guard.AgentDisabled:   "xrayctl skills says what closes it",
	guard.ToolDisabled:    "xrayctl skills says what closes it",
	guard.SkillDrift:      "xrayctl drift names the files; xrayctl publish NAME stores the reviewed ones",
	guard.QuotaDaily:      "xrayctl limits --daily N sets it",
	protocol.Unauthorized: "check --token-file, XRAYCTL_TOKEN_FILE and XRAYCTL_TOKEN",
	protocol.Forbidden:    "a viewer's token shows, only an operator's changes and runs",
}

// say prints a refusal and what to do about it.
func (r *refusal) say(w io.Writer) {
	fmt.Fprintln(w, "xrayctl: refused: "+r.Error())
	if hint := hints[r.Code]; hint != "" {
		fmt.Fprintln(w, hint)
	}
}

const defaultURL = "http://127.0.0.1:8080"

// connect finds address and token. Nothing is sent yet.
func connect(o options, env func(string) (string, bool)) (*api, error) {
	a := &api{url: strings.TrimSuffix(first(o.text["url"], from(env, "XRAYCTL_URL"), defaultURL), "/")}
	u, err := url.Parse(a.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usage{fmt.Sprintf("the api's address %q: write http://HOST:PORT", a.url)}
	}
	if strings.HasSuffix(u.Path, "/mcp") || strings.HasSuffix(u.Path, "/mcp/operator") {
		return nil, usage{fmt.Sprintf("%q is the address for MCP: leave %s out", a.url, u.Path)}
	}
	if a.token, err = token(o, env); err != nil {
		return nil, err
	}
	return a, nil
}

func token(o options, env func(string) (string, bool)) (string, error) {
	file, where := first(o.text["token-file"], from(env, "XRAYCTL_TOKEN_FILE")), "XRAYCTL_TOKEN"
	text := from(env, "XRAYCTL_TOKEN")
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", usage{"the token: " + err.Error()}
		}
		where, text = file, strings.TrimSpace(string(raw))
	}
	switch {
	case file == "" && text == "":
		return "", usage{"a token is needed: --token-file FILE, XRAYCTL_TOKEN_FILE or XRAYCTL_TOKEN (make one where the api runs: api token create NAME operator)"}
	case text == "":
		return "", usage{"the token: " + where + " is empty"}
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", usage{"the token: " + where + " holds something else than one token"}
	}
	return text, nil
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
