// A module of its own: the profiles of moby stay out of the product.
module xrayrunner/scripts/tools/seccomp

go 1.26.0

require (
	github.com/moby/profiles/seccomp v0.3.0
	github.com/opencontainers/runtime-spec v1.2.1
	golang.org/x/sys v0.33.0
)
