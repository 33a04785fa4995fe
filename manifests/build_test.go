package manifests_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/manifests"
)

const goodScript = "import json, sys\njson.dump({'rows': 2}, sys.stdout)\n"

// writeSkill makes a sound runnable skill below dir and returns its folder.
func writeSkill(t *testing.T, dir, name string) string {
	t.Helper()
	folder := filepath.Join(dir, name)
	write(t, folder, "SKILL.md", "---\nname: "+name+"\ndescription: x\n---\nbody\n")
	write(t, folder, "xray.json", goodXray)
	write(t, folder, "stats.py", goodScript)
	return folder
}

func write(t *testing.T, folder, name, content string) {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, dir string) (*manifests.Lock, []manifests.Finding) {
	t.Helper()
	l, findings, err := manifests.Build(dir)
	must(t, err)
	return l, findings
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	folder := writeSkill(t, dir, "csv-stats")
	write(t, folder, "data/table.csv", "a,b\n")
	must(t, os.Chmod(filepath.Join(folder, "stats.py"), 0o755))
	write(t, dir, "prose/SKILL.md", "---\nname: prose\ndescription: y\n---\nbody\n")
	write(t, dir, "README.md", "not a skill")
	write(t, dir, ".git/config", "not a skill")
	l, findings := build(t, dir)
	if len(findings) > 0 || len(l.Disabled) > 0 || len(l.Skills) != 2 {
		t.Fatalf("%v %v", findings, l)
	}
	s := l.Skills["csv-stats"]
	want := map[string]manifests.File{
		"data/table.csv": {SHA256: strings.TrimPrefix(manifests.Digest([]byte("a,b\n")), "sha256:"), Size: 4},
		"stats.py":       {SHA256: strings.TrimPrefix(manifests.Digest([]byte(goodScript)), "sha256:"), Size: int64(len(goodScript)), Exec: true},
		"xray.json":      {SHA256: strings.TrimPrefix(manifests.Digest([]byte(goodXray)), "sha256:"), Size: int64(len(goodXray))},
	}
	want["SKILL.md"] = manifests.File{SHA256: strings.TrimPrefix(manifests.Digest([]byte("---\nname: csv-stats\ndescription: x\n---\nbody\n")), "sha256:"), Size: 44}
	if diff := cmp.Diff(want, s.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if s.Kind != manifests.Runnable || l.Skills["prose"].Kind != manifests.InjectOnly || l.Skills["prose"].Class != "" {
		t.Errorf("kinds %q %q", s.Kind, l.Skills["prose"].Kind)
	}
}

// TestBuildTwice: equal folders give equal bytes, wherever they are and in whatever order they were made.
func TestBuildTwice(t *testing.T) {
	var texts []string
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}} {
		dir := t.TempDir()
		for _, name := range names {
			writeSkill(t, dir, name)
			write(t, dir, "bad-"+name+"/SKILL.md", "no frontmatter")
		}
		l, _ := build(t, dir)
		raw, err := manifests.Encode(l)
		must(t, err)
		texts = append(texts, string(raw))
		if strings.Contains(string(raw), dir) {
			t.Error("a path of the build machine is in the lock file")
		}
	}
	if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
		t.Error(diff)
	}
}

