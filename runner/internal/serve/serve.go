// Package serve puts the runner together. The order of the start is a chain in which each step may refuse:
//
//	settings -> not root -> layers probed, minimum met -> mounts -> socket (no other runner alive) -> work folder emptied
//	-> manifest decoded -> external skills loaded -> snapshot -> serve
//
// and of the stop: refuse newcomers, wait for runs in flight, end what is left, remove the socket.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/client"
	"xrayrunner/runner/internal/approve"
	"xrayrunner/runner/internal/config"
	"xrayrunner/runner/internal/counts"
	"xrayrunner/runner/internal/execute"
	"xrayrunner/runner/internal/external"
	"xrayrunner/runner/internal/jail"
	"xrayrunner/runner/internal/mounts"
	"xrayrunner/runner/internal/queue"
	"xrayrunner/runner/internal/sandbox"
	"xrayrunner/runner/internal/server"
	"xrayrunner/runner/internal/snapshot"
	"xrayrunner/runner/internal/socket"
)

// Version is set by scripts/build.
var Version = "dev"

// drainTime is how long runs in flight may go on after a stop signal: below the grace of compose.yaml (20 s), and
// endTime is what is left to end the others.
const (
	drainTime = 12 * time.Second
	endTime   = 3 * time.Second
)

var errRoot = errors.New("refusing to run as root: scripts would share its power; start it as a user of its own (compose.yaml, scripts/quickstart)")

// collectAt: what is remembered of an hour's sessions would be kept twice over with Go's 100 (runtime/debug,
// SetGCPercent). Measured over 10 minutes of mixed runs: 7.5 MB in place of 10, and level.
const collectAt = 50

// Serve runs until ctx ends. A nil error is a stop that was asked for.
func Serve(ctx context.Context, environ []string, stderr io.Writer) error {
	log := slog.New(slog.NewJSONHandler(stderr, nil)).With("service", "runner")
	cfg, err := config.Load(environ)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return errRoot
	}
	// Scripts share our uid: what Landlock keeps from them, our memory, environment and descriptors, the kernel then
	// keeps from every process without a capability.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become undumpable: %w", err)
	}
	debug.SetGCPercent(collectAt)
	box, err := openSandbox(cfg)
	if err != nil {
		return err
	}
	if box.Posture().Tier == sandbox.TierNamespaces {
		if err := jail.Seal(); err != nil { // starts us once more, and returns in that one
			return err
		}
	}
	if cfg.Mounts, err = folders(cfg, box.Posture()); err != nil {
		return fmt.Errorf("RUNNER_MOUNTS: %w", err)
	}
	// The clock of the run ids starts before anybody can connect: a call that waits for us while we start is not old.
	table := counts.New(time.Now)
	listener, err := listen(cfg)
	if err != nil {
		return err
	}
	s, err := build(cfg, box, table, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	announce(log, cfg, s)
	return serveUntil(ctx, s, listener, log)
}

func openSandbox(cfg config.Config) (sandbox.Sandbox, error) {
	box, err := probe(cfg, filepath.Join(cfg.WorkDir, execute.JailsDir), 0)
	if err != nil {
		return nil, err
	}
	return box, minimum(cfg, box.Posture())
}

// probe tries the layers, whether they are enough or not. Jails are made below the folder jails, now and later. abi is for
// doctor alone: see sandbox.Config.
func probe(cfg config.Config, jails string, abi int) (sandbox.Sandbox, error) {
	shim, err := shimPath(cfg)
	if err != nil {
		return nil, err
	}
	dir := scratch(cfg)
	c := sandbox.Config{ShimPath: shim, ProbeDir: dir, LandlockABI: abi, Tasks: taskLimit()}
	if cfg.Isolation != "landlock" {
		program := filepath.Join(filepath.Dir(shim), jailProgram)
		if err := sandbox.CheckProgram(program); err != nil { // an installation that is not whole, and no missing grant
			return nil, fmt.Errorf("sandbox: %s: %w", jailProgram, err)
		}
		c.Jail = jail.New(jails, program).Open
	}
	box, err := sandbox.New(c)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w (tried in %s)", err, dir)
	}
	return box, nil
}

func shimPath(cfg config.Config) (string, error) {
	if cfg.Shim != "" {
		return cfg.Shim, nil
	}
	self, err := jail.Executable()
	return filepath.Join(filepath.Dir(self), "xray-shim"), err
}

