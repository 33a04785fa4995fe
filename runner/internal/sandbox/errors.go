package sandbox

import (
	"errors"
	"syscall"
)

var (
	// ErrSpec is returned by Run for a Spec that nobody should have built: nothing was started.
	ErrSpec = errors.New("unusable spec")
	// ErrProgram is returned by New and CheckProgram when a program of ours is missing, or somebody else could have changed it.
	ErrProgram = errors.New("unusable program")
	// ErrProbe is returned by New when the layers could not be tried at all, so that nothing is known about them.
	ErrProbe = errors.New("cannot probe the sandbox")
	// ErrConfine is returned by Run when a layer that was in force at start could not be put on, or the program could
	// not be executed: it did not run.
	ErrConfine = errors.New("program not started")
	// ErrSupervisor is returned by Run when the supervisor of a run with several processes did not end as it should:
	// processes of the run may be left.
	ErrSupervisor = errors.New("run not swept")
)

// stepError is an ErrConfine that names the step of the shim, and keeps its errno for the posture.
type stepError struct {
	text  string
	errno syscall.Errno
}

func (e *stepError) Error() string   { return ErrConfine.Error() + ": " + e.text }
func (e *stepError) Unwrap() []error { return []error{ErrConfine, e.errno} }
