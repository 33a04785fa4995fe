package attack

import (
	"testing"

	"xrayrunner/runner/internal/sandbox"
)

type posed struct {
	sandbox.Sandbox
	layers []sandbox.Layer
}

func (p posed) Posture() sandbox.Posture { return sandbox.Posture{Layers: p.layers} }

// TestSums: an attack on sums may succeed only where neither layer is in force that adds up.
func TestSums(t *testing.T) {
	for name, c := range map[string]struct {
		layers []sandbox.Layer
		want   bool
	}{
		"none":             {nil, false},
		"watch":            {[]sandbox.Layer{{Name: "watch", InForce: true}}, true},
		"cgroup":           {[]sandbox.Layer{{Name: "watch"}, {Name: "cgroup", InForce: true}}, true},
		"neither in force": {[]sandbox.Layer{{Name: "watch"}, {Name: "cgroup"}, {Name: "sweep", InForce: true}}, false},
	} {
		if got := (&campaign{Config: Config{Box: posed{layers: c.layers}}}).sums(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
