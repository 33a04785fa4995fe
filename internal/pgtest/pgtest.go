// Package pgtest gives tests a PostgreSQL server that lives only as long as their process: a throw-away cluster below
// /tmp, reached over a unix socket, never over the network.
//
// The server's parent is a shell that waits for the end of its standard input. When the test's process ends, however it
// ends, that input ends, and the shell ends the server by its process id and removes the cluster.
package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// errAbsent is why a test on PostgreSQL is skipped.
var errAbsent = errors.New("PostgreSQL is not installed; scripts/install-missing installs it")

// cluster is the server of this process.
type cluster struct {
	dir   string
	stdin io.Closer
	wait  func() error
}

var (
	start  = sync.OnceValues(startCluster)
	number atomic.Int64
)

// Database makes an empty database and gives its URL. It skips the test when there is no PostgreSQL.
func Database(t testing.TB) string {
	t.Helper()
	c, err := start()
	if errors.Is(err, errAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test_%d", number.Add(1))
	conn, err := pgx.Connect(context.Background(), c.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return c.url(name)
}

// Installed reports whether there is a PostgreSQL to test with.
func Installed() bool { return programs() != "" }

func (c *cluster) url(database string) string {
	q := url.Values{"host": {c.dir}, "user": {"xray"}}
	return "postgres:///" + database + "?" + q.Encode()
}

// programs is the folder of the newest installed server; Debian keeps one for each version, off the PATH.
func programs() string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

// script makes a cluster, serves it and says "ready". Its arguments are the programs' folder and the cluster's.
const script = `set -eu
bin=$1 dir=$2
trap 'cd /; rm -rf "$dir"' EXIT
"$bin/initdb" -D "$dir/data" -U xray -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
"$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= -c fsync=off -c max_connections=300 </dev/null >>"$dir/log" 2>&1 &
server=$!
until "$bin/pg_isready" -q -h "$dir" -U xray; do kill -0 $server || { cat "$dir/log" >&2; exit 1; }; done
echo ready
read -r _ || true
kill -INT $server
wait $server || true
`

func startCluster() (*cluster, error) {
	bin := programs()
	if bin == "" {
		return nil, errAbsent
	}
	dir, err := os.MkdirTemp("/tmp", "xray-pg-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", script, "pgtest", bin, dir)
	cmd.Dir = dir
	// The server refuses to run as root; a group of its own keeps a terminal's interrupt from it, so that the shell cleans up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		if err := asServer(cmd.SysProcAttr, dir); err != nil {
			return nil, err
		}
	}
	var failed strings.Builder
	cmd.Stderr = &failed
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		return nil, fmt.Errorf("PostgreSQL did not start: %w: %w: %s", err, cmd.Wait(), failed.String())
	}
	return &cluster{dir, stdin, cmd.Wait}, nil
}

// asServer makes the child Debian's own user for it: the server refuses root, and any user without a name.
func asServer(attr *syscall.SysProcAttr, dir string) error {
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, badUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, badGID := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(badUID, badGID); err != nil {
		return err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return errors.Join(os.Chown(dir, int(uid), int(gid)), os.Chmod(dir, 0o755))
}

// Stop ends the server when one was started. Call it at the end of TestMain.
func Stop() error {
	if !started() {
		return nil
	}
	c, err := start()
	if err != nil {
		return nil // it never ran; the tests have said why
	}
	return errors.Join(c.stdin.Close(), c.wait())
}

func started() bool { return number.Load() > 0 }
