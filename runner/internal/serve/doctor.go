package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"xrayrunner/runner/internal/attack"
	"xrayrunner/runner/internal/config"
	"xrayrunner/runner/internal/cost"
	"xrayrunner/runner/internal/execute"
	"xrayrunner/runner/internal/jail"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/server"
	"xrayrunner/runner/protocol"
)

// Verdict is what Doctor found; the exit codes of main are made of it.
type Verdict string

const (
	Sound   Verdict = "sound"   // serve would start, with every layer
	Weaker  Verdict = "weaker"  // serve would start; a layer is missing
	Refused Verdict = "refused" // serve would not start, or would not be ready
)

// diagnosis is the whole report; --json prints it as it is.
type diagnosis struct {
	Verdict  Verdict          `json:"verdict"`
	Version  string           `json:"version"`
	Kernel   string           `json:"kernel"`
	UID      int              `json:"uid"`
	Tier     sandbox.Tier     `json:"tier"`
	Minimum  []string         `json:"min_isolation"`
	Layers   []protocol.Layer `json:"layers"`
	Problems []string         `json:"problems"` // why serve would not start, or not be ready
	Remarks  []string         `json:"remarks"`
}

// DoctorOptions are the flags of doctor.
type DoctorOptions struct {
	JSON bool
	// LandlockABI looks at this host as if its kernel had no more than this ABI (2: Linux 6.1, 4: 6.8). 0: as it is.
	LandlockABI int
	// Rounds is how often Cost and Neighbour measure, at least 1.
	Rounds int
	// Warm has Attack make its attempts by forks of a prepared interpreter, where a run would be one.
	Warm bool
}

// Doctor says what is in force on this host, what is not and why, and what to do about it. It needs no running runner
// and disturbs none. An error means that it could not look.
func Doctor(environ []string, options DoctorOptions, out io.Writer) (Verdict, error) {
	cfg, err := config.Load(environ)
	if err != nil {
		return Refused, err
	}
	jails, err := os.MkdirTemp(scratch(cfg), "xray-doctor-") // not where a running runner has its own
	if err != nil {
		return Refused, err
	}
	defer os.RemoveAll(jails)
	box, err := probe(cfg, jails, options.LandlockABI)
	if err != nil {
		return Refused, err
	}
	d := diagnose(cfg, box)
	if options.JSON {
		return d.Verdict, writeJSON(out, d)
	}
	return d.Verdict, d.print(out)
}

// Attack makes every attack there is, beside a neighbour, and their controls. The verdict is Refused when one got through.
func Attack(ctx context.Context, environ []string, options DoctorOptions, out io.Writer) (Verdict, error) {
	host, err := hostFor(ctx, environ, options)
	if err != nil {
		return Refused, err
	}
	defer os.RemoveAll(host.jails)
	bare, err := sandbox.Unconfined(host.box)
	if err != nil {
		return Refused, err
	}
	c := attack.Config{Box: host.box, Bare: bare, Dir: host.dir, Python: host.python}
	if options.Warm {
		c.Cells = func(root string) (*sandbox.Cells, error) {
			box, _, coldness := withCells(host.cfg, root, host.box, memoryLimit(), slog.New(slog.DiscardHandler))
			if cells, ok := box.(*sandbox.Cells); ok {
				return cells, nil
			}
			return nil, errors.New(strings.Join(coldness, "; "))
		}
	}
	if !options.JSON {
		c.Each = func(r attack.Result) { attack.PrintResult(out, r) }
	}
	report, err := attack.Run(ctx, c)
	if err != nil {
		return Refused, err
	}
	verdict := Sound
	if !report.Holds() {
		verdict = Refused
	}
	if options.JSON {
		return verdict, writeJSON(out, report)
	}
	return verdict, report.PrintSummary(out)
}

// Cost measures what the sandbox costs here beside a bare start of the interpreter. It has no limit to hold: the verdict
// is Sound when it could measure.
func Cost(ctx context.Context, environ []string, options DoctorOptions, out io.Writer) (Verdict, error) {
	host, err := hostFor(ctx, environ, options)
	if err != nil {
		return Refused, err
	}
	defer os.RemoveAll(host.jails)
	dir, err := os.MkdirTemp(host.dir, "xray-doctor-")
	if err != nil {
		return Refused, err
	}
	defer os.RemoveAll(dir)
	quiet := slog.New(slog.DiscardHandler)
	box, _, coldness := withCells(host.cfg, filepath.Join(dir, cost.Runs), host.box, memoryLimit(), quiet)
	defer tend(box, quiet)()
	report, err := cost.Measure(ctx, cost.Config{Box: box, Dir: dir, Python: host.python, Rounds: options.Rounds})
	report.Remarks = append(report.Remarks, coldness...)
	if err != nil {
		return Refused, err
	}
	if options.JSON {
		return Sound, writeJSON(out, report)
	}
	return Sound, report.Print(out)
}

