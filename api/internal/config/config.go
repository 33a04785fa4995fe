// Package config holds the api's settings: one table, read once, checked whole.
package config

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"xrayrunner/api/internal/store"
	"xrayrunner/internal/settings"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

// Table is every setting of the api. The README's table is tested against it.
var Table = []settings.Setting{
	{Name: "XRAY_LISTEN", Default: "127.0.0.1:8080", Text: "address of REST, MCP and metrics"},
	{Name: "XRAY_SKILL_RUNNER_URL", Default: "unix:/run/xray/runner.sock", Text: "the runner: `unix:/path` or `http://127.0.0.1:port`, nothing else"},
	{Name: "XRAY_SKILL_RUNNER_TOKEN", Default: "", Text: "bearer token of a runner on TCP (RUNNER_TOKEN)", Secret: true},
	{Name: "XRAY_DB", Default: "sqlite:/data/xray.db", Text: "the store: `sqlite:/path` for one api, `postgres://user@host/database` for several"},
	{Name: "XRAY_DB_SYNC", Default: "normal", Text: "`normal` survives kill -9, power loss may cost the tail (PostgreSQL: as its server is set); `full` survives that too"},
	{Name: "XRAY_AUDIT_DAYS", Default: "0", Text: "days that the record is kept, 2-36500; 0: for ever. What goes is removed from its beginning, and that is on the record"},
	{Name: "XRAY_MANIFEST", Default: "/opt/xray/manifest.json", Text: "the lock file, the same bytes as the runner's"},
	{Name: "XRAY_SKILLS_DIR", Default: "/opt/xray/skills", Text: "the reviewed skills that publishing copies from"},
	{Name: "XRAY_UNLOCK_DANGEROUS_TOOLS", Default: "", Text: "`1` unlocks skill_run; without it no runnable skill is available, whatever the switches say"},
	{Name: "XRAY_FUNCTION_TOOLS", Default: "", Text: "`1` gives each safe external skill an MCP tool of its own beside skill_run"},
	{Name: "XRAY_DEV", Default: "", Text: "`1` starts the api on macOS, where nothing can keep it from starting programs; without effect on Linux"},
	{Name: "XRAY_SOP_KEYS", Default: "", Text: "PEM file of the public keys (Ed25519, RSA) whose signed procedures count; without one nothing dangerous can be approved"},
	{Name: "XRAY_APPROVAL_MINUTES", Default: "15", Text: "minutes that a request for approval can be decided and used, 1-1440"},
	{Name: "XRAY_AGENT_TOKEN", Default: "", Text: "an agent's bearer token (name `agent`), at least 16 characters", Secret: true},
	{Name: "XRAY_AGENT_TOKEN_FILE", Default: "", Text: "file that holds it; one final newline is not part of it"},
	{Name: "XRAY_VIEWER_TOKEN", Default: "", Text: "a viewer's bearer token (name `viewer`): the record and the metrics", Secret: true},
	{Name: "XRAY_VIEWER_TOKEN_FILE", Default: "", Text: "file that holds it"},
	{Name: "XRAY_OPERATOR_TOKEN", Default: "", Text: "an operator's bearer token (name `operator`)", Secret: true},
	{Name: "XRAY_OPERATOR_TOKEN_FILE", Default: "", Text: "file that holds it"},
}

// Config is the api's settings, checked.
type Config struct {
	Listen      string
	RunnerURL   string
	RunnerToken string
	DB          string
	FullSync    bool
	AuditDays   int // 0: the record is kept for ever
	Manifest    string
	SkillsDir   string
	Unlock      bool
	Functions   bool
	SOPKeys     string            // path; empty: none
	Approval    time.Duration     // life of a request for approval
	Tokens      map[string]string // role -> configured secret
	Remarks     []string
}

