package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// checkShim refuses a shim that somebody else may have changed: every run starts in it, unconfined.
func checkShim(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%w: %q is not absolute", ErrShim, path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrShim, err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%w: %s is not an executable file", ErrShim, path)
	}
	if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return fmt.Errorf("%w: %s changes its user", ErrShim, path)
	}
	return checkOwner(path, info)
}

// checkOwner wants the file and its folder to be ours or root's, and writable by nobody else.
func checkOwner(path string, info os.FileInfo) error {
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrShim, err)
	}
	for _, one := range []os.FileInfo{info, folder} {
		if owner := one.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
			return fmt.Errorf("%w: %s belongs to user %d", ErrShim, one.Name(), owner)
		}
		if one.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%w: %s is writable by others", ErrShim, one.Name())
		}
	}
	return nil
}