// Neighbour measures what runs feel of others that take all they can get. The verdict is about these: Refused when one did
// not end by its limit.
func Neighbour(ctx context.Context, environ []string, options DoctorOptions, out io.Writer) (Verdict, error) {
	host, err := hostFor(ctx, environ, options)
	if err != nil {
		return Refused, err
	}
	defer os.RemoveAll(host.jails)
	dir, err := os.MkdirTemp(host.dir, "xray-doctor-")
	if err != nil {
		return Refused, err
	}
	defer os.RemoveAll(dir)
	report, err := cost.Disturb(ctx, cost.Config{Box: host.box, Dir: dir, Python: host.python, Rounds: options.Rounds})
	if err != nil {
		return Refused, err
	}
	verdict := Sound
	if !report.Right() {
		verdict = Refused
	}
	if options.JSON {
		return verdict, writeJSON(out, report)
	}
	return verdict, report.Print(out)
}

// host is where doctor runs scripts of its own.
type host struct {
	cfg    config.Config
	box    sandbox.Sandbox
	dir    string
	jails  string // to be removed afterwards; not where a running runner has its own
	python string
}

func hostFor(ctx context.Context, environ []string, options DoctorOptions) (host, error) {
	cfg, err := config.Load(environ)
	if err != nil {
		return host{}, err
	}
	if os.Geteuid() == 0 {
		return host{}, errRoot
	}
	python, ok := execute.FindInterpreters()["python3"]
	if !ok {
		return host{}, errors.New("the scripts of doctor are written in Python, and there is no python3 here that this user may run")
	}
	h := host{cfg: cfg, dir: scratch(cfg), python: python}
	if h.jails, err = os.MkdirTemp(h.dir, "xray-doctor-"); err != nil {
		return host{}, err
	}
	if h.box, err = probe(cfg, h.jails, options.LandlockABI); err != nil {
		return host{}, errors.Join(err, os.RemoveAll(h.jails))
	}
	if h.box.Posture().Tier == sandbox.TierNamespaces { // as serve does; the folder is made again when it is needed
		if err = errors.Join(os.RemoveAll(h.jails), ctx.Err()); err == nil { // the next one would not know that it was stopped
			err = jail.Seal()
		}
	}
	return h, err
}

func diagnose(cfg config.Config, box sandbox.Sandbox) diagnosis {
	p := box.Posture()
	_, _, coldness := withCells(cfg, filepath.Join(cfg.WorkDir, execute.RunsDir), box, 0, slog.New(slog.DiscardHandler)) // none is made before the first run
	d := diagnosis{
		Verdict: Sound, Version: Version, Kernel: kernel(), UID: os.Getuid(), Tier: p.Tier, Minimum: cfg.MinIsolation,
		Layers: server.Layers(p), Problems: []string{}, Remarks: slices.Concat([]string{}, cfg.StartRemarks, remarks(cfg), p.Remarks, coldness),
	}
	for _, l := range p.Layers {
		if !l.InForce && !l.Granted {
			d.Verdict = Weaker
		}
	}
	if err := minimum(cfg, p); err != nil {
		d.Problems = append(d.Problems, err.Error())
	}
	if os.Geteuid() == 0 {
		d.Problems = append(d.Problems, errRoot.Error())
	}
	if why := networkProblem(); why != "" && !cfg.Dev {
		d.Problems = append(d.Problems, why)
	}
	if len(d.Problems) > 0 {
		d.Verdict = Refused
	}
	return d
}

func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err.Error()
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (d diagnosis) print(out io.Writer) error {
	fmt.Fprintf(out, "runner %s on %s, uid %d, tier %s\n\n", d.Version, d.Kernel, d.UID, d.Tier)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LAYER\tIN FORCE\tERRNO\tDETAIL")
	for _, l := range d.Layers {
		inForce, detail := "yes", l.Detail
		switch {
		case l.InForce:
		case l.Granted:
			inForce, detail = "not granted", l.Reason
		default:
			inForce, detail = "NO", l.Reason
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Name, inForce, l.Errno, detail)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, l := range d.Layers {
		if !l.InForce {
			fmt.Fprintf(out, "\n%s\n  means here: %s\n  cure:       %s\n", l.Name, l.Means, l.Cure)
		}
	}
	fmt.Fprintf(out, "\nRUNNER_MIN_ISOLATION: %s\n", strings.Join(d.Minimum, ","))
	for _, r := range d.Remarks {
		fmt.Fprintln(out, "remark: "+r)
	}
	for _, p := range d.Problems {
		fmt.Fprintln(out, "problem: "+p)
	}
	_, err := fmt.Fprintln(out, d.Verdict.sentence())
	return err
}

func (v Verdict) sentence() string {
	switch v {
	case Sound:
		return "sound: every layer is in force that a container without grants can have"
	case Weaker:
		return "weaker: it serves, and what is missing is named above"
	}
	return "refused: it would not start, or not be ready; see the problems"
}
