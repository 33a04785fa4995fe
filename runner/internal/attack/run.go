package attack

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"xrayrunner/runner/internal/sandbox"
)

//go:embed scripts
var scripts embed.FS

// Config of Run.
type Config struct {
	Box    sandbox.Sandbox
	Bare   sandbox.Sandbox // the same without protection, for the controls; nil: no controls
	Dir    string          // where the arena is made; no run may see it
	Python string          // the interpreter
	Each   func(Result)    // told of each as it is done; may be nil
	// Cells makes the sandbox's attempts by one process from cells; nil: they start cold.
	Cells func(root string) (*sandbox.Cells, error)
}

// campaign is one pass over Table.
type campaign struct {
	Config
	arena     *arena
	neighbour *neighbour
	cells     *sandbox.Cells // nil without Config.Cells
	warm      int            // attempts that were
	ended     map[int]bool   // processes that had ended when they were looked at, and were there still
}

// Run makes every attack, one after the other, and their controls.
func Run(ctx context.Context, cfg Config) (Report, error) { return run(ctx, cfg, Table) }

func run(ctx context.Context, cfg Config, table []Attack) (report Report, err error) {
	descriptors := openDescriptors()
	c := &campaign{Config: cfg}
	if c.arena, err = newArena(cfg.Dir); err != nil {
		return report, err
	}
	defer c.arena.close()
	if cfg.Cells != nil {
		if c.cells, err = cfg.Cells(c.arena.runs()); err != nil {
			return report, err
		}
	}
	report.Layers = cfg.Box.Posture().Names()
	for _, a := range table {
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		one, err := c.attack(ctx, a)
		if err != nil {
			return report, fmt.Errorf("%s: %w", a.ID(), err)
		}
		report.add(one)
		if cfg.Each != nil {
			cfg.Each(one)
		}
	}
	if c.neighbour != nil {
		err = c.neighbour.close()
	}
	if c.cells != nil {
		err = errors.Join(err, c.cells.Close())
	}
	report.Warm = c.warm
	report.Left = c.left()
	c.arena.close()
	// Plans are kept for later runs, one descriptor each (sandbox: planCache); a leak would be one for every run.
	if now := openDescriptors(); now > descriptors+plansKept {
		report.Left = append(report.Left, fmt.Sprintf("%d descriptors more than before", now-descriptors))
	}
	return report, err
}

// plansKept is more than the distinct plans that the attacks make.
const plansKept = 24

// loose are the limits of a run whose limits are not the point, and of a control.
func loose() sandbox.Limits {
	return sandbox.Limits{
		Wall: 30 * time.Second, CPU: 30 * time.Second, MemoryBytes: 256 * mib, FileBytes: 2048 * mib, DiskBytes: 64 * mib,
		DiskFiles: 4096, OpenFiles: 64, Processes: 1, StdoutBytes: 64 << 10, StderrBytes: 16 << 10, Interpreter: sandbox.Python,
	}
}

func (c *campaign) attack(ctx context.Context, a Attack) (Result, error) {
	r := Result{ID: a.ID(), Group: a.Group, Tries: a.Tries, Case: a.Case}
	limits := loose()
	limits.Processes = max(1, a.Processes)
	if a.Limits != nil {
		a.Limits(&limits)
	}
	tried, err := c.attempt(ctx, c.Box, a, limits)
	if err != nil {
		return r, err
	}
	r.Seen, r.Harm = tried.seen, strings.Join(tried.harm, "; ")
	through := a.through(tried)
	if a.Summed && !c.sums() {
		a.Open = "nothing adds up what several processes use on this host: the layers watch and cgroup are missing"
	}
	if c.Bare == nil {
		r.Verdict = a.verdict(through, true)
		return r, nil
	}
	// Without the filter a fork needs no declaration; with one process nothing counts them and nothing sweeps.
	limits = loose()
	limits.StdoutBytes = mib
	control, err := c.attempt(ctx, c.Bare, a, limits)
	if err != nil {
		return r, err
	}
	r.Control = control.seen
	if a.ByHarm {
		r.Control = strings.Join(control.harm, "; ")
	}
	r.Verdict = a.verdict(through, a.through(control))
	return r, nil
}

func (c *campaign) sums() bool {
	return slices.ContainsFunc(c.Box.Posture().Layers, func(l sandbox.Layer) bool { return l.InForce && (l.Name == "watch" || l.Name == "cgroup") })
}

func (a Attack) verdict(through, control bool) Verdict {
	switch {
	case through && a.Open != "":
		return Open
	case through:
		return Succeeded
	case !control:
		return Elsewhere
	}
	return Held
}

// attempt is what one run of an attack met and did.
type attempt struct {
	cause sandbox.Cause
	got   bool
	seen  string
	harm  []string
}

// through reports whether an attack got what it tried. Harm counts whatever it says itself.
func (a Attack) through(t attempt) bool {
	switch {
	case len(t.harm) > 0:
		return true
	case a.ByHarm:
		return false
	case len(a.Ends) > 0:
		return !slices.Contains(a.Ends, t.cause) && (t.cause != sandbox.Exited || t.got)
	}
	return t.got
}

