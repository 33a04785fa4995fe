package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipes are the descriptors of one run: ours to read from, and the child's ends, which are closed after the start.
type pipes struct {
	stdout, stderr, status *os.File
	child                  []*os.File // 0, 1, 2 and the status pipe
}

func openPipes(stdin []byte, jailed bool) (*pipes, error) {
	input, err := filledPipe(stdin)
	if err != nil {
		return nil, err
	}
	return openOutputs(input, jailed)
}

// openOutputs adds the others; what it is given is closed with the child's ends.
func openOutputs(input *os.File, jailed bool) (*pipes, error) {
	p := &pipes{child: []*os.File{input}}
	var err error
	for _, ours := range []**os.File{&p.stdout, &p.stderr, &p.status} {
		var theirs *os.File
		open := outputPipe
		if jailed && ours == &p.status {
			open = statusSocket
		}
		if *ours, theirs, err = open(); err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.child = append(p.child, theirs)
	}
	return p, nil
}

// filledPipe is stdin with its whole content in it and no writer: the child reads it and then sees the end, and no
// goroutine of ours waits for a child that does not read.
func filledPipe(content []byte) (*os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	reader := os.NewFile(uintptr(fds[0]), "stdin")
	if len(content) > 0 {
		// At most maxStdin, which an empty pipe takes whole.
		if _, err := unix.Write(fds[1], content); err != nil {
			return nil, errors.Join(fmt.Errorf("fill stdin: %w", err), unix.Close(fds[1]), reader.Close())
		}
	}
	if err := unix.Close(fds[1]); err != nil {
		return nil, errors.Join(fmt.Errorf("close stdin: %w", err), reader.Close())
	}
	return reader, nil
}

// outputPipe is made by hand because os.Pipe puts both ends in non-blocking mode, and a script would see EAGAIN.
func outputPipe() (ours, theirs *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "pipe")
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("pipe: %w", err), unix.Close(fds[0]), theirs.Close())
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), theirs, nil // non-blocking before NewFile: that gives it deadlines
}

// closeChild gives up the child's ends, so that the end of the child is the end of the file.
func (p *pipes) closeChild() error {
	var errs []error
	for _, file := range p.child {
		errs = append(errs, file.Close())
	}
	p.child = nil
	return errors.Join(errs...)
}

func (p *pipes) close() error {
	errs := []error{p.closeChild()}
	for _, file := range []*os.File{p.stdout, p.stderr, p.status} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}