// jailProgram lies beside the shim.
const jailProgram = "xray-jail"

// scratch is where folders for a short time are made: the work folder, since the root may be read-only. doctor may look
// where there is none; serve says so when it prepares it.
func scratch(cfg config.Config) string {
	if unix.Access(cfg.WorkDir, unix.W_OK) == nil {
		return cfg.WorkDir
	}
	return os.TempDir()
}

// minimum refuses by name. The cure goes along, since the start ends here.
func minimum(cfg config.Config, p sandbox.Posture) error {
	for _, wanted := range cfg.MinIsolation {
		i := slices.IndexFunc(p.Layers, func(l sandbox.Layer) bool { return l.Name == wanted })
		switch {
		case i < 0:
			return fmt.Errorf("RUNNER_MIN_ISOLATION wants %s, which is not in force: this runner does not have that layer", wanted)
		case !p.Layers[i].InForce:
			return fmt.Errorf("RUNNER_MIN_ISOLATION wants %s, which is not in force: %s (cure: %s)", wanted, p.Layers[i].Reason, p.Layers[i].Cure)
		}
	}
	return nil
}

// folders are the mounts, resolved. Without Landlock every run would see every one of them.
func folders(cfg config.Config, p sandbox.Posture) (mounts.Table, error) {
	landlock := slices.ContainsFunc(p.Layers, func(l sandbox.Layer) bool { return l.Name == "landlock" && l.InForce })
	if !landlock && len(cfg.Mounts) > 0 {
		return nil, errors.New("landlock, which keeps them apart, is not in force; runner doctor says why")
	}
	shim, err := shimPath(cfg)
	if err != nil {
		return nil, err
	}
	return cfg.Mounts.Resolve(ownPaths(cfg, shim))
}

// ownPaths are what no run may come near, though an operator gave it: with the keys of procedures in its folder a script
// could add one.
func ownPaths(cfg config.Config, shim string) []string {
	own := append([]string{cfg.WorkDir, cfg.SkillsDir, cfg.Manifest, shim}, cfg.ExternalDirs...)
	for _, path := range []string{cfg.SOPKeys, cfg.ExternalEnv} {
		if path != "" {
			own = append(own, path)
		}
	}
	if cfg.Socket != "" {
		own = append(own, filepath.Dir(cfg.Socket))
	}
	return own
}

func listen(cfg config.Config) (net.Listener, error) {
	if cfg.TCP != "" {
		return net.Listen("tcp", cfg.TCP)
	}
	return socket.Listen(cfg.Socket)
}

func build(cfg config.Config, box sandbox.Sandbox, table *counts.Table, log *slog.Logger) (*server.Server, error) {
	raw, err := os.ReadFile(cfg.Manifest)
	if err != nil {
		return nil, fmt.Errorf("RUNNER_MANIFEST: %w", err)
	}
	lock, err := manifests.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("RUNNER_MANIFEST %s: %w", cfg.Manifest, err)
	}
	env, err := external.LoadEnvironment(cfg.ExternalEnv, cfg.UnsafeEnv)
	if err != nil {
		return nil, fmt.Errorf("RUNNER_EXTERNAL_ENV_FILE: %w", err)
	}
	extra := external.Load(external.Settings{Roots: cfg.ExternalDirs, Env: env, Taken: func(name string) bool { return lock.Skills[name] != nil }})
	for _, line := range extra.Lines {
		line.Write(log)
	}
	lock = lock.With(extra.Plain())
	root, err := execute.Prepare(cfg.WorkDir)
	if err != nil {
		return nil, err
	}
	snap, err := snapshot.Take(cfg.SkillsDir, root, lock)
	if err != nil {
		return nil, err
	}
	for name, skill := range extra.Skills {
		if err := snap.Add(name, skill.Contents, skill.Changed); err != nil {
			return nil, err
		}
		skill.Contents = nil // the copy is taken: 16 MiB each are not to be kept
	}
	keys, err := sop.LoadKeys(cfg.SOPKeys)
	if err != nil {
		return nil, fmt.Errorf("RUNNER_SOP_KEYS: %w", err)
	}
	limit := memoryLimit()
	box, cells, coldness := withCells(cfg, filepath.Join(cfg.WorkDir, execute.RunsDir), box, limit, log)
	slots := slotsOf(cfg)
	s := &server.Server{
		Log: log, Lock: lock, LockRaw: raw, External: extra.Told(), Snapshot: snap, Posture: box.Posture(), MaxClass: cfg.MaxClass, Version: Version,
		Executor: &execute.Executor{Lock: lock, Snapshot: snap, Sandbox: box, WorkDir: cfg.WorkDir, Interpreters: execute.FindInterpreters(), Mounts: cfg.Mounts, Environment: env},
		Queue:    queue.New(slots, cfg.Queue, runMemory(limit, cells)), Counts: table, Approve: approve.New(keys, time.Now), Slots: slots, Places: cfg.Queue,
		Token: cfg.Token, AllowUIDs: cfg.AllowUIDs, Development: cfg.TCP != "", NetworkProblem: networkProblem,
	}
	if cfg.TCP == "" {
		s.Token = ""
	}
	s.Remarks = slices.Concat(remarks(cfg), box.Posture().Remarks, coldness)
	if cfg.MaxClass == manifests.Dangerous && keys.Len() == 0 {
		s.Remarks = append(s.Remarks, "RUNNER_MAX_CLASS=dangerous without RUNNER_SOP_KEYS: nothing dangerous will run")
	}
	if cfg.Dev {
		s.NetworkProblem = func() string { return "" }
	}
	return s, nil
}

