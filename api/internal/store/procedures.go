package store

import (
	"context"
	"database/sql"
	"errors"
)

// Procedure is a signed procedure as it was given; whoever uses it checks the signature.
type Procedure struct {
	Skill, Script       string
	Document, Signature []byte
}

// PutProcedure stores one in place of an earlier one for the same script.
func (db *DB) PutProcedure(ctx context.Context, who Actor, p Procedure) error {
	return db.operator(ctx, who, "sop_put", p.Skill, func(t *tx) (any, error) {
		_, err := t.ExecContext(ctx, `INSERT INTO procedures (skill, script, document, signature) VALUES (?,?,?,?)
			ON CONFLICT (skill, script) DO UPDATE SET document = excluded.document, signature = excluded.signature`, p.Skill, p.Script, p.Document, p.Signature)
		return map[string]any{"script": p.Script, "document": Storable(string(p.Document)), "document_sha256": sum(p.Document)}, err
	})
}

// DeleteProcedure forgets one. ErrNotFound when there is none.
func (db *DB) DeleteProcedure(ctx context.Context, who Actor, skill, script string) error {
	return db.operator(ctx, who, "sop_delete", skill, func(t *tx) (any, error) {
		return map[string]any{"script": script}, oneRow(t.ExecContext(ctx, `DELETE FROM procedures WHERE skill = ? AND script = ?`, skill, script))
	})
}

// Procedures lists them by skill and script.
func (db *DB) Procedures(ctx context.Context) ([]Procedure, error) {
	rows, err := db.read.QueryContext(ctx, `SELECT skill, script, document, signature FROM procedures ORDER BY skill, script`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Procedure
	for rows.Next() {
		var p Procedure
		if err := rows.Scan(&p.Skill, &p.Script, &p.Document, &p.Signature); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// Procedure finds the one of a script; the zero value when there is none.
func (db *DB) Procedure(ctx context.Context, skill, script string) (Procedure, error) {
	return procedure(ctx, db.read, skill, script)
}

func procedure(ctx context.Context, q querier, skill, script string) (Procedure, error) {
	p := Procedure{Skill: skill, Script: script}
	err := q.QueryRowContext(ctx, `SELECT document, signature FROM procedures WHERE skill = ? AND script = ?`, skill, script).Scan(&p.Document, &p.Signature)
	if errors.Is(err, sql.ErrNoRows) {
		return Procedure{}, nil
	}
	return p, err
}
