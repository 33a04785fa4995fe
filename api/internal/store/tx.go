package store

import (
	"context"
	"database/sql"
	"errors"
)

// querier is what reads inside and outside a transaction have in common.
type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// tx is one write transaction. No other writes at the same time, in this process or in another one.
type tx struct {
	sql    *sql.Tx
	pool   *pool
	unkept []string // queries to prepare when the connection is free again
}

// writing runs f in one transaction that holds the lock from its start: a transaction that reads first and locks
// later fails in the middle ("database is locked", case 56), or sees the last free place twice (case 14).
func (db *DB) writing(ctx context.Context, f func(*tx) error) error {
	begun, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &tx{sql: begun, pool: db.write}
	if err = db.kind.lock(ctx, t); err == nil {
		err = f(t)
	}
	if err != nil {
		return errors.Join(err, ignoreDone(begun.Rollback()))
	}
	if err := begun.Commit(); err != nil {
		return err
	}
	for _, query := range t.unkept {
		if _, err := db.write.prepared(ctx, query); err != nil {
			break // the work is done; the next transaction parses the query once more
		}
	}
	return nil
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// statement gives the kept statement bound to this transaction, or nil. One cannot be made here: the only connection
// of the writer is in use by this very transaction.
func (t *tx) statement(ctx context.Context, query string) *sql.Stmt {
	if !t.pool.keep {
		return nil
	}
	if s := t.pool.kept(query); s != nil {
		return t.sql.StmtContext(ctx, s)
	}
	t.unkept = append(t.unkept, query)
	return nil
}

// The statements do not watch ctx: each is short, the transaction itself ends with ctx, and a watcher for each of them
// is a goroutine for each of them.

func (t *tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx = context.WithoutCancel(ctx)
	if s := t.statement(ctx, query); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return t.sql.ExecContext(ctx, t.pool.rebind(query), args...)
}

func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx = context.WithoutCancel(ctx)
	if s := t.statement(ctx, query); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return t.sql.QueryContext(ctx, t.pool.rebind(query), args...)
}

func (t *tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx = context.WithoutCancel(ctx)
	if s := t.statement(ctx, query); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return t.sql.QueryRowContext(ctx, t.pool.rebind(query), args...)
}
