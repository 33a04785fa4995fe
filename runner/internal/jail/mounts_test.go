package jail_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/internal/nstest"
	"xrayrunner/runner/internal/sandbox"
)

// grope tries what a script of one skill may try on its folders and on another skill's; 0 is success.
const grope = `
import json, os
def try_(f, *a):
    try:
        r = f(*a)
        return r if isinstance(r, str) else 0
    except OSError as e:
        return e.errno
def read(path):
    with open(path) as f: return f.read()
def write(path):
    with open(path, "a") as f: f.write("x")
def execute(path):
    os.execv(path, [path])
def make(path):
    with open(path, "w") as f: f.write("#!/bin/sh\necho '{}'\n")
own, other = "mounts/own", OTHER
print(json.dumps({
    "read": try_(read, own + "/file"), "append": try_(write, own + "/file"), "create": try_(make, own + "/new"), "mkdir": try_(os.mkdir, own + "/folder"),
    "rename": try_(os.rename, own + "/file", own + "/renamed"), "unlink": try_(os.unlink, own + "/gone"), "run": try_(execute, own + "/program"),
    "link out": try_(read, own + "/out"), "up and over": try_(read, own + "/../other/file"),
    "other: see": try_(os.stat, other), "other: list": try_(os.listdir, other), "other: read": try_(read, other + "/file"), "other: make": try_(os.mkdir, other + "/x"),
}))
`

const (
	enoent = 2
	eacces = 13
	erofs  = 30
)

// mounted is a folder of each of two skills, and what the operator has beside them.
func mounted(t *testing.T) (own, other string) {
	t.Helper()
	base := t.TempDir()
	for name, text := range map[string]string{"own/file": "mine", "own/gone": "", "own/program": "#!/bin/true\n", "other/file": "theirs", "secret": "secret"} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "secret"), filepath.Join(base, "own/out")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "own"), filepath.Join(base, "other")
}

// TestMounts: a run sees its own folder, in the mode that it was granted, in both tiers; a link out of it leads nowhere; the
// folder of another skill, whose run is beside it, cannot be reached. In a jail it is not even there.
func TestMounts(t *testing.T) {
	for tier, c := range map[string]struct {
		box       sandbox.Sandbox
		hidden    any // what is not granted: not there, or refused
		seen      any // stat, which Landlock does not check
		unmakable any // a name in a folder that is for reading
	}{
		"landlock":   {plain(t), float64(eacces), float64(0), float64(eacces)},
		"namespaces": {open(t), float64(enoent), float64(enoent), float64(erofs)},
	} {
		own, other := mounted(t)
		work := t.TempDir() // one for all runs, as a runner has it: what keeps their jails apart is what they are granted
		try := func(readable, writable []string) (map[string]any, sandbox.Exit) {
			s := spec(t, work, strings.ReplaceAll(grope, "OTHER", `"`+other+`"`))
			s.Readable, s.Writable, s.Links = readable, writable, []sandbox.Link{{Name: "own", To: own}}
			exit := run(t, c.box, s)
			var got map[string]any
			if err := json.Unmarshal(exit.Stdout, &got); err != nil {
				t.Fatalf("%s: %v in %q; %+v", tier, err, exit.Stdout, exit)
			}
			return got, exit
		}
		for _, writes := range []bool{false, true} { // before and beside our own: a jail of the one must not be the other's
			if exit := run(t, c.box, neighbour(t, work, other, writes)); string(exit.Stdout) != "theirs\n" {
				t.Errorf("%s: the neighbour has read %q; %s", tier, exit.Stdout, exit.Stderr)
			}
		}
		outside := map[string]any{"link out": c.hidden, "up and over": c.hidden, "other: see": c.seen, "other: list": c.hidden, "other: read": c.hidden,
			"other: make": c.hidden, "run": float64(eacces)}
		ro := map[string]any{"read": "mine", "append": float64(eacces), "create": float64(eacces), "mkdir": c.unmakable, "rename": c.unmakable, "unlink": c.unmakable}
		if tier == "namespaces" {
			ro["append"], ro["create"] = float64(erofs), float64(erofs)
		}
		rw := map[string]any{"read": "mine", "append": float64(0), "create": float64(0), "mkdir": float64(0), "rename": float64(0), "unlink": float64(0)}
		maps.Copy(ro, outside)
		maps.Copy(rw, outside)
		got, _ := try([]string{own}, nil)
		if diff := cmp.Diff(ro, got); diff != "" {
			t.Errorf("%s, for reading (-want +got)\n%s", tier, diff)
		}
		if text, err := os.ReadFile(filepath.Join(own, "file")); err != nil || string(text) != "mine" {
			t.Errorf("%s: a run that only reads has left %q (%v)", tier, text, err)
		}
		got, _ = try(nil, []string{own})
		if diff := cmp.Diff(rw, got); diff != "" {
			t.Errorf("%s, for writing (-want +got)\n%s", tier, diff)
		}
		if text, err := os.ReadFile(filepath.Join(own, "renamed")); err != nil || string(text) != "minex" {
			t.Errorf("%s: %q (%v)", tier, text, err)
		}
	}
}

// neighbour is a run of the skill that has the other folder.
func neighbour(t *testing.T, work, folder string, writes bool) sandbox.Spec {
	s := spec(t, work, "print(open('mounts/own/file').read())")
	s.Env = nil // as an external skill's may be: the links come after it
	s.Readable, s.Links = []string{folder}, []sandbox.Link{{Name: "own", To: folder}}
	if writes {
		s.Readable, s.Writable = nil, s.Readable
	}
	return s
}

// plain is the tier below.
func plain(t testing.TB) sandbox.Sandbox {
	t.Helper()
	nstest.Need(t)
	box, err := sandbox.New(sandbox.Config{ShimPath: nstest.Shim(), ProbeDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return box
}
