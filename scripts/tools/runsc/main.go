// Runsc is gVisor's, built from its module so that deploy/compose.gvisor.yaml can be tried with the real thing. A module of
// its own: gVisor with all that it needs stays out of the product.
//
//	CGO_ENABLED=0 go build -C scripts/tools/runsc -o /usr/local/bin/runsc .
package main

import (
	"gvisor.dev/gvisor/runsc/cli/maincli"
	"gvisor.dev/gvisor/runsc/version"
)

var _ = version.Version() // linked in: runsc asks for it by name

func main() { maincli.Main() }
