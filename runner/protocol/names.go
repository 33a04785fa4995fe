package protocol

import (
	"encoding/json"
	"regexp"
	"strings"

	"xrayrunner/guard"
)

// MaxTimeoutMS is the longest time that a caller may give a run, in milliseconds.
const MaxTimeoutMS = 120_000

const maxName = 128 // bytes of a skill's or script's name; longer is not even a name

var (
	sessionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	turnName    = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
)

// SessionName reports whether s has the form of a session's id.
func SessionName(s string) bool { return sessionName.MatchString(s) }

// TurnName reports whether a caller may name a turn so.
func TurnName(s string) bool { return turnName.MatchString(s) }

// BadTurn is the refusal of a turn that has no such name.
func BadTurn() *Problem {
	return NewProblem(BadRequest, "turn must be 1 to 128 of A-Z a-z 0-9 _ . : -")
}

// Name reports whether s can be the name of a skill or script at all; a longer or unreadable one is not looked up.
func Name(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\uFFFD' }) < 0
}

// Judged gives the bytes that are judged and that the script reads: the raw text of an object, or the text inside a
// JSON string. A missing input is refused: a default would run something that nobody asked for.
func Judged(input json.RawMessage) ([]byte, *Problem) {
	if len(input) == 0 {
		return nil, NewProblem(guard.InputNotObject, "input is missing: send one JSON object, or its JSON text")
	}
	if input[0] != '"' {
		return input, nil
	}
	var text string
	if err := json.Unmarshal(input, &text); err != nil {
		return nil, NewProblem(guard.InputNotObject, "input is not readable JSON text")
	}
	return []byte(text), nil
}
