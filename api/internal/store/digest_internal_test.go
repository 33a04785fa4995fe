package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
)

// TestDigestIsOfJSON: the form that is hashed is the plain one that anybody can make again.
func TestDigestIsOfJSON(t *testing.T) {
	for _, s := range []string{"", "plain", `{"a":"b\\c"}`, "<&>", "é\u2028\u202e", "a\tb\x7f", `"`, "\\", "\xff"} {
		r := row{seq: 7, time: "t", kind: "k", call: s, session: "s", tool: s + "x", skill: "y" + s, decision: "d", body: s + s, prev: "p", hash: "h"}
		text, err := json.Marshal([]string{r.prev, "7", r.time, r.kind, r.call, r.session, r.tool, r.skill, r.decision, r.body})
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); r.digest() != hex.EncodeToString(sum[:]) {
			t.Errorf("%q: another form than %s", s, text)
		}
	}
}