// TestBuildRefuses: each row spoils one of two skills; the other one must stay.
func TestBuildRefuses(t *testing.T) {
	tests := []struct {
		name    string
		change  func(t *testing.T, folder string)
		message string // "" = still sound
		file    string
	}{
		{"nothing", func(*testing.T, string) {}, "", ""},

		// Case 07: code that nobody named.
		{"case 07: stale cache", func(t *testing.T, f string) { write(t, f, "__pycache__/helper.cpython-311.pyc", "x") }, "a bytecode cache", "__pycache__"},
		{"case 07: cache beside", func(t *testing.T, f string) { write(t, f, "helper.pyc", "x") }, "compiled code", "helper.pyc"},
		{"case 07: helper", func(t *testing.T, f string) { write(t, f, "helper.py", "x = 1\n") }, "", ""},
		{"case 07: json.py", func(t *testing.T, f string) { write(t, f, "json.py", "x = 1\n") }, `hides the module "json"`, "json.py"},
		{"case 07: json.py below", func(t *testing.T, f string) { write(t, f, "bin/json.py", "x = 1\n") }, `hides the module "json"`, "bin/json.py"},
		{"case 07: json.txt", func(t *testing.T, f string) { write(t, f, "json.txt", "x") }, "", ""},
		{"case 07: package", func(t *testing.T, f string) { write(t, f, "json/__init__.py", "") }, `hides the module "json"`, "json/__init__.py"},
		{"case 07: folder of data", func(t *testing.T, f string) { write(t, f, "json/a.json", "{}") }, "", ""},
		{"case 07: module of 3.13 only", func(t *testing.T, f string) { write(t, f, "_colorize.py", "") }, `hides the module "_colorize"`, "_colorize.py"},
		{"case 07: module of 3.11 only", func(t *testing.T, f string) { write(t, f, "asyncore.py", "") }, `hides the module "asyncore"`, "asyncore.py"},
		{"case 07: extension module", func(t *testing.T, f string) { write(t, f, "fast.cpython-311-x86_64-linux-gnu.so", "x") }, "compiled code", "fast.cpython-311-x86_64-linux-gnu.so"},
		{"case 07: sitecustomize", func(t *testing.T, f string) { write(t, f, "sitecustomize.py", "") }, "by itself", "sitecustomize.py"},
		{"case 07: usercustomize package", func(t *testing.T, f string) { write(t, f, "usercustomize/__init__.py", "") }, "by itself", "usercustomize/__init__.py"},

		// Case 15: links.
		{"case 15: script linked outside", func(t *testing.T, f string) {
			must(t, os.Remove(filepath.Join(f, "stats.py")))
			must(t, os.Symlink("/etc/hostname", filepath.Join(f, "stats.py")))
		}, "a symbolic link", "stats.py"},
		{"case 15: link inside the skill", func(t *testing.T, f string) { must(t, os.Symlink("stats.py", filepath.Join(f, "other.py"))) }, "a symbolic link", "other.py"},
		{"case 15: linked folder", func(t *testing.T, f string) { must(t, os.Symlink(t.TempDir(), filepath.Join(f, "lib"))) }, "a symbolic link", "lib"},
		{"case 15: dangling link", func(t *testing.T, f string) { must(t, os.Symlink("/nonexistent", filepath.Join(f, "later.py"))) }, "a symbolic link", "later.py"},
		{"case 15: linked SKILL.md", func(t *testing.T, f string) {
			must(t, os.Rename(filepath.Join(f, "SKILL.md"), filepath.Join(f, "real.md")))
			must(t, os.Symlink("real.md", filepath.Join(f, "SKILL.md")))
		}, "a symbolic link", "SKILL.md"},
		{"case 15: hard link", func(t *testing.T, f string) {
			outside := filepath.Join(t.TempDir(), "x")
			must(t, os.WriteFile(outside, []byte("x"), 0o644))
			must(t, os.Link(outside, filepath.Join(f, "hard.txt")))
		}, "", ""},
		{"pipe", func(t *testing.T, f string) { must(t, syscall.Mkfifo(filepath.Join(f, "pipe"), 0o644)) }, "not a plain file", "pipe"},
		{"socket", func(t *testing.T, f string) {
			l, err := net.Listen("unix", filepath.Join(f, "s"))
			must(t, err)
			t.Cleanup(func() { l.Close() })
		}, "not a plain file", "s"},
		{"set-user-id", func(t *testing.T, f string) { must(t, os.Chmod(filepath.Join(f, "stats.py"), 0o755|os.ModeSetuid)) }, "set-user-id", "stats.py"},
		{"set-group-id", func(t *testing.T, f string) { must(t, os.Chmod(filepath.Join(f, "stats.py"), 0o755|os.ModeSetgid)) }, "set-group-id", "stats.py"},
		{"executable", func(t *testing.T, f string) { must(t, os.Chmod(filepath.Join(f, "stats.py"), 0o755)) }, "", ""},

		// Case 20: what Windows editors do.
		{"case 20: mark before #!", func(t *testing.T, f string) { write(t, f, "stats.py", "\ufeff#!/usr/bin/python3\n") }, "byte-order mark", "stats.py"},
		{"case 20: CRLF after #!", func(t *testing.T, f string) { write(t, f, "run.sh", "#!/bin/bash\r\necho\r\n") }, "#! line ends in CRLF", "run.sh"},
		{"case 20: CRLF in bash", func(t *testing.T, f string) { write(t, f, "run.sh", "echo a\necho b\r\n") }, "bash reads the carriage return", "run.sh"},
		{"case 20: CRLF in Python", func(t *testing.T, f string) { write(t, f, "stats.py", strings.ReplaceAll(goodScript, "\n", "\r\n")) }, "", ""},
		{"case 20: UTF-16 script", func(t *testing.T, f string) { write(t, f, "stats.py", "\xff\xfei\x00") }, "UTF-16", "stats.py"},
		{"case 20: SKILL.md with mark and CRLF", func(t *testing.T, f string) {
			write(t, f, "SKILL.md", "\ufeff---\r\nname: spoilt\r\ndescription: x\r\n---\r\n")
		}, "", ""},
		{"case 20: xray.json with mark", func(t *testing.T, f string) { write(t, f, "xray.json", "\ufeff"+goodXray) }, "", ""},

		{"script is missing", func(t *testing.T, f string) { must(t, os.Remove(filepath.Join(f, "stats.py"))) }, "is not a file of this skill", "xray.json"},
		{"xray.json is broken", func(t *testing.T, f string) { write(t, f, "xray.json", "{") }, "expected a key", "xray.json"},
		{"SKILL.md is missing", func(t *testing.T, f string) { must(t, os.Remove(filepath.Join(f, "SKILL.md"))) }, "the file is missing", "SKILL.md"},
		{"skill.md", func(t *testing.T, f string) {
			must(t, os.Rename(filepath.Join(f, "SKILL.md"), filepath.Join(f, "skill.md")))
		}, "rename skill.md to SKILL.md", "SKILL.md"},
		{"backslash", func(t *testing.T, f string) { write(t, f, `a\b`, "x") }, "backslash", `a\b`},
		{"line feed", func(t *testing.T, f string) { write(t, f, "a\nb", "x") }, "control character", `a\u000ab`},
		{"512 files", func(t *testing.T, f string) {
			for i := range manifests.MaxFiles - 3 {
				write(t, f, fmt.Sprintf("f%d.txt", i), "")
			}
		}, "", ""},
		{"513 files", func(t *testing.T, f string) {
			for i := range manifests.MaxFiles - 2 {
				write(t, f, fmt.Sprintf("f%d.txt", i), "")
			}
		}, "more than 512 files", ""},
		{"more than 16 MiB", func(t *testing.T, f string) { write(t, f, "big.bin", strings.Repeat("x", manifests.MaxSkillBytes)) }, "16 MiB", ""},
		{"folders without end", func(t *testing.T, f string) { write(t, f, strings.Repeat("d/", 17)+"x", "x") }, "folders inside each other", strings.TrimSuffix(strings.Repeat("d/", 16), "/")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeSkill(t, dir, "sound")
			tt.change(t, writeSkill(t, dir, "spoilt"))
			l, findings := build(t, dir)
			if l.Skills["sound"] == nil {
				t.Fatalf("the other skill is gone: %v", findings)
			}
			contents, readErr := manifests.ReadSkill(dir, "spoilt")
			if tt.message == "" {
				if l.Skills["spoilt"] == nil {
					t.Fatalf("refused: %v", findings)
				}
				if readErr != nil || len(contents) != len(l.Skills["spoilt"].Files) {
					t.Errorf("ReadSkill: %d files, %v", len(contents), readErr)
				}
				return
			}
			file := strings.TrimSuffix("spoilt/"+tt.file, "/")
			found := findingsWith(findings, manifests.Error, tt.message)
			if len(found) == 0 || found[0].File != file || found[0].Cure == "" || found[0].Skill != "spoilt" {
				t.Fatalf("got %v, want an error %q in %s", findings, tt.message, file)
			}
			if l.Skills["spoilt"] != nil || l.Disabled["spoilt"].Message == "" {
				t.Errorf("the skill is not disabled with a reason: %v", l.Disabled)
			}
			if _, err := manifests.Encode(l); err != nil {
				t.Errorf("the lock file of the rest: %v", err)
			}
		})
	}
}

