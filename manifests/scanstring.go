package manifests

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const byteOrderMark = "\ufeff"

// text reads a string that starts at the position and returns it unescaped.
func (s *scanner) text(isKey bool) (string, *JSONError) {
	s.pos++ // the opening quote
	var out strings.Builder
	for {
		if s.pos >= len(s.raw) {
			return "", s.fail(JSONSyntax, "a string is not closed")
		}
		if s.raw[s.pos] == '"' {
			s.pos++
			return out.String(), nil
		}
		r, err := s.char()
		if err != nil {
			return "", err
		}
		switch {
		case isKey && r == 0:
			return "", s.fail(JSONControl, "a key holds a NUL character")
		case s.bounds.Control && refusedControl(r):
			return "", s.fail(JSONControl, "the control character U+%04X is not allowed; only tab, line feed and carriage return are", r)
		}
		out.WriteRune(r)
	}
}

// char reads one character of a string, raw or escaped.
func (s *scanner) char() (rune, *JSONError) {
	c := s.raw[s.pos]
	switch {
	case c == '\\':
		return s.escape()
	case c < 0x20 && s.bounds.Control && refusedControl(rune(c)):
		return 0, s.fail(JSONControl, "the control character U+%04X is not allowed", c)
	case c < 0x20:
		return 0, s.fail(JSONSyntax, "the control character U+%04X must be escaped in a JSON string", c)
	case c < utf8.RuneSelf:
		s.pos++
		return rune(c), nil
	}
	r, size := utf8.DecodeRune(s.raw[s.pos:])
	if r == utf8.RuneError && size == 1 {
		return 0, s.fail(JSONEncoding, "not UTF-8 (byte %d)", s.pos)
	}
	s.pos += size
	return r, nil
}

func (s *scanner) escape() (rune, *JSONError) {
	if s.pos+1 >= len(s.raw) {
		return 0, s.fail(JSONSyntax, "a string is not closed")
	}
	const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(letters, s.raw[s.pos+1]); i >= 0 {
		s.pos += 2
		return rune(meanings[i]), nil
	}
	if s.raw[s.pos+1] != 'u' {
		return 0, s.fail(JSONSyntax, "unknown escape in a string (byte %d)", s.pos)
	}
	first, ok := s.unit()
	if !ok {
		return 0, s.fail(JSONSyntax, "an escape \\u needs four hex digits (byte %d)", s.pos)
	}
	if !utf16.IsSurrogate(first) {
		return first, nil
	}
	second, ok := s.unit()
	if r := utf16.DecodeRune(first, second); ok && r != utf8.RuneError {
		return r, nil
	}
	return 0, s.fail(JSONEncoding, "a lone surrogate: \\u%04x stands for no character", first)
}

// unit reads one \uXXXX. When there is none it leaves the position alone and returns false.
func (s *scanner) unit() (rune, bool) {
	if s.pos+6 > len(s.raw) || string(s.raw[s.pos:s.pos+2]) != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.raw[s.pos+2:s.pos+6]), 16, 32)
	if err != nil {
		return 0, false
	}
	s.pos += 6
	return rune(n), true
}

// refusedControl is the rule of the guard (spec section 6): every C0, DEL and C1 but TAB, LF and CR.
func refusedControl(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return r < 0x20 || (r >= 0x7f && r <= 0x9f)
}

// printable makes a text safe to show on a terminal and in a log: control characters, bidirectional
// controls, tags and the like are written as escapes.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == ' ' || strconv.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// shorten bounds a name that a message quotes.
func shorten(text string) string {
	const most = 60 // characters
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "…"
}
