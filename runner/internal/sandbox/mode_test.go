package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// TestModesOfOthersStay: a script shares the runner's uid, so by the mode bits it may take any of its files away.
func TestModesOfOthersStay(t *testing.T) {
	const text = `
import fcntl, json, os, sys
other = sys.argv[1]
os.chmod(other + "/secret", 0)
fd = os.open("mine", os.O_RDWR | os.O_CREAT, 0o600)
result = {}
try:
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    result["lease"] = 0
except OSError as e:
    result["lease"] = e.errno
os.fchmod(fd, 0o700)
os.chmod("mine", 0o700)
print(json.dumps(result))
`
	arguments := arena(t)
	secret := filepath.Join(arguments[0], "secret")
	for _, c := range []struct {
		name string
		box  *landlocked
		want os.FileMode
	}{
		{"confined", full(t), 0o600},
		{"the control: without seccomp", weaker(t, withoutSeccomp), 0},
	} {
		if err := os.Chmod(secret, 0o600); err != nil {
			t.Fatal(err)
		}
		got := answers(t, c.box, script(t, text, arguments...))
		info, err := os.Stat(secret)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != c.want {
			t.Errorf("%s: mode is %v, want %v", c.name, info.Mode().Perm(), c.want)
		}
		if (got["lease"] != 0) != (c.want == 0o600) {
			t.Errorf("%s: lease answered %d", c.name, got["lease"])
		}
	}
}
