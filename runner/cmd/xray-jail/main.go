// Xray-jail is what the runner becomes to make a jail, in the tier namespaces: libcontainer's init and nothing else, so
// that it starts in a few milliseconds. It is of no use by itself. See package jail.
package main

import (
	"fmt"
	"os"

	_ "xrayrunner/runner/internal/jail" // whose init does all of it
)

func main() {
	fmt.Fprintln(os.Stderr, "xray-jail: the runner starts this when it makes a jail; it does nothing by itself")
	os.Exit(2)
}
