package approve_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/internal/approve"
	"xrayrunner/runner/protocol"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func now() time.Time { return noon }

func call(class manifests.Class) approve.Call {
	return approve.Call{Class: class, Skill: "wipe", Script: "run.py", ScriptSHA256: strings.Repeat("ab", 32), Input: []byte(`{"n":1}`), ManifestDigest: "sha256:x"}
}

type signer struct {
	keys    sop.Keys
	private []byte
}

func newSigner(t testing.TB) signer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	q, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := sop.ParseKeys(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: q}))
	if err != nil {
		t.Fatal(err)
	}
	return signer{keys, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p})}
}

func (s signer) procedure(t testing.TB, skill, digest string, from, to time.Time) *protocol.SOP {
	t.Helper()
	raw, err := json.Marshal(sop.Document{Kind: sop.Kind, Title: "x", Skill: skill, Script: "run.py", ScriptSHA256: digest, NotBefore: from, NotAfter: to})
	if err != nil {
		t.Fatal(err)
	}
	signature, err := sop.Sign(s.private, raw)
	if err != nil {
		t.Fatal(err)
	}
	return &protocol.SOP{Document: raw, Signature: signature}
}

// approved is what an honest api sends for a call.
func approved(c approve.Call, p *protocol.SOP) *protocol.Approval {
	return &protocol.Approval{ID: "a", Binding: protocol.Binding(c.Skill, c.Script, c.ScriptSHA256, c.Input, c.ManifestDigest),
		ApprovedBy: []string{"ann", "bob"}, Expires: noon.Add(time.Minute), SOP: p}
}

// TestJudge: each row differs in one thing from the approval that holds.
func TestJudge(t *testing.T) {
	s, strange := newSigner(t), newSigner(t)
	day := 24 * time.Hour
	for _, class := range []manifests.Class{manifests.Mutating, manifests.Dangerous} {
		c := call(class)
		honest := s.procedure(t, c.Skill, c.ScriptSHA256, noon.Add(-day), noon.Add(day))
		only := func(code guard.Code) guard.Code { // what only a dangerous script is refused for
			if class == manifests.Dangerous {
				return code
			}
			return ""
		}
		for _, r := range []struct {
			name   string
			change func(*protocol.Approval, *approve.Call)
			want   guard.Code
		}{
			{"it holds", func(*protocol.Approval, *approve.Call) {}, ""},
			{"one byte of input", func(_ *protocol.Approval, c *approve.Call) { c.Input = []byte(`{"n":2}`) }, guard.ApprovalVoid},
			{"one space of input", func(_ *protocol.Approval, c *approve.Call) { c.Input = []byte(`{"n": 1}`) }, guard.ApprovalVoid},
			{"one byte of script", func(_ *protocol.Approval, c *approve.Call) { c.ScriptSHA256 = strings.Repeat("ac", 32) }, guard.ApprovalVoid},
			{"another script", func(_ *protocol.Approval, c *approve.Call) { c.Script = "other.py" }, guard.ApprovalVoid},
			{"another skill", func(_ *protocol.Approval, c *approve.Call) { c.Skill = "other" }, guard.ApprovalVoid},
			{"another manifest", func(_ *protocol.Approval, c *approve.Call) { c.ManifestDigest = "sha256:y" }, guard.ApprovalVoid},
			{"no id", func(a *protocol.Approval, _ *approve.Call) { a.ID = "" }, guard.ApprovalVoid},
			{"its last moment", func(a *protocol.Approval, _ *approve.Call) { a.Expires = noon.Add(time.Nanosecond) }, ""},
			{"ended", func(a *protocol.Approval, _ *approve.Call) { a.Expires = noon }, guard.ApprovalExpired},
			{"for a day", func(a *protocol.Approval, _ *approve.Call) { a.Expires = noon.Add(day) }, ""},
			{"for longer than a day", func(a *protocol.Approval, _ *approve.Call) { a.Expires = noon.Add(day + 1) }, guard.ApprovalVoid},
			{"by nobody", func(a *protocol.Approval, _ *approve.Call) { a.ApprovedBy = []string{"", ""} }, guard.ApprovalVoid},
			{"by one", func(a *protocol.Approval, _ *approve.Call) { a.ApprovedBy = []string{"ann"} }, only(guard.ApprovalVoid)},
			{"by one person twice", func(a *protocol.Approval, _ *approve.Call) { a.ApprovedBy = []string{"ann", "ann"} }, only(guard.ApprovalVoid)},
			{"no procedure", func(a *protocol.Approval, _ *approve.Call) { a.SOP = nil }, only(guard.SOPInvalid)},
			{"a forged procedure", func(a *protocol.Approval, _ *approve.Call) {
				a.SOP = strange.procedure(t, c.Skill, c.ScriptSHA256, noon.Add(-day), noon.Add(day))
			}, only(guard.SOPInvalid)},
			{"a procedure for another skill", func(a *protocol.Approval, _ *approve.Call) {
				a.SOP = s.procedure(t, "other", c.ScriptSHA256, noon.Add(-day), noon.Add(day))
			}, only(guard.SOPInvalid)},
			{"a procedure for another script's bytes", func(a *protocol.Approval, _ *approve.Call) {
				a.SOP = s.procedure(t, c.Skill, strings.Repeat("cd", 32), noon.Add(-day), noon.Add(day))
			}, only(guard.SOPInvalid)},
			{"a stale procedure", func(a *protocol.Approval, _ *approve.Call) {
				a.SOP = s.procedure(t, c.Skill, c.ScriptSHA256, noon.Add(-day), noon)
			}, only(guard.SOPInvalid)},
		} {
			a, changed := approved(c, honest), c
			r.change(a, &changed)
			if code, why := approve.New(s.keys, now).Judge(a, changed); code != r.want || (code == "") != (why == "") {
				t.Errorf("%s, %s: %q (%s), want %q", class, r.name, code, why, r.want)
			}
		}
		if code, _ := approve.New(s.keys, now).Judge(nil, c); code != guard.ApprovalRequired {
			t.Errorf("%s without any: %q", class, code)
		}
		if code, _ := approve.New(sop.Keys{}, now).Judge(approved(c, honest), c); code != only(guard.SOPInvalid) {
			t.Errorf("%s without keys: %q", class, code)
		}
	}
	if code, _ := approve.New(sop.Keys{}, now).Judge(nil, call(manifests.Safe)); code != "" {
		t.Errorf("safe: %q", code)
	}
	if code, _ := approve.New(s.keys, now).Judge(approved(call("odd"), nil), call("odd")); code == "" {
		t.Error("what is no class was approved")
	}
}

