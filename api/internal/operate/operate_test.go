package operate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
)

func status(t *testing.T, r *apitest.Rig, name string) operate.SkillStatus {
	t.Helper()
	all, err := r.Desk.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no %s in %v", name, all)
	return operate.SkillStatus{}
}

// TestPublish: an image whose copy is not the reviewed one publishes nothing; the right one publishes without drift.
func TestPublish(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(dir string) error
		code   guard.Code
	}{
		{"as reviewed", func(string) error { return nil }, ""},
		{"one byte more", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "run.py"), []byte("print('{\"n\": 1}')\n\n"), 0o644)
		}, guard.Integrity},
		{"one file more", func(dir string) error { return os.WriteFile(filepath.Join(dir, "more.py"), nil, 0o644) }, guard.Integrity},
		{"one file less", func(dir string) error { return os.Remove(filepath.Join(dir, "xray.json")) }, guard.Integrity},
		{"a link", func(dir string) error {
			path := filepath.Join(dir, "run.py")
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink("/etc/hostname", path)
		}, guard.Integrity},
		{"nothing", os.RemoveAll, guard.Integrity},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := apitest.New(t)
			if err := c.damage(filepath.Join(r.Desk.SkillsDir, apitest.Adds)); err != nil {
				t.Fatal(err)
			}
			s, refused, err := r.Desk.Publish(t.Context(), apitest.Operator, apitest.Adds)
			if err != nil || (refused == nil) != (c.code == "") || refused != nil && refused.Code != c.code {
				t.Fatalf("%+v, %+v (%v), want %q", s, refused, err, c.code)
			}
			if s = status(t, r, apitest.Adds); s.Stored != (c.code == "") || s.Published != (c.code == "") || len(s.Drift) != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestStatus: what is stored and not reviewed is shown, never offered; drift is named; publishing again cures it.
func TestStatus(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	put := func(name, text string) {
		t.Helper()
		if err := r.Store.PutSkill(t.Context(), apitest.Operator, name, map[string]store.FileContent{"SKILL.md": {Bytes: []byte(text)}}); err != nil {
			t.Fatal(err)
		}
	}
	put("foreign", "x")
	if s := status(t, r, "foreign"); s.InManifest || s.Available || s.Why != "not in the manifest" {
		t.Errorf("foreign: %+v", s)
	}
	put(apitest.Prose, "another text")
	if s := status(t, r, apitest.Prose); s.Copy != "drift" || s.Available || !strings.Contains(s.Why, "SKILL.md") || !s.AgentEnabled {
		t.Errorf("drifted: %+v", s)
	}
	r.Publish(apitest.Prose)
	if s := status(t, r, apitest.Prose); s.Copy != "same" || !s.Available || s.Why != "" {
		t.Errorf("published again: %+v", s)
	}
	r.Desk.Unlock = false
	if s := status(t, r, apitest.Adds); s.Available || !strings.Contains(s.Why, "XRAY_UNLOCK_DANGEROUS_TOOLS=1") {
		t.Errorf("locked: %+v", s)
	}
	if s := status(t, r, apitest.Prose); !s.Available {
		t.Errorf("text does not need the key: %+v", s)
	}
	if c, err := r.Desk.Tools(t.Context()); err != nil || c.Unlocked || c.Note == "" {
		t.Errorf("on but locked: %+v (%v), want a note", c, err)
	}
}
