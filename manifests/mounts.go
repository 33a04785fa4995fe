package manifests

import (
	"fmt"
	"regexp"
)

// Mount is a folder outside the sandbox that a skill needs, by a name that the runner's operator maps to a path. A skill
// never names a path: what it can reach is the operator's to say.
type Mount struct {
	Name string `json:"name"` // [a-z0-9_-], 1 to 32
	Mode string `json:"mode"` // MountRead or MountWrite
}

// The modes of a mount.
const (
	MountRead  = "ro"
	MountWrite = "rw"
)

// maxMounts bounds how many a skill may name.
const maxMounts = 8

var mountName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// MountName reports whether a mount can have this name.
func MountName(s string) bool { return mountName.MatchString(s) }

// checkMounts gives the index of the first mount that cannot be, and why. Whoever writes changes something, so a safe skill
// only reads; and a skill that reaches a network has no folder to send away.
func checkMounts(list []Mount, class Class, network string) (int, error) {
	seen := map[string]bool{}
	for i, m := range list {
		switch {
		case !MountName(m.Name):
			return i, fmt.Errorf("the mount name %q may hold only a-z, 0-9, _ and -, at most 32", printable(shorten(m.Name)))
		case seen[m.Name]:
			return i, fmt.Errorf("the mount %q is named twice", m.Name)
		case m.Mode != MountRead && m.Mode != MountWrite:
			return i, fmt.Errorf("the mode %q of mount %q is not ro or rw", printable(shorten(m.Mode)), m.Name)
		case m.Mode == MountWrite && class == Safe:
			return i, fmt.Errorf("the mount %q is rw and the class is safe: whoever writes is mutating or dangerous", m.Name)
		case network == NetworkEgress:
			return i, fmt.Errorf("the mount %q stands beside network egress: what it holds could be sent away", m.Name)
		case i >= maxMounts:
			return i, fmt.Errorf("more than %d mounts", maxMounts)
		}
		seen[m.Name] = true
	}
	return 0, nil
}
