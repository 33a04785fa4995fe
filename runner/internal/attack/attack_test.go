package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"xrayrunner/internal/nstest"
	"xrayrunner/runner/internal/jail"
	"xrayrunner/runner/internal/sandbox"
)

const python3 = "/usr/bin/python3"

// boxes are the sandbox on this kernel or an older one, and the same without protection.
func boxes(t testing.TB, abi int) (box, bare sandbox.Sandbox) {
	t.Helper()
	nstest.Need(t)
	box, err := sandbox.New(sandbox.Config{ShimPath: nstest.Shim(), LandlockABI: abi})
	if err != nil {
		t.Fatal(err)
	}
	if bare, err = sandbox.Unconfined(box); err != nil {
		t.Fatal(err)
	}
	return box, bare
}

func place(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "xray-place-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// byThisMachine are controls that this machine refuses by itself, so that they prove nothing on it.
var byThisMachine = map[string]string{
	"kernel/foreign-gate": "not every virtual machine has int 0x80",
}

// Nothing gets through: as it is, and as on Debian 12 and Ubuntu 24.04. Every control does.
func TestNothingGetsThrough(t *testing.T) {
	for name, abi := range map[string]int{"this kernel": 0, "Debian 12 (6.1)": 2, "Ubuntu 24.04 (6.8)": 4} {
		t.Run(name, func(t *testing.T) {
			box, bare := boxes(t, abi)
			cfg := Config{Box: box, Bare: bare, Dir: place(t), Python: python3}
			table := Table
			if abi != 0 {
				cfg.Bare = nil // the controls are the same
			}
			if abi == 4 { // what Landlock has to do with: 6.1 lacks all that 6.8 lacks, and is tried with everything
				table = groups("files", "processes", "network", "own", "leftovers")
			}
			report, err := run(t.Context(), cfg, table)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.Results {
				if r.Verdict == Succeeded || r.Verdict == Elsewhere && byThisMachine[r.ID] == "" {
					t.Errorf("%+v", r)
				}
			}
			if report.Attacks < 60 || report.Open > 3 || !report.Holds() {
				t.Errorf("%d attacks, %d open, left %q", report.Attacks, report.Open, report.Left)
			}
			t.Logf("%d attacks, %d succeeded, %d open, %d refused elsewhere; layers %v", report.Attacks, report.Succeeded, report.Open, report.Elsewhere, report.Layers)
		})
	}
}

// Nothing gets through from a fork of a cell either, nor back into the cell. The controls are those of the cold attempts,
// and so are the limits, which are the same code and take most of the time (sandbox: TestSameLimits).
func TestNothingGetsThroughWarm(t *testing.T) {
	for tier, box := range map[sandbox.Tier]func(testing.TB) sandbox.Sandbox{
		sandbox.TierLandlock: func(t testing.TB) sandbox.Sandbox { box, _ := boxes(t, 0); return box }, sandbox.TierNamespaces: jailed,
	} {
		t.Run(string(tier), func(t *testing.T) { nothingGetsThroughWarm(t, box(t)) })
	}
}

func jailed(t testing.TB) sandbox.Sandbox {
	t.Helper()
	nstest.Need(t)
	box, err := sandbox.New(sandbox.Config{ShimPath: nstest.Shim(), ProbeDir: t.TempDir(), Jail: jail.New(t.TempDir(), nstest.Shim()+".jail").Open})
	if err != nil {
		t.Fatal(err)
	}
	if box.Posture().Tier != sandbox.TierNamespaces {
		t.Fatalf("%+v", box.Posture())
	}
	return box
}

func nothingGetsThroughWarm(t *testing.T, box sandbox.Sandbox) {
	table := groups("files", "processes", "network", "own", "leftovers", "ipc", "kernel", "manifest", "secrets", "output")
	report, err := run(t.Context(), Config{Box: box, Dir: place(t), Python: python3, Cells: func(root string) (*sandbox.Cells, error) {
		return sandbox.WithCells(box, sandbox.CellConfig{
			Library: nstest.Shim() + ".so", Root: root, Budget: 1 << 30, Log: func(message string, more ...any) { t.Log(message, more) },
		})
	}}, table)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Verdict == Succeeded {
			t.Errorf("%+v", r)
		}
	}
	if report.Warm < 100 || report.Open > 3 || !report.Holds() {
		t.Errorf("%d of %d attacks warm, %d open, left %q", report.Warm, report.Attacks, report.Open, report.Left)
	}
	t.Logf("%d attacks, %d of them warm, %d succeeded, %d open", report.Attacks, report.Warm, report.Succeeded, report.Open)
}

// With the protections off the campaign must find that out: its own control.
func TestBareIsFoundOut(t *testing.T) {
	_, bare := boxes(t, 0)
	// Not the groups of limits and of the sweep: those are not taken off, only the layers.
	table := groups("files", "processes", "network", "ipc", "kernel", "secrets", "own", "manifest")
	report, err := run(t.Context(), Config{Box: bare, Dir: place(t), Python: python3}, table)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Verdict != Succeeded && r.Verdict != Open && byThisMachine[r.ID] == "" {
			t.Errorf("not found out: %+v", r)
		}
	}
	if report.Holds() || report.Succeeded < 60 {
		t.Errorf("%d of %d succeeded", report.Succeeded, report.Attacks)
	}
}

func groups(names ...string) []Attack {
	var out []Attack
	for _, a := range Table {
		if slices.Contains(names, a.Group) {
			out = append(out, a)
		}
	}
	return out
}

var function = regexp.MustCompile(`(?m)^def (\w+)\(\):`)

// Every row has its function and every function its row; ids are unique and the groups are the contract's.
func TestTableAndScripts(t *testing.T) {
	rows := map[string]bool{}
	for _, a := range Table {
		if rows[a.ID()] || a.Tries == "" {
			t.Errorf("%s: twice, or says nothing", a.ID())
		}
		rows[a.ID()] = true
	}
	files, err := filepath.Glob("scripts/*.py")
	if err != nil || len(files) == 0 {
		// In the tests' own namespaces the working folder is that of the package too.
		t.Fatal(files, err)
	}
	found := 0
	for _, file := range files {
		group := strings.TrimSuffix(filepath.Base(file), ".py")
		if group == "prelude" || group == "neighbour" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			found++
			if id := group + "/" + strings.ReplaceAll(m[1], "_", "-"); !rows[id] {
				t.Errorf("%s has no row", id)
			}
		}
	}
	if found != len(rows) {
		t.Errorf("%d functions, %d rows", found, len(rows))
	}
	if testing.Verbose() {
		fmt.Println(len(rows), "attacks")
	}
}

// A process that is always another one is found every time when it is left, or its control would prove nothing and it
// would be held against the next attack.
func TestHoppersAreFound(t *testing.T) {
	box, bare := boxes(t, 0)
	c := &campaign{Config: Config{Box: box, Bare: bare, Dir: place(t), Python: python3}}
	var err error
	if c.arena, err = newArena(c.Dir); err != nil {
		t.Fatal(err)
	}
	defer c.arena.close()
	table := groups("leftovers")
	hopping := table[slices.IndexFunc(table, func(a Attack) bool { return a.Name == "hopping" })]
	for round := range 5 {
		r, err := c.attack(t.Context(), hopping)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != Held || len(c.processes()) != 0 {
			t.Fatalf("round %d: %+v", round, r)
		}
	}
	if err := c.neighbour.close(); err != nil {
		t.Error(err)
	}
}
