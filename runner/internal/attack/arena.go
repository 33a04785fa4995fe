package attack

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// arena is everything that an attack may aim at, below one folder, and sockets. It is laid out anew for each attempt.
type arena struct {
	root    string
	secret  string // in files outside
	marker  string // in the arguments of all that is started, and the name of what may be left elsewhere
	key     int    // of System V objects
	sockets []interface{ Close() error }
	tcp     int
	udp     int
	free    int // a port that nobody listens on
}

func newArena(parent string) (*arena, error) {
	root, err := os.MkdirTemp(parent, "attack-")
	if err != nil {
		return nil, err
	}
	a := &arena{root: root, secret: rand.Text(), marker: "xray-attack-" + rand.Text(), key: os.Getpid()<<8 | 0x5a}
	if err := errors.Join(os.Mkdir(a.runs(), 0o700), a.listen()); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *arena) path(parts ...string) string {
	return filepath.Join(append([]string{a.root}, parts...)...)
}
func (a *arena) runs() string     { return a.path("runs") }
func (a *arena) abstract() string { return a.marker + "-listener" }

// listen makes the servers that attacks try to reach. Nobody has to accept for a connection to be made.
func (a *arena) listen() error {
	if err := os.Mkdir(a.path("sockets"), 0o700); err != nil {
		return err
	}
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	a.sockets, a.tcp = append(a.sockets, tcp), tcp.Addr().(*net.TCPAddr).Port
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	a.sockets, a.udp = append(a.sockets, udp), udp.LocalAddr().(*net.UDPAddr).Port
	free, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	a.free = free.Addr().(*net.TCPAddr).Port
	datagram, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: a.path("sockets", "datagram"), Net: "unixgram"})
	if err != nil {
		return errors.Join(err, free.Close())
	}
	a.sockets = append(a.sockets, datagram)
	for _, name := range []string{a.path("sockets", "runner"), "@" + a.abstract()} {
		l, err := net.Listen("unix", name)
		if err != nil {
			return errors.Join(err, free.Close())
		}
		a.sockets = append(a.sockets, l)
	}
	return free.Close()
}

// layOut makes the targets as they are before an attempt.
func (a *arena) layOut() error {
	for _, dir := range []string{"target", "own", "skill"} {
		if err := errors.Join(os.RemoveAll(a.path(dir)), os.Mkdir(a.path(dir), 0o700)); err != nil {
			return err
		}
	}
	var errs []error
	for _, name := range []string{"secret", "written", "deleted", "moved", "truncated", "mode", "time"} {
		errs = append(errs, os.WriteFile(a.path("target", name), []byte(a.secret), 0o600))
	}
	for _, name := range []string{"manifest.json", "shim", "other-skill.py"} {
		errs = append(errs, os.WriteFile(a.path("own", name), []byte(a.secret), 0o600))
	}
	errs = append(errs, os.Mkdir(a.path("target", "exchanged"), 0o700), os.WriteFile(a.path("skill", "run.py"), []byte("print('{}')\n"), 0o600),
		os.Chmod(a.path("sockets", "runner"), 0o660), a.spareSocket())
	return errors.Join(errs...)
}

// spareSocket is a socket file that may be removed.
func (a *arena) spareSocket() error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: a.path("own", "spare"), Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// aims is what the scripts are told: `at` in scripts/prelude.py.
func (a *arena) aims(n *neighbour) map[string]any {
	return map[string]any{
		"folder": a.path("target"), "own": a.path("own"), "skill": a.path("skill"), "secret": a.secret,
		"socket": a.path("sockets", "runner"), "datagram": a.path("sockets", "datagram"), "spare_socket": a.path("own", "spare"),
		"abstract": a.abstract(), "tcp_port": a.tcp, "udp_port": a.udp, "free_port": a.free, "name": a.marker, "key": a.key,
		"late": a.path("target", "late"), "stdout_limit": loose().StdoutBytes, "calls": calls,
		"other_pid": n.pid, "other_folder": n.dir, "other_secret": n.secret,
	}
}

// state is what of the targets can be compared: mode, time and content by path.
func (a *arena) state() map[string]string {
	out := map[string]string{}
	for _, dir := range []string{"target", "own", "skill", "sockets"} {
		_ = filepath.WalkDir(a.path(dir), func(path string, entry fs.DirEntry, err error) error { // what cannot be read differs
			if err != nil {
				out[path] = err.Error()
				return nil
			}
			info, err := entry.Info()
			if err != nil {
				out[path] = err.Error()
				return nil
			}
			content, _ := os.ReadFile(path)
			out[path] = fmt.Sprintf("%s %d %x", info.Mode(), info.ModTime().UnixNano(), sha256.Sum256(content))
			return nil
		})
	}
	return out
}

// harm is what has changed since before, and what is left elsewhere; the latter is removed.
func (a *arena) harm(before map[string]string) []string {
	var out []string
	after := a.state()
	for path := range maps.Keys(before) {
		if after[path] != before[path] {
			out = append(out, "changed: "+strings.TrimPrefix(path, a.root))
		}
	}
	for path := range maps.Keys(after) {
		if _, ok := before[path]; !ok {
			out = append(out, "new: "+strings.TrimPrefix(path, a.root))
		}
	}
	out = append(append(out, a.leftFiles()...), a.leftObjects()...)
	slices.Sort(out)
	return out
}

func (a *arena) leftFiles() []string {
	var out []string
	for _, dir := range []string{"/dev/shm", "/tmp", "/var/tmp"} {
		if path := filepath.Join(dir, a.marker); os.Remove(path) == nil {
			out = append(out, "left: "+dir)
		}
	}
	entries, err := os.ReadDir(a.runs())
	if err != nil {
		return append(out, err.Error())
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), a.marker) {
			out = append(out, "moved: a working folder")
			_ = os.RemoveAll(a.path("runs", entry.Name()))
		}
	}
	return out
}

// leftObjects are the System V objects with our key and the POSIX queue with our name. To remove one is to find it.
func (a *arena) leftObjects() []string {
	var out []string
	for _, kind := range []struct {
		name        string
		get, remove uintptr
		control     func(id uintptr) (uintptr, uintptr, uintptr) // arguments of the call that removes
	}{
		{"shared memory", unix.SYS_SHMGET, unix.SYS_SHMCTL, func(id uintptr) (uintptr, uintptr, uintptr) { return id, unix.IPC_RMID, 0 }},
		{"semaphore", unix.SYS_SEMGET, unix.SYS_SEMCTL, func(id uintptr) (uintptr, uintptr, uintptr) { return id, 0, unix.IPC_RMID }},
		{"queue", unix.SYS_MSGGET, unix.SYS_MSGCTL, func(id uintptr) (uintptr, uintptr, uintptr) { return id, unix.IPC_RMID, 0 }},
	} {
		id, _, errno := syscall.Syscall(kind.get, uintptr(a.key), 0, 0)
		if errno != 0 {
			continue
		}
		x, y, z := kind.control(id)
		_, _, _ = syscall.Syscall(kind.remove, x, y, z)
		out = append(out, "left: a System V "+kind.name)
	}
	if removeQueue(a.marker) {
		out = append(out, "left: a POSIX queue")
	}
	return out
}

func (a *arena) close() {
	for _, s := range a.sockets {
		_ = s.Close()
	}
	_ = os.RemoveAll(a.root)
}
