// Package operate is what an operator can do: see what agents are offered, publish, open and close skills, and turn
// the switches. The MCP tools and the REST calls of operators are made of it.
package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"xrayrunner/api/internal/catalog"
	"xrayrunner/api/internal/offer"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

// Desk does an operator's work. All fields but Catalog, SOPKeys and Now are required.
type Desk struct {
	Lock      *manifests.Lock
	Store     *store.DB
	Unlock    bool
	SkillsDir string // the reviewed skills that the api's image carries
	Runner    *client.Client
	NoSpawn   func() error // nil error: this process cannot start a program
	Version   string
	Catalog   *catalog.Catalog // the external skills beside the manifest's; nil: none
	SOPKeys   sop.Keys         // whose signed procedures count
	Now       func() time.Time // nil: time.Now
}

// SkillStatus is one skill in the operator's eyes.
type SkillStatus struct {
	Name         string          `json:"name"`
	Scope        string          `json:"scope"` // ScopeRunner or ScopeExternal
	Description  string          `json:"description,omitempty"`
	Kind         manifests.Kind  `json:"kind,omitempty"`
	Class        manifests.Class `json:"class,omitempty"`
	InManifest   bool            `json:"in_manifest"`
	Loaded       bool            `json:"loaded,omitempty"`        // external: the runner has it
	ClassAssumed bool            `json:"class_assumed,omitempty"` // external: its author wrote no class
	Digest       string          `json:"digest,omitempty"`        // external: of its folder as it is now
	Stored       bool            `json:"stored"`
	Published    bool            `json:"published"`
	AgentEnabled bool            `json:"agent_enabled"`
	Copy         string          `json:"copy"` // "same", "drift" or "none"
	Drift        []string        `json:"drift,omitempty"`
	Available    bool            `json:"available"`     // to a turn that begins now
	Why          string          `json:"why,omitempty"` // when not available: what to do
}

// Status lists every skill of the manifest, every stored one that is not in it, and every one that could not be
// read at the build, sorted by name.
func (d *Desk) Status(ctx context.Context) ([]SkillStatus, error) {
	rows, err := d.Store.Skills(ctx)
	if err != nil {
		return nil, err
	}
	tools, err := d.Store.Tools(ctx)
	if err != nil {
		return nil, err
	}
	set := offer.Now(d.lock(), rows, tools, d.Unlock)
	names := map[string]bool{}
	for _, keys := range [][]string{slices.Collect(maps.Keys(d.lock().Skills)), slices.Collect(maps.Keys(rows)), slices.Collect(maps.Keys(d.Lock.Disabled))} {
		for _, n := range keys {
			names[n] = true
		}
	}
	var out []SkillStatus
	for _, name := range slices.Sorted(maps.Keys(names)) {
		row, stored := rows[name]
		out = append(out, d.status(name, row, stored, set))
	}
	return out, nil
}

func (d *Desk) status(name string, row store.StoredSkill, stored bool, set offer.Set) SkillStatus {
	st := SkillStatus{Name: name, Scope: ScopeRunner, Stored: stored, Published: row.Published, AgentEnabled: row.AgentEnabled, Copy: "none", Why: set.Why[name]}
	skill := d.lock().Skills[name]
	if skill == nil {
		st.Why = "not in the manifest"
		if f, off := d.Lock.Disabled[name]; off {
			st.Why = fmt.Sprintf("off since the build: %s:%d: %s (%s)", f.File, f.Line, f.Message, f.Cure)
		}
		return st
	}
	if skill.Kind == manifests.External {
		return d.external(st, skill, row, set)
	}
	st.InManifest, st.Description, st.Kind, st.Class = true, skill.Description, skill.Kind, skill.Class
	st.Available = set.Policy.Skills[name].Closed == ""
	if stored {
		st.Copy = "same"
		if st.Drift = offer.Drift(skill.Files, row.Files); len(st.Drift) > 0 {
			st.Copy = "drift"
		}
	}
	return st
}

// Publish stores a copy of the reviewed files that this image carries, and publishes it. It refuses files that are
// not the manifest's: then the image itself is wrong.
func (d *Desk) Publish(ctx context.Context, who store.Actor, name string) (SkillStatus, *protocol.Problem, error) {
	skill := d.lock().Skills[name]
	if skill == nil {
		return SkillStatus{}, d.unknown(name), nil
	}
	contents, err := manifests.ReadSkill(d.SkillsDir, name)
	if err != nil {
		return SkillStatus{}, protocol.NewProblem(guard.Integrity, "the copy in this image cannot be read: "+err.Error()), nil
	}
	files := map[string]store.FileContent{}
	for path, bytes := range contents {
		files[path] = store.FileContent{Bytes: bytes, Exec: skill.Files[path].Exec}
	}
	if drift := offer.Drift(skill.Files, hashed(files)); len(drift) > 0 {
		return SkillStatus{}, protocol.NewProblem(guard.Integrity, "the copy in this image is not the reviewed one: "+drift[0]), nil
	}
	if err := d.Store.PutSkill(ctx, who, name, files); err != nil {
		return SkillStatus{}, nil, err
	}
	if err := d.Store.SetPublished(ctx, who, name, true); err != nil {
		return SkillStatus{}, nil, err
	}
	return d.one(ctx, name)
}

// SetAgent opens or closes a skill to agents. Closing binds at the next call, opening at the next turn.
func (d *Desk) SetAgent(ctx context.Context, who store.Actor, name string, enabled, confirmed bool) (SkillStatus, *protocol.Problem, error) {
	if skill := d.lock().Skills[name]; skill != nil && skill.Kind == manifests.External {
		return d.setExternal(ctx, who, skill, enabled, confirmed)
	}
	if refused, err := d.stored(name, d.Store.SetAgent(ctx, who, name, enabled)); refused != nil || err != nil {
		return SkillStatus{}, refused, err
	}
	return d.one(ctx, name)
}

func (d *Desk) one(ctx context.Context, name string) (SkillStatus, *protocol.Problem, error) {
	all, err := d.Status(ctx)
	if err != nil {
		return SkillStatus{}, nil, err
	}
	for _, s := range all {
		if s.Name == name {
			return s, nil, nil
		}
	}
	return SkillStatus{}, d.unknown(name), nil
}

func (d *Desk) unknown(name string) *protocol.Problem {
	if f, off := d.Lock.Disabled[name]; off {
		return protocol.NewProblem(guard.UnknownSkill, fmt.Sprintf("skill %s is off since the build: %s:%d: %s (%s)", name, f.File, f.Line, f.Message, f.Cure))
	}
	return protocol.NewProblem(guard.UnknownSkill, fmt.Sprintf("there is no skill %q in the manifest; skills_list names those there are", name))
}
