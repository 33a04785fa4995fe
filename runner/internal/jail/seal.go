package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/opencontainers/runc/libcontainer/exeseal"

	"xrayrunner/runner/internal/sandbox"
)

// Seal starts this program again from a sealed copy in memory, once; it returns in that copy. libcontainer makes one for
// each jail otherwise (10 ms), so that a process in a jail cannot reach the binary outside (CVE-2019-5736). Argument 0
// keeps the path that we were started by.
func Seal() error {
	if exeseal.IsSelfExeCloned() {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	copied, err := inMemory("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("seal the runner: %w", err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", copied.Fd())
	return fmt.Errorf("seal the runner: %w", syscall.Exec(path, append([]string{self}, os.Args[1:]...), os.Environ()))
}

// Executable is where the program was started from, sealed or not.
func Executable() (string, error) {
	if exeseal.IsSelfExeCloned() {
		return filepath.Abs(os.Args[0])
	}
	return os.Executable()
}

// sealedCopy is the program at path, or none without one. That it is sealed is also how exec.c knows it.
func sealedCopy(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	if err := sandbox.CheckProgram(path); err != nil {
		return nil, err
	}
	return inMemory(path)
}

// inMemory is a copy that nobody can change, or an error: a start of what only seems sealed would be sealed again, for ever.
func inMemory(path string) (*os.File, error) {
	program, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Stat()
	if err != nil {
		return nil, err
	}
	copied, err := exeseal.CloneBinary(program, info.Size(), filepath.Base(path), os.TempDir())
	if err == nil && !exeseal.IsCloned(copied) {
		err = errors.Join(errors.New("the copy could not be sealed"), copied.Close())
	}
	return copied, err
}
