// Seccomp writes the container profiles of deploy/seccomp from the engine's current default, so that each differs from
// it by what is said here and by nothing else.
//
//	go run -C scripts/tools/seccomp . ../../../deploy/seccomp           write them
//	go run -C scripts/tools/seccomp . -check ../../../deploy/seccomp    are they current?
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// profiles by file name.
var profiles = map[string]func() *seccomp.Seccomp{"api.json": api, "runner-namespaces.json": namespaces}

// spawning is what the api must not do, beyond what the default refuses (api/internal/nospawn says why for each).
// execve stays: the engine loads the profile before it starts the api itself.
var spawning = []string{"fork", "vfork", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
	"memfd_create", "memfd_secret", "pidfd_getfd", "clone"}

// api is the default for a container without capabilities, less what starts processes; clone makes threads only, and
// only native calls count: a foreign architecture is killed.
func api() *seccomp.Seccomp {
	p := seccomp.DefaultProfile()
	for i := range p.ArchMap {
		p.ArchMap[i].SubArches = nil
	}
	var kept []*seccomp.Syscall
	for _, rule := range p.Syscalls {
		if rule.Includes != nil && len(rule.Includes.Caps) > 0 {
			continue // for a capability that the api does not have
		}
		if rule.Action == specs.ActAllow {
			rule.Names = slices.DeleteFunc(slices.Clone(rule.Names), func(n string) bool { return slices.Contains(spawning, n) })
		}
		if len(rule.Names) > 0 {
			kept = append(kept, rule)
		}
	}
	p.Syscalls = append(kept, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{
		Names: []string{"clone"}, Action: specs.ActAllow,
		Args: []specs.LinuxSeccompArg{{Index: 0, Value: unix.CLONE_THREAD, ValueTwo: unix.CLONE_THREAD, Op: specs.OpMaskedEqual}},
	}})
	return p
}

// rooms is what the runner needs to make namespaces and what is in them, beyond the default; clone stays masked, so that
// unshare is the one way.
var rooms = []string{"unshare", "mount", "umount2", "pivot_root", "sethostname"}

// namespaces is the default and rooms, and nothing more.
func namespaces() *seccomp.Seccomp {
	p := seccomp.DefaultProfile()
	p.Syscalls = append(p.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: rooms, Action: specs.ActAllow}})
	return p
}

func main() {
	args := os.Args[1:]
	check := len(args) > 0 && args[0] == "-check"
	if check {
		args = args[1:]
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: seccomp [-check] FOLDER")
		os.Exit(2)
	}
	for name, profile := range profiles {
		if err := write(filepath.Join(args[0], name), profile(), check); err != nil {
			fmt.Fprintln(os.Stderr, "seccomp: "+err.Error())
			os.Exit(1)
		}
	}
}

func write(path string, p *seccomp.Seccomp, check bool) error {
	want, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	want = append(want, '\n')
	if !check {
		return os.WriteFile(path, want, 0o644)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s is not current: run scripts/generate", path)
	}
	return nil
}
