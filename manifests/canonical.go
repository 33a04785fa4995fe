package manifests

import (
	"bytes"
	"encoding/json"
)

// canonical writes a JSON text in the one way that we hash and compare: keys sorted, numbers digit for
// digit as in the source, no HTML escaping, no white space. CheckJSON must have accepted raw.
func canonical(raw []byte) json.RawMessage {
	return bytes.TrimSuffix(encodeSorted(decodeAny(raw), ""), []byte("\n"))
}

// encodeSorted encodes what decodeAny decodes; the text ends in a newline.
func encodeSorted(v any, indent string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		panic("BUG: a decoded JSON value does not encode: " + err.Error())
	}
	return out.Bytes()
}
