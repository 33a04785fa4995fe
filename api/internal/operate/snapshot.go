package operate

import (
	"context"

	"xrayrunner/api/internal/metrics"
)

// State is the one word for what a skill is to an operator; metrics.SkillStates lists them.
func (s SkillStatus) State() string {
	switch {
	case !s.InManifest && !s.Loaded:
		return "broken"
	case s.Copy == "drift":
		return "drift"
	case s.Available:
		return "available"
	}
	return "closed"
}

// Snapshot reads what a scrape shows of the store. When any of it cannot be read, the store is not up.
func (d *Desk) Snapshot(ctx context.Context) (metrics.Snapshot, error) {
	s := metrics.Snapshot{Skills: map[string]int{}}
	status, err := d.Status(ctx)
	if err != nil {
		return s, err
	}
	for _, skill := range status {
		s.Skills[skill.State()]++
	}
	if s.Switches, err = d.Store.Tools(ctx); err != nil {
		return s, err
	}
	limits, err := d.Store.Sandbox(ctx)
	if err != nil {
		return s, err
	}
	s.DayLimit = limits.DailyRunLimit
	if s.DayRuns, err = d.Store.DayRuns(ctx); err != nil {
		return s, err
	}
	s.HeadSeq, s.HeadHash, err = d.Store.Head(ctx)
	s.StoreUp = err == nil
	return s, err
}