// TestCase15LinkedSkillFolders: a linked skill is named, and neither "/skills-evil" nor ".." is below "/skills".
func TestCase15LinkedSkillFolders(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "skills")
	writeSkill(t, dir, "sound")
	writeSkill(t, filepath.Join(top, "skills-evil"), "evil")
	must(t, os.Symlink("../skills-evil/evil", filepath.Join(dir, "evil")))
	must(t, os.Symlink("sound", filepath.Join(dir, "inside")))
	l, findings := build(t, dir)
	if len(findingsWith(findings, manifests.Error, "a symbolic link")) != 2 || l.Disabled["evil"].Message == "" || l.Disabled["inside"].Message == "" || len(l.Skills) != 1 {
		t.Errorf("%v %v", findings, l.Skills)
	}
	for _, name := range []string{"evil", "inside", "../skills-evil/evil", "..", ".", "", "/etc", "sound/../sound"} {
		if _, err := manifests.ReadSkill(dir, name); err == nil {
			t.Errorf("ReadSkill(%q) was allowed", name)
		}
	}
	linked := filepath.Join(top, "linked")
	must(t, os.Symlink("skills", linked))
	if l, _ := build(t, linked); len(l.Skills) != 1 {
		t.Error("the linked root was not read: whoever names it means it")
	}
}