func (c *campaign) attempt(ctx context.Context, box sandbox.Sandbox, a Attack, limits sandbox.Limits) (attempt, error) {
	if err := errors.Join(c.arena.layOut(), c.awaken(ctx)); err != nil {
		return attempt{}, err
	}
	before := c.arena.state()
	dir, err := os.MkdirTemp(c.arena.runs(), "run-")
	if err != nil {
		return attempt{}, err
	}
	argv, err := c.argv(a)
	if err != nil {
		return attempt{}, err
	}
	spec := sandbox.Spec{
		Argv: argv, Dir: dir, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Readable: []string{c.arena.path("skill")}, Limits: limits,
	}
	cell := 0
	if c.cells != nil && box == c.Box && limits.Processes == 1 {
		box, spec = c.cells, c.fromCell(spec)
		if err := c.cells.Prepare(spec); err != nil {
			return attempt{}, err
		}
		cell = c.cells.CellPID(cellOfAttacks)
	}
	exit, err := box.Run(ctx, spec)
	if err != nil {
		return attempt{}, err
	}
	t := describe(exit)
	if cell != 0 {
		c.cells.Settle() // the next fork is made after a run, of what the next attempt changes
		t.harm = append(t.harm, c.cellHarm(exit, cell)...)
	}
	t.harm = append(append(t.harm, c.processes()...), c.arena.harm(before)...)
	if did := c.neighbour.ask(); did != "" {
		t.harm = append(t.harm, "the other run: "+did)
	}
	return t, remove(dir)
}

// remove takes back what a control did to the modes in its folder; the runner's own way is execute's removeAll.
func remove(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error { return os.Chmod(path, 0o700) })
	return os.RemoveAll(dir)
}

// awaken starts the neighbour, again when a control has ended it.
func (c *campaign) awaken(ctx context.Context) (err error) {
	if c.neighbour != nil {
		select {
		case exit := <-c.neighbour.ended:
			c.neighbour.ended <- exit
			err = c.neighbour.close()
		default:
			return nil
		}
	}
	if err == nil {
		c.neighbour, err = newNeighbour(ctx, c.Box, c.Python, c.arena.runs(), c.arena.marker)
	}
	return err
}

func (c *campaign) argv(a Attack) ([]string, error) {
	prelude, err := scripts.ReadFile("scripts/prelude.py")
	if err != nil {
		return nil, err
	}
	group, err := scripts.ReadFile("scripts/" + a.Group + ".py")
	if err != nil {
		return nil, err
	}
	aims, err := json.Marshal(c.arena.aims(c.neighbour))
	if err != nil {
		return nil, err
	}
	text := string(prelude) + string(group) + "\nmain(globals())\n"
	return []string{c.Python, "-I", "-S", "-B", "-c", text, strings.ReplaceAll(a.Name, "-", "_"), string(aims)}, nil
}

func describe(exit sandbox.Exit) attempt {
	t := attempt{cause: exit.Cause}
	var answer struct {
		Got  *string `json:"got"`
		Seen string  `json:"seen"`
	}
	switch err := json.Unmarshal(exit.Stdout, &answer); {
	case exit.Cause != sandbox.Exited:
		t.seen = string(exit.Cause)
	case err != nil || exit.ExitCode != 0:
		t.seen = fmt.Sprintf("exit %d: %.200s", exit.ExitCode, lastLine(exit.Stderr))
	case answer.Got != nil:
		t.got, t.seen = true, *answer.Got
	default:
		t.seen = answer.Seen
	}
	return t
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// longestLook: a process that is always another one ends by itself after 3 s (scripts/leftovers.py).
const longestLook = 4 * time.Second

// processes are those of an attempt that are left; they are ended. Every attempt has the marker in its arguments, which
// children inherit; the neighbour has it too. One that is always another is gone when its turn to be read comes: as
// long as something was gone in the middle of a look, there is another look.
func (c *campaign) processes() []string {
	found := 0
	for begin := time.Now(); ; {
		marked, vanished, err := c.marked()
		if err != nil {
			return []string{err.Error()}
		}
		for _, pid := range marked {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		found += len(marked)
		if len(marked) == 0 && !vanished || time.Since(begin) > longestLook {
			break
		}
	}
	if found == 0 {
		return nil
	}
	return []string{"left: a process"}
}

// marked looks once. vanished: something was there and had ended before it could be looked at.
func (c *campaign) marked() (pids []int, vanished bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false, err
	}
	if c.ended == nil {
		c.ended = map[int]bool{}
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || c.neighbour != nil && pid == c.neighbour.pid {
			continue
		}
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		switch {
		case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH):
			vanished = true
		case err == nil && len(line) == 0 && !c.ended[pid]: // it has ended and is there still, or is a thread of the kernel
			c.ended[pid], vanished = true, true
		case strings.Contains(string(line), c.arena.marker):
			pids = append(pids, pid)
		}
	}
	return pids, vanished, nil
}

// left is what is there after the last attack and the end of the neighbour.
func (c *campaign) left() []string {
	c.neighbour = nil
	out := append(c.processes(), c.arena.leftFiles()...)
	entries, err := os.ReadDir(c.arena.runs())
	if err != nil {
		return append(out, err.Error())
	}
	for _, entry := range entries {
		out = append(out, "left: folder "+entry.Name())
	}
	return append(out, c.arena.leftObjects()...)
}

func openDescriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
