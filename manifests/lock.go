package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// MaxLockBytes bounds a lock file.
const MaxLockBytes = 32 << 20

// Digest names a lock file by its bytes: "sha256:" and 64 hex digits. The api and the runner compare it.
func Digest(raw []byte) string { return "sha256:" + hashHex(raw) }

func hashHex(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Decode reads a lock file. All that a run relies on is proved here: names, paths, hashes, classes and
// limits are in order, every script is one of the files, and every schema compiles. The error names the
// skill and the script. Schemas, examples and metadata are kept in canonical form.
func Decode(raw []byte) (*Lock, error) {
	if len(raw) > MaxLockBytes {
		return nil, fmt.Errorf("the lock file has %d bytes; at most %d are allowed", len(raw), MaxLockBytes)
	}
	l := &Lock{}
	if err := DecodeStrict(raw, l); err != nil {
		return nil, fmt.Errorf("decode lock file: %w", err)
	}
	if l.Version != LockVersion {
		return nil, fmt.Errorf("lock file version %d; this program reads version %d", l.Version, LockVersion)
	}
	if l.Skills == nil {
		return nil, errors.New("the lock file has no skills; an empty list is {}")
	}
	for name, s := range l.Skills {
		if s == nil {
			return nil, fmt.Errorf("skill %q: null is not a skill", shorten(name))
		}
		s.canonicalize()
		if err := s.prepare(name); err != nil {
			return nil, fmt.Errorf("skill %q: %w", printable(shorten(name)), err)
		}
	}
	for folder, f := range l.Disabled {
		if f.Message == "" || f.Severity != Error {
			return nil, fmt.Errorf("disabled folder %q: it needs an error with a message", printable(shorten(folder)))
		}
	}
	l.digest = Digest(raw)
	return l, nil
}

// With gives a lock that holds external skills beside its own. Its digest stays that of the manifest, which they stand
// outside of. A name that is taken keeps its skill.
func (l *Lock) With(external map[string]*Skill) *Lock {
	both := *l
	both.Skills = map[string]*Skill{}
	maps.Copy(both.Skills, external)
	maps.Copy(both.Skills, l.Skills)
	return &both
}

// Encode writes the canonical lock file: sorted keys, numbers as in the source, no HTML escaping, two
// spaces of indent, a final newline. What it returns is proved to decode.
func Encode(l *Lock) ([]byte, error) {
	plain, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode lock file: %w", err)
	}
	if err := CheckJSON(plain, fileBounds); err != nil {
		return nil, fmt.Errorf("encode lock file: %w", err)
	}
	raw := encodeSorted(decodeAny(plain), "  ")
	if _, err := Decode(raw); err != nil {
		return nil, fmt.Errorf("encode lock file: %w", err)
	}
	return raw, nil
}

func (s *Skill) canonicalize() {
	keep := func(raw *json.RawMessage) {
		if *raw != nil {
			*raw = canonical(*raw)
		}
	}
	keep(&s.Frontmatter.Metadata)
	for _, script := range s.Scripts {
		if script == nil {
			continue // refused by name later
		}
		keep(&script.Input)
		keep(&script.Output)
		for i := range script.Examples {
			keep(&script.Examples[i].Input)
			keep(&script.Examples[i].Output)
		}
	}
}
