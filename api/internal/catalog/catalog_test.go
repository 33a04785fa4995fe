package catalog_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"xrayrunner/api/internal/catalog"
	"xrayrunner/manifests"
	"xrayrunner/runner/client"
	"xrayrunner/runner/protocol"
)

// runner answers GET /external with what it is told to.
type runner struct {
	asked atomic.Int64
	body  atomic.Value // string; "" is a failure
}

func (r *runner) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.asked.Add(1)
	body, _ := r.body.Load().(string)
	if req.URL.Path != protocol.PathExternal || body == "" {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", protocol.TypeJSON)
	_, _ = io.WriteString(w, body)
}

func skill(name string, change func(*manifests.Skill)) protocol.ExternalSkill {
	s := &manifests.Skill{Name: name, Description: "x", Kind: manifests.External, Class: manifests.Safe, Network: manifests.NetworkNone, Folder: "sha256:" + strings.Repeat("0", 64),
		Scripts: map[string]*manifests.Script{"run.sh": {Description: "x", Input: json.RawMessage(`{"type":"object"}`)}}}
	change(s)
	return protocol.ExternalSkill{Skill: s, Digest: s.Folder}
}

func told(t *testing.T, skills map[string]protocol.ExternalSkill) string {
	t.Helper()
	raw, err := json.Marshal(protocol.External{Skills: skills})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func newCatalog(t *testing.T) (*runner, *catalog.Catalog, *bytes.Buffer) {
	t.Helper()
	r, log := &runner{}, &bytes.Buffer{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	lock := &manifests.Lock{Skills: map[string]*manifests.Skill{"reviewed": {Name: "reviewed", Kind: manifests.Runnable}}}
	return r, &catalog.Catalog{Log: slog.New(slog.NewTextHandler(log, nil)), Manifest: lock, Runner: c}, log
}

func none(*manifests.Skill) {}

// TestTaken: what the runner says is proved before it is believed; one odd skill hides no other, and none takes a reviewed
// one's place.
func TestTaken(t *testing.T) {
	r, c, log := newCatalog(t)
	other := skill("other_name", none)
	digest := skill("digest", none)
	digest.Digest = "sha256:" + strings.Repeat("1", 64)
	bad := map[string]protocol.ExternalSkill{
		"named":    other,
		"digest":   digest,
		"nothing":  {},
		"kind":     skill("kind", func(s *manifests.Skill) { s.Kind = manifests.Runnable }),
		"class":    skill("class", func(s *manifests.Skill) { s.Class = "harmless" }),
		"folder":   skill("folder", func(s *manifests.Skill) { s.Folder = "" }),
		"network":  skill("network", func(s *manifests.Skill) { s.Network = manifests.NetworkEgress }),
		"scripts":  skill("scripts", func(s *manifests.Skill) { s.Scripts["more.sh"] = s.Scripts["run.sh"] }),
		"schema":   skill("schema", func(s *manifests.Skill) { s.Scripts["run.sh"].Input = json.RawMessage(`{"type":"objekt"}`) }),
		"mounts":   skill("mounts", func(s *manifests.Skill) { s.Mounts = []manifests.Mount{{Name: "c", Mode: manifests.MountWrite}} }),
		"dry":      skill("dry", func(s *manifests.Skill) { s.Scripts["run.sh"].DryRun = "look" }),
		"bad-name": skill("bad-name", none),
	}
	all := map[string]protocol.ExternalSkill{"good": skill("good", none), "reviewed": skill("reviewed", none)}
	for name, s := range bad {
		all[name] = s
	}
	r.body.Store(told(t, all))
	lock := c.Lock(t.Context())
	if lock.Skills["good"] == nil || lock.Skills["good"].Scripts["run.sh"].InputSchema() == nil {
		t.Errorf("the good one: %+v", lock.Skills["good"])
	}
	if lock.Skills["reviewed"].Kind != manifests.Runnable {
		t.Error("an external skill has taken the place of a reviewed one")
	}
	for name := range bad {
		if lock.Skills[name] != nil || !strings.Contains(log.String(), "skill="+name+" ") {
			t.Errorf("%s: taken %v; log %s", name, lock.Skills[name] != nil, log)
		}
	}
	if lock.Digest() != c.Manifest.Digest() {
		t.Error("the digest is not the manifest's")
	}
}

// TestAway: while the runner does not answer, what it said last stays; it is not asked at each call, and Renew asks anew.
func TestAway(t *testing.T) {
	r, c, _ := newCatalog(t)
	if lock := c.Lock(t.Context()); len(lock.Skills) != 1 {
		t.Errorf("never answered: %v", lock.Skills)
	}
	assumed := skill("assumed", none)
	assumed.ClassAssumed = true
	r.body.Store(told(t, map[string]protocol.ExternalSkill{"one": skill("one", none), "assumed": assumed}))
	c.Renew()
	if lock := c.Lock(t.Context()); lock.Skills["one"] == nil || !c.Assumed("assumed") || c.Assumed("one") {
		t.Errorf("answered: %v", lock.Skills)
	}
	before := r.asked.Load()
	r.body.Store("")
	for range 10 {
		c.Lock(t.Context())
	}
	if n := r.asked.Load() - before; n != 0 {
		t.Errorf("asked %d times within a moment", n)
	}
	c.Renew()
	if lock := c.Lock(t.Context()); lock.Skills["one"] == nil || r.asked.Load() != before+1 {
		t.Errorf("away: %v", lock.Skills)
	}
	r.body.Store(told(t, nil))
	c.Renew()
	if lock := c.Lock(t.Context()); lock.Skills["one"] != nil || len(lock.Skills) != 1 {
		t.Errorf("gone: %v", lock.Skills)
	}
}

// FuzzTold: whatever the runner's answer is, a reviewed skill stays itself, and what is taken is an external skill with a
// schema that compiles.
func FuzzTold(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		r, c, _ := newCatalog(t)
		r.body.Store(string(body))
		for name, s := range c.Lock(t.Context()).Skills {
			switch _, script := s.Entry(); {
			case name == "reviewed" && s.Kind == manifests.Runnable:
			case s.Kind != manifests.External || s.Name != name || script == nil || script.InputSchema() == nil || s.Class.Rank() == 0:
				t.Errorf("%s: taken %+v", name, s)
			}
		}
	})
}

func TestFuzzSeedsExist(t *testing.T) {
	if seeds, err := os.ReadDir("testdata/fuzz/FuzzTold"); err != nil || len(seeds) == 0 {
		t.Errorf("no seeds: %v", err)
	}
}
