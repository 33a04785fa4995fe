package manifests

import (
	"fmt"
	"os"
	"slices"
)

// ReadSkill returns the content of every file of one skill folder below dir, by path relative to the
// folder. It refuses whatever Build refuses about files, with the first finding as the error; whether
// SKILL.md and xray.json make sense is not asked here.
func ReadSkill(dir, name string) (map[string][]byte, error) {
	if err := checkSkillName(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open skills folder: %w", err)
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("skill %q: %w", name, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("skill %q: not a folder, or a link to one", name)
	}
	t := readTree(root, name)
	SortFindings(t.findings)
	if i := slices.IndexFunc(t.findings, func(f Finding) bool { return f.Severity == Error }); i >= 0 {
		return nil, fmt.Errorf("skill %q: %s", name, t.findings[i])
	}
	contents := make(map[string][]byte, len(t.files))
	for path, f := range t.files {
		contents[path] = f.content
	}
	return contents, nil
}
