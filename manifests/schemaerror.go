package manifests

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// SchemaError says where a value differs from its schema.
type SchemaError struct {
	Pointer string // RFC 6901, into the value; "" is the root
	Keyword string // the schema keyword that it fails; "json" when it is no JSON within bounds
	Message string // place and reason on one line, for a model to act on; at most 300 characters
}

// Error is the message.
func (e *SchemaError) Error() string { return e.Message }

// maxMessage bounds SchemaError.Message, in characters.
const maxMessage = 300

// pickCause chooses, out of a tree of failures, the one that helps most: the deepest place in the value.
// The validator walks maps, so its order differs from run to run; ours does not.
func pickCause(root *jsonschema.ValidationError) *SchemaError {
	var causes []*SchemaError
	collectCauses(root, &causes)
	best := slices.MinFunc(causes, func(a, b *SchemaError) int {
		return cmp.Or(
			cmp.Compare(strings.Count(b.Pointer, "/"), strings.Count(a.Pointer, "/")),
			cmp.Compare(a.Pointer, b.Pointer),
			cmp.Compare(keywordOrder(a.Keyword), keywordOrder(b.Keyword)),
			cmp.Compare(a.Message, b.Message),
		)
	})
	if best.Keyword == "type" {
		return mergeTypes(best, causes)
	}
	return best
}

// mergeTypes joins the branches of an anyOf that differ in type: "expected null or string" is true, and
// either of them alone would mislead.
func mergeTypes(best *SchemaError, causes []*SchemaError) *SchemaError {
	prefix := at(best.Pointer) + ": expected "
	var types []string
	found := ""
	for _, c := range causes {
		rest, ok := strings.CutPrefix(c.Message, prefix)
		if expected, tail, cut := strings.Cut(rest, ", but got "); ok && cut && c.Pointer == best.Pointer && c.Keyword == "type" {
			types, found = append(types, expected), tail
		}
	}
	slices.Sort(types)
	message := prefix + strings.Join(slices.Compact(types), " or ") + ", but got " + found
	return &SchemaError{best.Pointer, best.Keyword, bound(message, maxMessage)}
}

func collectCauses(e *jsonschema.ValidationError, out *[]*SchemaError) {
	if len(e.Causes) == 0 {
		*out = append(*out, leafCause(e))
		return
	}
	for _, cause := range e.Causes {
		collectCauses(cause, out)
	}
}

func leafCause(e *jsonschema.ValidationError) *SchemaError {
	pointer := e.InstanceLocation
	if unescaped, err := url.PathUnescape(pointer); err == nil { // the validator escapes tokens for a URL
		pointer = unescaped
	}
	pointer = printable(pointer)
	keyword := e.KeywordLocation[strings.LastIndexByte(e.KeywordLocation, '/')+1:]
	if _, digits := strconv.Atoi(keyword); digits == nil || keyword == "" {
		keyword = "schema" // a schema that is just false, or an element of a list
	}
	message := at(pointer) + ": " + tellCause(keyword, e.Message)
	return &SchemaError{Pointer: pointer, Keyword: keyword, Message: bound(printable(message), maxMessage)}
}

// tellCause puts the order of names right, and says some things in plainer words than the validator.
func tellCause(keyword, message string) string {
	switch keyword {
	case "additionalProperties":
		return "unknown properties: " + strings.Join(sortedQuotes(message), ", ")
	case "required":
		return "missing properties: " + strings.Join(sortedQuotes(message), ", ")
	case "enum", "const":
		return strings.ReplaceAll(message, "interface {}(nil)", "null")
	}
	return message
}

// sortedQuotes finds the 'quoted' names in a message of the validator, which writes ' inside as \'.
func sortedQuotes(message string) []string {
	var names []string
	for rest := message; ; {
		_, tail, ok := strings.Cut(rest, "'")
		if !ok {
			break
		}
		end := 0
		for end < len(tail) && tail[end] != '\'' {
			if tail[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(tail))
		names = append(names, strconv.Quote(shorten(strings.ReplaceAll(tail[:end], `\'`, "'"))))
		rest = tail[min(end+1, len(tail)):]
	}
	slices.Sort(names)
	return names
}

// keywordOrder prefers causes that a caller can act on at once.
func keywordOrder(keyword string) int {
	order := []string{"required", "additionalProperties", "enum", "const", "type"}
	if i := slices.Index(order, keyword); i >= 0 {
		return i
	}
	return len(order)
}

func stripURL(text string) string { return strings.ReplaceAll(text, schemaURL, "schema") }

// bound cuts a text to at most limit characters.
func bound(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}
