package sandbox

import (
	"encoding/binary"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestPlanLayout(t *testing.T) {
	p := plan{
		flags: planSeccomp, processes: 1, landlock: rights{1, 2, 3},
		rlimits: []rlimit{{7, 8}}, filters: []unix.SockFilter{{Code: 6, K: 9}}, grants: []grant{{"/usr/lib", 5}, {".", 4}},
	}
	got := p.encode()
	if want := 64 + 16 + 8 + (16 + 16) + (16 + 8); len(got) != want || int(binary.LittleEndian.Uint32(got[12:])) != want {
		t.Fatalf("%d bytes, says %d, want %d", len(got), binary.LittleEndian.Uint32(got[12:]), want)
	}
	if diff := cmp.Diff(planMagic, string(got[:8])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("/usr/lib"+strings.Repeat("\x00", 8), string(got[104:120])); diff != "" {
		t.Error(diff)
	}
}

// TestPlanFlags: each has a bit of its own, and Go and C mean the same by it.
func TestPlanFlags(t *testing.T) {
	header, err := os.ReadFile("shim/shim.h")
	if err != nil {
		t.Fatal(err)
	}
	bits := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\tPLAN_(\w+) = 1 << (\d+),`).FindAllStringSubmatch(string(header), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		bits[m[1]] = 1 << n
	}
	want := map[string]int{
		"OOM": planOOM, "LANDLOCK": planLandlock, "SECCOMP": planSeccomp, "SUPERVISE": planSupervise,
		"CGROUP": planCgroup, "JAIL": planJail, "CELL": planCell, "FORK": planFork, "NO_PROC": planNoProc,
	}
	if diff := cmp.Diff(want, bits); diff != "" {
		t.Errorf("-plan.go +shim.h:\n%s", diff)
	}
	all := 0
	for name, bit := range bits {
		if all&bit != 0 {
			t.Errorf("%s has the bit of another", name)
		}
		all |= bit
		if !regexp.MustCompile(`PLAN_KNOWN = .*PLAN_` + name + `\b`).Match(header) {
			t.Errorf("%s is not in PLAN_KNOWN", name)
		}
	}
}

// startWith runs the shim with these bytes as its plan and returns what it reported.
func startWith(t *testing.T, content []byte, seal bool) string {
	t.Helper()
	file, err := sealed("test", content)
	if !seal {
		var fd int
		fd, err = unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		file = os.NewFile(uintptr(fd), "test")
		if err == nil {
			_, err = file.Write(content)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	spec := base(t, "/bin/true")
	process, err := start(os.Getenv(envShim), spec, []*os.File{null, null, null, file, writer}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	told, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	state, err := process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if code := state.Sys().(syscall.WaitStatus).ExitStatus(); (code == 0) != (string(told) == "K") {
		t.Errorf("exit %d with status %q", code, told)
	}
	return string(told)
}

// Any oddity ends the run before the program. The first row is the control: the same plan unharmed.
func TestShimRefusesOddPlans(t *testing.T) {
	s := full(t)
	p, err := s.force.planFor(base(t, "/bin/true"))
	if err != nil {
		t.Fatal(err)
	}
	good := p.encode()
	put32 := func(at int, value uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], value); return b }
	}
	firstPath := 64 + 16*len(p.rlimits) + 8*len(p.filters)
	for name, test := range map[string]struct {
		change func([]byte) []byte
		want   string
	}{
		"unharmed":         {func(b []byte) []byte { return b }, "K"},
		"empty":            {func([]byte) []byte { return nil }, "Eplan size"},
		"header only":      {func(b []byte) []byte { return b[:63] }, "Eplan size"},
		"huge":             {func(b []byte) []byte { return append(b, make([]byte, 70000)...) }, "Eplan size"},
		"magic":            {func(b []byte) []byte { b[0] = 'Y'; return b }, "Eplan version"},
		"version":          {put32(8, 2), "Eplan version"},
		"size":             {put32(12, uint32(len(good)-8)), "Eplan header"},
		"unknown flag":     {put32(16, p.flags|1<<9), "Eplan header"},
		"no processes":     {put32(20, 0), "Eplan processes"},
		"rlimit count":     {put32(48, 0x10000000), "Eplan truncated"},
		"filter count":     {put32(52, 0xffffffff), "Eplan truncated"},
		"no filters":       {put32(52, 0), "Eplan"},
		"path count":       {put32(56, uint32(len(p.grants)+1)), "Eplan truncated"},
		"one path less":    {put32(56, uint32(len(p.grants)-1)), "Eplan trailing"},
		"reserved":         {put32(60, 1), "Eplan header"},
		"path length":      {put32(firstPath+8, 0xfffffff8), "Eplan truncated"},
		"no path":          {put32(firstPath+8, 0), "Eplan path"},
		"relative path":    {func(b []byte) []byte { b[firstPath+16] = 'x'; return b }, "Eplan relative"},
		"cut":              {func(b []byte) []byte { return put32(12, uint32(len(b)-8))(b[:len(b)-8]) }, "Eplan truncated"},
		"seccomp not said": {put32(16, p.flags&^planSeccomp), "Eplan filters"},
	} {
		if got := startWith(t, test.change([]byte(string(good))), true); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	if got := startWith(t, good, false); !strings.HasPrefix(got, "Eplan seals") {
		t.Errorf("unsealed: got %q", got)
	}
}

// A layer that the plan expects and that cannot be put on ends the run: it is never left out.
func TestMissingLayerEndsTheRun(t *testing.T) {
	s := full(t)
	for name, test := range map[string]struct {
		change func(*plan)
		want   string
	}{
		"unknown right": {func(p *plan) { p.landlock.fs |= 1 << 60 }, "Elandlock_create_ruleset"},
		"lost path":     {func(p *plan) { p.grants[0].path = "/gone" }, "Elandlock_open /gone"},
		"bad filter":    {func(p *plan) { p.filters = p.filters[:len(p.filters)-1] }, "Eseccomp"},
		"weak filter":   {func(p *plan) { p.filters = []unix.SockFilter{give(allow)} }, "Eread_back seccomp"},
		"all granted":   {func(p *plan) { p.grants = append(p.grants, grant{"/", read}) }, "Eread_back landlock"},
		"bad rlimit":    {func(p *plan) { p.rlimits[0].resource = 99 }, "Egetrlimit"},
	} {
		p, err := s.force.planFor(base(t, "/bin/true"))
		if err != nil {
			t.Fatal(err)
		}
		test.change(&p)
		if got := startWith(t, p.encode(), true); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
