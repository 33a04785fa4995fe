package sop

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"xrayrunner/manifests"
)

// Kind is what every procedure's "kind" is.
const Kind = "xray-runner/sop/1"

const (
	// MaxDocumentBytes bounds a document: it travels with each run that needs it.
	MaxDocumentBytes = 8 << 10
	// MaxSignatureBytes is that of RSA with 8192 bits.
	MaxSignatureBytes = 1 << 10
	// maxValidity keeps a procedure from outliving those who remember why it was signed.
	maxValidity = 366 * 24 * time.Hour
)

// Document is what is signed.
type Document struct {
	Kind         string    `json:"kind"`
	Title        string    `json:"title"`
	Skill        string    `json:"skill"`
	Script       string    `json:"script"`
	ScriptSHA256 string    `json:"script_sha256"` // 64 hex digits, of the script's bytes (an external skill: of its folder)
	NotBefore    time.Time `json:"not_before"`    // RFC 3339
	NotAfter     time.Time `json:"not_after"`
	Procedure    string    `json:"procedure,omitempty"` // for people: when it may be used, what to look at before and after
}

// ErrInvalid is wrapped by every error about a document, its signature or its time.
var ErrInvalid = errors.New("the procedure is not valid")

// Parse reads a document strictly and checks all but its signature and its time.
func Parse(raw []byte) (Document, error) {
	var d Document
	if len(raw) > MaxDocumentBytes {
		return d, fmt.Errorf("%w: it has more than %d bytes", ErrInvalid, MaxDocumentBytes)
	}
	if err := manifests.DecodeStrict(raw, &d); err != nil {
		return d, fmt.Errorf("%w: %s", ErrInvalid, err.Error())
	}
	if why := d.wrong(); why != "" {
		return d, fmt.Errorf("%w: %s", ErrInvalid, why)
	}
	return d, nil
}

func (d Document) wrong() string {
	sum, err := hex.DecodeString(d.ScriptSHA256)
	switch {
	case d.Kind != Kind:
		return fmt.Sprintf("kind must be %q", Kind)
	case strings.TrimSpace(d.Title) == "" || d.Skill == "" || d.Script == "":
		return "title, skill and script must not be empty"
	case err != nil || len(sum) != 32 || strings.ToLower(d.ScriptSHA256) != d.ScriptSHA256:
		return "script_sha256 must be 64 lower-case hex digits"
	case !d.NotBefore.Before(d.NotAfter):
		return "not_before must be earlier than not_after"
	case d.NotAfter.Sub(d.NotBefore) > maxValidity:
		return "it is valid for more than 366 days"
	}
	return ""
}

// Target is what is about to run.
type Target struct {
	Skill, Script, ScriptSHA256 string
}

// Verify checks a document for one script at one time: signed by one of the keys, for this skill, this script and these
// bytes, and valid now. Nothing of a document is believed before its signature holds.
func (k Keys) Verify(raw, signature []byte, t Target, now time.Time) (Document, error) {
	if err := k.signed(raw, signature); err != nil {
		return Document{}, err
	}
	d, err := Parse(raw)
	if err != nil {
		return d, err
	}
	switch {
	case d.Skill != t.Skill || d.Script != t.Script:
		return d, fmt.Errorf("%w: it is for %s of skill %s", ErrInvalid, d.Script, d.Skill)
	case d.ScriptSHA256 != t.ScriptSHA256:
		return d, fmt.Errorf("%w: it is for other bytes of %s than those that would run", ErrInvalid, d.Script)
	case now.Before(d.NotBefore):
		return d, fmt.Errorf("%w: it is valid from %s on", ErrInvalid, d.NotBefore.UTC().Format(time.RFC3339))
	case !now.Before(d.NotAfter):
		return d, fmt.Errorf("%w: it ended at %s", ErrInvalid, d.NotAfter.UTC().Format(time.RFC3339))
	}
	return d, nil
}
