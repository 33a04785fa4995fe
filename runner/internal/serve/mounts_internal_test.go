package serve

import (
	"path/filepath"
	"strings"
	"testing"

	"xrayrunner/runner/internal/config"
	"xrayrunner/runner/internal/mounts"
	"xrayrunner/runner/internal/sandbox"
)

// TestMountsNeedLandlock: what keeps the folders of skills apart is Landlock, so where it is not in force the start is refused.
// A runner that gives none may start.
func TestMountsNeedLandlock(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	given := config.Config{Mounts: mounts.Table{"cache": {Path: dir}}, Shim: "/nowhere/shim"}
	none := config.Config{Shim: given.Shim}
	layers := func(of ...sandbox.Layer) sandbox.Posture { return sandbox.Posture{Layers: of} }
	for name, c := range map[string]struct {
		cfg     config.Config
		posture sandbox.Posture
		refused bool
	}{
		"in force":               {given, layers(sandbox.Layer{Name: "landlock", InForce: true}), false},
		"not in force":           {given, layers(sandbox.Layer{Name: "landlock"}), true},
		"not there":              {given, layers(), true},
		"only landlock_net":      {given, layers(sandbox.Layer{Name: "landlock_net", InForce: true}), true},
		"not in force, and none": {none, layers(sandbox.Layer{Name: "landlock"}), false},
	} {
		table, err := folders(c.cfg, c.posture)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "landlock, which keeps them apart") {
			t.Errorf("%s: %v, want refused %v", name, err, c.refused)
		}
		if err == nil && len(table) != len(c.cfg.Mounts) {
			t.Errorf("%s: %v", name, table)
		}
	}
}
