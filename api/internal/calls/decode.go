package calls

import (
	"encoding/json"
	"strings"

	"xrayrunner/guard"
	"xrayrunner/manifests"
	"xrayrunner/runner/protocol"
)

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
