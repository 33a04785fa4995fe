// Package store keeps what must outlive the api: tokens, the operator's skills and switches, sessions with their
// counts, and the record.
//
// A call costs two write transactions. Begin reads the state, asks the judge, reserves the places and writes the
// opened event, all in one: two calls at once cannot both see the last free place, and there is no allow that is not
// on the record. End writes the closed event and gives the places back when the run never started.
//
// There is one writer at a time (an immediate transaction on a pool of one), because SQLite has one anyway and
// waiting in Go is cheaper than "database is locked". Every pooled connection gets its pragmas from the DSN.
//
// The record is a chain: each event's hash covers the one before it. Verify finds a changed, removed, moved or
// inserted row; a rewrite from some row to the end is only seen by a head that was kept elsewhere, which is why the
// head is logged at start.
package store
