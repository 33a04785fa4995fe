package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Options of Open. The zero value is the default.
type Options struct {
	FullSync bool             // a commit survives power loss too
	Now      func() time.Time // nil: time.Now
}

// DB is an open store. Make it with Open.
type DB struct {
	write *pool // one connection: there is one writer at a time
	read  *pool
	now   func() time.Time
	kind  engine
	alive presence
}

// engine is what differs between the two databases.
type engine interface {
	// open gives the pool of the writer and that of readers.
	open(full bool) (write, read *pool, err error)
	// migrate brings the schema up to date; safe when two instances start at once.
	migrate(ctx context.Context, write *sql.DB) error
	// lock makes the transaction the only writer of all instances, until it ends.
	lock(ctx context.Context, t *tx) error
	// enter makes this process an instance whose open calls are its own, until the presence is left.
	enter(ctx context.Context, write *pool) (presence, error)
	// gone reports whether the instance that opened a call has ended.
	gone(ctx context.Context, t *tx, instance int64) (bool, error)
}

// Open opens "sqlite:PATH" (the file is made, mode 0600) or "postgres://…" and brings the schema up to date. No error
// holds the password of a URL.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	kind, err := engineOf(dsn)
	if err != nil {
		return nil, err
	}
	db := &DB{now: o.Now, kind: kind}
	if db.now == nil {
		db.now = time.Now
	}
	if db.write, db.read, err = kind.open(o.FullSync); err != nil {
		return nil, err
	}
	if err := kind.migrate(ctx, db.write.DB); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate: %w", err), db.Close())
	}
	return db, nil
}

func engineOf(dsn string) (engine, error) {
	scheme, rest, _ := strings.Cut(dsn, ":")
	switch {
	case scheme == "sqlite" && rest != "" && !strings.HasPrefix(rest, ":"):
		return sqlite{path: rest}, nil
	case scheme == "postgres" || scheme == "postgresql":
		return newPostgres(dsn)
	}
	return nil, fmt.Errorf("%w: write sqlite:/path or postgres://user@host/database", ErrInvalid)
}

// Enter makes this process one of the apis that serve this store: from here on its open calls are its own, and no
// other instance closes them as lost. SQLite has room for one.
func (db *DB) Enter(ctx context.Context) error {
	p, err := db.kind.enter(ctx, db.write)
	if err != nil {
		return err
	}
	db.alive = presence{p.instance, sync.OnceValue(p.leave)}
	return nil
}

// presence is a running instance.
type presence struct {
	instance int64
	leave    func() error
}

// SchemaVersion is the number of the last migration.
func (db *DB) SchemaVersion(ctx context.Context) (int64, error) {
	var v int64
	err := db.read.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&v)
	return v, err
}

// Close releases everything.
func (db *DB) Close() error {
	var left error
	if db.alive.leave != nil {
		left = db.alive.leave()
	}
	return errors.Join(left, db.read.Close(), db.write.Close())
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

// pool is a database/sql pool that takes "?" for parameters on both databases and keeps its statements prepared:
// parsing SQL was a fifth of what a call cost on SQLite.
type pool struct {
	*sql.DB
	rebind func(string) string // the query in the database's own form
	keep   bool                // keep statements prepared here; pgx does so by itself

	mu         sync.Mutex
	statements map[string]*sql.Stmt
}

func newPool(db *sql.DB, connections int, keep bool, rebind func(string) string) *pool {
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return &pool{DB: db, rebind: rebind, keep: keep, statements: map[string]*sql.Stmt{}}
}

func (p *pool) kept(query string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statements[query]
}

// prepared gives the kept statement, making it when there is none; nil where statements are not kept.
func (p *pool) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := p.kept(query); s != nil || !p.keep {
		return s, nil
	}
	s, err := p.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.statements[query]; other != nil {
		return other, s.Close()
	}
	p.statements[query] = s
	return s, nil
}

func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.prepared(ctx, query)
	switch {
	case err != nil:
		return nil, err
	case s != nil:
		return s.QueryContext(ctx, args...)
	}
	return p.DB.QueryContext(ctx, p.rebind(query), args...)
}

func (p *pool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s, err := p.prepared(ctx, query); err == nil && s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return p.DB.QueryRowContext(ctx, p.rebind(query), args...) // it gives the error of preparing, too
}
