package socket_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"xrayrunner/runner/internal/socket"
)

// TestModeWhateverTheUmask: the mode is 0660 under any umask, and the umask is as before afterwards.
func TestModeWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		path := filepath.Join(folder(t), "runner.sock")
		old := unix.Umask(mask)
		l, err := socket.Listen(path)
		after := unix.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm() != 0o660 || after != mask {
			t.Errorf("umask %04o: mode %s, umask %04o afterwards (%v)", mask, info.Mode(), after, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCase46Busy: a runner so busy that it takes no more callers is alive, and keeps its socket.
func TestCase46Busy(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ { // until nobody more gets in
		c, err := net.Dial("unix", path)
		if err != nil {
			if !errors.Is(err, unix.EAGAIN) {
				t.Fatal(err)
			}
			break
		}
		defer c.Close()
		if n > 100 {
			t.Fatal("the backlog does not fill")
		}
	}
	keeps(t, path)
}

// TestCase46Datagram: a live socket of another kind is somebody's too.
func TestCase46Datagram(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keeps(t, path)
}

// keeps looks that Listen gives way and leaves what is there.
func keeps(t *testing.T, path string) {
	t.Helper()
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := socket.Listen(path); l != nil || err == nil {
		t.Fatalf("err = %v, want a refusal", err)
	}
	if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket was touched (%v)", err)
	}
}

// TestCloseTwice: a second Close does not remove the socket of a runner that came in between, even where the file
// system gives the new file the old one's number.
func TestCloseTwice(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	old := listen(t, path)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	young := listen(t, path)
	_ = old.Close() // whether it complains is not the point
	answers(t, young, path)
}

// TestPeerOfARequest: as an http.Server's ConnContext, it gives the handler the caller's uid.
func TestPeerOfARequest(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	l := listen(t, path)
	type peer struct {
		uid uint32
		ok  bool
	}
	got := make(chan peer, 1)
	server := &http.Server{ConnContext: socket.WithPeer, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		uid, ok := socket.Peer(r.Context())
		got <- peer{uid, ok}
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	resp, err := client.Get("http://runner/")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if p := <-got; !p.ok || p.uid != uint32(os.Getuid()) {
		t.Errorf("%+v, want uid %d", p, os.Getuid())
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the server's Close: %v", err)
	}
}
