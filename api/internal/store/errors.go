package store

import "errors"

var (
	// ErrNotFound is returned when the thing does not exist, or is another token's.
	ErrNotFound = errors.New("not found")
	// ErrNotOpen is returned by End for a call that is not open: it was closed before, or never begun.
	ErrNotOpen = errors.New("the call is not open")
	// ErrInvalid is wrapped by errors about a caller's value: a name, a role, a token, a range.
	ErrInvalid = errors.New("invalid value")
	// ErrExists is returned when a name is taken.
	ErrExists = errors.New("exists already")
	// ErrOwn, ErrTwice and ErrClosed are returned by Decide: the request is the operator's own; he has decided already; it is
	// not open any more.
	ErrOwn    = errors.New("the request is the operator's own")
	ErrTwice  = errors.New("this operator has decided already")
	ErrClosed = errors.New("the request is not open any more")
	// ErrTooManyTurns is returned when a session has had 1000 turns.
	ErrTooManyTurns = errors.New("this session has had its turns; make a new one")
)
