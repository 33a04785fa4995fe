package jail_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/internal/nstest"
	"xrayrunner/runner/internal/jail"
	"xrayrunner/runner/internal/sandbox"
)

// held are the descriptors of the process in the youngest jail, and what each is.
func held(t *testing.T) []string {
	t.Helper()
	pids, what := processes(t)
	youngest := 0
	for i, line := range what {
		if strings.HasSuffix(line, "--jail ") {
			youngest = max(youngest, pids[i])
		}
	}
	dir := filepath.Join("/proc", strconv.Itoa(youngest), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		to, _ := os.Readlink(filepath.Join(dir, entry.Name()))
		kind, _, _ := strings.Cut(to, ":")
		all = append(all, entry.Name()+" "+kind)
	}
	return all
}

// A jail is the same whichever program was its init, and the copy of xray-jail is not left in it.
func TestBothPrograms(t *testing.T) {
	nstest.Need(t)
	inJail := map[string][]string{}
	for name, path := range map[string]string{"this program": "", "xray-jail": program()} {
		box, err := sandbox.New(sandbox.Config{ShimPath: nstest.Shim(), ProbeDir: t.TempDir(), Jail: jail.New(t.TempDir(), path).Open})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if exit := run(t, box, spec(t, t.TempDir(), "print(1)")); string(exit.Stdout) != "1\n" {
			t.Errorf("%s: %+v", name, exit)
		}
		inJail[name] = held(t)
	}
	if diff := cmp.Diff(inJail["this program"], inJail["xray-jail"]); diff != "" {
		t.Errorf("descriptors in the jail:\n%s", diff)
	}
}

// What is passed is what becomes the init: no other program makes a jail, and ours does not do it in its place.
func TestNotXrayJail(t *testing.T) {
	nstest.Need(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.WriteFile(open, nil, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/nowhere/xray-jail": "/nowhere/xray-jail: no such file",
		open:                 "open is writable by others",
		text:                 "run: unable to start container process",
		"/bin/true":          "run: unable to start container process",
	} {
		before := countJails(t)
		made, err := jail.New(t.TempDir(), path).Open(small(t))
		if err == nil {
			t.Errorf("%s: a jail was made", path)
			_ = made.Close()
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, without %q", path, err, want)
		}
		if after := countJails(t); after > before {
			t.Errorf("%s: %d jails, then %d", path, before, after)
		}
	}
}

// small is a jail that has what its own process needs.
func small(t *testing.T) sandbox.JailSpec {
	return sandbox.JailSpec{Shim: nstest.Shim(), Paths: []string{"/dev/null", nstest.Shim()}, Folders: t.TempDir()}
}