// TestOnce: an approval is good for one run, is given back when the run never started, and is remembered until it ends.
func TestOnce(t *testing.T) {
	at := noon
	d := approve.New(sop.Keys{}, func() time.Time { return at })
	c := call(manifests.Mutating)
	a := approved(c, nil)
	undo, ok := d.Take(a)
	if !ok {
		t.Fatal("not taken")
	}
	if code, _ := d.Judge(a, c); code != guard.ApprovalUsed {
		t.Errorf("used, and judged %q", code)
	}
	if _, ok := d.Take(a); ok {
		t.Error("taken twice")
	}
	undo()
	if code, _ := d.Judge(a, c); code != "" {
		t.Errorf("given back, and judged %q", code)
	}
	if _, ok = d.Take(a); !ok {
		t.Error("given back, and not to be had")
	}
	undo() // an undo that comes late, or twice, is not the second taker's
	if _, ok := d.Take(a); ok {
		t.Error("an old undo gave back what another had taken")
	}
	at = a.Expires
	if code, _ := d.Judge(a, c); code != guard.ApprovalExpired {
		t.Errorf("at its end: %q", code)
	}
}

// TestFull: nothing is forgotten to make room.
func TestFull(t *testing.T) {
	d := approve.New(sop.Keys{}, now)
	a := approved(call(manifests.Mutating), nil)
	for n := 0; ; n++ {
		a.ID = fmt.Sprint(n)
		if _, ok := d.Take(a); !ok {
			if n != 20_000 {
				t.Errorf("full after %d", n)
			}
			return
		}
	}
}

// FuzzJudge: whatever a lying api says, a mutating run is let through only for exactly its bytes, in time and by a name, and a
// dangerous one never without a signature of a key that is believed. BINDING in a seed stands for the call's.
func FuzzJudge(f *testing.F) {
	keys := newSigner(f).keys
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := call(manifests.Mutating)
		binding := protocol.Binding(c.Skill, c.Script, c.ScriptSHA256, c.Input, c.ManifestDigest)
		var a protocol.Approval
		if err := manifests.DecodeStrict([]byte(strings.ReplaceAll(string(raw), "BINDING", binding)), &a); err != nil {
			return
		}
		d := approve.New(keys, now)
		code, _ := d.Judge(&a, c)
		if code == "" && (a.Binding != binding || len(a.ApprovedBy) == 0 || !noon.Before(a.Expires) || a.Expires.Sub(noon) > protocol.MaxApproval || a.ID == "") {
			t.Errorf("let through: %+v", a)
		}
		if code, _ := d.Judge(&a, call(manifests.Dangerous)); code == "" {
			t.Errorf("dangerous, let through: %+v", a)
		}
		if _, ok := d.Take(&a); !ok {
			t.Error("not taken")
		}
		if again, _ := d.Judge(&a, c); again == "" {
			t.Error("let through again")
		}
	})
}

func TestFuzzSeedsExist(t *testing.T) {
	if seeds, err := os.ReadDir("testdata/fuzz/FuzzJudge"); err != nil || len(seeds) == 0 {
		t.Errorf("no seeds: %v", err)
	}
}
