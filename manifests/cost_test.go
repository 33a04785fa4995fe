package manifests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"xrayrunner/manifests"
)

// bombs are folders of skills that cost much when they are read carelessly; message is part of the error that names the fault,
// at the line of SKILL.md (0: the whole file, or the folder).
var bombs = []struct {
	name    string
	skillMD string // "" leaves the sound one
	make    func(folder string) error
	message string
	line    int
}{
	{name: "anchors that multiply", skillMD: head + "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n---\n", message: "anchors and aliases are not read", line: 4},
	{name: "an anchor in itself", skillMD: head + "a: &a [*a]\n---\n", message: "anchors and aliases are not read", line: 4},
	{name: "a merge key", skillMD: head + "a: &a {x: y}\nb: {<<: *a}\n---\n", message: "anchors and aliases are not read", line: 4},
	{name: "brackets without end", skillMD: head + "a: " + strings.Repeat("[", 16_000) + "\n---\n", message: "a value that starts with", line: 4},
	{name: "braces without end", skillMD: head + "a: " + strings.Repeat("{a: ", 4_000) + "\n---\n", message: "a value that starts with", line: 4},
	{name: "steps without end", skillMD: head + steps(100) + "---\n", message: "more than 32 levels", line: 35},
	{name: "keys without end", skillMD: head + keys(1_500) + "x\n---\n", message: "not valid YAML", line: 1504},
	{name: "dashes without end", skillMD: head + "a: " + strings.Repeat("- ", 8_000) + "\n---\n", message: "block sequence entries are not allowed", line: 4},
	{name: "a line of a megabyte", skillMD: head + "a: " + strings.Repeat("x", 1<<20) + "\n---\n", message: "more than 16384 bytes", line: 1},
	{name: "keys without effect", skillMD: "---\nname: other\ndescription: x\n" + keys(1_500) + "---\n", message: "is not the name of the folder", line: 2},
	{name: "an open quote", skillMD: head + "a: \"x\n---\nbody\n", message: "found unexpected end of stream", line: 4},
	{name: "two documents", skillMD: head + "...\nlicense: x\n---\n", message: "is a second document", line: 4},
	{name: "a NUL", skillMD: head + "a: \x00\n---\n", message: "control characters are not allowed", line: 4},
	{name: "Latin-1", skillMD: head + "a: caf\xe9\n---\n", message: "is not UTF-8", line: 4},
	{name: "UTF-16", skillMD: "\xff\xfe-\x00-\x00", message: "UTF-16"},
	{name: "a binary", skillMD: "\x7fELF" + strings.Repeat("\x00\x01\xff", 1000), message: "is not UTF-8", line: 1},
	{name: "a page of HTML", skillMD: "<!DOCTYPE html>\n<html>404</html>\n", message: "the first line is not ---", line: 1},
	{name: "a marker of a merge", skillMD: "---\nname: spoilt\n<<<<<<< HEAD\ndescription: x\n=======\ndescription: y\n>>>>>>> b\n---\n", message: "not valid YAML", line: 3},
	{name: "SKILL.md of a gigabyte", make: func(f string) error { return os.Truncate(filepath.Join(f, "SKILL.md"), 1<<30) }, message: "more than 16 MiB"},
	{name: "SKILL.md is a pipe", make: func(f string) error {
		_ = os.Remove(filepath.Join(f, "SKILL.md"))
		return syscall.Mkfifo(filepath.Join(f, "SKILL.md"), 0o644)
	}, message: "not a plain file"},
	{name: "SKILL.md is a folder", make: func(f string) error {
		_ = os.Remove(filepath.Join(f, "SKILL.md"))
		return os.Mkdir(filepath.Join(f, "SKILL.md"), 0o755)
	}, message: "the file is missing"},
	{name: "SKILL.md is /dev/zero", make: func(f string) error {
		_ = os.Remove(filepath.Join(f, "SKILL.md"))
		return os.Symlink("/dev/zero", filepath.Join(f, "SKILL.md"))
	}, message: "a symbolic link"},
	{name: "data of a terabyte", make: func(f string) error {
		if err := os.WriteFile(filepath.Join(f, "data"), nil, 0o644); err != nil {
			return err
		}
		return os.Truncate(filepath.Join(f, "data"), 1<<40)
	}, message: "more than 16 MiB"},
	{name: "two thousand files", make: func(f string) error {
		for i := range 2000 {
			if err := os.WriteFile(filepath.Join(f, fmt.Sprintf("f%d", i)), nil, 0o644); err != nil {
				return err
			}
		}
		return nil
	}, message: "more than 512 files"},
	{name: "a link to the folder itself", make: func(f string) error { return os.Symlink(".", filepath.Join(f, "again")) }, message: "a symbolic link"},
}

const head = "---\nname: spoilt\ndescription: x\n"

func steps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v\n", i)
	}
	return b.String()
}

// TestBombs: each is named with file, line and cure, hides no other skill, and costs at most 50 ms and 10 MB.
func TestBombs(t *testing.T) {
	var longest time.Duration
	var most uint64
	for _, b := range bombs {
		dir := t.TempDir()
		writeSkill(t, dir, "sound")
		folder := writeSkill(t, dir, "spoilt")
		if b.skillMD != "" {
			write(t, folder, "SKILL.md", b.skillMD)
		}
		if b.make != nil {
			must(t, b.make(folder))
		}
		l, findings := build(t, dir) // the first time is not the measured one: it fills tables that are made once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took := time.Hour
		times := 0
		for ; times < 3 || times < 20 && took > slower*50*time.Millisecond; times++ { // the machine may be busy; what it needs is the least
			began := time.Now()
			build(t, dir)
			took = min(took, time.Since(began))
		}
		runtime.ReadMemStats(&after)
		each := (after.TotalAlloc - before.TotalAlloc) / uint64(times)
		if took > slower*50*time.Millisecond || each > 10<<20 {
			t.Errorf("%s: it costs %v and %d bytes", b.name, took, each)
		}
		longest, most = max(longest, took), max(most, each)
		if l.Skills["sound"] == nil || l.Skills["spoilt"] != nil {
			t.Errorf("%s: registered %v", b.name, l.Skills)
		}
		found := findingsWith(findings, manifests.Error, b.message)
		if len(found) == 0 || found[0].Line != b.line || found[0].Cure == "" || !strings.HasPrefix(found[0].File, "spoilt") {
			t.Errorf("%s: got %v, want an error %q at line %d", b.name, findings, b.message, b.line)
		}
	}
	t.Logf("%d bombs; the most: %v, %d bytes", len(bombs), longest, most)
}
