//go:build !linux

package nospawn

import (
	"errors"
	"runtime"
)

// ErrNone is what both say on systems that have no such filter: for development there, XRAY_DEV=1 lets main go on.
var ErrNone = errors.New(runtime.GOOS + " has no seccomp: nothing keeps this process from starting programs")

// Install cannot.
func Install() error { return ErrNone }

// Check fails, so that /readyz says so.
func Check() error { return ErrNone }
