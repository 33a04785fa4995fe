package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestClip(t *testing.T) {
	const limit = 200
	for total := range 2 * limit {
		var text []byte
		for i := range total {
			text = append(text, byte('a'+i%26))
		}
		for _, piece := range []int{1, 7, 1000} {
			c := newClip(limit)
			for rest := text; len(rest) > 0; {
				n := min(piece, len(rest))
				c.write(rest[:n])
				rest = rest[n:]
			}
			got, cut := c.result()
			if total <= limit {
				if cut || !bytes.Equal(got, text) {
					t.Fatalf("%d bytes by %d: cut %t, %q", total, piece, cut, got)
				}
				continue
			}
			half := (limit - maxMark) / 2
			want := fmt.Sprintf("%s\n[... %d bytes cut ...]\n%s", text[:half], total-2*half, text[total-half:])
			if !cut || string(got) != want || len(got) > limit {
				t.Fatalf("%d bytes by %d: cut %t\n got %q\nwant %q", total, piece, cut, got, want)
			}
		}
	}
}

func TestClipWithoutRoom(t *testing.T) {
	c := newClip(3)
	c.write([]byte("abcdef"))
	if got, cut := c.result(); string(got) != "abc" || !cut {
		t.Errorf("got %q, %t", got, cut)
	}
}

func TestReadCapped(t *testing.T) {
	for _, limit := range []int{1, 100, 5000} {
		for _, size := range []int{0, limit - 1, limit, limit + 1, 3 * limit} {
			over := 0
			got := readCapped(bytes.NewReader(make([]byte, size)), limit, func() { over++ })
			if want := size > limit; (over == 1) != want || len(got) != min(size, limit) {
				t.Errorf("%d of %d: %d bytes, over %d times", size, limit, len(got), over)
			}
		}
	}
}

