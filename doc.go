// Package xrayrunner is the root of the module; it holds no code, only the tests of the whole: the stories that run
// both binaries (testdata/stories), every example of every shipped skill, and the rules of the architecture.
//
//	agent --MCP/REST--> api --unix socket--> runner --fork--> confined script
//	                     |                     |
//	                 guard, store           guard, counts, queue,
//	                 record                 hashes, sandbox
//
// The folders are the architecture: manifests (what may run), guard (may this call go ahead now), runner (the sidecar
// that runs), api (what agents and operators talk to). arch_test.go holds who may import what.
package xrayrunner
