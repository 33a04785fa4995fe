package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"xrayrunner/api/internal/config"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

// Healthcheck asks the api on this configuration whether it answers.
func Healthcheck(ctx context.Context, environ []string) error {
	cfg, err := config.Load(environ)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return fmt.Errorf("XRAY_LISTEN: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return nil
}

// Migrate opens the store, which brings it up to date, and prints its version.
func Migrate(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Load(environ)
	if err != nil {
		return err
	}
	db, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	version, err := db.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "store is at schema version %d\n", version)
	return err
}

// local is who uses the commands beside the store.
var local = store.Actor{Token: "local", Role: store.RoleOperator, Caller: "cli"}

// Token makes, lists and ends tokens.
func Token(ctx context.Context, environ []string, args []string, out io.Writer) error {
	cfg, err := config.Load(environ)
	if err != nil {
		return err
	}
	db, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	switch {
	case args[0] == "create" && (len(args) == 3 || len(args) == 4):
		mode := store.ModeReadOnly
		if len(args) == 4 {
			mode = store.Mode(args[3])
		}
		secret, err := db.CreateToken(ctx, local, args[1], store.Role(args[2]), mode)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, secret)
		return err
	case args[0] == "list" && len(args) == 1:
		return listTokens(ctx, db, out)
	case args[0] == "revoke" && len(args) == 2:
		return db.RevokeToken(ctx, local, args[1])
	}
	return errors.New("usage: api token create NAME ROLE [PERMISSION_MODE] | list | revoke NAME")
}

func listTokens(ctx context.Context, db *store.DB, out io.Writer) error {
	tokens, err := db.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		state := "valid"
		if t.Revoked {
			state = "revoked"
		}
		if _, err := fmt.Fprintf(out, "%-24s %-9s %-22s %s %s\n", t.Name, t.Role, t.Mode, t.Created.UTC().Format(time.RFC3339), state); err != nil {
			return err
		}
	}
	return nil
}

// Smoke asks the runner to run what is not in the manifest. It must refuse, by name.
func Smoke(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Load(environ)
	if err != nil {
		return err
	}
	c, err := client.New(cfg.RunnerURL, cfg.RunnerToken)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, refused, err := c.Run(ctx, protocol.RunRequest{Session: "smoke", Turn: "smoke", Skill: "smoke", Script: "not-in-the-manifest.py", Input: protocol.TextInput([]byte("{}"))}, "")
	switch {
	case err != nil:
		return err
	case refused == nil:
		return errors.New("the runner ran a script that is not in the manifest")
	case refused.Code != guard.UnknownSkill:
		return fmt.Errorf("the runner refused with %s, not with %s", refused.Code, guard.UnknownSkill)
	}
	_, err = fmt.Fprintf(out, "refused as it must be: %s\n", refused.Code)
	return err
}
