package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func access(path string) error { return unix.Access(path, unix.X_OK) }

// errorsJoinRemove removes a run's folder whatever happened. A script may have taken away its own permissions on
// folders inside, so those are given back first.
func errorsJoinRemove(err error, dir string) error {
	if rmErr := removeAll(dir); rmErr != nil {
		return errors.Join(err, fmt.Errorf("remove working folder: %w", rmErr))
	}
	return err
}

func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	walkErr := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return err
	})
	return errors.Join(os.RemoveAll(dir), ignoreMissing(walkErr))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Prepare empties and remakes the work dir's own folders; what a killed runner left behind goes. It returns the
// folder for the snapshot, and fails naming the folder and the uid when it cannot write there.
func Prepare(workDir string) (snapshotRoot string, err error) {
	for _, d := range []string{RunsDir, "snapshot"} {
		path := filepath.Join(workDir, d)
		if err := removeAll(path); err != nil {
			return "", fmt.Errorf("RUNNER_WORK_DIR %s: %w (uid %d must own it)", workDir, err, os.Getuid())
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return "", fmt.Errorf("RUNNER_WORK_DIR %s: %w (uid %d must be able to write there)", workDir, err, os.Getuid())
		}
	}
	return filepath.Join(workDir, "snapshot"), nil
}
