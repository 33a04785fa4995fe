// Package socket opens the runner's unix socket and tells who is on the other end.
//
// The steps are these so that a crash leaves nothing to mend by hand and no live runner is ever displaced
// (bblfshd#288, golang/go#70985): whatever answers on the path is alive, so we leave; what does not answer and is a
// socket is stale; the new socket is bound under another name and renamed over it, so there is no moment without
// one; anything that is not a socket is never removed.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is sizeof(sun_path) less the final NUL and the suffix that we bind under (unix(7)).
const maxPath = 107 - len(".4194304")

// ErrLive is returned when another process answers on the path.
var ErrLive = errors.New("another runner is alive on this socket")

// Listener is a unix listener that removes its own file when closed.
type Listener struct {
	*net.UnixListener
	path string
	info fs.FileInfo
	once func() error
}

// Listen opens path with mode 0660: the folder's group decides who may connect. umask is process-wide, so this
// is called before anything else creates files.
func Listen(path string) (*Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("socket path %s is %d bytes long, at most %d are possible: choose a shorter one", path, len(path), maxPath)
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	temporary := path + "." + strconv.Itoa(os.Getpid())
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove %s: %w", temporary, err)
	}
	old := unix.Umask(0o117)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w (is %s writable for uid %d?)", path, err, filepath.Dir(path), os.Getuid())
	}
	l.SetUnlinkOnClose(false)
	if err := os.Rename(temporary, path); err != nil {
		return nil, errors.Join(fmt.Errorf("rename to %s: %w", path, err), l.Close(), os.Remove(temporary))
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	ours := &Listener{UnixListener: l, path: path, info: info}
	ours.once = sync.OnceValue(ours.close)
	return ours, nil
}

func checkPath(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket (%s): it is left alone; remove it yourself or choose another path", path, info.Mode())
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: %w", path, ErrLive), c.Close())
	}
	if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: cannot tell whether it is alive: %w", path, err)
	}
	return nil
}

// Close stops listening and removes the file, when it is still ours. Again, it does nothing and says the same: once the
// socket is closed, the file system may give another runner's file the number by which we know ours.
func (l *Listener) Close() error { return l.once() }

func (l *Listener) close() error {
	now, err := os.Lstat(l.path)
	if err == nil && os.SameFile(now, l.info) {
		err = os.Remove(l.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.UnixListener.Close())
}

type peerKey struct{}

// WithPeer is an http.Server.ConnContext: it keeps the uid of the peer, as the kernel gives it (SO_PEERCRED).
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || credErr != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, cred.Uid)
}

// Peer is the uid on the other end; false when the kernel did not say, which nobody should take for a yes.
func Peer(ctx context.Context) (uint32, bool) {
	uid, ok := ctx.Value(peerKey{}).(uint32)
	return uid, ok
}
