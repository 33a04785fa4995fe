package socket_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"xrayrunner/runner/internal/socket"
)

// folder is short: a socket's path has a bound that t.TempDir may exceed.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := socket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // a test that closes it itself looks at that error
	return l
}

// answers sends one byte each way.
func answers(t *testing.T, l net.Listener, path string) {
	t.Helper()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Write([]byte("x"))
			err = errors.Join(err, c.Close())
		}
		served <- err
	}()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("%v: %v", path, err)
	}
	defer c.Close()
	got, err := io.ReadAll(c)
	if err := errors.Join(err, <-served); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	l := listen(t, path)
	answers(t, l, path)
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fs.ModeSocket | 0o660; info.Mode() != want {
		t.Errorf("mode %s, want %s", info.Mode(), want)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left beside the socket: %v (%v)", entries, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCase46Stale: what a killed runner left behind is replaced without a hand, ten times over.
func TestCase46Stale(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	for range 10 {
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + ".dead", Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false) // as after SIGKILL
		if err := errors.Join(os.Rename(path+".dead", path), dead.Close()); err != nil {
			t.Fatal(err)
		}
		l := listen(t, path)
		answers(t, l, path)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCase46Live: the second gives way, and the first keeps its socket.
func TestCase46Live(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	first := listen(t, path)
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := socket.Listen(path); second != nil || !errors.Is(err, socket.ErrLive) || !strings.Contains(err.Error(), path) {
		t.Fatalf("the second got %v, want ErrLive with the path", err)
	}
	after, err := os.Lstat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket is another one now (%v)", err)
	}
	drained := make(chan error, 1)
	go func() { // the second's question, which the first sees as a caller that says nothing
		c, err := first.Accept()
		if err == nil {
			err = c.Close()
		}
		drained <- err
	}()
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	answers(t, first, path)
}

// TestCase46NotASocket: whatever else is at the path is somebody's, and stays.
func TestCase46NotASocket(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(path string) error
	}{
		{"plain file", func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) }},
		{"empty file", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		{"folder", func(p string) error { return os.Mkdir(p, 0o700) }},
		{"pipe", func(p string) error { return syscall.Mkfifo(p, 0o600) }},
		{"link to a file", func(p string) error {
			return errors.Join(os.WriteFile(p+".target", []byte("precious"), 0o600), os.Symlink(p+".target", p))
		}},
		{"link to nothing", func(p string) error { return os.Symlink(p+".nothing", p) }},
		{"link to a dead socket", func(p string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p + ".target", Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return errors.Join(l.Close(), os.Symlink(p+".target", p))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(folder(t), "runner.sock")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if l, err := socket.Listen(path); l != nil || err == nil || !strings.Contains(err.Error(), "not a socket") {
				t.Fatalf("err = %v, want that it is not a socket", err)
			}
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() || before.Size() != after.Size() {
				t.Errorf("it was touched: %v", err)
			}
		})
	}
}

// TestCase46LongPath: 120 bytes are refused in words, not with "invalid argument", and the longest that is let through
// works.
func TestCase46LongPath(t *testing.T) {
	dir := folder(t)
	path := func(n int) string { return dir + "/" + strings.Repeat("s", n-len(dir)-1) }
	if l, err := socket.Listen(path(120)); l != nil || err == nil || !strings.Contains(err.Error(), "120 bytes long, at most 99") {
		t.Errorf("120 bytes: %v", err)
	}
	if l, err := socket.Listen(path(100)); l != nil || err == nil {
		t.Errorf("100 bytes: %v", err)
	}
	answers(t, listen(t, path(99)), path(99))
}

func TestMissingFolder(t *testing.T) {
	path := filepath.Join(folder(t), "nowhere", "runner.sock")
	if l, err := socket.Listen(path); l != nil || err == nil || !strings.Contains(err.Error(), filepath.Dir(path)) {
		t.Errorf("err = %v, want it to name the folder", err)
	}
}

// TestCloseLeavesOthers: when another runner has the path by now, Close takes only our own end away.
func TestCloseLeavesOthers(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	old := listen(t, path)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	young := listen(t, path)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	answers(t, young, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := young.Close(); err != nil {
		t.Errorf("Close without a file: %v", err)
	}
}

func TestPeer(t *testing.T) {
	path := filepath.Join(folder(t), "runner.sock")
	l := listen(t, path)
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if uid, ok := socket.Peer(socket.WithPeer(t.Context(), c)); !ok || uid != uint32(os.Getuid()) {
		t.Errorf("uid %d, %v; want %d", uid, ok, os.Getuid())
	}
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	for name, ctx := range map[string]context.Context{"no connection": t.Context(), "no unix socket": socket.WithPeer(t.Context(), one)} {
		if uid, ok := socket.Peer(ctx); ok {
			t.Errorf("%s: the kernel is said to have said %d", name, uid)
		}
	}
}