// remarks are the weaknesses that an operator has asked for: said in the log and in /healthz.
func remarks(cfg config.Config) []string {
	var out []string
	if cfg.TCP != "" {
		out = append(out, "development: listens on TCP, anyone with the token may call")
	}
	if cfg.Dev {
		out = append(out, "development: the presence of a network is not checked")
	}
	if slices.Contains(cfg.AllowUIDs, uint32(os.Getuid())) {
		out = append(out, "development: the runner's own user, which scripts share, may call")
	}
	return append(out, crowdRemark(slotsOf(cfg), taskLimit())...)
}

func announce(log *slog.Logger, cfg config.Config, s *server.Server) {
	for _, r := range append(slices.Clone(cfg.StartRemarks), s.Remarks...) {
		log.Warn(r)
	}
	for name, f := range s.Lock.Disabled {
		log.Error("skill is off", "skill", name, "file", f.File, "line", f.Line, "reason", f.Message, "cure", f.Cure)
	}
	for name, why := range s.Snapshot.Stopped() {
		log.Error("skill is stopped", "skill", name, "reason", why)
	}
	for _, l := range s.Posture.Layers {
		switch {
		case l.InForce:
		case l.Granted:
			log.Info("layer not granted", "layer", l.Name, "reason", l.Reason, "errno", l.Errno, "cure", l.Cure)
		default:
			log.Warn("layer not in force", "layer", l.Name, "reason", l.Reason, "errno", l.Errno, "means", l.Means, "cure", l.Cure)
		}
	}
	log.Info("ready to serve", "version", s.Version, "tier", s.Posture.Tier, "layers", strings.Join(s.Posture.Names(), ","),
		"manifest", s.Lock.Digest(), "skills", len(s.Lock.Skills), "slots", s.Slots, "queue", s.Places, "ready", s.Health().Ready)
}

func serveUntil(ctx context.Context, s *server.Server, l net.Listener, log *slog.Logger) error {
	runs, endRuns := context.WithCancel(context.Background())
	defer endRuns()
	defer tend(s.Executor.Sandbox, log)()
	h := server.HTTPServer(s.Handler(runs), log)
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("stopping: no new runs; waiting for those in flight")
	idle := s.Queue.Close()
	select {
	case <-idle:
	case <-time.After(drainTime):
		log.Warn("ending the runs that are left")
		endRuns()
	}
	end, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if err := h.Shutdown(end); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log.Info("stopped")
	return nil
}

// Healthcheck asks the runner on this configuration and prints why it is not ready.
func Healthcheck(ctx context.Context, environ []string, out io.Writer) error {
	cfg, err := config.Load(environ)
	if err != nil {
		return err
	}
	address := "unix:" + cfg.Socket
	if cfg.TCP != "" {
		_, port, err := net.SplitHostPort(cfg.TCP)
		if err != nil {
			return err
		}
		address = "http://127.0.0.1:" + port
	}
	c, err := client.New(address, cfg.Token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	health, err := c.Health(ctx)
	if err != nil {
		return err
	}
	if !health.Ready {
		return fmt.Errorf("not ready: %s", strings.Join(health.Reasons, "; "))
	}
	_, err = fmt.Fprintln(out, "ready")
	return err
}
