package sandbox

import "testing"

// TestMountIsNoProgram: whoever may write into a folder must not be able to run what he wrote.
func TestMountIsNoProgram(t *testing.T) {
	f := inForce{landlock: handledBy(7)}
	grants, err := f.grantsFor(Spec{Argv: []string{"/usr/bin/env"}, Writable: []string{"/var/tmp"}, Readable: []string{"/usr/share"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range grants {
		if g.path == "/var/tmp" || g.path == "/usr/share" {
			seen++
			if g.access&execute != 0 || g.access&never != 0 {
				t.Errorf("%s is granted %x", g.path, g.access)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d of 2 mounts are granted", seen)
	}
}

// TestFoldersStartCold: all forks of a cell have what the cell has, so a run with folders of its own is none of them.
func TestFoldersStartCold(t *testing.T) {
	warm := Spec{Warm: &Warm{}, Argv: append(append([]string{"/usr/bin/python3"}, pythonFlags...), "/x.py"), Limits: Limits{Processes: 1, Interpreter: Python}}
	if !warm.forkable() {
		t.Fatal("the base is not forkable")
	}
	for name, change := range map[string]func(*Spec){
		"a folder to write to": func(s *Spec) { s.Writable = []string{"/srv"} },
		"a folder by a link":   func(s *Spec) { s.Links = []Link{{"cache", "/srv"}} },
	} {
		spec := warm
		if change(&spec); spec.forkable() {
			t.Errorf("%s: forked", name)
		}
	}
}
