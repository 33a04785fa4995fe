package sop_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"xrayrunner/internal/sop"
)

var (
	noon   = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	target = sop.Target{Skill: "wipe", Script: "run.py", ScriptSHA256: strings.Repeat("ab", 32)}
)

func document() map[string]any {
	return map[string]any{"kind": sop.Kind, "title": "Wipe the cache", "skill": "wipe", "script": "run.py", "script_sha256": target.ScriptSHA256,
		"not_before": "2026-01-31T00:00:00Z", "not_after": "2026-02-07T00:00:00Z"}
}

func text(t *testing.T, d map[string]any) []byte {
	t.Helper()
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// pair gives a private key and the public one as PEM.
func pair(t *testing.T, key crypto.Signer) (private, public []byte) {
	t.Helper()
	p, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	q, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: q})
}

func edKey(t *testing.T) (private, public []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pair(t, key)
}

func rsaKey(t *testing.T, bits int) (private, public []byte) {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return pair(t, key)
}

func keys(t *testing.T, public ...[]byte) sop.Keys {
	t.Helper()
	var all []byte
	for _, p := range public {
		all = append(all, p...)
	}
	k, err := sop.ParseKeys(all)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestVerify: each row stands beside the one that holds and differs from it in one thing.
func TestVerify(t *testing.T) {
	private, public := edKey(t)
	rsaPrivate, rsaPublic := rsaKey(t, 2048)
	strange, _ := edKey(t)
	both := keys(t, public, rsaPublic)
	for _, c := range []struct {
		name   string
		key    []byte
		change func(map[string]any)
		target func(*sop.Target)
		after  func(raw, signature []byte) ([]byte, []byte)
		now    time.Time
		keys   sop.Keys
		want   string // "" holds
	}{
		{name: "Ed25519", key: private, keys: both},
		{name: "RSA-PSS", key: rsaPrivate, keys: both},
		{name: "no key here", key: private, want: "no key is configured"},
		{name: "a stranger's signature", key: strange, keys: both, want: "none of the 2 keys"},
		{name: "one byte of the document changed", key: private, keys: both, want: "none of the 2 keys",
			after: func(raw, s []byte) ([]byte, []byte) { raw[len(raw)-3] ^= 1; return raw, s }},
		{name: "one byte of the signature changed", key: private, keys: both, want: "none of the 2 keys",
			after: func(raw, s []byte) ([]byte, []byte) { s[0] ^= 1; return raw, s }},
		{name: "no signature", key: private, keys: both, want: "none of the 2 keys",
			after: func(raw, _ []byte) ([]byte, []byte) { return raw, nil }},
		{name: "another skill", key: private, keys: both, want: "it is for run.py of skill wipe", target: func(t *sop.Target) { t.Skill = "other" }},
		{name: "another script", key: private, keys: both, want: "it is for run.py of skill wipe", target: func(t *sop.Target) { t.Script = "other.py" }},
		{name: "one byte of the script changed", key: private, keys: both, want: "other bytes", target: func(t *sop.Target) { t.ScriptSHA256 = strings.Repeat("ac", 32) }},
		{name: "not yet", key: private, keys: both, want: "valid from", now: time.Date(2026, 1, 30, 23, 59, 59, 0, time.UTC)},
		{name: "on its first second", key: private, keys: both, now: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)},
		{name: "stale", key: private, keys: both, want: "it ended", now: time.Date(2026, 2, 7, 0, 0, 0, 0, time.UTC)},
	} {
		raw := text(t, document())
		signature, err := sop.Sign(c.key, raw)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.after != nil {
			raw, signature = c.after(raw, signature)
		}
		at, now := target, noon
		if c.target != nil {
			c.target(&at)
		}
		if !c.now.IsZero() {
			now = c.now
		}
		_, err = c.keys.Verify(raw, signature, at, now)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, sop.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"another kind":   func(d map[string]any) { d["kind"] = "invoice" },
		"no title":       func(d map[string]any) { d["title"] = " " },
		"no skill":       func(d map[string]any) { delete(d, "skill") },
		"a short digest": func(d map[string]any) { d["script_sha256"] = "ab" },
		"capitals":       func(d map[string]any) { d["script_sha256"] = strings.Repeat("AB", 32) },
		"no time":        func(d map[string]any) { delete(d, "not_after") },
		"turned around":  func(d map[string]any) { d["not_after"] = "2026-01-30T00:00:00Z" },
		"two years":      func(d map[string]any) { d["not_after"] = "2028-01-30T00:00:00Z" },
		"an unknown key": func(d map[string]any) { d["force"] = true },
		"too long":       func(d map[string]any) { d["procedure"] = strings.Repeat("x", sop.MaxDocumentBytes) },
	} {
		d := document()
		change(d)
		if _, err := sop.Parse(text(t, d)); !errors.Is(err, sop.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		private, _ := edKey(t)
		if _, err := sop.Sign(private, text(t, d)); err == nil {
			t.Errorf("%s: it was signed", name)
		}
	}
}

func TestKeys(t *testing.T) {
	private, public := edKey(t)
	_, weak := rsaKey(t, 1024)
	for name, raw := range map[string][]byte{"nothing": nil, "text": []byte("ssh-ed25519 AAAA"), "a private key": private, "a weak RSA key": weak,
		"text behind a key": append(append([]byte{}, public...), "x"...)} {
		if k, err := sop.ParseKeys(raw); err == nil || k.Len() != 0 {
			t.Errorf("%s: %d keys (%v)", name, k.Len(), err)
		}
	}
	if k, err := sop.LoadKeys(""); err != nil || k.Len() != 0 {
		t.Errorf("no file: %d keys (%v)", k.Len(), err)
	}
}

// FuzzVerify: whatever is sent, nothing holds that the key has not signed. Its seeds are in testdata/fuzz, as FuzzText's are.
func FuzzVerify(f *testing.F) {
	public, _, err := ed25519.GenerateKey(strings.NewReader(strings.Repeat("s", 64)))
	if err != nil {
		f.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		f.Fatal(err)
	}
	k, err := sop.ParseKeys(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw, signature []byte) {
		if _, err := k.Verify(raw, signature, target, noon); err == nil {
			t.Error("it holds")
		}
		if d, err := sop.Parse(raw); err == nil && d.Kind != sop.Kind {
			t.Errorf("read %+v", d)
		}
	})
}

// FuzzText: what people bring as text, keys and signatures, is read or refused, and a key that was read can be counted.
func FuzzText(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		if k, err := sop.ParseKeys(raw); (err == nil) != (k.Len() > 0) {
			t.Errorf("%d keys, %v", k.Len(), err)
		}
		signature, err := sop.DecodeSignature(string(raw))
		if err != nil {
			return
		}
		if again, err := sop.DecodeSignature(sop.EncodeSignature(signature)); err != nil || !bytes.Equal(again, signature) {
			t.Errorf("%x became %x (%v)", signature, again, err)
		}
	})
}

func TestFuzzSeedsExist(t *testing.T) {
	for _, target := range []string{"FuzzVerify", "FuzzText"} {
		if seeds, err := os.ReadDir("testdata/fuzz/" + target); err != nil || len(seeds) == 0 {
			t.Errorf("no seeds for %s: %v", target, err)
		}
	}
}
