package attack

import (
	"os"
	"testing"

	"xrayrunner/internal/nstest"
)

// The controls really do what they try.
func TestMain(m *testing.M) {
	os.Exit(nstest.Main(m, `../sandbox/shim/build.sh "$0" && ../sandbox/cell/build.sh "$0.so" && CGO_ENABLED=1 go build -o "$0.jail" ../../cmd/xray-jail`))
}
