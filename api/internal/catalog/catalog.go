// Package catalog is what the api knows to exist: the skills of the manifest, and the external ones that the runner says it
// has loaded. That a skill exists does not make it available: offer decides that.
package catalog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"xrayrunner/manifests"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

// fresh is how long the runner's answer is taken to hold, and again after how long one that did not answer is asked anew. An
// answer that has grown old meanwhile makes no harm: each run names the digest that it was judged by.
const (
	fresh = 5 * time.Second
	again = time.Second
)

// Catalog is both. All fields are required.
type Catalog struct {
	Log      *slog.Logger
	Manifest *manifests.Lock
	Runner   *client.Client

	mu      sync.Mutex
	both    *manifests.Lock
	assumed map[string]bool // external skills without a class of their own
	asked   time.Time
	hold    time.Duration
}

// Lock gives the skills of both kinds; its digest is the manifest's. While the runner does not answer, what it said last
// stays: nothing could run anyway.
func (c *Catalog) Lock(ctx context.Context) *manifests.Lock {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.both == nil {
		c.both = c.Manifest
	}
	if time.Since(c.asked) < c.hold {
		return c.both
	}
	c.asked, c.hold = time.Now(), again
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	told, err := c.Runner.External(ctx)
	if err != nil {
		return c.both
	}
	c.hold = fresh
	c.take(told)
	return c.both
}

// take believes of the runner's answer what proves well formed; one odd skill hides no other.
func (c *Catalog) take(told *protocol.External) {
	skills := map[string]*manifests.Skill{}
	c.assumed = map[string]bool{}
	for name, e := range told.Skills {
		if e.Skill == nil || e.Skill.Name != name || e.Digest != e.Skill.Folder {
			c.Log.Warn("external skill not taken", "skill", name, "reason", "name or digest do not fit")
			continue
		}
		if err := e.Skill.PrepareExternal(); err != nil {
			c.Log.Warn("external skill not taken", "skill", name, "reason", err.Error())
			continue
		}
		skills[name], c.assumed[name] = e.Skill, e.ClassAssumed
	}
	c.both = c.Manifest.With(skills)
}

// Assumed reports whether the author of an external skill left its class open.
func (c *Catalog) Assumed(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.assumed[name]
}

// Renew makes the next Lock ask again: for an operator who has just put something there.
func (c *Catalog) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = 0
}
