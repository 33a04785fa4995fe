package jail_test

import (
	"os"
	"testing"

	"xrayrunner/internal/nstest"
)

// Runs bomb and flood here.
func TestMain(m *testing.M) {
	os.Exit(nstest.Main(m, `../sandbox/shim/build.sh "$0" && ../sandbox/cell/build.sh "$0.so"`))
}
