package sandbox

import "fmt"

// Config of New.
type Config struct {
	// ShimPath is the program that shim/build.sh makes: an absolute path that nobody else may write to.
	ShimPath string
	// ProbeDir is where New makes a folder for the time of its probes. It must be a place that runs cannot see, such as
	// the parent of the working folders. Empty: the system's temporary folder.
	ProbeDir string
	// LandlockABI, when above 0, is the highest ABI that is used: the sandbox as it is on an older kernel (2: Linux 6.1,
	// 4: 6.8). For tests and for doctor --attack; no setting of the service reaches it.
	LandlockABI int
	// Tasks is how many processes and threads the runner and all runs may have together (pids.max of the container). 0: there
	// is no such bound. A quarter is kept for the runner where runs have no count of their own (part.go).
	Tasks uint64
	// Jail makes rooms of namespaces (package jail). nil: the tier is landlock, whatever this host would grant.
	Jail func(JailSpec) (Jail, error)
}

// New tries every layer by doing and returns the sandbox that puts exactly the layers in force around each run. It fails
// only when it cannot try; whether what is in force is enough is the caller's decision, by Posture. It works as root for
// the tests; to serve as root is for the caller to refuse.
func New(cfg Config) (Sandbox, error) {
	s, err := newLandlocked(cfg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newLandlocked(cfg Config) (*landlocked, error) {
	if err := CheckProgram(cfg.ShimPath); err != nil {
		return nil, err
	}
	p, err := newProber(cfg)
	if err != nil {
		return nil, err
	}
	defer p.close()
	force, posture, err := p.probe()
	if err != nil {
		return nil, err
	}
	p.tryPart(cfg.Tasks, &force, &posture)
	s := &landlocked{shim: cfg.ShimPath, force: force, posture: posture, oom: newOOMKills(oomFiles), cgroups: p.cgroups}
	if force.jailed {
		s.jails = &jails{open: cfg.Jail, own: []string{cfg.ShimPath}, system: p.system, fresh: p.jails.fresh}
	}
	return s, nil
}

// Unconfined is a sandbox like this one without Landlock, without the filter and without signals being held: what an
// attack's control runs in. Only package attack may use it (arch_test.go); no setting of the service leads here.
func Unconfined(s Sandbox) (Sandbox, error) {
	l, ok := s.(*landlocked)
	if !ok {
		return nil, fmt.Errorf("BUG: no control for %T", s)
	}
	return &landlocked{shim: l.shim, force: inForce{oom: l.force.oom}, posture: Posture{Tier: l.posture.Tier}}, nil
}
