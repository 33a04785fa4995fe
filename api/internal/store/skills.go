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

// DeleteSkill forgets a stored skill with its files and switches. ErrNotFound when there is no row.
func (db *DB) DeleteSkill(ctx context.Context, who Actor, name string) error {
	return db.operator(ctx, who, "skills_delete", name, func(t *tx) (any, error) {
		return nil, oneRow(t.ExecContext(ctx, `DELETE FROM skills WHERE name = ?`, name))
	})
}

// PutFile stores one file of a stored skill.
func (db *DB) PutFile(ctx context.Context, who Actor, name, path string, f FileContent) error {
	return db.operator(ctx, who, "skills_file_put", name, func(t *tx) (any, error) {
		if err := oneRow(t.ExecContext(ctx, `UPDATE skills SET name = name WHERE name = ?`, name)); err != nil {
			return nil, err
		}
		_, err := t.ExecContext(ctx, `INSERT INTO skill_files (skill, path, content, exec) VALUES (?, ?, ?, ?)
			ON CONFLICT (skill, path) DO UPDATE SET content = excluded.content, exec = excluded.exec`, name, path, f.Bytes, f.Exec)
		return map[string]any{"path": path, "sha256": sum(f.Bytes), "exec": f.Exec}, err
	})
}

// DeleteFile deletes one stored file. ErrNotFound when there is none.
func (db *DB) DeleteFile(ctx context.Context, who Actor, name, path string) error {
	return db.operator(ctx, who, "skills_file_delete", name, func(t *tx) (any, error) {
		return map[string]any{"path": path}, oneRow(t.ExecContext(ctx, `DELETE FROM skill_files WHERE skill = ? AND path = ?`, name, path))
	})
}

// SetPublished shows or hides a stored skill. ErrNotFound when there is no row.
func (db *DB) SetPublished(ctx context.Context, who Actor, name string, on bool) error {
	return db.flag(ctx, who, publishing(on), `UPDATE skills SET published = ? WHERE name = ?`, name, on)
}

func publishing(on bool) string {
	if on {
		return "skills_publish"
	}
	return "skills_unpublish"
}

// SetAgent opens or closes a stored skill to agents. ErrNotFound when there is no row.
func (db *DB) SetAgent(ctx context.Context, who Actor, name string, on bool) error {
	return db.flag(ctx, who, "skills_agent_set", `UPDATE skills SET agent_enabled = ? WHERE name = ?`, name, on)
}

// SetExternal enables an external skill as it is now, by the digest of its folder, or disables it.
func (db *DB) SetExternal(ctx context.Context, who Actor, name, digest string, on bool) error {
	return db.operator(ctx, who, "skills_agent_set", name, func(t *tx) (any, error) {
		_, err := t.ExecContext(ctx, `INSERT INTO skills (name, agent_enabled, digest) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET agent_enabled = excluded.agent_enabled, digest = excluded.digest`, name, on, digest)
		return map[string]any{"to": on, "digest": digest}, err
	})
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
	rows, err := q.QueryContext(ctx, `SELECT name, published, agent_enabled, digest FROM skills`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		s := StoredSkill{Files: map[string]StoredFile{}}
		if err := rows.Scan(&s.Name, &s.Published, &s.AgentEnabled, &s.Digest); err != nil {
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
