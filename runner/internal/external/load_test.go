package external_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/runner/internal/external"
)

const good = `{"name":"NAME","description":"x","entry":"run.sh","class":"safe"}`

// write makes files below dir: a name that ends in "*" is executable, a text that begins with "->" is a link.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path, mode := filepath.Join(dir, strings.TrimSuffix(name, "*")), os.FileMode(0o644)
		if strings.HasSuffix(name, "*") {
			mode = 0o755
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if to, link := strings.CutPrefix(text, "->"); err == nil && link {
			err = os.Symlink(to, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func load(roots ...string) *external.Set {
	return external.Load(external.Settings{Roots: roots, Env: external.Environment{}, Taken: func(name string) bool { return name == "taken" }})
}

// texts are the lines, with the temporary folder as R.
func texts(set *external.Set, root string) []string {
	var out []string
	for _, l := range set.Lines {
		out = append(out, strings.ReplaceAll(l.Text, root, "R"))
	}
	return out
}

// TestLines: the four lines of the contract, to the letter, and the number.
func TestLines(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"broken-one/skill.json": strings.Replace(good, "NAME", "taken", 1), "broken-one/run.sh*": "#!/bin/bash\n",
		"disk-cleaner/skill.json": strings.Replace(good, "NAME", "disk_cleaner", 1), "disk-cleaner/run.sh*": "#!/bin/bash\n",
		"escape/skill.json": `{"name":"bad_path","description":"x","entry":"/tmp/escape.sh","class":"safe"}`,
		"typo/skill.json":   `{,}`,
		"zzz/skill.json":    strings.Replace(good, "NAME", "disk_cleaner", 1), "zzz/run.sh*": "#!/bin/bash\n",
	})
	set := load(root)
	want := []string{
		`skill loader: skill "taken" already registered, skipping R/broken-one/skill.json`,
		`skill loader: registered subprocess skill "disk_cleaner" from R/disk-cleaner/skill.json`,
		`skill loader: build "bad_path": entry /tmp/escape.sh escapes allowlist root R`,
		`skill loader: parse R/typo/skill.json: invalid character ',' looking for beginning of object key`,
		`skill loader: skill "disk_cleaner" already registered, skipping R/zzz/skill.json`,
		`skill loader: 1 external skills registered`,
	}
	if diff := cmp.Diff(want, texts(set, root)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, l := range set.Lines {
		if strings.Contains(l.Text, "parse") && (l.Line != 1 || l.Column != 2 || l.Cure == "" || l.File != filepath.Join(root, "typo/skill.json")) {
			t.Errorf("%+v", l)
		}
	}
}

// TestRoots: a relative one is skipped with a line, a missing one silently; the first root wins, then path order; the walk is
// recursive and several skills live under one root; a root may be a link.
func TestRoots(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for path, name := range map[string]string{one + "/b": "b", one + "/b/deep/er": "deep", one + "/a": "both", two + "/a": "both", two + "/c": "c"} {
		write(t, path, map[string]string{"skill.json": strings.Replace(good, "NAME", name, 1), "run.sh*": "#!/bin/bash\n"})
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(two, link); err != nil {
		t.Fatal(err)
	}
	set := load("relative/path", "/none/at/all", one, link)
	if set.Lines[0].Text != "skill loader: relative/path is not an absolute path, skipping" || set.Lines[0].Level != slog.LevelWarn {
		t.Errorf("%+v", set.Lines[0])
	}
	for name, folder := range map[string]string{"both": one + "/a", "b": one + "/b", "deep": one + "/b/deep/er", "c": link + "/c"} {
		if s := set.Skills[name]; s == nil || s.Dir != folder {
			t.Errorf("%s: %+v, want it from %s", name, s, folder)
		}
	}
	if len(set.Skills) != 4 || len(set.Lines) != 7 {
		t.Errorf("%d skills, lines %v", len(set.Skills), set.Lines)
	}
}

// TestEntry: resolved through links, and below the root; other links are refused (case 15).
func TestEntry(t *testing.T) {
	for name, c := range map[string]struct {
		entry string
		files map[string]string
		want  string // part of a line; "" registered
	}{
		"plain":                       {"run.sh", map[string]string{"s/run.sh*": "#!/bin/bash\n"}, ""},
		"in a folder":                 {"bin/run.sh", map[string]string{"s/bin/run.sh*": "#!/bin/bash\n"}, ""},
		"a link in the skill":         {"run.sh", map[string]string{"s/run.sh": "->real.sh", "s/real.sh*": "#!/bin/bash\n"}, ""},
		"a link to elsewhere below":   {"run.sh", map[string]string{"s/run.sh": "->../shared/real.sh", "shared/real.sh*": "#!/bin/bash\n"}, ""},
		"elsewhere below":             {"../shared/real.sh", map[string]string{"s/x": "", "shared/real.sh*": "#!/bin/bash\n"}, ""},
		"absolute, below":             {"R/s/run.sh", map[string]string{"s/run.sh*": "#!/bin/bash\n"}, ""},
		"absolute, outside":           {"/bin/true", map[string]string{"s/x": ""}, "escapes allowlist root"},
		"up and out":                  {"../../../../../../../../../../bin/true", map[string]string{"s/x": ""}, "escapes allowlist root"},
		"a link out":                  {"run.sh", map[string]string{"s/run.sh": "->/bin/true"}, "escapes allowlist root"},
		"a look-alike of the root":    {"R-evil/run.sh", map[string]string{"s/x": ""}, "escapes allowlist root"},
		"a folder that is a link out": {"bin/true", map[string]string{"s/bin": "->/bin"}, "escapes allowlist root"},
		"a dangling link":             {"run.sh", map[string]string{"s/run.sh": "->nowhere"}, "no such file"},
		"missing":                     {"run.sh", map[string]string{"s/x": ""}, "no such file"},
		"a folder":                    {"bin", map[string]string{"s/bin/x": ""}, "not a plain file"},
		"another link":                {"run.sh", map[string]string{"s/run.sh*": "#!/bin/bash\n", "s/data": "->/etc/passwd"}, "a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, c.files)
			write(t, root, map[string]string{"s/skill.json": fmt.Sprintf(`{"name":"s","description":"x","class":"safe","entry":%q}`, strings.ReplaceAll(c.entry, "R", root))})
			set := load(root)
			lines := strings.Join(texts(set, root), "\n")
			if (set.Skills["s"] != nil) != (c.want == "") || !strings.Contains(lines, c.want) {
				t.Errorf("want %q, got\n%s", c.want, lines)
			}
			if s := set.Skills["s"]; s != nil {
				if err := s.Changed(); err != nil {
					t.Errorf("at once: %v", err)
				}
			}
		})
	}
}

// TestChanged: whatever changes in the folder, the digest is another one.
func TestChanged(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"a byte of the program": func(d string) error { return os.WriteFile(d+"/run.sh", []byte("#!/bin/sh\n"), 0o755) },
		"a byte of skill.json": func(d string) error {
			return os.WriteFile(d+"/skill.json", []byte(" "+strings.Replace(good, "NAME", "s", 1)), 0o644)
		},
		"one file more": func(d string) error { return os.WriteFile(d+"/more", nil, 0o644) },
		"one file less": func(d string) error { return os.Remove(d + "/data") },
		"a mode":        func(d string) error { return os.Chmod(d+"/data", 0o755) },
		"a link":        func(d string) error { return os.Symlink("data", d+"/link") },
		"all of it":     func(d string) error { return os.RemoveAll(d) },
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"skill.json": strings.Replace(good, "NAME", "s", 1), "run.sh*": "#!/bin/bash\n", "data": "x"})
		s := load(dir).Skills["s"]
		if s == nil {
			t.Fatal("not registered")
		}
		if err := s.Changed(); err != nil {
			t.Errorf("%s, before: %v", name, err)
		}
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if s.Changed() == nil {
			t.Errorf("%s: it is the same", name)
		}
	}
}
