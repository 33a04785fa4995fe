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
	err := os.Chmod(dir, 0o700)
	if err == nil {
		err = giveBack(dir, os.OpenRoot)
	}
	return errors.Join(os.RemoveAll(dir), ignoreMissing(err))
}

// giveBack makes the folders below one writable. It goes from folder to folder, since a script can nest them deeper
// than a path can name.
func giveBack(name string, open func(name string) (*os.Root, error)) error {
	dir, err := open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, dir.Chmod(e.Name(), 0o700), giveBack(e.Name(), dir.OpenRoot))
		}
	}
	return err
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
	for _, d := range []string{RunsDir, "snapshot", JailsDir} {
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
