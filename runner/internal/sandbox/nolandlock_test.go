package sandbox

import "testing"

// TestJailWithoutLandlock: where the kernel has none (gVisor), namespaces alone keep a run from /proc and its folder in its
// place, cold and warm. The control is the same without that.
func TestJailWithoutLandlock(t *testing.T) {
	const text = `
import os
def attempt(f, *a):
    try: return f(*a) or "done"
    except OSError as e: return e.strerror
here = os.getcwd()
print(attempt(os.listdir, "/proc"), attempt(open, "/proc/self/status"), attempt(os.rename, here, here + "2"))
`
	const held = "Permission denied Permission denied Device or resource busy\n"
	for name, noProc := range map[string]bool{"held": true, "control": false} {
		t.Run(name, func(t *testing.T) {
			cold := jailed(t)
			cold.force.landlock, cold.force.noProc = rights{}, noProc
			w := warmBoxOn(t, cold)
			s := w.spec(t, text)
			one, two := w.both(t, s)
			for _, exit := range []Exit{one, two} {
				if got := string(exit.Stdout); (got == held) != noProc {
					t.Errorf("%q %s", got, exit.Stderr)
				}
			}
		})
	}
}
