package manifests

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner reads a JSON text (RFC 8259) once, from left to right, and stops at the first fault. It builds
// no values: it only keeps the path to where it is, and the keys of the objects that are open.
type scanner struct {
	raw    []byte
	pos    int
	bounds Bounds
	path   []step
	visit  func(pointer string, start int, isKey bool) // nil: nobody asks for places
}

// step is one level of the path: a key of an object, or an index of an array.
type step struct {
	key   string
	index int // -1: this step is a key
}

func (s *scanner) pointer() string {
	p := ""
	for _, st := range s.path {
		if st.index < 0 {
			p = child(p, st.key)
		} else {
			p = element(p, st.index)
		}
	}
	return p
}

func (s *scanner) fail(kind JSONKind, format string, args ...any) *JSONError {
	return &JSONError{Kind: kind, Pointer: printable(s.pointer()), Message: fmt.Sprintf(format, args...)}
}

func (s *scanner) document() *JSONError {
	if strings.HasPrefix(string(s.raw[:min(3, len(s.raw))]), byteOrderMark) {
		return s.fail(JSONEncoding, "starts with a byte-order mark; save it as UTF-8 without one")
	}
	if err := s.value(0); err != nil {
		return err
	}
	s.space()
	if s.pos < len(s.raw) {
		return s.fail(JSONSyntax, "%s after the end of the value (byte %d)", s.next(), s.pos)
	}
	return nil
}

func (s *scanner) space() {
	for s.pos < len(s.raw) && strings.IndexByte(" \t\r\n", s.raw[s.pos]) >= 0 {
		s.pos++
	}
}

// peek is the next byte, or 0 at the end: NUL starts no JSON token, so the two need no telling apart.
func (s *scanner) peek() byte {
	if s.pos < len(s.raw) {
		return s.raw[s.pos]
	}
	return 0
}

// next names what stands at the position, for a message.
func (s *scanner) next() string {
	if s.pos >= len(s.raw) {
		return "end of text"
	}
	r, _ := utf8.DecodeRune(s.raw[s.pos:])
	return strconv.QuoteRuneToASCII(r)
}

func (s *scanner) value(depth int) *JSONError {
	s.space()
	if s.visit != nil {
		s.visit(s.pointer(), s.pos, false)
	}
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if depth >= s.bounds.Depth {
			return s.fail(JSONTooDeep, "nested more than %d levels deep", s.bounds.Depth)
		}
		s.pos++
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == '"':
		_, err := s.text(false)
		return err
	case c == '-' || isDigit(c):
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(string(s.raw[s.pos:min(s.pos+len(word), len(s.raw))]), word) {
			s.pos += len(word)
			return nil
		}
	}
	return s.fail(JSONSyntax, "expected a JSON value, found %s (byte %d)", s.next(), s.pos)
}

func (s *scanner) object(depth int) *JSONError {
	seen := map[string]bool{}
	for first := true; ; first = false {
		done, err := s.separator('}', first)
		if done || err != nil {
			return err
		}
		s.space()
		keyStart := s.pos
		if s.peek() != '"' {
			return s.fail(JSONSyntax, "expected a key in double quotes, found %s (byte %d)", s.next(), s.pos)
		}
		key, err := s.text(true)
		if err != nil {
			return err
		}
		s.path = append(s.path, step{key: key, index: -1})
		if s.visit != nil {
			s.visit(s.pointer(), keyStart, true)
		}
		if seen[key] {
			return s.fail(JSONDuplicateKey, "the key %q is there twice", shorten(key))
		}
		seen[key] = true
		if s.space(); s.peek() != ':' {
			return s.fail(JSONSyntax, "expected ':' after the key, found %s (byte %d)", s.next(), s.pos)
		}
		s.pos++
		if err := s.value(depth); err != nil {
			return err
		}
		s.path = s.path[:len(s.path)-1]
	}
}

func (s *scanner) array(depth int) *JSONError {
	for i := 0; ; i++ {
		done, err := s.separator(']', i == 0)
		if done || err != nil {
			return err
		}
		s.path = append(s.path, step{index: i})
		if err := s.value(depth); err != nil {
			return err
		}
		s.path = s.path[:len(s.path)-1]
	}
}

// separator reads what stands before a member: nothing before the first, a comma before the others, or
// the closing bracket, which ends the list (done).
func (s *scanner) separator(closing byte, first bool) (done bool, err *JSONError) {
	s.space()
	switch c := s.peek(); {
	case c == closing:
		s.pos++
		return true, nil
	case first:
		return false, nil
	case c == ',':
		s.pos++
		return false, nil
	}
	return false, s.fail(JSONSyntax, "expected ',' or %q, found %s (byte %d)", string(closing), s.next(), s.pos)
}

// number checks the grammar and counts: a number is never converted, so its size costs nothing here.
func (s *scanner) number() *JSONError {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	leadingZero := s.peek() == '0'
	digits := s.digits()
	ok := digits > 0 && (!leadingZero || digits == 1)
	if ok && s.peek() == '.' {
		s.pos++
		fraction := s.digits()
		digits, ok = digits+fraction, fraction > 0
	}
	exponent := ""
	if c := s.peek(); ok && (c == 'e' || c == 'E') {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		from := s.pos
		ok = s.digits() > 0
		exponent = strings.TrimLeft(string(s.raw[from:s.pos]), "0")
	}
	switch {
	case !ok:
		return s.fail(JSONSyntax, "not a JSON number (byte %d)", start)
	case digits > s.bounds.Digits:
		return s.fail(JSONNumber, "a number of %d digits; at most %d are allowed", digits, s.bounds.Digits)
	case exponentOver(exponent, s.bounds.Exponent):
		return s.fail(JSONNumber, "the exponent of a number is over %d", s.bounds.Exponent)
	}
	return nil
}

// exponentOver compares as text first: an exponent of a thousand digits fits no int.
func exponentOver(digits string, limit int) bool {
	if digits == "" {
		return false
	}
	n, err := strconv.Atoi(digits)
	return err != nil || n > limit
}

func (s *scanner) digits() int {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos - start
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