// TestCase15HardLinkIsHashed: content that changes through a hard link changes the hash.
func TestCase15HardLinkIsHashed(t *testing.T) {
	dir := t.TempDir()
	folder := writeSkill(t, dir, "s")
	outside := filepath.Join(t.TempDir(), "x.txt")
	must(t, os.WriteFile(outside, []byte("one"), 0o644))
	must(t, os.Link(outside, filepath.Join(folder, "x.txt")))
	before, _ := build(t, dir)
	must(t, os.WriteFile(outside, []byte("two"), 0o644))
	after, _ := build(t, dir)
	if before.Skills["s"].Files["x.txt"].SHA256 == after.Skills["s"].Files["x.txt"].SHA256 {
		t.Error("the change went unnoticed")
	}
}

func TestShebang(t *testing.T) {
	tests := []struct {
		name, script string
		exec         bool
		want         string // interpreter
		message      string
	}{
		{"absolute", "#!/usr/bin/perl\n", true, "/usr/bin/perl", ""},
		{"not executable", "#!/usr/bin/perl\n", false, "", "not executable"},
		{"no line", "print 1\n", true, "", "no #! line"},
		{"empty line", "#!\n", true, "", "no #! line"},
		{"argument", "#!/usr/bin/perl -w\n", true, "", "without arguments"},
		{"relative", "#!perl\n", true, "", "absolute path"},
		{"not clean", "#!/usr/../bin/perl\n", true, "", "interpreter"},
		{"env", "#!/usr/bin/env python3\n", true, "python3", ""},
		{"env with another", "#!/usr/bin/env perl\n", true, "", "env with python3"},
		{"env with options", "#!/usr/bin/env -S python3 -i\n", true, "", "env with python3"},
		{"space", "#! /bin/sh\n", true, "/bin/sh", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			folder := writeSkill(t, dir, "s")
			write(t, folder, "xray.json", strings.NewReplacer("stats.py", "stats", "\"warm\": true,\n", "").Replace(goodXray))
			write(t, folder, "stats", tt.script)
			if tt.exec {
				must(t, os.Chmod(filepath.Join(folder, "stats"), 0o755))
			}
			l, findings := build(t, dir)
			if tt.message != "" {
				if found := findingsWith(findings, manifests.Error, tt.message); len(found) != 1 || found[0].Line != 6 {
					t.Errorf("got %v, want %q", findings, tt.message)
				}
				return
			}
			if l.Skills["s"] == nil || l.Skills["s"].Scripts["stats"].Interpreter != tt.want {
				t.Errorf("%v", findings)
			}
		})
	}
}

func TestBuildNamesWhatItSees(t *testing.T) {
	dir := t.TempDir()
	folder := writeSkill(t, dir, "s")
	write(t, folder, ".hidden", "x")
	write(t, folder, "SKILL.md", "---\nname: s\ndescription: x\n---\nRun scripts/a.py, scripts/b.py.\n")
	write(t, folder, "scripts/a.py", goodScript)
	write(t, folder, "xray.json", strings.Replace(goodXray, "stats.py", "scripts/a.py", 1))
	l, findings := build(t, dir)
	if l.Skills["s"] == nil || len(findings) != 2 {
		t.Fatalf("%v", findings)
	}
	if len(findingsWith(findings, manifests.Warning, "hidden file")) != 1 || len(findingsWith(findings, manifests.Warning, `"scripts/b.py"`)) != 1 {
		t.Errorf("%v", findings)
	}
}

func TestBuildOfNothing(t *testing.T) {
	if _, _, err := manifests.Build(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that is not there was built")
	}
	l, findings := build(t, t.TempDir())
	if len(findings) > 0 || len(l.Skills) > 0 {
		t.Errorf("%v", findings)
	}
	if _, err := manifests.Encode(l); err != nil {
		t.Error(err)
	}
}

func TestFindingsAreSorted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "a-b"} { // "a-b/…" is before "a/…", the folders are the other way round
		write(t, dir, name+"/SKILL.md", "---\nname: x\nname: y\n---\n")
		write(t, dir, name+"/xray.json", "{}")
	}
	_, findings := build(t, dir)
	sorted := slices.Clone(findings)
	manifests.SortFindings(sorted)
	if diff := cmp.Diff(sorted, findings); diff != "" || findings[0].Skill != "a-b" {
		t.Errorf("%v", findings)
	}
}
