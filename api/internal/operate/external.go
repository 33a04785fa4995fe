package operate

import (
	"context"

	"xrayrunner/api/internal/offer"
	"xrayrunner/api/internal/store"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// lock is every skill that is known now.
func (d *Desk) lock() *manifests.Lock {
	if d.Catalog == nil {
		return d.Lock
	}
	return d.Catalog.Lock(context.Background())
}

// renew makes sure that an operator sees, and enables, what is there now.
func (d *Desk) renew() {
	if d.Catalog != nil {
		d.Catalog.Renew()
	}
}

// external is the state of an external skill: there is no copy of it, but a digest that was enabled.
func (d *Desk) external(st SkillStatus, skill *manifests.Skill, row store.StoredSkill, set offer.Set) SkillStatus {
	st.Scope, st.Description, st.Kind, st.Class = ScopeExternal, skill.Description, skill.Kind, skill.Class
	st.InManifest, st.Stored, st.Published = false, false, false
	st.Loaded, st.Digest, st.ClassAssumed = true, skill.Folder, d.Catalog.Assumed(skill.Name)
	st.Available = set.Policy.Skills[skill.Name].Closed == ""
	switch {
	case row.Digest == skill.Folder:
		st.Copy = "same"
	case row.Digest != "":
		st.Copy, st.Drift = "drift", []string{"its folder is another one than the one that was enabled"}
	}
	return st
}

// setExternal enables a skill as its folder is now. One whose author wrote no class must be confirmed to be safe: nobody has
// said so yet.
func (d *Desk) setExternal(ctx context.Context, who store.Actor, skill *manifests.Skill, enabled, confirmed bool) (SkillStatus, *protocol.Problem, error) {
	if enabled && d.Catalog.Assumed(skill.Name) && !confirmed {
		return SkillStatus{}, protocol.NewProblem(protocol.BadRequest, "the author of "+skill.Name+" wrote no class, so safe is only assumed: look at it and set confirm_class, or have a class written"), nil
	}
	if err := d.Store.SetExternal(ctx, who, skill.Name, skill.Folder, enabled); err != nil {
		return SkillStatus{}, nil, err
	}
	return d.one(ctx, skill.Name)
}
