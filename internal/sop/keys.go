package sop

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// minRSABits is below what no signature is believed (NIST SP 800-131A).
const minRSABits = 2048

// maxKeysBytes bounds a file of keys.
const maxKeysBytes = 64 << 10

// Keys are the public keys whose signatures count. The zero value believes nobody.
type Keys struct{ list []crypto.PublicKey }

// Len is how many there are.
func (k Keys) Len() int { return len(k.list) }

// LoadKeys reads a PEM file of one or more public keys ("PUBLIC KEY", PKIX); "" gives none.
func LoadKeys(path string) (Keys, error) {
	if path == "" {
		return Keys{}, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return Keys{}, err
	}
	return ParseKeys(raw)
}

// ParseKeys reads PEM. A file without a key is an error: it would believe nobody without saying so.
func ParseKeys(raw []byte) (Keys, error) {
	var k Keys
	if len(raw) > maxKeysBytes {
		return k, fmt.Errorf("more than %d bytes of keys", maxKeysBytes)
	}
	for len(bytes.TrimSpace(raw)) > 0 {
		block, rest := pem.Decode(raw)
		if block == nil {
			return Keys{}, errors.New("not PEM: write blocks of type PUBLIC KEY")
		}
		if block.Type != "PUBLIC KEY" {
			return Keys{}, fmt.Errorf("a PEM block of type %q: write public keys alone (openssl pkey -pubout)", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err == nil {
			err = usable(key)
		}
		if err != nil {
			return Keys{}, err
		}
		k.list, raw = append(k.list, key), rest
	}
	if len(k.list) == 0 {
		return k, errors.New("the file holds no key")
	}
	return k, nil
}

func usable(key any) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits {
			return fmt.Errorf("an RSA key of %d bits; at least %d are wanted", bits, minRSABits)
		}
		return nil
	}
	return fmt.Errorf("a key of type %T; Ed25519 and RSA are read", key)
}

func (k Keys) signed(raw, signature []byte) error {
	if len(raw) > MaxDocumentBytes || len(signature) > MaxSignatureBytes {
		return fmt.Errorf("%w: document or signature is too long", ErrInvalid)
	}
	if len(k.list) == 0 {
		return fmt.Errorf("%w: no key is configured here that could have signed it", ErrInvalid)
	}
	for _, key := range k.list {
		if holds(key, raw, signature) {
			return nil
		}
	}
	return fmt.Errorf("%w: none of the %d keys here has signed these bytes", ErrInvalid, len(k.list))
}

func holds(key crypto.PublicKey, raw, signature []byte) bool {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, raw, signature)
	case *rsa.PublicKey:
		digest := sha256.Sum256(raw)
		return rsa.VerifyPSS(key, crypto.SHA256, digest[:], signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto}) == nil
	}
	return false
}

// Sign makes the detached signature with a private key (PEM, "PRIVATE KEY", PKCS #8). What it refuses would be refused by
// whoever checks.
func Sign(pemKey, raw []byte) ([]byte, error) {
	if _, err := Parse(raw); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(pemKey)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("the key is not PEM of type PRIVATE KEY (openssl genpkey -algorithm ed25519)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return ed25519.Sign(key, raw), nil
	case *rsa.PrivateKey:
		if err := usable(&key.PublicKey); err != nil {
			return nil, err
		}
		digest := sha256.Sum256(raw)
		return rsa.SignPSS(rand.Reader, key, crypto.SHA256, digest[:], nil)
	}
	return nil, fmt.Errorf("a key of type %T; Ed25519 and RSA sign", key)
}

// EncodeSignature and DecodeSignature are the text form of a signature: standard base64 on one line.
func EncodeSignature(signature []byte) string { return base64.StdEncoding.EncodeToString(signature) }

// DecodeSignature reads it; white space around it is allowed.
func DecodeSignature(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%w: its signature is not base64", ErrInvalid)
	}
	return raw, nil
}
