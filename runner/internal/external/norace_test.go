//go:build !race

package external_test

const slower = 1
