package operate

import "context"

// Ready says whether calls can be served whole, in states and without details: it is shown without a token.
type Ready struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
	Runner  string   `json:"runner"`   // one of the three states below
	NoSpawn string   `json:"no_spawn"` // "enforced", or what does not hold (nospawn.Check)
}

// The states of a runner in the eyes of the api.
const (
	RunnerReady       = "ready"
	RunnerNotReady    = "not ready"
	RunnerUnreachable = "unreachable"
)

// Ready asks the runner, the store and this process itself.
func (d *Desk) Ready(ctx context.Context) Ready {
	r := Ready{Ready: true, Reasons: []string{}, Runner: RunnerReady, NoSpawn: "enforced"}
	not := func(runner, why string) { r.Ready, r.Runner, r.Reasons = false, runner, append(r.Reasons, why) }
	health, err := d.Runner.Health(ctx)
	switch {
	case err != nil:
		not(RunnerUnreachable, "the runner cannot be reached")
	case health.ManifestDigest != d.Lock.Digest():
		not(RunnerNotReady, "api and runner hold different manifests")
	case !health.Ready:
		not(RunnerNotReady, "the runner is not ready; its log says why")
	}
	if err := d.NoSpawn(); err != nil {
		r.NoSpawn = err.Error()
		not(r.Runner, "this process could start programs")
	}
	if _, err := d.Store.Tools(ctx); err != nil {
		not(r.Runner, "the store does not answer")
	}
	return r
}
