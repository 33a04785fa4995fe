package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/postgres/*.sql
var postgresMigrations embed.FS

// postgres is a database that several apis may share.
type postgres struct{ config *pgx.ConnConfig }

// The keys of our advisory locks. Such locks belong to one database, so they need only differ from each other.
const (
	writerLock   = 0x78726179 // one writer at a time ("xray")
	instanceLock = 0x78726100 // first of two keys; the second is the instance's number
	migrateLock  = writerLock - 1
	// postgresReaders is how many connections of one api read at once beside its writer.
	postgresReaders = 8
	// lockWait is how long a writer waits for the others; SQLite's busy_timeout is the same.
	lockWait = "10s"
)

// newPostgres checks the URL. pgx leaves the password out of its error.
func newPostgres(dsn string) (engine, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	for name, value := range map[string]string{
		"application_name":                    "xray-api",
		"lock_timeout":                        lockWait,
		"idle_in_transaction_session_timeout": "15s", // an api that hangs in the middle must not stop the others
		"tcp_keepalives_idle":                 "30",  // one whose host has gone must lose its locks
	} {
		if _, set := config.RuntimeParams[name]; !set {
			config.RuntimeParams[name] = value
		}
	}
	return postgres{config}, nil
}

func (e postgres) open(full bool) (write, read *pool, err error) {
	config := e.config.Copy()
	if full { // otherwise as the server has it: it is the server's owner who knows its disks
		config.RuntimeParams["synchronous_commit"] = "on"
	}
	return newPool(stdlib.OpenDB(*config), 1, false, numbered), newPool(stdlib.OpenDB(*e.config), postgresReaders, false, numbered), nil
}

// lock serializes the writers of all instances: each event needs the hash of the one before it, so there is an order
// anyway. At READ COMMITTED every statement after it sees what the former holder committed.
func (postgres) lock(ctx context.Context, t *tx) error {
	_, err := t.ExecContext(ctx, `SELECT pg_advisory_xact_lock(?)`, int64(writerLock))
	return err
}

// migrate holds a lock on a connection of its own, so that of two instances that start at once one finds the work done.
func (e postgres) migrate(ctx context.Context, write *sql.DB) error {
	conn, err := pgx.ConnectConfig(ctx, e.config)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `SET lock_timeout = '60s'`); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrateLock)); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	return errors.Join(up(ctx, goose.DialectPostgres, write, postgresMigrations, "migrations/postgres"), conn.Close(ctx))
}

// enter takes a number and holds its lock on a connection of its own. Whoever can get that lock knows that the
// instance has ended: the server gives it back with the connection, also after kill -9.
func (e postgres) enter(ctx context.Context, write *pool) (presence, error) {
	var n int64
	if err := write.QueryRowContext(ctx, `SELECT nextval('instances')`).Scan(&n); err != nil {
		return presence{}, err
	}
	k := &keeper{config: e.config.Copy(), instance: n}
	if err := k.hold(ctx); err != nil {
		return presence{}, err
	}
	k.watch()
	return presence{instance: n, leave: k.leave}, nil
}

func (postgres) gone(ctx context.Context, t *tx, instance int64) (bool, error) {
	var free bool
	err := t.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock(?, ?)`, int32(instanceLock), int32(instance)).Scan(&free)
	return free, err
}

// keeper holds an instance's lock, and takes it again when its connection was lost.
type keeper struct {
	config   *pgx.ConnConfig
	instance int64
	conn     *pgx.Conn
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// keeperBeat is how often the connection is tried. Until it is found broken another api may take this one for ended.
const keeperBeat = 5 * time.Second

func (k *keeper) hold(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, k.config)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1, $2)`, int32(instanceLock), int32(k.instance)); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	k.conn = conn
	return nil
}

func (k *keeper) watch() {
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	k.done.Go(func() {
		beat := time.NewTicker(keeperBeat)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
			}
			if k.conn.Ping(ctx) != nil && ctx.Err() == nil {
				_ = k.conn.Close(ctx)
				_ = k.hold(ctx) // the next beat tries again
			}
		}
	})
}

func (k *keeper) leave() error {
	k.stop()
	k.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), keeperBeat)
	defer cancel()
	// Given back in words: the server notices the end of a connection some time after it.
	_, err := k.conn.Exec(ctx, `SELECT pg_advisory_unlock($1, $2)`, int32(instanceLock), int32(k.instance))
	return errors.Join(err, k.conn.Close(ctx))
}

// rebound remembers queries with numbered parameters; there are few, all of them constants.
var rebound sync.Map

// numbered turns ? into $1, $2 and so on. No query of ours holds a ? in a literal.
func numbered(query string) string {
	if known, ok := rebound.Load(query); ok {
		return known.(string)
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	rebound.Store(query, b.String())
	return b.String()
}
