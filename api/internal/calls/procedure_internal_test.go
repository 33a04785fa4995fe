package calls

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
)

// TestProcedureAtTheRun: two operators are not enough for a dangerous run; at the moment of the run its procedure must hold,
// by a key that is believed here, for these bytes, at this time. Each row changes one thing.
func TestProcedureAtTheRun(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	digest := strings.Repeat("ab", 32)
	skill := &manifests.Skill{Name: "wipe", Kind: manifests.Runnable, Class: manifests.Dangerous,
		Files: map[string]manifests.File{"x.py": {SHA256: digest}}, Scripts: map[string]*manifests.Script{"x.py": {}}}
	private, keys := keypair(t)
	stranger, _ := keypair(t)
	signed := func(by []byte, change func(*sop.Document)) store.Procedure {
		d := sop.Document{Kind: sop.Kind, Title: "x", Skill: "wipe", Script: "x.py", ScriptSHA256: digest, NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour)}
		change(&d)
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := sop.Sign(by, raw)
		if err != nil {
			t.Fatal(err)
		}
		return store.Procedure{Skill: d.Skill, Script: d.Script, Document: raw, Signature: signature}
	}
	same := func(*sop.Document) {}
	approved := store.Approval{ID: "a", Skill: "wipe", Script: "x.py", Wanted: 2, Status: store.Approved, Expires: noon.Add(time.Minute),
		Decisions: []store.Decision{{Operator: "ann", Approve: true}, {Operator: "bob", Approve: true}}}
	s := &Service{SOPKeys: keys, Now: func() time.Time { return noon }}
	for name, c := range map[string]struct {
		procedure store.Procedure
		want      guard.Code
	}{
		"it holds":         {signed(private, same), ""},
		"none":             {store.Procedure{}, guard.SOPInvalid},
		"a stranger's":     {signed(stranger, same), guard.SOPInvalid},
		"it has ended":     {signed(private, func(d *sop.Document) { d.NotAfter = noon }), guard.SOPInvalid},
		"not yet":          {signed(private, func(d *sop.Document) { d.NotBefore = noon.Add(time.Second) }), guard.SOPInvalid},
		"for other bytes":  {signed(private, func(d *sop.Document) { d.ScriptSHA256 = strings.Repeat("cd", 32) }), guard.SOPInvalid},
		"for other script": {signed(private, func(d *sop.Document) { d.Script = "y.py" }), guard.SOPInvalid},
		"for other skill":  {signed(private, func(d *sop.Document) { d.Skill = "other" }), guard.SOPInvalid},
	} {
		if code, why := s.judgeState(approved, c.procedure, skill); code != c.want {
			t.Errorf("%s: %q (%s), want %q", name, code, why, c.want)
		}
	}
}

func keypair(t *testing.T) (private []byte, keys sop.Keys) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	keys, err = sop.ParseKeys(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), keys
}
