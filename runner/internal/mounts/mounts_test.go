package mounts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xrayrunner/manifests"
	"xrayrunner/runner/internal/mounts"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a=/x:ro": "", "a=/x:ro, b=/y:rw": "", "a=/x": "write name=", "/x:ro": "write name=", "a=x:ro": "absolute", "a=/x/../y:ro": "clean",
		"A=/x:ro": "a name is", "=/x:ro": "a name is", "a=/x:rwx": "not ro or rw", "a=/x:ro,a=/y:ro": "twice", "a=/x:ro,": "write name=", "a=/x/:ro": "clean",
	} {
		_, err := mounts.Parse(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestResolve: what would let a run see more than its folder is refused at the start.
func TestResolve(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a/in", "b", "a-look-alike", "own/inside"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "b", "to-own": "own"} {
		if err := os.Symlink(filepath.Join(base, to), filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"a=B/a:ro,b=B/b:rw":            "",
		"a=B/a:ro,b=B/a-look-alike:ro": "", // a longer name is not inside
		"a=B/link:ro":                  "",
		"a=B/a:ro,b=B/a/in:ro":         "overlap",
		"a=B/b:ro,b=B/link:ro":         "overlap",
		"a=B/none:ro":                  "no such file",
		"a=B/file:ro":                  "not a folder",
		"a=/:ro":                       "the system's",
		"a=/etc:ro":                    "the system's",
		"a=/proc/self:ro":              "the system's",
		"a=/usr/share:ro":              "the system's",
		"a=/bin:ro":                    "the system's",
		"a=B/own:ro":                   "the runner's own",
		"a=B/own/inside:ro":            "the runner's own",
		"a=B/to-own:ro":                "the runner's own",
		"a=B:ro":                       "the runner's own",
	} {
		table, err := mounts.Parse(strings.ReplaceAll(text, "B", base))
		if err != nil {
			t.Fatal(err)
		}
		_, err = table.Resolve([]string{filepath.Join(base, "own")})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestGranted: a skill has what it names, in the mode that it names, and only when the operator gives that.
func TestGranted(t *testing.T) {
	table := mounts.Table{"cache": {Path: "/c", Writable: true}, "logs": {Path: "/l"}}
	for _, c := range []struct {
		name, mode, missing, read, write string
	}{
		{"cache", manifests.MountWrite, "", "", "/c"}, {"cache", manifests.MountRead, "", "/c", ""}, {"logs", manifests.MountRead, "", "/l", ""},
		{"logs", manifests.MountWrite, "for reading only", "/l", ""}, {"none", manifests.MountRead, "does not give", "", ""},
	} {
		list := []manifests.Mount{{Name: c.name, Mode: c.mode}}
		if why := table.Missing(list); (why == "") != (c.missing == "") || !strings.Contains(why, c.missing) {
			t.Errorf("%+v: %q", c, why)
		}
		if read, write := table.Paths(list, manifests.Safe); len(write) > 0 || len(read) != 1 {
			t.Errorf("%+v: a safe run may write to %v and read %v", c, write, read)
		}
		read, write := table.Paths(list, manifests.Mutating)
		if strings.Join(read, " ") != c.read || strings.Join(write, " ") != c.write {
			t.Errorf("%+v: %v %v", c, read, write)
		}
	}
	if why := table.Missing(nil); why != "" {
		t.Error(why)
	}
}
