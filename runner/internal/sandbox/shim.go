package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// CheckProgram refuses, with ErrProgram, a program that somebody else may have changed or that changes its user: every run starts
// in the shim, unconfined, and every jail in xray-jail.
func CheckProgram(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%w: %q is not absolute", ErrProgram, path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProgram, err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%w: %s is not an executable file", ErrProgram, path)
	}
	if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return fmt.Errorf("%w: %s changes its user", ErrProgram, path)
	}
	return checkOwner(path, info)
}

// checkOwner wants the file and its folder to be ours or root's, and writable by nobody else.
func checkOwner(path string, info os.FileInfo) error {
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProgram, err)
	}
	for _, one := range []os.FileInfo{info, folder} {
		if owner := one.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
			return fmt.Errorf("%w: %s belongs to user %d", ErrProgram, one.Name(), owner)
		}
		if one.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%w: %s is writable by others", ErrProgram, one.Name())
		}
	}
	return nil
}
