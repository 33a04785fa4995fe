package cli

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"xrayrunner/manifests"
)

// skeleton is a small skill that passes its own check; NAME stands for the name.
//
//go:embed skeleton
var skeleton embed.FS

func create(args []string, stdout, stderr io.Writer) error {
	var skills string
	rest, err := parse(args, stderr, "new", map[string]*string{"skills": &skills}, "skills")
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return fmt.Errorf("%w: new needs one NAME", errUsage)
	}
	files, err := skeletonFiles(rest[0])
	if err != nil {
		return err
	}
	_, _, _, _, findings := manifests.ParseSkillMD(rest[0], files["SKILL.md"])
	if printFindings(stderr, findings); manifests.HasErrors(findings) {
		return errors.New("nothing was written")
	}
	folder := filepath.Join(skills, rest[0])
	if err := os.Mkdir(folder, 0o755); err != nil { // fails when it is there: nothing is overwritten
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("there is already a %s: nothing was written", folder)
		}
		return fmt.Errorf("make skill folder: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return fmt.Errorf("write skeleton: %w", err)
		}
	}
	fmt.Fprintf(stdout, "made %s: edit it, then run scripts/generate (or manifestgen build and check)\n", folder)
	return nil
}

func skeletonFiles(name string) (map[string][]byte, error) {
	files := map[string][]byte{}
	entries, err := fs.ReadDir(skeleton, "skeleton")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		raw, err := fs.ReadFile(skeleton, "skeleton/"+e.Name())
		if err != nil {
			return nil, err
		}
		files[e.Name()] = []byte(strings.ReplaceAll(string(raw), "NAME", name))
	}
	return files, nil
}
