package manifests

import (
	"bytes"
	"fmt"
)

// JSONKind says why a JSON text was refused.
type JSONKind string

const (
	JSONSyntax       JSONKind = "syntax"        // not one JSON value, or bytes after it
	JSONEncoding     JSONKind = "encoding"      // not UTF-8, or a lone surrogate escape
	JSONDuplicateKey JSONKind = "duplicate_key" // at any depth (CVE-2026-27896 class)
	JSONTooDeep      JSONKind = "too_deep"
	JSONNumber       JSONKind = "number"  // more digits or a larger exponent than Bounds allow
	JSONControl      JSONKind = "control" // a control character in a string or key, raw or escaped
	JSONField        JSONKind = "field"   // DecodeStrict: unknown key, wrong letter case, wrong type
)

// JSONError is a refusal of a JSON text. Pointer (RFC 6901) is the exact place.
type JSONError struct {
	Kind    JSONKind
	Pointer string // "" is the root
	Message string // for a person or a model; holds no raw control character
}

// Error is the place and the message on one line.
func (e *JSONError) Error() string { return at(e.Pointer) + ": " + e.Message }

// Bounds are what a JSON text may ask of its reader. The zero value admits no array, object or number.
type Bounds struct {
	Depth    int  // arrays and objects inside each other; the root counts 1
	Digits   int  // decimal digits of one number, before and after the point together
	Exponent int  // absolute value of the exponent that follows "e"
	Control  bool // refuse control characters other than TAB, LF and CR, raw or escaped
}

var (
	// InputBounds hold for what a caller sends. The number bounds keep the schema validator's exact
	// fractions cheap: 1e1000001 makes it panic (case 01).
	InputBounds = Bounds{Depth: 64, Digits: 64, Exponent: 308, Control: true}

	// OutputBounds hold for what a script prints and for files that people write. Digits and Exponent
	// admit everything that Python prints: integers up to its own limit, and denormal floats (5e-324).
	OutputBounds = Bounds{Depth: 64, Digits: 4300, Exponent: 400}
)

// CheckJSON judges a JSON text in one pass, and returns nil when it is exactly one JSON value within b.
// It is stricter than encoding/json, never looser: no duplicate key at any depth (keys compared after
// unescaping), UTF-8 only, no lone surrogate, no byte-order mark, no NUL in a key.
func CheckJSON(raw []byte, b Bounds) *JSONError {
	s := scanner{raw: raw, bounds: b}
	return s.document()
}

// IsObject reports whether the first byte that is not JSON white space opens an object. It is a cheap
// question about a text that CheckJSON has accepted or will judge.
func IsObject(raw []byte) bool {
	rest := bytes.TrimLeft(raw, " \t\r\n")
	return len(rest) > 0 && rest[0] == '{'
}

// at writes a place for a person: JSON pointers are quoted, and the root has no pointer to show.
func at(pointer string) string {
	if pointer == "" {
		return "at the top level"
	}
	return fmt.Sprintf("at %q", pointer)
}

// Place is Pointer in words that stand after "at".
func (e *JSONError) Place() string {
	if e.Pointer == "" {
		return "the top level"
	}
	return e.Pointer
}
