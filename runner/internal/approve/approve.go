// Package approve is what the runner itself decides about calls of a class above safe. The api says that people have
// approved; the api is the exposed side and may be lying. So nothing is taken from it that can be verified here:
//
//	mutating   the class is not above RUNNER_MAX_CLASS (the guard's rule); the approval names exactly the bytes that would
//	           run, has not ended, names somebody, and has not been used here before
//	dangerous  all of that, by two different names, and a signed procedure that RUNNER_SOP_KEYS believes, for these bytes
//	           of this script, valid now
//
// A forged row in the api's database can therefore make this runner change something where its operator has allowed
// mutating, but no row can make it run something dangerous: that takes the signature of a key that is not in the deployment.
package approve

import (
	"fmt"
	"sync"
	"time"

	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// maxUsed bounds the memory of used approvals: a full table refuses newcomers and never forgets to make room.
const maxUsed = 20_000

// Desk judges approvals. Make it with New.
type Desk struct {
	keys sop.Keys
	now  func() time.Time

	mu    sync.Mutex
	used  map[string]time.Time // approval id -> when it ends
	swept time.Time
}

// New makes one that believes these keys.
func New(keys sop.Keys, now func() time.Time) *Desk {
	return &Desk{keys: keys, now: now, used: map[string]time.Time{}}
}

// Call is what would run.
type Call struct {
	Class                       manifests.Class
	Skill, Script, ScriptSHA256 string
	Input                       []byte
	ManifestDigest              string
}

// Judge gives "" when the approval holds for the call, else the guard's code for what it lacks, and why.
func (d *Desk) Judge(a *protocol.Approval, c Call) (guard.Code, string) {
	if c.Class == manifests.Safe {
		return "", ""
	}
	if a == nil {
		return guard.ApprovalRequired, ""
	}
	now := d.now()
	switch {
	case a.ID == "" || len(a.ID) > 64:
		return guard.ApprovalVoid, "the approval has no id"
	case a.Binding != protocol.Binding(c.Skill, c.Script, c.ScriptSHA256, c.Input, c.ManifestDigest):
		return guard.ApprovalVoid, "the approval is for another script, input or manifest than would run"
	case !now.Before(a.Expires):
		return guard.ApprovalExpired, "the approval ended at " + a.Expires.UTC().Format(time.RFC3339)
	case a.Expires.Sub(now) > protocol.MaxApproval:
		return guard.ApprovalVoid, fmt.Sprintf("the approval would live for more than %v", protocol.MaxApproval)
	case different(a.ApprovedBy) < c.Class.Operators():
		return guard.ApprovalVoid, fmt.Sprintf("the approval names %d operators; %d different ones are wanted", different(a.ApprovedBy), c.Class.Operators())
	case d.spent(a.ID):
		return guard.ApprovalUsed, "the approval has been used"
	case c.Class == manifests.Mutating:
		return "", ""
	}
	return d.procedure(a.SOP, c, now)
}

func different(names []string) int {
	seen := map[string]bool{}
	for _, n := range names {
		if n != "" {
			seen[n] = true
		}
	}
	return len(seen)
}

func (d *Desk) procedure(p *protocol.SOP, c Call, now time.Time) (guard.Code, string) {
	if p == nil {
		return guard.SOPInvalid, "a dangerous script needs a signed procedure, and the call carries none"
	}
	if _, err := d.keys.Verify(p.Document, p.Signature, sop.Target{Skill: c.Skill, Script: c.Script, ScriptSHA256: c.ScriptSHA256}, now); err != nil {
		return guard.SOPInvalid, err.Error()
	}
	return "", ""
}

func (d *Desk) spent(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, used := d.used[id]
	return used
}

// sweep forgets what has ended, at most once a second.
func (d *Desk) sweep() {
	now := d.now()
	if now.Sub(d.swept) < time.Second {
		return
	}
	d.swept = now
	for id, end := range d.used {
		if !now.Before(end) {
			delete(d.used, id)
		}
	}
}

// Take uses an approval up; false when another call was quicker, or too many are remembered. undo is for a run that never
// started.
func (d *Desk) Take(a *protocol.Approval) (undo func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep()
	if _, used := d.used[a.ID]; used || len(d.used) >= maxUsed {
		return nil, false
	}
	d.used[a.ID] = a.Expires
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.used, a.ID)
	}), true
}
