package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
)

// Actor is the operator who changes something, as the record names it.
type Actor struct {
	Token  string
	Role   Role
	Caller string // "mcp", "rest"
}

// PutSkill replaces the stored copy of a skill. The switches of its row stay.
func (db *DB) PutSkill(ctx context.Context, who Actor, name string, files map[string]FileContent) error {
	return db.operator(ctx, who, "skills_put", name, func(t *tx) (any, error) {
		if _, err := t.ExecContext(ctx, `INSERT INTO skills (name) VALUES (?) ON CONFLICT DO NOTHING`, name); err != nil {
			return nil, err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM skill_files WHERE skill = ?`, name); err != nil {
			return nil, err
		}
		sums := map[string]string{}
		for path, f := range files {
			sums[path] = sum(f.Bytes)
			if _, err := t.ExecContext(ctx, `INSERT INTO skill_files (skill, path, content, exec) VALUES (?, ?, ?, ?)`, name, path, f.Bytes, f.Exec); err != nil {
				return nil, err
			}
		}
		return map[string]any{"files": sums}, nil
	})
}

// SetPublished shows or hides a stored skill. ErrNotFound when there is no row.
func (db *DB) SetPublished(ctx context.Context, who Actor, name string, on bool) error {
	return db.flag(ctx, who, "skills_publish", `UPDATE skills SET published = ? WHERE name = ?`, name, on)
}

// SetAgent opens or closes a stored skill to agents. ErrNotFound when there is no row.
func (db *DB) SetAgent(ctx context.Context, who Actor, name string, on bool) error {
	return db.flag(ctx, who, "skills_agent_set", `UPDATE skills SET agent_enabled = ? WHERE name = ?`, name, on)
}

func (db *DB) flag(ctx context.Context, who Actor, what, statement, name string, on bool) error {
	return db.operator(ctx, who, what, name, func(t *tx) (any, error) {
		return map[string]any{"to": on}, oneRow(t.ExecContext(ctx, statement, on, name))
	})
}

// Skills reads every stored skill; the hashes are of the bytes as they are now.
func (db *DB) Skills(ctx context.Context) (map[string]StoredSkill, error) {
	return skills(ctx, db.read, "")
}

// skills reads all rows; the files of one skill, or of all when only is empty.
func skills(ctx context.Context, q querier, only string) (map[string]StoredSkill, error) {
	out := map[string]StoredSkill{}
	rows, err := q.QueryContext(ctx, `SELECT name, published, agent_enabled FROM skills`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		s := StoredSkill{Files: map[string]StoredFile{}}
		if err := rows.Scan(&s.Name, &s.Published, &s.AgentEnabled); err != nil {
			return nil, err
		}
		out[s.Name] = s
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return out, files(ctx, q, only, out)
}

func files(ctx context.Context, q querier, only string, into map[string]StoredSkill) error {
	rows, err := q.QueryContext(ctx, `SELECT skill, path, content, exec FROM skill_files WHERE ? = '' OR skill = ?`, only, only)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var skill, path string
		var content sql.RawBytes
		var f StoredFile
		if err := rows.Scan(&skill, &path, &content, &f.Exec); err != nil {
			return err
		}
		f.SHA256, f.Size = sum(content), int64(len(content))
		into[skill].Files[path] = f
	}
	return rows.Err()
}

// SkillFile reads one stored file.
func (db *DB) SkillFile(ctx context.Context, skill, path string) ([]byte, error) {
	var b []byte
	err := db.read.QueryRowContext(ctx, `SELECT content FROM skill_files WHERE skill = ? AND path = ?`, skill, path).Scan(&b)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%s/%s: %w", skill, path, ErrNotFound)
	}
	return b, err
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
