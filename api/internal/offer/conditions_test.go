package offer_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/api/internal/offer"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/manifests"
)

// digits is a digest of 64 equal digits.
func digits(d string) string { return strings.Repeat(d, 64) }

// twoSkills has one skill of each kind that is there now. A schema is compiled by Decode alone, so it goes through it.
func twoSkills(t testing.TB) *manifests.Lock {
	t.Helper()
	file := func(d string) map[string]any { return map[string]any{"sha256": digits(d), "size": 10} }
	script := map[string]any{"description": "x", "interpreter": "python3", "stdout": "json", "input": json.RawMessage(`{"type":"object"}`), "limits": manifests.DefaultLimits()}
	raw, err := json.Marshal(map[string]any{"version": 1, "skills": map[string]any{
		"prose": map[string]any{"name": "prose", "description": "x", "kind": "inject-only", "files": map[string]any{"SKILL.md": file("a")}, "frontmatter": map[string]any{}},
		"stats": map[string]any{"name": "stats", "description": "x", "kind": "runnable", "class": "safe", "network": "none", "frontmatter": map[string]any{},
			"files": map[string]any{"SKILL.md": file("b"), "xray.json": file("c"), "run.py": file("d")}, "scripts": map[string]any{"run.py": script}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := manifests.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// moment is what the store holds. allOpen's is one in which everything is available, with nothing to spare.
type moment struct {
	lock   *manifests.Lock
	rows   map[string]store.StoredSkill
	tools  map[string]bool
	unlock bool
}

func allOpen(t testing.TB) *moment {
	m := &moment{lock: twoSkills(t), rows: map[string]store.StoredSkill{}, tools: map[string]bool{guard.ToolLoad: true, guard.ToolRun: true}, unlock: true}
	for name, skill := range m.lock.Skills {
		row := store.StoredSkill{Name: name, Published: true, AgentEnabled: true, Files: map[string]store.StoredFile{}}
		for path, f := range skill.Files {
			row.Files[path] = store.StoredFile{SHA256: f.SHA256, Size: f.Size, Exec: f.Exec}
		}
		m.rows[name] = row
	}
	return m
}

func (m *moment) now() offer.Set { return offer.Now(m.lock, m.rows, m.tools, m.unlock) }

// row changes the row of a skill.
func (m *moment) row(name string, change func(*store.StoredSkill)) {
	r := m.rows[name]
	change(&r)
	m.rows[name] = r
}

// file changes a stored file of the skill stats.
func (m *moment) file(path string, change func(*store.StoredFile)) {
	f := m.rows["stats"].Files[path]
	change(&f)
	m.rows["stats"].Files[path] = f
}

// TestConditions: everything is open until one thing is taken away; then what needs it is closed with that thing's
// code, and nothing else is.
func TestConditions(t *testing.T) {
	const stats, prose = "stats", "prose"
	both := []string{prose, stats}
	for _, c := range []struct {
		name   string
		change func(m *moment)
		want   []string   // names that stay open
		code   guard.Code // of every name that does not
		why    string
	}{
		{"all four hold", func(*moment) {}, both, "", ""},

		{"1: not in the manifest", func(m *moment) {
			m.rows["stray"] = store.StoredSkill{Name: "stray", Published: true, AgentEnabled: true}
		}, both, "", ""},
		{"1: taken out of the manifest", func(m *moment) { delete(m.lock.Skills, stats) }, []string{prose}, "", ""},
		{"1: only disabled in the manifest", func(m *moment) {
			delete(m.lock.Skills, stats)
			m.lock.Disabled = map[string]manifests.Finding{stats: {Severity: manifests.Error, Message: "x"}}
		}, []string{prose}, "", ""},

		{"2: no row", func(m *moment) { delete(m.rows, stats) }, []string{prose}, guard.AgentDisabled, "not stored"},
		{"2: the zero row", func(m *moment) { m.rows[stats] = store.StoredSkill{} }, []string{prose}, guard.AgentDisabled, "not published"},
		{"2: not published", func(m *moment) { m.row(stats, func(r *store.StoredSkill) { r.Published = false }) }, []string{prose}, guard.AgentDisabled, "not published"},
		{"2: not open to agents", func(m *moment) { m.row(stats, func(r *store.StoredSkill) { r.AgentEnabled = false }) }, []string{prose}, guard.AgentDisabled, "not open to agents"},
		{"2: no rows at all", func(m *moment) { m.rows = nil }, nil, guard.AgentDisabled, "not stored"},

		{"3: one byte", func(m *moment) { m.file("run.py", func(f *store.StoredFile) { f.SHA256 = digits("e") }) }, []string{prose}, guard.SkillDrift, "run.py differs"},
		{"3: in SKILL.md too", func(m *moment) { m.file("SKILL.md", func(f *store.StoredFile) { f.SHA256 = digits("e") }) }, []string{prose}, guard.SkillDrift, "SKILL.md differs"},
		{"3: another file's hash", func(m *moment) { m.file("run.py", func(f *store.StoredFile) { f.SHA256 = digits("b") }) }, []string{prose}, guard.SkillDrift, "run.py differs"},
		{"3: drift and not published: what comes first is said", func(m *moment) {
			m.row(stats, func(r *store.StoredSkill) { r.Published, r.Files = false, nil })
		}, []string{prose}, guard.AgentDisabled, "not published"},

		{"4: skill_load off", func(m *moment) { m.tools[guard.ToolLoad] = false }, nil, guard.ToolDisabled, "skill_load is off"},
		{"4: skill_run off", func(m *moment) { m.tools[guard.ToolRun] = false }, []string{prose}, guard.ToolDisabled, "skill_run is off"},
		{"4: locked", func(m *moment) { m.unlock = false }, []string{prose}, guard.ToolDisabled, "skill_run is locked: XRAY_UNLOCK_DANGEROUS_TOOLS=1 is not set"},
		{"4: switches absent", func(m *moment) { m.tools = nil }, nil, guard.ToolDisabled, "skill_load is off"},
		{"4: an unknown switch opens nothing and closes nothing", func(m *moment) { m.tools["skill_list"] = false }, both, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := allOpen(t)
			c.change(m)
			set := m.now()
			if diff := cmp.Diff(c.want, set.Names()); diff != "" {
				t.Errorf("open (-want +got):\n%s", diff)
			}
			for name, p := range set.Policy.Skills {
				if p.Closed == "" && set.Why[name] != "" || p.Closed != "" && (p.Closed != c.code || !strings.Contains(set.Why[name], c.why)) {
					t.Errorf("%s: closed %q because %q, want %q because %q", name, p.Closed, set.Why[name], c.code, c.why)
				}
			}
		})
	}
}

// TestSwitches: what the guard is told about the tools themselves.
func TestSwitches(t *testing.T) {
	for _, c := range []struct {
		load, run, unlock bool
		want              map[string]bool
	}{
		{true, true, true, map[string]bool{guard.ToolList: true, guard.ToolLoad: true, guard.ToolRun: true}},
		{true, true, false, map[string]bool{guard.ToolList: true, guard.ToolLoad: true, guard.ToolRun: false}},
		{true, false, true, map[string]bool{guard.ToolList: true, guard.ToolLoad: true, guard.ToolRun: false}},
		{false, true, true, map[string]bool{guard.ToolList: true, guard.ToolLoad: false, guard.ToolRun: true}},
		{false, false, false, map[string]bool{guard.ToolList: true, guard.ToolLoad: false, guard.ToolRun: false}},
	} {
		m := allOpen(t)
		m.tools, m.unlock = map[string]bool{guard.ToolLoad: c.load, guard.ToolRun: c.run}, c.unlock
		if diff := cmp.Diff(c.want, m.now().Policy.Tools); diff != "" {
			t.Errorf("load %v, run %v, unlock %v (-want +got):\n%s", c.load, c.run, c.unlock, diff)
		}
	}
}

func TestEveryKindOfDrift(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *moment)
		want   []string
	}{
		{"the same", func(*moment) {}, nil},
		{"a byte", func(m *moment) { m.file("run.py", func(f *store.StoredFile) { f.SHA256 = digits("e") }) }, []string{"run.py differs from the reviewed file"}},
		{"the size alone", func(m *moment) { m.file("run.py", func(f *store.StoredFile) { f.Size++ }) }, []string{"run.py differs from the reviewed file"}},
		{"one more", func(m *moment) {
			m.file("json.py", func(f *store.StoredFile) { *f = store.StoredFile{SHA256: digits("d"), Size: 10} })
		}, []string{"json.py is not in the manifest"}},
		{"one more, empty", func(m *moment) { m.file("new", func(*store.StoredFile) {}) }, []string{"new is not in the manifest"}},
		{"one less", func(m *moment) { delete(m.rows["stats"].Files, "run.py") }, []string{"run.py is missing from the stored copy"}},
		{"renamed", func(m *moment) {
			m.file("run2.py", func(f *store.StoredFile) { *f = m.rows["stats"].Files["run.py"] })
			delete(m.rows["stats"].Files, "run.py")
		}, []string{"run.py is missing from the stored copy", "run2.py is not in the manifest"}},
		{"renamed by case", func(m *moment) {
			m.file("Run.py", func(f *store.StoredFile) { *f = m.rows["stats"].Files["run.py"] })
			delete(m.rows["stats"].Files, "run.py")
		}, []string{"Run.py is not in the manifest", "run.py is missing from the stored copy"}},
		{"the mode", func(m *moment) { m.file("run.py", func(f *store.StoredFile) { f.Exec = true }) }, []string{"run.py has another mode than the reviewed file"}},
		{"two exchanged", func(m *moment) {
			files := m.rows["stats"].Files
			files["run.py"], files["SKILL.md"] = files["SKILL.md"], files["run.py"]
		}, []string{"SKILL.md differs from the reviewed file", "run.py differs from the reviewed file"}},
		{"nothing stored", func(m *moment) { m.row("stats", func(r *store.StoredSkill) { r.Files = nil }) },
			[]string{"SKILL.md is missing from the stored copy", "run.py is missing from the stored copy", "xray.json is missing from the stored copy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := allOpen(t)
			c.change(m)
			if diff := cmp.Diff(c.want, offer.Drift(m.lock.Skills["stats"].Files, m.rows["stats"].Files)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			code := m.now().Policy.Skills["stats"].Closed
			if (code == guard.SkillDrift) != (c.want != nil) {
				t.Errorf("closed with %q, drift %v", code, c.want)
			}
		})
	}
}

// TestForATurn: what was not on offer when the turn began is closed until the next one; what was, closes at once.
func TestForATurn(t *testing.T) {
	closeStats := func(m *moment) { m.row("stats", func(r *store.StoredSkill) { r.AgentEnabled = false }) }
	for _, c := range []struct {
		name    string
		offered []string
		change  func(m *moment)
		want    []string
		words   bool // stats is closed in the words of "opened during this turn"
	}{
		{"offered and open", []string{"prose", "stats"}, func(*moment) {}, []string{"prose", "stats"}, false},
		{"opened since", []string{"prose"}, func(*moment) {}, []string{"prose"}, true},
		{"closed since", []string{"prose", "stats"}, closeStats, []string{"prose"}, false},
		{"neither offered nor open", []string{"prose"}, closeStats, []string{"prose"}, false},
		{"a turn that began with nothing", []string{}, func(*moment) {}, nil, true},
		{"no turn at all", nil, func(*moment) {}, nil, true},
		{"another is gone from the manifest", []string{"prose", "stats", "gone"}, func(*moment) {}, []string{"prose", "stats"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := allOpen(t)
			c.change(m)
			set := m.now()
			before := maps.Clone(set.Policy.Skills)
			got := set.For(store.Session{Offered: c.offered})
			if diff := cmp.Diff(c.want, got.Names()); diff != "" {
				t.Errorf("open (-want +got):\n%s", diff)
			}
			p := got.Policy.Skills["stats"]
			if said := strings.Contains(p.Words, "next turn"); said != c.words || c.words && p.Closed != guard.AgentDisabled {
				t.Errorf("stats is closed with %q in the words %q", p.Closed, p.Words)
			}
			if (got.Why["stats"] != "") != (p.Closed != "") {
				t.Errorf("closed %q, why %q", p.Closed, got.Why["stats"])
			}
			for name, p := range set.Policy.Skills {
				if p.Closed != before[name].Closed {
					t.Errorf("For changed the set that it narrows: %s", name)
				}
			}
			d := guard.Decide(got.Policy, guard.Call{Tool: guard.ToolRun, Skill: "stats", Script: "run.py", Input: []byte(`{}`)})
			if d.Allowed() != (len(c.want) == 2) {
				t.Errorf("the guard says %+v", d)
			}
		})
	}
}

// TestAdditionsBindAtTheNextTurn: the addition binds when a turn begins with it on offer.
func TestAdditionsBindAtTheNextTurn(t *testing.T) {
	m := allOpen(t)
	m.row("stats", func(r *store.StoredSkill) { r.Published = false })
	session := store.Session{Offered: m.now().Names()}
	m.row("stats", func(r *store.StoredSkill) { r.Published = true })
	if got := m.now().For(session).Names(); len(got) != 1 {
		t.Errorf("in the turn in which it was opened: %v", got)
	}
	session.Offered = m.now().Names()
	if got := m.now().For(session).Names(); len(got) != 2 {
		t.Errorf("in the next turn: %v", got)
	}
}

// TestFingerprintChanges: each row is another offer than every row before it.
func TestFingerprintChanges(t *testing.T) {
	seen := map[string]int{}
	for i, change := range []func(m *moment){
		func(*moment) {},
		func(m *moment) { m.row("stats", func(r *store.StoredSkill) { r.Published = false }) },
		func(m *moment) { m.row("prose", func(r *store.StoredSkill) { r.AgentEnabled = false }) },
		func(m *moment) { m.tools[guard.ToolRun] = false },
		func(m *moment) { m.tools[guard.ToolLoad] = false },
		func(m *moment) { // a new manifest and a new copy: other bytes of the same name
			f := m.lock.Skills["stats"].Files["run.py"]
			f.SHA256 = digits("e")
			m.lock.Skills["stats"].Files["run.py"] = f
			m.file("run.py", func(f *store.StoredFile) { f.SHA256 = digits("e") })
		},
		func(m *moment) { // one more file on both sides
			m.lock.Skills["stats"].Files["data.csv"] = manifests.File{SHA256: digits("f"), Size: 1}
			m.file("data.csv", func(f *store.StoredFile) { *f = store.StoredFile{SHA256: digits("f"), Size: 1} })
		},
		func(m *moment) { // the mode of one
			f := m.lock.Skills["stats"].Files["run.py"]
			f.Exec = true
			m.lock.Skills["stats"].Files["run.py"] = f
			m.file("run.py", func(f *store.StoredFile) { f.Exec = true })
		},
	} {
		m := allOpen(t)
		change(m)
		got := m.now().Fingerprint()
		if twin, ok := seen[got]; ok {
			t.Errorf("change %d has the fingerprint of change %d", i, twin)
		}
		seen[got] = i
		if again := m.now().Fingerprint(); again != got {
			t.Errorf("change %d: two fingerprints of one offer", i)
		}
	}
	m := allOpen(t)
	plain := m.now().Fingerprint()
	m.rows["stray"] = store.StoredSkill{Name: "stray", Published: true, AgentEnabled: true}
	if m.now().Fingerprint() != plain {
		t.Error("a row that is offered to nobody changes the fingerprint")
	}
}

// TestExternalConditions: there is no copy to publish; the digest that an operator enabled stands for it. Each row takes one
// thing away.
func TestExternalConditions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(row *store.StoredSkill, tools map[string]bool, unlock *bool)
		want   guard.Code
	}{
		"open":        {func(*store.StoredSkill, map[string]bool, *bool) {}, ""},
		"not enabled": {func(r *store.StoredSkill, _ map[string]bool, _ *bool) { r.AgentEnabled = false }, guard.AgentDisabled},
		"changed":     {func(r *store.StoredSkill, _ map[string]bool, _ *bool) { r.Digest = "sha256:" + digits("2") }, guard.SkillDrift},
		"no digest":   {func(r *store.StoredSkill, _ map[string]bool, _ *bool) { r.Digest = "" }, guard.SkillDrift},
		"load is off": {func(_ *store.StoredSkill, t map[string]bool, _ *bool) { t[guard.ToolLoad] = false }, guard.ToolDisabled},
		"run is off":  {func(_ *store.StoredSkill, t map[string]bool, _ *bool) { t[guard.ToolRun] = false }, guard.ToolDisabled},
		"locked":      {func(_ *store.StoredSkill, _ map[string]bool, u *bool) { *u = false }, guard.ToolDisabled},
	} {
		lock := &manifests.Lock{Skills: map[string]*manifests.Skill{"x": {Name: "x", Kind: manifests.External, Folder: "sha256:" + digits("1")}}}
		row, tools, unlock := store.StoredSkill{Name: "x", AgentEnabled: true, Digest: "sha256:" + digits("1")}, map[string]bool{guard.ToolLoad: true, guard.ToolRun: true}, true
		c.change(&row, tools, &unlock)
		set := offer.Now(lock, map[string]store.StoredSkill{"x": row}, tools, unlock)
		if got := set.Policy.Skills["x"].Closed; got != c.want || (set.Why["x"] == "") != (c.want == "") {
			t.Errorf("%s: %q (%s), want %q", name, got, set.Why["x"], c.want)
		}
	}
}
