// Package sop reads signed procedures: the document that says that a dangerous script may be used, and until when.
//
// A procedure is a JSON file and a detached signature over its very bytes, made by somebody who has read the script:
// Ed25519 (RFC 8032), or RSA-PSS with SHA-256 and any salt length (RFC 8017) of at least 2048 bits. The same code checks it
// in the api, so that people hear early what is wrong, and in the runner with the runner's own keys, because the api is not
// trusted. The word "kind" is part of what is signed: a signature that was made for something else is none here.
package sop
