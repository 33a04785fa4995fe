package manifests_test

import (
	"testing"

	"xrayrunner/manifests"
)

// FuzzParseExternal: nothing panics, and what is taken is sound. Its seeds are testdata/fuzz/FuzzParseExternal.
func FuzzParseExternal(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, findings := manifests.ParseExternal("folder", raw)
		if (m == nil) != manifests.HasErrors(findings) {
			t.Fatalf("taken %v, findings %v", m != nil, findings)
		}
		for _, f := range findings {
			if f.Cure == "" || f.Message == "" || f.File == "" {
				t.Errorf("not whole: %+v", f)
			}
		}
		if m != nil && (m.Skill.Class.Rank() == 0 || m.Entry == "" || m.Script.InputSchema() == nil) {
			t.Errorf("not sound: %+v", m)
		}
		if m != nil && m.Script.DryRun != "" && m.Skill.Class != manifests.Mutating {
			t.Errorf("a dry run of class %s", m.Skill.Class)
		}
	})
}
