// Package attack tries to break out of the sandbox, with every attack there is a row for in Table.
//
// It is a test, and a command for operators (`runner doctor --attack`): what a sandbox stops depends on the kernel, the
// engine and the container's settings, so it is proved where it is used. It works inside the shipped container, with
// nothing but the runner, its shim and python3.
//
// Each attack is a function in scripts/, run as any script is, beside another run that is at work (the neighbour). What
// it may aim at was made for it (arena.go): nothing else on the host is a target. Then the same attack is made without
// the protection, as its control: an attack that fails there too proves nothing, and is listed with what refused it.
// After each, the neighbour is asked what was done to it, the targets are compared, and what is left is looked for: an
// attack that says it failed and did harm has succeeded.
package attack

import (
	"xrayrunner/runner/internal/sandbox"
)

// Attack is one row of Table: the policy of this package.
type Attack struct {
	Group string // the file in scripts/
	Name  string // the function there, with _ for -
	Tries string // what it tries, as the matrix shows it
	Case  string // number of the reported case that it comes from; "" when none

	// Processes it declares; 0 means 1. Its control has them too, and no filter that counts.
	Processes int
	// Limits tightens the run, so that the attack need not be large. The control has loose ones.
	Limits func(*sandbox.Limits)
	// Ends is how the run must end, for an attack on a limit. "": the script says what it got.
	Ends []sandbox.Cause
	// ByHarm: the call itself may well succeed; only what is found afterwards counts.
	ByHarm bool

	// Open says why this attack is known to succeed: it is listed in SECURITY.md and does not count.
	Open string
	// Summed: held by the layer watch or by cgroup. Where neither is in force, which doctor says, it is known to be open.
	Summed bool
}

// ID is the name that the matrix and the tests use.
func (a Attack) ID() string { return a.Group + "/" + a.Name }

// Verdict of one attack.
type Verdict string

const (
	Held      Verdict = "held"      // it failed, and its control succeeded
	Elsewhere Verdict = "elsewhere" // it failed, and so did its control: something else on this host refuses it
	Succeeded Verdict = "SUCCEEDED"
	Open      Verdict = "open" // it succeeded, as Attack.Open says
)

// Result of one attack.
type Result struct {
	ID      string  `json:"id"`
	Group   string  `json:"group"`
	Tries   string  `json:"tries"`
	Case    string  `json:"case,omitempty"`
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`    // what the attack met: an errno, an outcome
	Control string  `json:"control"` // what its control got, or met
	Harm    string  `json:"harm,omitempty"`
}

// Report of all of them.
type Report struct {
	Layers    []string `json:"layers"`
	Attacks   int      `json:"attacks"`
	Warm      int      `json:"warm"` // made by forks of a cell
	Succeeded int      `json:"succeeded"`
	Open      int      `json:"open"`
	Elsewhere int      `json:"elsewhere"`
	Left      []string `json:"left"` // what is left after all of them: processes, files, descriptors, shared memory
	Results   []Result `json:"results"`
}

// Holds is what an operator wants to know.
func (r Report) Holds() bool { return r.Succeeded == 0 && len(r.Left) == 0 }

func (r *Report) add(one Result) {
	r.Results = append(r.Results, one)
	r.Attacks++
	switch one.Verdict {
	case Succeeded:
		r.Succeeded++
	case Open:
		r.Open++
	case Elsewhere:
		r.Elsewhere++
	case Held:
	}
}
