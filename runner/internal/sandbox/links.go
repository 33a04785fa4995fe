package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
)

// makeLinks is for a run that is not in a jail: there the working folder is one that only the shim sees, and it makes them.
func (s Spec) makeLinks() error {
	if len(s.Links) == 0 {
		return nil
	}
	dir := filepath.Join(s.Dir, LinksDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	for _, link := range s.Links {
		if err := os.Symlink(link.To, filepath.Join(dir, link.Name)); err != nil {
			return fmt.Errorf("links: %w", err)
		}
	}
	return nil
}
