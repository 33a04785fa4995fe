package manifests

import (
	"strconv"
	"strings"
)

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// child is the JSON pointer (RFC 6901) of a key below pointer.
func child(pointer, key string) string { return pointer + "/" + pointerEscape.Replace(key) }

// element is the JSON pointer of an array element below pointer.
func element(pointer string, index int) string { return pointer + "/" + strconv.Itoa(index) }

// locate finds where the value at pointer starts in a JSON text: line and column from 1, or of the key
// when the value is a member. It returns 0, 0 when the text has no such place.
func locate(raw []byte, pointer string) (line, column int) {
	offset := -1
	s := scanner{raw: raw, bounds: fileBounds, visit: func(p string, start int, isKey bool) {
		if p == pointer && (offset < 0 || isKey) { // of two equal keys the second one is the fault
			offset = start
		}
	}}
	s.document() // a text that is not sound still has its places up to the fault
	if offset < 0 {
		return 0, 0
	}
	return lineColumn(raw, offset)
}

// lineColumn turns a byte offset into a line and a column, both from 1; the column counts bytes.
func lineColumn(raw []byte, offset int) (line, column int) {
	before := string(raw[:offset])
	return strings.Count(before, "\n") + 1, offset - strings.LastIndexByte(before, '\n')
}