func TestCauseOrder(t *testing.T) {
	limits := Limits{CPU: 2 * time.Second}
	exited := func(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
	killed := func(s syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(s) }
	all := map[Cause]bool{Cancelled: true, Timeout: true}
	for _, test := range []struct {
		name string
		e    ending
		want Cause
	}{
		{"cancelled before all", ending{stopped: all, overflow: true, wait: killed(unix.SIGKILL)}, Cancelled},
		{"timeout before output", ending{stopped: map[Cause]bool{Timeout: true}, overflow: true}, Timeout},
		{"timeout although it exited", ending{stopped: map[Cause]bool{Timeout: true}, wait: exited(0)}, Timeout},
		{"output although it exited", ending{overflow: true, wait: exited(0)}, OutputLimit},
		{"output before cpu", ending{overflow: true, wait: killed(unix.SIGKILL), leader: time.Minute}, OutputLimit},
		{"crowded before cpu", ending{crowded: true, wait: killed(unix.SIGKILL), leader: time.Minute}, ProcessLimit},
		{"memory before cpu and disk", ending{stopped: map[Cause]bool{MemoryLimit: true, CPULimit: true, DiskLimit: true}, crowded: true}, MemoryLimit},
		{"cpu before disk", ending{stopped: map[Cause]bool{CPULimit: true, DiskLimit: true}, crowded: true}, CPULimit},
		{"what it left is over, although it exited", ending{overDisk: true, wait: exited(0)}, DiskLimit},
		{"cpu before what it left", ending{stopped: map[Cause]bool{CPULimit: true}, overDisk: true}, CPULimit},
		{"disk before processes", ending{stopped: map[Cause]bool{DiskLimit: true}, crowded: true}, DiskLimit},
		{"output before memory", ending{stopped: map[Cause]bool{MemoryLimit: true}, overflow: true}, OutputLimit},
		{"the kernel, for memory", ending{wait: killed(unix.SIGKILL), oomKill: func() bool { return true }}, MemoryLimit},
		{"the kernel, for cpu", ending{wait: killed(unix.SIGKILL), leader: time.Minute, oomKill: func() bool { return true }}, CPULimit},
		{"a crash is not memory", ending{wait: killed(unix.SIGSEGV), oomKill: func() bool { return true }}, Signalled},
		{"file size", ending{wait: killed(unix.SIGXFSZ)}, DiskLimit},
		{"cpu", ending{wait: killed(unix.SIGKILL), leader: 1000 * time.Millisecond}, CPULimit},
		{"not cpu", ending{wait: killed(unix.SIGKILL), leader: 999 * time.Millisecond}, Signalled},
		{"exit after much cpu", ending{wait: exited(137), leader: time.Minute}, Exited},
		{"soft cpu", ending{wait: killed(unix.SIGXCPU)}, CPULimit},
		{"blocked", ending{wait: killed(unix.SIGSYS)}, Blocked},
		{"core flag", ending{wait: killed(unix.SIGSYS) | 0x80}, Blocked},
		{"crash", ending{wait: killed(unix.SIGSEGV)}, Signalled},
		{"exit", ending{wait: exited(159)}, Exited},
	} {
		if test.e.oomKill == nil {
			test.e.oomKill = func() bool { return false }
		}
		if got := test.e.cause(limits); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

func TestReport(t *testing.T) {
	record := append([]byte{'R', 0, 0, 0, 0, 7, 0, 0, endCrowded, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 24)...)
	record[16], record[24], record[32] = 1, 2, 3
	ended := &supervised{Tag: [4]byte{'R'}, Wait: 7 << 8, Flags: endCrowded, LeaderCPU: 1, CPU: 2, MaxRSSBytes: 3072}
	for _, test := range []struct {
		name, text string
		want       report
		err        error
	}{
		{"nothing", "", report{}, nil},
		{"ready", "K", report{ready: true}, nil},
		{"ready and ended", "K" + string(record), report{ready: true, ended: ended}, nil},
		{"fault", "Eseccomp 22\n", report{fault: "seccomp: invalid argument (EINVAL)", errno: unix.EINVAL}, nil},
		{"fault with a path", "Eexecve /a b 2\n", report{fault: "execve /a b: no such file or directory (ENOENT)", errno: unix.ENOENT}, nil},
		{"the first fault", "Ea 1\nEb 2\n", report{fault: "a: operation not permitted (EPERM)", errno: unix.EPERM}, nil},
		{"fault without a number", "Ewhat\n", report{fault: "what"}, nil},
		{"half a fault", "Eseccomp", report{}, ErrConfine},
		{"half an end", "K" + string(record[:20]), report{ready: true}, ErrSupervisor},
		{"unknown", "KX", report{ready: true}, ErrConfine},
	} {
		got, err := parseReport([]byte(test.text))
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(report{})); diff != "" || !errors.Is(err, test.err) {
			t.Errorf("%s: %v\n%s", test.name, err, diff)
		}
	}
}

func TestRightsByABI(t *testing.T) {
	for abi, want := range map[int]rights{
		0:  {},
		1:  {fs: 0x1fff},
		2:  {fs: 0x3fff},
		3:  {fs: 0x7fff},
		4:  {fs: 0x7fff, net: 3},
		5:  {fs: 0xffff, net: 3},
		6:  {fs: 0xffff, net: 3, scope: 3},
		8:  {fs: 0xffff, net: 3, scope: 3},
		9:  {fs: 0x1ffff, net: 3, scope: 3},
		10: {fs: 0x1ffff, net: 15, scope: 3},
		99: {fs: 0x1ffff, net: 15, scope: 3},
	} {
		if got := handledBy(abi); got != want {
			t.Errorf("ABI %d: got %+x, want %+x", abi, got, want)
		}
	}
}

func TestCovered(t *testing.T) {
	grants := []grant{{"/usr", read | execute}, {"/etc/ssl", read}}
	for _, test := range []struct {
		path   string
		access uint64
		want   bool
	}{
		{"/usr", read, true},
		{"/usr/bin/x", readFile | execute, true},
		{"/usr2/bin/x", readFile, false},
		{"/etc/ssl/certs", readFile, true},
		{"/etc/ssl/certs", readFile | execute, false},
		{"/etc", readFile, false},
	} {
		if got := covered(grants, test.path, test.access); got != test.want {
			t.Errorf("%s %x: got %t", test.path, test.access, got)
		}
	}
}

func TestShimFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", 0o755)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	if err := CheckProgram(good); err != nil {
		t.Errorf("control: %v", err)
	}
	for name, path := range map[string]string{
		"relative": "shim", "missing": filepath.Join(dir, "none"), "link": link, "folder": dir,
		"not executable": file("plain", 0o644), "others": file("others", 0o757), "group": file("group", 0o775),
		"setuid": file("setuid", 0o755|os.ModeSetuid), "empty": "",
	} {
		if err := CheckProgram(path); !errors.Is(err, ErrProgram) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := New(Config{ShimPath: path}); !errors.Is(err, ErrProgram) {
			t.Errorf("New, %s: got %v", name, err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := CheckProgram(good); !errors.Is(err, ErrProgram) {
		t.Errorf("in a folder that others may write: got %v", err)
	}
}

// A file that is executable and is not the shim: New finds out by trying.
func TestNotTheShim(t *testing.T) {
	needKernel(t)
	if _, err := New(Config{ShimPath: "/usr/bin/true"}); !errors.Is(err, ErrProbe) {
		t.Errorf("got %v", err)
	}
}

func TestRefusedFacts(t *testing.T) {
	before := facts{"a": 0, "b": 13, "c": 0}
	for _, test := range []struct {
		after facts
		name  string
		want  string
	}{
		{facts{"a": 13}, "a", ""},
		{facts{"a": 0}, "a", "was not refused"},
		{facts{"a": 1}, "a", "instead of"},
		{facts{"b": 13}, "b", "cannot be tried"},
		{facts{}, "a", "was not tried"},
		{nil, "a", "was not tried"},
	} {
		got := test.after.refused(before, syscall.EACCES, test.name)
		if (got == why{}) != (test.want == "") || !strings.Contains(got.text, test.want) {
			t.Errorf("%v %s: got %v", test.after, test.name, got)
		}
	}
}

func TestNames(t *testing.T) {
	var p Posture
	p.add("landlock", "7", why{})
	p.add("seccomp", "", why{"seccomp: ENOSYS", unix.ENOSYS})
	p.add("sweep", "", why{})
	if diff := cmp.Diff([]string{"landlock:7", "sweep"}, p.Names()); diff != "" {
		t.Error(diff)
	}
	if p.Layers[1].InForce || p.Layers[1].Reason == "" || p.Layers[1].Errno != "ENOSYS" || p.Layers[1].Cure != cureOf(layerSeccomp, unix.ENOSYS) {
		t.Errorf("got %+v", p.Layers[1])
	}
}

// The peak is what the kernel tells of the program itself, or else what was seen of it.
func TestPeak(t *testing.T) {
	const seen = 5 << 20
	for name, c := range map[string]struct {
		forked bool
		told   int64 // KiB
		want   int64
	}{
		"cold, no more than ours was": {false, 1, seen},
		"cold":                        {false, 1 << 30, 1 << 40},
		"warm":                        {true, 9 << 10, 9 << 20},
		"warm, told less than seen":   {true, 1 << 10, seen},
		"warm, nothing told":          {true, 0, seen},
	} {
		if got := (&run{forked: c.forked}).peak(&syscall.Rusage{Maxrss: c.told}, seen); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
