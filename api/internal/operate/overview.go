package operate

import (
	"context"
	"slices"
	"strings"

	"xrayrunner/api/internal/offer"
	"xrayrunner/api/internal/operations"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// The scopes: where a thing that can be called lives.
const (
	ScopeRunner   = "runner"   // a skill of the manifest
	ScopeExternal = "external" // a skill below an allow-listed root of the runner
	ScopeAPI      = "api"      // the api's own tool
)

// OwnTool is one tool of the api itself.
type OwnTool struct {
	Name    string   `json:"name"`
	Scope   string   `json:"scope"` // always "api"
	Roles   []string `json:"roles"` // who may call it
	Reads   bool     `json:"reads"` // changes nothing
	Switch  string   `json:"switch,omitempty"`
	Enabled bool     `json:"enabled"`
	Text    string   `json:"description"`
}

// OwnTools are the agents' tools and the operators', with the state of their switches.
func (d *Desk) OwnTools(ctx context.Context) ([]OwnTool, error) {
	switches, err := d.Store.Tools(ctx)
	if err != nil {
		return nil, err
	}
	agents := []OwnTool{
		{Name: guard.ToolList, Reads: true, Text: "Name the skills that are open."},
		{Name: guard.ToolLoad, Reads: true, Text: "Read a skill."},
		{Name: guard.ToolRun, Text: "Run a script of a skill."},
	}
	var out []OwnTool
	for _, t := range agents {
		t.Scope, t.Roles, t.Switch, t.Enabled = ScopeAPI, []string{string(store.RoleAgent)}, switchOf(t.Name), true
		if t.Switch != "" {
			t.Enabled = switches[t.Switch] && (t.Switch != guard.ToolRun || d.Unlock)
		}
		out = append(out, t)
	}
	for _, o := range operations.All {
		t := OwnTool{Name: o.Name, Scope: ScopeAPI, Roles: []string{string(store.RoleOperator)}, Reads: o.Reads, Enabled: true, Text: o.Text}
		if o.Reads {
			t.Roles = append(t.Roles, string(store.RoleViewer))
		}
		out = append(out, t)
	}
	return out, nil
}

// Overview is how the deployment is.
type Overview struct {
	Version        string              `json:"version"`
	Ready          Ready               `json:"ready"`
	ManifestDigest string              `json:"manifest_digest"`
	Runner         *protocol.Health    `json:"runner,omitempty"` // absent when it cannot be reached
	Record         RecordHead          `json:"record"`
	Tools          ToolConfig          `json:"tools"`
	Limits         store.SandboxConfig `json:"limits"`
	DayRuns        int                 `json:"day_runs"`
	Skills         map[string]int      `json:"skills"` // by state
}

// RecordHead is the record's newest event.
type RecordHead struct {
	Events int64  `json:"events"`
	Head   string `json:"head"`
}

// Overview reads everything that an operator looks at first.
func (d *Desk) Overview(ctx context.Context) (Overview, error) {
	o := Overview{Version: d.Version, Ready: d.Ready(ctx), ManifestDigest: d.Lock.Digest()}
	if health, err := d.Runner.Health(ctx); err == nil {
		o.Runner = health
	}
	s, err := d.Snapshot(ctx)
	if err != nil {
		return o, err
	}
	o.Record, o.Skills, o.DayRuns = RecordHead{s.HeadSeq, s.HeadHash}, s.Skills, s.DayRuns
	if o.Tools, err = d.Tools(ctx); err != nil {
		return o, err
	}
	o.Limits, err = d.Store.Sandbox(ctx)
	return o, err
}

// SkillDetail is one skill with its files.
type SkillDetail struct {
	SkillStatus
	Files   []FileStatus          `json:"files"`
	Scripts map[string]ScriptForm `json:"scripts"` // by name; empty for a skill that is text
}

// FileStatus is one file, reviewed or stored or both.
type FileStatus struct {
	Path     string `json:"path"`
	State    string `json:"state"` // same, differs, mode, missing, extra
	Reviewed string `json:"reviewed_sha256,omitempty"`
	Stored   string `json:"stored_sha256,omitempty"`
}

// Skill shows one skill file by file.
func (d *Desk) Skill(ctx context.Context, name string) (SkillDetail, *protocol.Problem, error) {
	s, refused, err := d.one(ctx, name)
	if refused != nil || err != nil {
		return SkillDetail{}, refused, err
	}
	rows, err := d.Store.Skills(ctx)
	if err != nil {
		return SkillDetail{}, nil, err
	}
	detail := SkillDetail{SkillStatus: s, Files: []FileStatus{}, Scripts: map[string]ScriptForm{}}
	var reviewed map[string]manifests.File
	if skill := d.lock().Skills[name]; skill != nil {
		reviewed, detail.Scripts = skill.Files, forms(skill)
	}
	for path, f := range reviewed {
		got, ok := rows[name].Files[path]
		detail.Files = append(detail.Files, FileStatus{Path: path, State: offer.Compare(f, got, ok), Reviewed: f.SHA256, Stored: got.SHA256})
	}
	for path, f := range rows[name].Files {
		if _, ok := reviewed[path]; !ok {
			detail.Files = append(detail.Files, FileStatus{Path: path, State: offer.Extra, Stored: f.SHA256})
		}
	}
	slices.SortFunc(detail.Files, func(a, b FileStatus) int { return strings.Compare(a.Path, b.Path) })
	return detail, nil, nil
}
