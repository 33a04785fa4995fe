package manifests

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// plainText returns the text of a file that people write: a byte-order mark is dropped and CRLF read as
// LF, as if a Windows editor had not been there. Any other encoding is refused by its name (case 20).
func (r *report) plainText(raw []byte) (text string, ok bool) {
	if name := foreignEncoding(raw); name != "" {
		line, column := 0, 0
		if i := firstInvalid(raw); i > 0 && !strings.HasPrefix(name, "UTF-16") {
			line, column = lineColumn(raw, i)
		}
		r.add(Error, line, column, "save it as UTF-8", "the file is %s", name)
		return "", false
	}
	text = strings.TrimPrefix(string(raw), byteOrderMark)
	return strings.ReplaceAll(text, "\r\n", "\n"), true
}

// foreignEncoding names the encoding of a text that is not UTF-8; "" when it is.
func foreignEncoding(raw []byte) string {
	switch {
	case bytes.HasPrefix(raw, []byte{0xff, 0xfe}), bytes.HasPrefix(raw, []byte{'-', 0}), bytes.HasPrefix(raw, []byte{'{', 0}), bytes.HasPrefix(raw, []byte{'#', 0}):
		return "UTF-16 (little-endian)"
	case bytes.HasPrefix(raw, []byte{0xfe, 0xff}), bytes.HasPrefix(raw, []byte{0, '-'}), bytes.HasPrefix(raw, []byte{0, '{'}), bytes.HasPrefix(raw, []byte{0, '#'}):
		return "UTF-16 (big-endian)"
	case !utf8.Valid(raw):
		return "not UTF-8; it looks like Latin-1 or Windows-1252"
	}
	return ""
}

// firstInvalid is the offset of the first byte that is not UTF-8, or -1.
func firstInvalid(raw []byte) int {
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// hidden reports characters that a reviewer does not see and a model reads: bidirectional controls, tag
// characters, zero-width space and joiners of words.
func hidden(r rune) bool {
	switch {
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return r == 0x200b || r == 0x2060 || r == 0xfeff
}

// hiddenCharacters warns at the first one.
func (r *report) hiddenCharacters(text string) {
	i := strings.IndexFunc(text, hidden)
	if i < 0 {
		return
	}
	line, column := lineColumn([]byte(text), i)
	c, _ := utf8.DecodeRuneInString(text[i:])
	r.add(Warning, line, column, "remove it", "an invisible character, U+%04X: a model reads it, a reviewer does not see it", c)
}
