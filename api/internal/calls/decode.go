package calls

import (
	"encoding/json"
	"regexp"
	"strings"

	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

// Judged gives the bytes that are judged: the raw text of an object, or the text inside a JSON string. A missing
// or null input is refused: a default would run something that nobody asked for.
func Judged(input json.RawMessage) ([]byte, *protocol.Problem) {
	if len(input) == 0 {
		return nil, protocol.NewProblem(guard.InputNotObject, "input is missing: send one JSON object, or its JSON text")
	}
	if input[0] != '"' {
		return input, nil
	}
	var text string
	if err := json.Unmarshal(input, &text); err != nil {
		return nil, protocol.NewProblem(guard.InputNotObject, "input is not readable JSON text")
	}
	return []byte(text), nil
}

// CheckNesting refuses deep nesting before anything recurses into it, with the code that such an input has.
func CheckNesting(raw json.RawMessage) *protocol.Problem {
	bounds := manifests.InputBounds
	bounds.Depth++ // the envelope
	bounds.Control = false
	err := manifests.CheckJSON(raw, bounds)
	if err == nil {
		return nil
	}
	return EnvelopeProblem("", err)
}

// EnvelopeProblem gives a fault inside input the code that the guard gives it, and any other fault bad_request.
func EnvelopeProblem(tool string, err *manifests.JSONError) *protocol.Problem {
	code, where := protocol.BadRequest, "arguments"
	if err.Pointer == "/input" || strings.HasPrefix(err.Pointer, "/input/") {
		code = guard.InputInvalid
	}
	if tool != "" {
		where += " of " + tool
	}
	p := protocol.NewProblem(code, where+" at "+err.Place()+": "+err.Message)
	p.Pointer = err.Pointer
	return p
}

var turnName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

// TurnName reports whether a caller may name a turn so.
func TurnName(s string) bool { return turnName.MatchString(s) }

// Name reports whether s can be a name at all; a longer or unreadable one is not looked up.
func Name(s string) bool {
	return s != "" && len(s) <= 128 && strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\uFFFD' }) < 0
}
