package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// rights is what a Landlock ruleset handles: whatever of it is not granted to a path is refused.
type rights struct{ fs, net, scope uint64 }

// rightsSince lists what each ABI added (landlock(7); the table in go-landlock v0.11.2). All that the kernel knows is
// handled. A kernel newer than the last row gets the last row.
var rightsSince = []struct {
	abi int
	add rights
}{
	{1, rights{fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1}}, // the first 13 bits
	{2, rights{fs: unix.LANDLOCK_ACCESS_FS_REFER}},
	{3, rights{fs: unix.LANDLOCK_ACCESS_FS_TRUNCATE}},
	{4, rights{net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP}},
	{5, rights{fs: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}},
	{6, rights{scope: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}},
	{9, rights{fs: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX}},
	{10, rights{net: unix.LANDLOCK_ACCESS_NET_BIND_UDP | unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP}},
}

func handledBy(abi int) rights {
	var sum rights
	for _, row := range rightsSince {
		if row.abi <= abi {
			sum.fs |= row.add.fs
			sum.net |= row.add.net
			sum.scope |= row.add.scope
		}
	}
	return sum
}

// landlockABI asks the kernel. ENOSYS: built without; EOPNOTSUPP: built with and not switched on at boot (lsm=).
func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

const (
	readFile   = unix.LANDLOCK_ACCESS_FS_READ_FILE
	read       = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	execute    = unix.LANDLOCK_ACCESS_FS_EXECUTE
	readWrite  = readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	readDevice = readFile

	// onFiles are the rights that a rule on a file may carry; the kernel answers EINVAL to the others.
	onFiles = execute | readWrite | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// never are rights that not even the working folder needs: device nodes, and sockets, which cannot be made anyway.
	never = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// grant is one rule: these rights on this path and, for a folder, on all below it.
type grant struct {
	path   string
	access uint64
}

// systemPaths are what an interpreter needs to start; a pattern that matches nothing is left out. Not here: /proc (other
// processes), /sys, /etc as a whole (passwd), /tmp and /dev/shm (shared between runs).
var systemPaths = []grant{
	{"/usr", read | execute},
	{"/bin", read | execute},   // links into /usr on merged systems, folders on others (alpine)
	{"/lib", read | execute},   //
	{"/lib64", read | execute}, //
	{"/etc/ld.so.cache", readFile},
	{"/etc/localtime", readFile},
	{"/etc/mime.types", readFile},
	{"/etc/ssl/openssl.cnf", readFile},
	{"/etc/ssl/certs", read},
	// Debian's Python imports it at start and prints an error when it may not be read.
	{"/etc/python3*/sitecustomize.py", readFile},
	{"/dev/null", readWrite},
	{"/dev/zero", readDevice},
	{"/dev/random", readDevice},
	{"/dev/urandom", readDevice},
}

// systemGrants resolves systemPaths on this machine. Links are followed and what a folder already grants is dropped:
// each rule costs every run an open and a call.
func systemGrants() ([]grant, error) {
	var out []grant
	for _, want := range systemPaths {
		matches, err := filepath.Glob(want.path)
		if err != nil {
			return nil, fmt.Errorf("BUG: pattern %q: %w", want.path, err)
		}
		for _, match := range matches {
			path, err := filepath.EvalSymlinks(match)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a link to nowhere
			}
			if err != nil {
				return nil, fmt.Errorf("system path: %w", err)
			}
			if !covered(out, path, want.access) {
				out = append(out, grant{path, want.access})
			}
		}
	}
	return out, nil
}

// covered reports whether grants already give these rights on path.
func covered(grants []grant, path string, access uint64) bool {
	for _, g := range grants {
		if access&^g.access == 0 && (path == g.path || strings.HasPrefix(path, g.path+"/")) {
			return true
		}
	}
	return false
}

// grantsFor are the rules of one run: the system's, the skill's files for reading, its mounts, the program itself where it is not
// the system's, and the working folder, which is "." because the rest of the plan is the same for many runs.
func (f inForce) grantsFor(spec Spec) ([]grant, error) {
	out := append([]grant(nil), f.system...)
	for _, path := range spec.Readable {
		out = append(out, grant{path, read})
	}
	for _, path := range spec.Writable {
		out = append(out, grant{path, f.landlock.fs &^ never &^ execute})
	}
	program, err := filepath.EvalSymlinks(spec.Argv[0])
	if err != nil {
		return nil, fmt.Errorf("program: %w", err)
	}
	if !covered(out, program, readFile|execute) {
		out = append(out, grant{program, readFile | execute})
	}
	for i := range out {
		info, err := os.Stat(out[i].path)
		if err != nil {
			return nil, fmt.Errorf("readable path: %w", err)
		}
		out[i].access &= f.landlock.fs
		if !info.IsDir() {
			out[i].access &= onFiles
		}
	}
	return append(out, grant{".", f.landlock.fs &^ never}), nil
}
