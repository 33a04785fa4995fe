package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"xrayrunner/manifests"
	"xrayrunner/manifests/internal/review"
)

func check(args []string, stdout, stderr io.Writer) error {
	var skills, manifest string
	rest, err := parse(args, stderr, "check", map[string]*string{"skills": &skills, "manifest": &manifest}, "skills")
	if err != nil {
		return err
	}
	if err := noMore("check", rest); err != nil {
		return err
	}
	lock, findings, err := buildLock(skills)
	if err != nil {
		return err
	}
	reviewed, err := reviewSkills(skills, lock)
	if err != nil {
		return err
	}
	findings = append(findings, reviewed...)
	if manifest != "" {
		stale, err := compareFile(manifest, lock)
		if err != nil {
			return err
		}
		findings = append(findings, stale...)
	}
	manifests.SortFindings(findings)
	errorCount, warningCount := printFindings(stdout, findings)
	summary := fmt.Sprintf("%s, %s, %s", count(len(lock.Skills)+len(lock.Disabled), "skill"), count(errorCount, "error"), count(warningCount, "warning"))
	if errorCount > 0 {
		return errors.New(summary)
	}
	fmt.Fprintln(stdout, summary)
	return nil
}

// reviewSkills judges the scripts of all folders, disabled ones too: their author wants to see everything
// at once. A folder whose files are refused has been reported already.
func reviewSkills(dir string, lock *manifests.Lock) ([]manifests.Finding, error) {
	pinned, err := pinnedModules(dir)
	if err != nil {
		return nil, err
	}
	var skills []review.Skill
	names := slices.Concat(slices.Collect(maps.Keys(lock.Skills)), slices.Collect(maps.Keys(lock.Disabled)))
	slices.Sort(names)
	for _, name := range names {
		files, err := manifests.ReadSkill(dir, name)
		if err != nil {
			continue
		}
		s := review.Skill{Name: name, Files: files}
		if raw, ok := files["xray.json"]; ok {
			s.Egress, s.Forks = declared(name, raw)
		}
		skills = append(skills, s)
	}
	return review.Review(context.Background(), dir, skills, pinned), nil
}

// declared reads what a skill asks for; a file that cannot be decoded asks for nothing.
func declared(name string, raw []byte) (egress, forks bool) {
	x, _ := manifests.ParseXray(name, raw)
	if x == nil {
		return false, false
	}
	for _, s := range x.Scripts {
		forks = forks || s.Limits.Processes > 1
	}
	return x.Network == manifests.NetworkEgress, forks
}

// pinnedModules reads requirements.txt beside the skills folder (runner/requirements.txt); none is fine.
func pinnedModules(dir string) ([]string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find requirements.txt: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(absolute), "requirements.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return review.Requirements(string(text)), nil
}
