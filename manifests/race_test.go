//go:build race

package manifests_test

// slower is how much longer the race detector makes everything.
const slower = 10
