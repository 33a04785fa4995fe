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
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options of Open. The zero value is the default.
type Options struct {
	FullSync bool             // synchronous=FULL: survives power loss too
	Now      func() time.Time // nil: time.Now
}

// DB is an open store. Make it with Open.
type DB struct {
	write *sql.DB // one connection, immediate transactions
	read  *sql.DB
	now   func() time.Time
}

// Open opens "sqlite:PATH", making the file (mode 0600) and bringing its schema up to date. It fails, with owner and
// uid in the message, when the file or its folder cannot be written: SQLite in WAL mode needs both.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	path, ok := strings.CutPrefix(dsn, "sqlite:")
	switch {
	case strings.HasPrefix(dsn, "postgres:") || strings.HasPrefix(dsn, "postgresql:"):
		return nil, fmt.Errorf("%w: this version has no PostgreSQL store yet; write sqlite:/path", ErrInvalid)
	case !ok || path == "" || strings.HasPrefix(path, ":"):
		return nil, fmt.Errorf("%w: write sqlite:/path", ErrInvalid)
	}
	if err := writable(path); err != nil {
		return nil, err
	}
	db := &DB{now: o.Now}
	if db.now == nil {
		db.now = time.Now
	}
	var err error
	if db.write, err = sql.Open("sqlite", sqliteDSN(path, o.FullSync, "immediate")); err != nil {
		return nil, err
	}
	db.write.SetMaxOpenConns(1)
	if db.read, err = sql.Open("sqlite", sqliteDSN(path, o.FullSync, "deferred")); err != nil {
		return nil, errors.Join(err, db.write.Close())
	}
	db.read.SetMaxOpenConns(8)
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate: %w", err), db.Close())
	}
	return db, nil
}

// sqliteDSN sets the pragmas on every connection of a pool, a replaced one too.
func sqliteDSN(path string, full bool, lock string) string {
	sync := "NORMAL"
	if full {
		sync = "FULL"
	}
	q := url.Values{"_txlock": {lock}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(" + sync + ")", "foreign_keys(1)", "wal_autocheckpoint(1000)"}}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

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

// migrate is safe when two instances start at once: the loser of the race finds the work done and tries again.
func (db *DB) migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		p, err := goose.NewProvider(goose.DialectSQLite3, db.write, dir)
		if err != nil {
			return err
		}
		if _, err = p.Up(ctx); err == nil || attempt == 5 {
			return err
		}
	}
}

// SchemaVersion is the number of the last migration.
func (db *DB) SchemaVersion(ctx context.Context) (int64, error) {
	var v int64
	err := db.read.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&v)
	return v, err
}

// Close releases the file.
func (db *DB) Close() error { return errors.Join(db.read.Close(), db.write.Close()) }

// writing runs f in one immediate transaction.
func (db *DB) writing(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

const timeForm = "2006-01-02T15:04:05.000000Z" // sorts as text

func (db *DB) stamp() (time.Time, string) {
	t := db.now().UTC()
	return t, t.Format(timeForm)
}

func parseTime(s string) time.Time {
	t, err := time.Parse(timeForm, s)
	if err != nil {
		return time.Time{}
	}
	return t
}