// Load reads and checks everything; the error names the setting. A token that is set and empty is an error, never
// "no authentication" (bug-ops/zeph#6268).
func Load(environ []string) (Config, error) {
	v, remarks, err := settings.Read(Table, environ)
	if err != nil {
		return Config{}, err
	}
	c := Config{Listen: v["XRAY_LISTEN"], RunnerURL: v["XRAY_SKILL_RUNNER_URL"], RunnerToken: v["XRAY_SKILL_RUNNER_TOKEN"], DB: v["XRAY_DB"],
		Manifest: v["XRAY_MANIFEST"], SkillsDir: v["XRAY_SKILLS_DIR"], Unlock: v["XRAY_UNLOCK_DANGEROUS_TOOLS"] == "1", Functions: v["XRAY_FUNCTION_TOOLS"] == "1", SOPKeys: v["XRAY_SOP_KEYS"], Remarks: remarks, Tokens: map[string]string{}}
	switch v["XRAY_DB_SYNC"] {
	case "normal":
	case "full":
		c.FullSync = true
	default:
		return c, fmt.Errorf("XRAY_DB_SYNC=%q: write normal or full", v["XRAY_DB_SYNC"])
	}
	if c.AuditDays, err = auditDays(v["XRAY_AUDIT_DAYS"]); err != nil {
		return c, err
	}
	minutes, err := strconv.Atoi(v["XRAY_APPROVAL_MINUTES"])
	if c.Approval = time.Duration(minutes) * time.Minute; err != nil || c.Approval < time.Minute || c.Approval > protocol.MaxApproval {
		return c, fmt.Errorf("XRAY_APPROVAL_MINUTES=%q: write a number from 1 to 1440", v["XRAY_APPROVAL_MINUTES"])
	}
	if f := v["XRAY_FUNCTION_TOOLS"]; f != "" && f != "1" && f != "0" {
		return c, fmt.Errorf("XRAY_FUNCTION_TOOLS=%q: write 1, or leave it unset", f)
	}
	if u := v["XRAY_UNLOCK_DANGEROUS_TOOLS"]; u != "" && u != "1" && u != "0" {
		return c, fmt.Errorf("XRAY_UNLOCK_DANGEROUS_TOOLS=%q: write 1, or leave it unset", u)
	}
	if _, err := client.New(c.RunnerURL, ""); err != nil {
		return c, fmt.Errorf("XRAY_SKILL_RUNNER_URL=%w", err)
	}
	for _, role := range roles {
		if err := c.token(role, environ); err != nil {
			return c, err
		}
	}
	for i, role := range roles {
		for _, other := range roles[i+1:] {
			if c.Tokens[role] != "" && c.Tokens[role] == c.Tokens[other] {
				return c, fmt.Errorf("the tokens of %s and %s are the same: whoever has one would have both roles", role, other)
			}
		}
	}
	return c, nil
}

func auditDays(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n != 0 && (n < 2 || n > 36500) {
		return 0, fmt.Errorf("XRAY_AUDIT_DAYS=%q: write 0, or a number from 2 to 36500", value)
	}
	return n, nil
}

var roles = []string{"agent", "viewer", "operator"}

func (c *Config) token(role string, environ []string) error {
	name := "XRAY_" + strings.ToUpper(role) + "_TOKEN"
	secret, set := lookup(environ, name)
	if file, ok := lookup(environ, name+"_FILE"); ok {
		if set {
			return fmt.Errorf("%s and %s_FILE are both set: use one", name, name)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s_FILE: %w", name, err)
		}
		secret, set = strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r"), true
		name += "_FILE"
	}
	if !set {
		return nil
	}
	if !store.GoodSecret(secret) {
		return fmt.Errorf("%s: a token is at least 16 visible ASCII characters without white space; leave it unset to have none", name)
	}
	c.Tokens[role] = secret
	return nil
}

func lookup(environ []string, name string) (string, bool) {
	for _, kv := range environ {
		if n, v, _ := strings.Cut(kv, "="); n == name {
			return v, true
		}
	}
	return "", false
}
