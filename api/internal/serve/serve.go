// Package serve puts the api together. The order of the start is a chain in which each step may refuse:
//
//	no program can be started (main) -> settings -> manifest -> store opened and migrated -> configured tokens stored
//	-> calls left open closed as lost -> serve
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"xrayrunner/api/internal/calls"
	"xrayrunner/api/internal/catalog"
	"xrayrunner/api/internal/config"
	"xrayrunner/api/internal/metrics"
	"xrayrunner/api/internal/nospawn"
	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/server"
	"xrayrunner/api/internal/store"
	"xrayrunner/internal/sop"
	"xrayrunner/manifests"
	"xrayrunner/runner/client"
)

// Version is set by scripts/build.
var Version = "dev"

// stopTime is how long requests in flight may go on after a stop signal: below the grace of compose.yaml (20 s).
const stopTime = 15 * time.Second

// Serve runs until ctx ends. A nil error is a stop that was asked for.
func Serve(ctx context.Context, environ []string, stderr io.Writer) error {
	log := slog.New(slog.NewJSONHandler(stderr, nil)).With("service", "api")
	cfg, err := config.Load(environ)
	if err != nil {
		return err
	}
	lock, err := readLock(cfg.Manifest)
	if err != nil {
		return err
	}
	db, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := prepare(ctx, cfg, db, log); err != nil {
		return err
	}
	handler, err := build(ctx, cfg, lock, db, log)
	if err != nil {
		return err
	}
	for name, f := range lock.Disabled {
		log.Error("skill is off", "skill", name, "file", f.File, "line", f.Line, "reason", f.Message, "cure", f.Cure)
	}
	for _, r := range cfg.Remarks {
		log.Warn(r)
	}
	log.Info("ready to serve", "listen", cfg.Listen, "version", Version, "manifest", lock.Digest(), "skills", len(lock.Skills), "unlocked", cfg.Unlock)
	keeping, stop := context.WithCancel(ctx)
	done := keep(keeping, cfg, db, log)
	defer func() { stop(); <-done }()
	return serveUntil(ctx, cfg.Listen, handler, log)
}

func readLock(path string) (*manifests.Lock, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("XRAY_MANIFEST: %w", err)
	}
	lock, err := manifests.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("XRAY_MANIFEST %s: %w", path, err)
	}
	return lock, nil
}

func open(ctx context.Context, cfg config.Config) (*store.DB, error) {
	db, err := store.Open(ctx, cfg.DB, store.Options{FullSync: cfg.FullSync})
	if err != nil {
		return nil, fmt.Errorf("XRAY_DB: %w", err)
	}
	return db, nil
}

func prepare(ctx context.Context, cfg config.Config, db *store.DB, log *slog.Logger) error {
	for role, secret := range cfg.Tokens {
		if err := db.PutToken(ctx, role, store.Role(role), store.ModeReadOnly, secret); err != nil {
			return fmt.Errorf("token of role %s: %w", role, err)
		}
	}
	if err := db.Enter(ctx); err != nil {
		return fmt.Errorf("XRAY_DB: %w", err)
	}
	lost, err := db.CloseLost(ctx)
	if err != nil {
		return fmt.Errorf("closing calls of a former life: %w", err)
	}
	seq, head, err := db.Head(ctx)
	if err != nil {
		return err
	}
	log.Info("record", "lost_calls_closed", lost, "events", seq, "head", head)
	return nil
}

func build(ctx context.Context, cfg config.Config, lock *manifests.Lock, db *store.DB, log *slog.Logger) (http.Handler, error) {
	runner, err := client.New(cfg.RunnerURL, cfg.RunnerToken)
	if err != nil {
		return nil, err
	}
	keys, err := sop.LoadKeys(cfg.SOPKeys)
	if err != nil {
		return nil, fmt.Errorf("XRAY_SOP_KEYS: %w", err)
	}
	known := &catalog.Catalog{Log: log, Manifest: lock, Runner: runner}
	s := &server.Server{
		Log: log, Version: Version, Closing: ctx.Done(),
		Calls: &calls.Service{Log: log, Lock: lock, Store: db, Runner: runner, Metrics: metrics.New(), Unlock: cfg.Unlock, Catalog: known, Functions: cfg.Functions, SOPKeys: keys, ApprovalLife: cfg.Approval},
		Desk:  &operate.Desk{Lock: lock, Store: db, Unlock: cfg.Unlock, SkillsDir: cfg.SkillsDir, Runner: runner, NoSpawn: nospawn.Check, Version: Version, Catalog: known, SOPKeys: keys},
	}
	return s.Handler(), nil
}

func serveUntil(ctx context.Context, listen string, handler http.Handler, log *slog.Logger) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("XRAY_LISTEN: %w", err)
	}
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("stopping")
	end, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := h.Shutdown(end); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop: %w", err)
	}
	if err := h.Close(); err != nil { // streams that agents hold open do not end by themselves
		return fmt.Errorf("stop: %w", err)
	}
	log.Info("stopped")
	return nil
}
