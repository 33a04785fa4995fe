package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// HeaderTrace is the header of the W3C's Trace Context, level 1 (https://www.w3.org/TR/trace-context/).
const HeaderTrace = "Traceparent"

// The two ids and the flags; a later version may be longer, and is read as far as this.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// TraceID reads the trace's id out of a traceparent; "" when it is not a valid one, which is then ignored, as the
// specification wants.
func TraceID(header string) string {
	m := traceparent.FindStringSubmatch(header)
	if m == nil || strings.HasPrefix(header, "ff") || m[3] != "" && strings.HasPrefix(header, "00") || strings.Trim(m[1], "0") == "" || strings.Trim(m[2], "0") == "" {
		return ""
	}
	return m[1]
}

// TurnTrace is the trace of a turn whose caller sent none: the same for every call of the turn, in every api.
func TurnTrace(session, turn string) string {
	sum := sha256.Sum256([]byte(session + "\x00" + turn))
	return hex.EncodeToString(sum[:16])
}

// Traceparent is what goes from the api to the runner: the trace, and the call as the parent.
func Traceparent(trace, call string) string {
	sum := sha256.Sum256([]byte(call))
	return "00-" + trace + "-" + hex.EncodeToString(sum[:8]) + "-01"
}
