package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Approval is what the api says about a call of a class above safe. The runner believes of it what it can verify: that it
// is bound to exactly the bytes that would run, that it has not been used or expired here, and, for a dangerous skill, the
// signed procedure. That people have decided is the api's word.
type Approval struct {
	ID         string    `json:"id"`
	Binding    string    `json:"binding"`     // Binding of the call
	ApprovedBy []string  `json:"approved_by"` // operators by name; two different ones for dangerous
	Expires    time.Time `json:"expires"`
	SOP        *SOP      `json:"sop,omitempty"` // dangerous only
}

// SOP is a signed procedure, as package sop reads it.
type SOP struct {
	Document  []byte `json:"document"`
	Signature []byte `json:"signature"`
}

// MaxApproval is the longest that an approval may still have to live; the runner remembers used ones for as long.
const MaxApproval = 24 * time.Hour

// Binding is what an approval is for: the hex sha256 of the skill, the script's name and bytes, the judged input's bytes and
// the manifest, as a JSON array, which keeps apart what stands beside each other. scriptSHA256 is 64 hex digits.
func Binding(skill, script, scriptSHA256 string, input []byte, manifestDigest string) string {
	inputSum := sha256.Sum256(input)
	raw, err := json.Marshal([]string{skill, script, scriptSHA256, hex.EncodeToString(inputSum[:]), manifestDigest})
	if err != nil {
		panic("BUG: strings do not marshal: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
