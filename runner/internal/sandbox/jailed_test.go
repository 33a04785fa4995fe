package sandbox_test

import (
	"os"

	"xrayrunner/runner/internal/jail"
	"xrayrunner/runner/internal/sandbox"
)

// Package jail makes the jails, and imports this one: only an external test may import both.
func init() {
	sandbox.OpenJail = func(spec sandbox.JailSpec) (sandbox.Jail, error) {
		dir, err := os.MkdirTemp("", "xray-jails-")
		if err != nil {
			return sandbox.Jail{}, err
		}
		made, err := jail.New(dir, "").Open(spec)
		if err != nil {
			return made, err
		}
		end := made.Close
		made.Close = func() error {
			defer os.RemoveAll(dir)
			return end()
		}
		return made, nil
	}
}
