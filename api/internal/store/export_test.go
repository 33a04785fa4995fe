package store

import "database/sql"

// Pools gives the tests both pools: what holds on one connection must hold on each.
func (db *DB) Pools() (write, read *sql.DB) { return db.write.DB, db.read.DB }

// What the tests compare with.
const (
	MaxValue = maxValue
	MaxTurns = maxTurns
)
