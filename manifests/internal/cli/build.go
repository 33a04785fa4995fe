package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"xrayrunner/manifests"
)

func build(args []string, stdout, stderr io.Writer) error {
	var skills, out string
	rest, err := parse(args, stderr, "build", map[string]*string{"skills": &skills, "out": &out}, "skills", "out")
	if err != nil {
		return err
	}
	if err := noMore("build", rest); err != nil {
		return err
	}
	lock, findings, err := buildLock(skills)
	if err != nil {
		return err
	}
	raw, err := manifests.Encode(lock)
	if err != nil {
		return err
	}
	if err := writeFile(out, raw); err != nil {
		return err
	}
	printFindings(stderr, findings)
	if n := len(lock.Disabled); n > 0 {
		return fmt.Errorf("wrote %s with %s and %s disabled", out, count(len(lock.Skills), "skill"), count(n, "folder"))
	}
	fmt.Fprintf(stdout, "wrote %s: %s, %s\n", out, count(len(lock.Skills), "skill"), manifests.Digest(raw))
	return nil
}

// writeFile replaces a file in one step: a reader sees the old bytes or the new ones, also after a crash.
func writeFile(name string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", name, err)
		}
	}()
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
