package cli

import (
	"context"
	"fmt"

	"xrayrunner/manifests"
	"xrayrunner/manifests/internal/review"
)

// buildLock is the lock file of a folder of skills, complete: what the scripts of warm skills import is found by Python,
// from their syntax trees.
func buildLock(dir string) (*manifests.Lock, []manifests.Finding, error) {
	lock, findings, err := manifests.Build(dir)
	if err != nil {
		return nil, nil, err
	}
	pinned, err := pinnedModules(dir)
	if err != nil {
		return nil, nil, err
	}
	for name, skill := range lock.Skills {
		if !skill.Warm() {
			continue
		}
		files, err := manifests.ReadSkill(dir, name)
		if err != nil {
			return nil, nil, err
		}
		skill.Imports, err = review.Imports(context.Background(), dir, review.Skill{Name: name, Files: files}, pinned)
		if err != nil {
			return nil, nil, fmt.Errorf("what %s imports: %w", name, err)
		}
	}
	return lock, findings, nil
}
