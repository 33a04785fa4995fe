package manifests_test

import (
	"testing"

	"xrayrunner/manifests"
)

// FuzzParseExternal: nothing panics, and what is taken is sound.
func FuzzParseExternal(f *testing.F) {
	for _, seed := range []string{
		`{"name":"disk_cleaner","description":"x","entry":"run.sh","class":"mutating","env_allow":["PATH"],"mounts":[{"name":"c","mode":"rw"}]}`,
		`{"name":"s","description":"x","entry":"a","schema":{"type":"object"}}`, `{,}`, `{"name":1}`, "\ufeff{}", "[", `{"name":"s","description":"x","entry":"a","schema":true}`,
	} {
		f.Add([]byte(seed))
	}
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
	})
}
