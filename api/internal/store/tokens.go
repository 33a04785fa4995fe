package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var tokenName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

const minSecret = 16

// GoodSecret reports whether a configured secret can be a token: at least 16 visible ASCII characters without white
// space. It keeps words such as "undefined" from being a password (bug-ops/zeph#6268 and its kin).
func GoodSecret(secret string) bool {
	return len(secret) >= minSecret && !strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' })
}

// CreateToken makes a token and returns its secret, which is not kept and cannot be read again. The record names who made
// it, never the secret.
func (db *DB) CreateToken(ctx context.Context, who Actor, name string, role Role, mode Mode) (string, error) {
	secret := "xr_" + random(32)
	if err := db.insertToken(ctx, &who, name, role, mode, secret); err != nil {
		return "", err
	}
	return secret, nil
}

// PutToken stores a configured secret under a name, in place of an earlier one; storing the same again changes
// nothing. ErrInvalid when the secret was revoked: a start must not bring back what a person has ended. ErrExists when
// it is another valid token's: one secret must not open two roles.
func (db *DB) PutToken(ctx context.Context, name string, role Role, mode Mode, secret string) error {
	if !GoodSecret(secret) {
		return fmt.Errorf("%w: a token is at least %d visible ASCII characters without white space", ErrInvalid, minSecret)
	}
	return db.insertToken(ctx, nil, name, role, mode, secret)
}

// insertToken puts a token in; one without an actor is configured and takes the place of the one of its name.
func (db *DB) insertToken(ctx context.Context, who *Actor, name string, role Role, mode Mode, secret string) error {
	if !tokenName.MatchString(name) {
		return fmt.Errorf("%w: a token's name is 1 to 64 of a-z 0-9 -", ErrInvalid)
	}
	if role != RoleAgent && role != RoleViewer && role != RoleOperator {
		return fmt.Errorf("%w: role %q: write agent, viewer or operator", ErrInvalid, role)
	}
	if mode != ModeReadOnly && mode != ModeMutating && mode != ModeDualSign {
		return fmt.Errorf("%w: permission mode %q: write read-only, mutating-with-confirm or dual-sign-required", ErrInvalid, mode)
	}
	return db.writing(ctx, func(t *tx) error {
		if who == nil {
			if err := mayPut(ctx, t, name, secret); err != nil {
				return err
			}
			if _, err := t.ExecContext(ctx, `DELETE FROM tokens WHERE name = ? AND NOT revoked`, name); err != nil {
				return err
			}
		}
		var taken int
		if err := t.QueryRowContext(ctx, `SELECT count(*) FROM tokens WHERE name = ? AND NOT revoked`, name).Scan(&taken); err != nil {
			return err
		}
		if taken > 0 {
			return fmt.Errorf("token %s: %w", name, ErrExists)
		}
		_, now := db.stamp()
		_, err := t.ExecContext(ctx, `INSERT INTO tokens (name, role, mode, hash, created) VALUES (?, ?, ?, ?, ?)`, name, role, mode, hashSecret(secret), now)
		if err != nil || who == nil {
			return err
		}
		return db.operate(ctx, t, *who, "tokens_create", "", map[string]any{"name": name, "role": role, "permission_mode": mode})
	})
}

func mayPut(ctx context.Context, t *tx, name, secret string) error {
	var owner string
	var revoked bool
	err := t.QueryRowContext(ctx, `SELECT name, revoked FROM tokens WHERE hash = ?`, hashSecret(secret)).Scan(&owner, &revoked)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case revoked:
		return fmt.Errorf("token %s: %w: this secret was revoked; configure a new one", name, ErrInvalid)
	case owner != name:
		return fmt.Errorf("token %s: its secret is that of token %s, and %w; configure another one", name, owner, ErrExists)
	}
	return nil
}

// Authenticate finds the token of a secret. The look-up is by hash and the comparison is in constant time.
func (db *DB) Authenticate(ctx context.Context, secret string) (Token, bool, error) {
	if len(secret) < minSecret {
		return Token{}, false, nil
	}
	var t Token
	var stored, created string
	hash := hashSecret(secret)
	err := db.read.QueryRowContext(ctx, `SELECT name, role, mode, created, hash FROM tokens WHERE hash = ? AND NOT revoked`, hash).
		Scan(&t.Name, &t.Role, &t.Mode, &created, &stored)
	if errors.Is(err, sql.ErrNoRows) {
		return Token{}, false, nil
	}
	if err != nil || subtle.ConstantTimeCompare([]byte(stored), []byte(hash)) != 1 {
		return Token{}, false, err
	}
	t.Created = parseTime(created)
	return t, true, nil
}

// TokenMode is the permission mode of the valid token of that name and role; ErrNotFound when there is none any more.
func (db *DB) TokenMode(ctx context.Context, name string, role Role) (Mode, error) {
	var m Mode
	err := db.read.QueryRowContext(ctx, `SELECT mode FROM tokens WHERE name = ? AND role = ? AND NOT revoked`, name, role).Scan(&m)
	if errors.Is(err, sql.ErrNoRows) {
		return m, fmt.Errorf("token %s: %w", name, ErrNotFound)
	}
	return m, err
}

// Tokens lists all tokens, the oldest first.
func (db *DB) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := db.read.QueryContext(ctx, `SELECT name, role, mode, created, revoked FROM tokens ORDER BY created, name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Token
	for rows.Next() {
		var t Token
		var created string
		if err := rows.Scan(&t.Name, &t.Role, &t.Mode, &created, &t.Revoked); err != nil {
			return nil, err
		}
		t.Created = parseTime(created)
		out = append(out, t)
	}
	return out, rows.Err()
}

// RevokeToken ends the valid token of that name, and with it what it has approved and asked for and what was not used yet.
func (db *DB) RevokeToken(ctx context.Context, who Actor, name string) error {
	return db.operator(ctx, who, "tokens_revoke", "", func(t *tx) (any, error) {
		if err := oneRow(t.ExecContext(ctx, `UPDATE tokens SET revoked = ? WHERE name = ? AND NOT revoked`, true, name)); err != nil {
			return nil, err
		}
		return map[string]any{"name": name}, db.disown(ctx, t, name)
	})
}

// oneRow turns "nothing was changed" into ErrNotFound.
func oneRow(r sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails (crypto/rand since Go 1.24)
	return base64.RawURLEncoding.EncodeToString(b)
}
