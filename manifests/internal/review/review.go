package review

import (
	"context"
	"errors"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"xrayrunner/manifests"
)

// Skill is a folder to review.
type Skill struct {
	Name   string
	Files  map[string][]byte // by path relative to the folder
	Egress bool              // network: egress
	Forks  bool              // a script declares more than one process
}

// Review judges the scripts of skills below dir, and returns findings sorted by place. When Python files
// are there and cannot be judged, that is an Error finding for each skill that has one: a review that did
// not take place must not look like a clean one.
func Review(ctx context.Context, dir string, skills []Skill, pinned []string) []manifests.Finding {
	var findings []manifests.Finding
	var files []pythonFile
	var owners []manifests.Finding // the place of each file, without a message
	for _, s := range skills {
		for _, name := range slices.Sorted(maps.Keys(s.Files)) {
			place := manifests.Finding{Skill: s.Name, File: s.Name + "/" + name}
			switch path.Ext(name) {
			case ".py":
				files = append(files, pythonFile{filepath.Join(dir, s.Name, filepath.FromSlash(name)), s.Egress, s.Forks, localModules(s.Files)})
				owners = append(owners, place)
			case ".sh":
				findings = append(findings, reviewShell(place, s.Files[name])...)
			}
		}
	}
	findings = append(findings, judgePython(ctx, files, owners, pinned)...)
	manifests.SortFindings(findings)
	return findings
}

func judgePython(ctx context.Context, files []pythonFile, owners []manifests.Finding, pinned []string) []manifests.Finding {
	if len(files) == 0 {
		return nil
	}
	results, err := reviewPython(ctx, files, pinned)
	if err != nil {
		return notReviewed(owners, err)
	}
	var findings []manifests.Finding
	for i, list := range results.Files {
		for _, found := range list {
			f := owners[i]
			f.Line, f.Column, f.Severity, f.Message, f.Cure = found.Line, found.Column, found.Severity, found.Message, found.Cure
			findings = append(findings, f)
		}
	}
	return findings
}

func notReviewed(owners []manifests.Finding, err error) []manifests.Finding {
	cure := "correct the cause and run the check again"
	if errors.Is(err, ErrNoPython) {
		cure = "install python3 on the machine that runs the check"
	}
	var findings []manifests.Finding
	for _, f := range owners {
		f.Severity, f.Message, f.Cure = manifests.Error, "not reviewed: "+err.Error(), cure
		findings = append(findings, f)
	}
	return findings
}

// localModules are the modules that a script of the skill finds beside itself.
func localModules(files map[string][]byte) []string {
	modules := map[string]bool{}
	for name := range files {
		top, _, _ := strings.Cut(name, "/")
		if strings.HasSuffix(name, ".py") {
			modules[strings.TrimSuffix(top, ".py")] = true
			modules[strings.TrimSuffix(path.Base(name), ".py")] = true
		}
	}
	return slices.Sorted(maps.Keys(modules))
}

// Requirements returns the names that a requirements.txt pins, as modules would be called. It trusts the
// usual spelling, "-" for "_": a package whose module has another name is reported and must be renamed.
func Requirements(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		name, _, pinned := strings.Cut(line, "==")
		if pinned && !strings.HasPrefix(name, "-") {
			names = append(names, strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), "-", "_")))
		}
	}
	return names
}

// Imports returns the modules, of the standard library or pinned, that the Python files of a skill import: what a cell
// may import ahead of a run. Modules of the skill itself are not among them.
func Imports(ctx context.Context, dir string, s Skill, pinned []string) ([]string, error) {
	var files []pythonFile
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if path.Ext(name) == ".py" {
			files = append(files, pythonFile{Path: filepath.Join(dir, s.Name, filepath.FromSlash(name)), Local: localModules(s.Files)})
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	results, err := reviewPython(ctx, files, pinned)
	if err != nil {
		return nil, err
	}
	names := slices.Concat(results.Imports...)
	slices.Sort(names)
	return slices.Compact(names), nil
}
