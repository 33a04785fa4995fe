// Package offer says what is available to agents: the four conditions of the product contract as one pure function.
//
//	1  the skill is in the manifest
//	2  its row is published and open to agents (both off by default)
//	3  every stored file has the manifest's sha256: one more, one less, one different is drift
//	4  the switches: skill_load; for a runnable skill also skill_run and the unlock variable
//
// It is asked at every call, over what the store holds at that moment, so a switch binds at the next call.
package offer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/manifests"
)

// Set is what one moment of the store offers.
type Set struct {
	Policy guard.Policy
	Why    map[string]string // skill -> in words, why it is closed
}

// Names are the skills that are open, sorted.
func (s Set) Names() []string {
	var names []string
	for name, p := range s.Policy.Skills {
		if p.Closed == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Now combines the manifest with the store's rows. A skill of the manifest that is absent from rows is closed.
// unlock is whether XRAY_UNLOCK_DANGEROUS_TOOLS is set.
func Now(lock *manifests.Lock, rows map[string]store.StoredSkill, tools map[string]bool, unlock bool) Set {
	s := Set{Why: map[string]string{}, Policy: guard.Policy{
		Tools: map[string]bool{
			guard.ToolList: true,
			guard.ToolLoad: tools[guard.ToolLoad],
			guard.ToolRun:  tools[guard.ToolRun] && unlock,
		},
		Skills:   map[string]guard.SkillPolicy{},
		MaxClass: manifests.Dangerous, // the caller's permission mode lowers it
	}}
	for name, skill := range lock.Skills {
		row, stored := rows[name]
		code, why := closed(skill, row, stored, tools, unlock)
		s.Policy.Skills[name] = guard.SkillPolicy{Skill: skill, Closed: code}
		if code != "" {
			s.Why[name] = why
		}
	}
	return s
}

func closed(skill *manifests.Skill, row store.StoredSkill, stored bool, tools map[string]bool, unlock bool) (guard.Code, string) {
	switch {
	case skill.Kind == manifests.External:
		return closedExternal(skill, row, tools, unlock)
	case !stored:
		return guard.AgentDisabled, "not stored: publish it"
	case !row.Published:
		return guard.AgentDisabled, "not published"
	case !row.AgentEnabled:
		return guard.AgentDisabled, "not open to agents"
	}
	if drift := Drift(skill.Files, row.Files); len(drift) > 0 {
		return guard.SkillDrift, "drift: " + drift[0]
	}
	switch {
	case !tools[guard.ToolLoad]:
		return guard.ToolDisabled, "skill_load is off"
	case skill.Kind == manifests.InjectOnly:
		return "", ""
	}
	return closedRun(tools, unlock)
}

// closedExternal: there is no copy to publish; what an operator enabled is one digest of the folder.
func closedExternal(skill *manifests.Skill, row store.StoredSkill, tools map[string]bool, unlock bool) (guard.Code, string) {
	switch {
	case !row.AgentEnabled:
		return guard.AgentDisabled, "not enabled"
	case row.Digest != skill.Folder:
		return guard.SkillDrift, "drift: its folder is another one than the one that was enabled; look at it and enable it again"
	case !tools[guard.ToolLoad]:
		return guard.ToolDisabled, "skill_load is off"
	}
	return closedRun(tools, unlock)
}

// closedRun is for what can be run.
func closedRun(tools map[string]bool, unlock bool) (guard.Code, string) {
	switch {
	case !tools[guard.ToolRun]:
		return guard.ToolDisabled, "skill_run is off"
	case !unlock:
		return guard.ToolDisabled, "skill_run is locked: XRAY_UNLOCK_DANGEROUS_TOOLS=1 is not set in the api's environment"
	}
	return "", ""
}

// How a stored file stands to the reviewed one.
const (
	Same    = "same"
	Differs = "differs"
	Mode    = "mode"
	Missing = "missing"
	Extra   = "extra"
)

// Compare says how a stored file stands to the reviewed one; stored is false when there is none.
func Compare(want manifests.File, got store.StoredFile, stored bool) string {
	switch {
	case !stored:
		return Missing
	case got.SHA256 != want.SHA256 || got.Size != want.Size:
		return Differs
	case got.Exec != want.Exec:
		return Mode
	}
	return Same
}

var driftWords = map[string]string{
	Missing: " is missing from the stored copy",
	Differs: " differs from the reviewed file",
	Mode:    " has another mode than the reviewed file",
	Extra:   " is not in the manifest",
}

// Drift names every difference between the reviewed files and the stored copy, sorted; empty when they are the same.
func Drift(reviewed map[string]manifests.File, stored map[string]store.StoredFile) []string {
	var out []string
	for path, want := range reviewed {
		got, ok := stored[path]
		if state := Compare(want, got, ok); state != Same {
			out = append(out, path+driftWords[state])
		}
	}
	for path := range stored {
		if _, ok := reviewed[path]; !ok {
			out = append(out, path+driftWords[Extra])
		}
	}
	slices.Sort(out)
	return out
}

// For narrows the set to what was on offer when the session's turn began: additions bind at the next turn,
// removals at the next call.
func (s Set) For(session store.Session) Set {
	narrowed := Set{Policy: s.Policy, Why: maps.Clone(s.Why)}
	narrowed.Policy.Skills = maps.Clone(s.Policy.Skills)
	for name, p := range narrowed.Policy.Skills {
		if p.Closed == "" && !slices.Contains(session.Offered, name) {
			p.Closed = guard.AgentDisabled
			p.Words = "was opened during this turn: it can be used from the next turn on (for an MCP client that names no turns: after 60 s without a call)"
			narrowed.Policy.Skills[name] = p
			narrowed.Why[name] = "opened during this turn: it binds at the next one"
		}
	}
	return narrowed
}

// Fingerprint changes when what is offered, or any file of it, changes.
func (s Set) Fingerprint() string {
	h := sha256.New()
	for _, tool := range slices.Sorted(maps.Keys(s.Policy.Tools)) {
		fmt.Fprintf(h, "%s=%v\n", tool, s.Policy.Tools[tool])
	}
	for _, name := range s.Names() {
		fmt.Fprintf(h, "%s %s\n", name, s.Policy.Skills[name].Skill.Folder)
		files := s.Policy.Skills[name].Skill.Files
		for _, path := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(h, "%s/%s %s %v\n", name, path, files[path].SHA256, files[path].Exec)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
