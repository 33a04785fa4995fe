package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxValue is how much of one value the record keeps; a longer one is cut and carries its digest.
const maxValue = 4 << 10

var hostname = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
})

func openedBody(c Call, v Verdict) map[string]any {
	decision := "deny"
	if v.Allowed {
		decision = "allow"
	}
	b := map[string]any{
		"session": c.Session, "turn": c.Turn, "tool": c.Tool, "skill": Storable(c.Skill), "script": Storable(c.Script), "decision": decision,
		"rule": v.Rule, "code": v.Code, "reason": Storable(v.Reason), "token": c.Token, "caller": c.Caller, "role": string(c.Role), "host": hostname(), "trace": c.Trace,
	}
	if c.Role == RoleAgent { // an agent acts for the system, not for a person of ours
		b["user"], b["role"] = 0, "system"
	}
	switch {
	case v.Approval.ID != "":
		b["approval"] = v.Approval.ID
	case c.Approval != "":
		b["approval"] = Storable(c.Approval)
	}
	if len(v.Approval.Decisions) > 0 {
		b["approved_by"] = v.Approval.ApprovedBy()
	}
	put(b, "input", c.Input)
	return b
}

// closedBody repeats who and what, so that each line of the record can be read alone.
func closedBody(opened map[string]any, cl Closing) map[string]any {
	b := map[string]any{"outcome": cl.Outcome, "error": Storable(cl.Error), "duration_ms": float64(cl.Duration.Microseconds()) / 1000}
	for _, k := range []string{"session", "turn", "tool", "skill", "script", "decision", "token", "caller", "role", "user", "host", "trace", "approval", "approved_by"} {
		if v, ok := opened[k]; ok {
			b[k] = v
		}
	}
	put(b, "result", cl.Result)
	put(b, "stderr", []byte(cl.Stderr))
	if len(cl.Details) > 0 {
		b["details"] = cl.Details
	}
	return b
}

// put keeps a value as text, cut and with its digest when it is long.
func put(b map[string]any, key string, value []byte) {
	if len(value) == 0 {
		return
	}
	if len(value) > maxValue {
		b[key+"_sha256"], b[key+"_cut"] = sum(value), true
		value = value[:maxValue]
	}
	b[key] = Storable(string(value))
}

// Storable makes any text one that every database takes: NUL and bytes that are not UTF-8 are shown as \x00, not
// dropped (PostgreSQL refuses them, SQLite does not: a record must not depend on which it is).
func Storable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsRune(s, 0) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == utf8.RuneError && n == 1 {
			b.WriteString(`\x` + hex.EncodeToString([]byte{s[i]}))
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// row is an event as it is stored and hashed.
type row struct {
	seq                                              int64
	time, kind, call, session, tool, skill, decision string
	body, prev, hash                                 string
}

// digest covers every column: sha256 of them as a JSON array of strings, which keeps apart what stands beside each
// other. It is json.Marshal's form, written here because checking a million events is mostly this.
func (r row) digest() string {
	buffer := digests.Get().(*[]byte)
	defer digests.Put(buffer)
	text := append((*buffer)[:0], '[')
	for i, column := range [...]string{r.prev, strconv.FormatInt(r.seq, 10), r.time, r.kind, r.call, r.session, r.tool, r.skill, r.decision, r.body} {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendString(text, column)
	}
	text = append(text, ']')
	*buffer = text
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

var digests = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// appendString writes what needs no escape as it is; a string with anything else in it but quotes and backslashes is
// json.Marshal's to write.
func appendString(to []byte, s string) []byte {
	from, began := 0, len(to)
	to = append(to, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			to = append(append(to, s[from:i]...), '\\', c)
			from = i + 1
		case c < ' ' || c >= 0x7f || c == '<' || c == '>' || c == '&':
			raw, err := json.Marshal(s)
			if err != nil {
				panic("BUG: a string does not marshal: " + err.Error())
			}
			return append(to[:began], raw...)
		}
	}
	return append(append(to, s[from:]...), '"')
}

// append adds an event to the chain and gives its number.
func (db *DB) append(ctx context.Context, t *tx, kind, call string, body map[string]any) (int64, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text) // maps are written with sorted keys
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		return 0, err
	}
	_, now := db.stamp()
	r := row{time: now, kind: kind, call: call, session: str(body["session"]), tool: str(body["tool"]), skill: str(body["skill"]),
		decision: str(body["decision"]), body: strings.TrimSuffix(text.String(), "\n")}
	var err error
	if r.seq, r.prev, err = head(ctx, t); err != nil {
		return 0, err
	}
	r.seq++
	_, err = t.ExecContext(ctx, `INSERT INTO events (seq, time, kind, call, session, tool, skill, decision, body, prev, hash) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		r.seq, r.time, r.kind, r.call, r.session, r.tool, r.skill, r.decision, r.body, r.prev, r.digest())
	return r.seq, err
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// operator runs a change and writes its event in the same transaction: no change is off the record.
func (db *DB) operator(ctx context.Context, who Actor, what, skill string, change func(*tx) (any, error)) error {
	return db.writing(ctx, func(t *tx) error {
		changed, err := change(t)
		if err != nil {
			return err
		}
		return db.operate(ctx, t, who, what, skill, changed)
	})
}

func (db *DB) operate(ctx context.Context, t *tx, who Actor, what, skill string, changed any) error {
	_, err := db.append(ctx, t, "operator", "", map[string]any{"session": "", "tool": what, "skill": skill, "decision": "allow",
		"change": changed, "token": who.Token, "role": string(who.Role), "caller": who.Caller, "host": hostname()})
	return err
}
