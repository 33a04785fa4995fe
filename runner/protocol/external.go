package protocol

import "xrayrunner/manifests"

// External is the answer of GET /external: the external skills that this runner has loaded. It stands outside the manifest
// and its digest.
type External struct {
	Skills map[string]ExternalSkill `json:"skills"` // by name
}

// ExternalSkill is one of them. It is available when an operator has enabled exactly this digest.
type ExternalSkill struct {
	Skill        *manifests.Skill `json:"skill"`
	Digest       string           `json:"digest"`        // of its whole folder: "sha256:" and 64 hex digits
	ClassAssumed bool             `json:"class_assumed"` // its author wrote no class; enabling it needs a confirmation
}
