// Command manifestgen makes and checks the lock file of a folder of skills. See package internal/cli.
package main

import (
	"os"

	"xrayrunner/manifests/internal/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
