package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

//go:embed migrations/sqlite/*.sql
var sqliteMigrations embed.FS

// sqlite is one file with one writer.
type sqlite struct{ path string }

// sqliteReaders is how many connections read at once beside the writer.
const sqliteReaders = 8

func (e sqlite) open(full bool) (write, read *pool, err error) {
	if err := writable(e.path); err != nil {
		return nil, nil, err
	}
	w, err := sql.Open("sqlite", e.dsn(full, "immediate"))
	if err != nil {
		return nil, nil, err
	}
	r, err := sql.Open("sqlite", e.dsn(full, "deferred"))
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	same := func(query string) string { return query }
	return newPool(w, 1, true, same), newPool(r, sqliteReaders, true, same), nil
}

// dsn sets the pragmas on every connection of a pool, a replaced one too.
func (e sqlite) dsn(full bool, lock string) string {
	sync := "NORMAL"
	if full {
		sync = "FULL"
	}
	q := url.Values{"_txlock": {lock}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(" + sync + ")", "foreign_keys(1)", "wal_autocheckpoint(1000)"}}
	return "file:" + (&url.URL{Path: e.path}).EscapedPath() + "?" + q.Encode()
}

// lock has nothing to do: the transaction began immediate, so it holds the file's lock.
func (sqlite) lock(context.Context, *tx) error { return nil }

// migrate holds an exclusive lock beside the file, so that of two instances that start at once one finds the work done.
func (e sqlite) migrate(ctx context.Context, write *sql.DB) error {
	unlock, err := flock(e.path+".migrate", syscall.LOCK_EX)
	if err != nil {
		return err
	}
	return errors.Join(up(ctx, goose.DialectSQLite3, write, sqliteMigrations, "migrations/sqlite"), unlock())
}

// up applies the migrations that are missing, and refuses a store that is ahead of them.
func up(ctx context.Context, dialect goose.Dialect, write *sql.DB, from embed.FS, folder string, o ...goose.ProviderOption) error {
	dir, err := fs.Sub(from, folder)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, write, dir, append(o, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return err
	}
	if _, err = p.Up(ctx); err != nil {
		return err
	}
	has, knows, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if has > knows { // after a rollback: what a newer api has changed, this one may not understand
		return fmt.Errorf("a newer api has brought this store to schema version %d, this one knows %d: start the newer one, or restore the backup from before the upgrade", has, knows)
	}
	return nil
}

// enter takes the file for this api alone. Two on one file would each close the other's calls as lost at their start.
func (e sqlite) enter(context.Context, *pool) (presence, error) {
	unlock, err := flock(e.path+".api", syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return presence{}, fmt.Errorf("%w: another api serves %s: SQLite is for one; more need postgres://", ErrExists, e.path)
	}
	return presence{leave: unlock}, err
}

// gone is true: whoever opened the call held the file that this process holds now.
func (sqlite) gone(context.Context, *tx, int64) (bool, error) { return true, nil }

// flock locks a file of its own beside the store. The kernel gives it back when the process ends, however it ends.
func flock(path string, how int) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// writable fails, with owner and uid in the message, when the file or its folder cannot be written: SQLite in WAL mode
// needs both.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		if err := f.Close(); err != nil {
			return err
		}
		// A name of its own: two that start at once would remove each other's.
		if f, err = os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".probe-"); err == nil {
			return errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	return fmt.Errorf("%s cannot be written by uid %d (%s): %w", path, os.Getuid(), owners(path), err)
}

func owners(path string) string {
	var out []string
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			out = append(out, p+" does not exist")
			continue
		}
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			out = append(out, fmt.Sprintf("%s belongs to %d:%d, mode %04o", p, st.Uid, st.Gid, info.Mode().Perm()))
		}
	}
	return strings.Join(out, "; ")
}
