//go:build !race

package manifests_test

const slower = 1
