package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"xrayrunner/manifests"
)

const rebuild = "run scripts/generate, or manifestgen build, and commit the lock file"

// compareFile names every difference between a lock file and the folder that it should describe; none
// means that the bytes are equal.
func compareFile(name string, built *manifests.Lock) ([]manifests.Finding, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read lock file: %w", err)
	}
	current, err := manifests.Encode(built)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(raw, current) {
		return nil, nil
	}
	locked, err := manifests.Decode(raw)
	if err != nil {
		return []manifests.Finding{difference("", name, "%v", err)}, nil
	}
	findings := append(compareSkills(locked, built), compareDisabled(locked, built)...)
	if len(findings) == 0 {
		findings = append(findings, difference("", name, "the lock file says the same in other bytes"))
	}
	return findings, nil
}

func difference(skill, file, format string, args ...any) manifests.Finding {
	return manifests.Finding{
		Severity: manifests.Error, Skill: skill, File: file, Message: fmt.Sprintf(format, args...), Cure: rebuild,
	}
}

func compareSkills(locked, built *manifests.Lock) []manifests.Finding {
	var findings []manifests.Finding
	for _, name := range bothKeys(locked.Skills, built.Skills) {
		was, is := locked.Skills[name], built.Skills[name]
		switch {
		case was == nil:
			findings = append(findings, difference(name, name, "skill %s is not in the lock file", name))
		case is == nil:
			findings = append(findings, difference(name, name, "skill %s is in the lock file and not in the folder", name))
		default:
			findings = append(findings, compareSkill(was, is)...)
		}
	}
	return findings
}

func compareSkill(was, is *manifests.Skill) []manifests.Finding {
	var findings []manifests.Finding
	for _, file := range bothKeys(was.Files, is.Files) {
		old, known := was.Files[file]
		now, there := is.Files[file]
		place := is.Name + "/" + file
		switch {
		case !known:
			findings = append(findings, difference(is.Name, place, "skill %s: the file %s is not in the lock file", is.Name, file))
		case !there:
			findings = append(findings, difference(is.Name, place, "skill %s: the file %s is in the lock file and not in the folder", is.Name, file))
		case old.SHA256 != now.SHA256:
			findings = append(findings, difference(is.Name, place, "skill %s: the file %s differs: sha256 %.12s… in the lock file, %.12s… in the folder", is.Name, file, old.SHA256, now.SHA256))
		case old != now:
			findings = append(findings, difference(is.Name, place, "skill %s: the file %s differs in its executable bit or size", is.Name, file))
		}
	}
	if len(findings) == 0 && !sameJSON(was, is) {
		findings = append(findings, difference(is.Name, is.Name, "skill %s: equal files, but the lock file says something else about them", is.Name))
	}
	return findings
}

func compareDisabled(locked, built *manifests.Lock) []manifests.Finding {
	var findings []manifests.Finding
	for _, name := range bothKeys(locked.Disabled, built.Disabled) {
		if locked.Disabled[name] != built.Disabled[name] {
			findings = append(findings, difference(name, name, "folder %s: the lock file gives another reason why it is disabled, or none", name))
		}
	}
	return findings
}

// sameJSON compares what the lock file would say; the compiled schemas are no part of it.
func sameJSON(a, b *manifests.Skill) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func bothKeys[V any](a, b map[string]V) []string {
	keys := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(keys)
	return slices.Compact(keys)
}
