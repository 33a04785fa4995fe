package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// bornLimit is how long a jail may take to start a run.
const bornLimit = 10 * time.Second

// jailRequest is the head of struct request in shim/jail.c.
type jailRequest struct {
	Arguments, Variables uint32
	DiskBytes, DiskFiles uint64
	UID, GID             uint32
	Born, Proc           uint32
	Links, Cell          uint32
}

// errJailEnded: it was not even asked, so that another may be.
var errJailEnded = errors.New("the jail has ended")

// startIn asks a jail for a run and returns its first process: the supervisor, as a process that is not our child. files
// are descriptors 0 to 4. The jail says nothing; the run itself reports its birth by the status socket, and the kernel adds
// its number as it is in our PID namespace.
func startIn(j *heldJail, spec Spec, files []*os.File, p *pipes, g *group, joins bool) (*os.Process, error) {
	head := jailRequest{
		Arguments: uint32(len(spec.Argv)), Variables: uint32(len(spec.Env)), DiskBytes: spec.Limits.DiskBytes,
		DiskFiles: uint64(spec.Limits.DiskFiles), Links: uint32(len(spec.Links)), UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
	if j.freshProc {
		head.Proc = 1
	}
	if g != nil {
		files = append(files, g.folder)
		if !joins {
			head.Born = 1
		}
	}
	texts := slices.Concat([]string{filepath.Dir(spec.Dir), spec.Dir}, spec.Argv, spec.Env)
	for _, link := range spec.Links {
		texts = append(texts, link.Name, link.To)
	}
	if err := sendRequest(j.Door, head, texts, files); err != nil {
		return nil, err
	}
	if err := p.closeChild(); err != nil { // now, so that the end of the jail is the end of the status socket
		return nil, err
	}
	return born(p.status, bornLimit)
}

func born(status *os.File, patience time.Duration) (*os.Process, error) {
	pid, err := receiveBirth(status, patience)
	if err != nil {
		return nil, err
	}
	return os.FindProcess(pid) // a pidfd; a run that ended meanwhile is known by its status socket
}

// startCellIn has the jail start what runs will be forked from. It is in the namespaces of the jail itself.
func startCellIn(j *heldJail, own Spec, files []*os.File) error {
	head := jailRequest{Arguments: uint32(len(own.Argv)), Variables: uint32(len(own.Env)), Cell: 1}
	return sendRequest(j.Door, head, slices.Concat([]string{filepath.Dir(own.Dir), own.Dir}, own.Argv, own.Env), files)
}

func sendRequest(door *os.File, head jailRequest, texts []string, files []*os.File) error {
	var message bytes.Buffer
	if err := binary.Write(&message, binary.LittleEndian, head); err != nil {
		return err
	}
	for _, text := range texts {
		message.WriteString(text)
		message.WriteByte(0)
	}
	var fds []int
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	raw, err := door.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), message.Bytes(), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sent, unix.EAGAIN)
	})
	switch err = errors.Join(err, sent); {
	case errors.Is(err, unix.EPIPE):
		return fmt.Errorf("%w: %w", ErrConfine, errJailEnded)
	case err != nil:
		return fmt.Errorf("ask jail: %w", err)
	}
	return nil
}

// receiveBirth reads the first record and the number that came with it. A fault in its place says which step failed.
func receiveBirth(status *os.File, patience time.Duration) (int, error) {
	if err := status.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	raw, err := status.SyscallConn()
	if err != nil {
		return 0, err
	}
	record, control := make([]byte, bornRecord), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	var n, extra int
	var received error
	err = raw.Read(func(fd uintptr) bool {
		n, extra, _, _, received = unix.Recvmsg(int(fd), record, control, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(received, unix.EAGAIN)
	})
	switch err := errors.Join(err, received); {
	case err != nil:
		return 0, fmt.Errorf("%w: the jail did not start it: %w", ErrConfine, err)
	case n == 0:
		return 0, fmt.Errorf("%w: the jail has ended", ErrConfine)
	case n < bornRecord || record[0] != recordBorn:
		rest := readCapped(status, 4096, func() {})
		told, err := parseReport(append(record[:n], rest...))
		return 0, errors.Join(err, &stepError{told.fault, told.errno})
	}
	messages, err := unix.ParseSocketControlMessage(control[:extra])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("%w: a birth without a number: %w", ErrConfine, err)
	}
	credentials, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrConfine, err)
	}
	return int(credentials.Pid), status.SetReadDeadline(time.Time{})
}

// statusSocket takes the place of the status pipe: the kernel tells the number of who writes to it.
func statusSocket() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	err = errors.Join(unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1), unix.SetNonblock(fds[0], true))
	if err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "status"), os.NewFile(uintptr(fds[1]), "status"), nil
}

// leave waits for the end of a run in a jail: of its status socket, which the supervisor holds, and then of the supervisor.
func (r *run) leave() waited {
	r.status = readCapped(r.pipes.status, 4096, func() {})
	return waited{err: gone(r.process)}
}

// gone waits for a supervisor that is about to end. It is PID 1 of its namespace, which ends after all others in there
// (pid_namespaces(7)), and not our child: a pidfd tells.
func gone(supervisor *os.Process) error {
	var n int
	var polled error
	err := supervisor.WithHandle(func(fd uintptr) {
		for {
			n, polled = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(sweepLimit.Milliseconds()))
			if !errors.Is(polled, unix.EINTR) {
				return
			}
		}
	})
	if errors.Is(err, os.ErrNoHandle) { // it had ended before it was looked for, or this kernel gives none
		n, err = untilGone(supervisor), nil
	}
	switch {
	case errors.Is(err, os.ErrProcessDone):
		err = nil
	case err == nil && polled == nil && n == 0:
		err = fmt.Errorf("%w: PID 1 of the run is still there after %v", ErrSupervisor, sweepLimit)
	}
	return errors.Join(err, polled, supervisor.Release())
}

func untilGone(p *os.Process) int {
	for end := time.Now().Add(sweepLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if p.Signal(unix.Signal(0)) != nil {
			return 1
		}
	}
	return 0
}
