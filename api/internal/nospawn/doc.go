// Package nospawn makes this process unable to start a program, for good and for every thread of it: also for code
// that is not ours and not Go, injected into it.
//
// It is a seccomp filter of the process's own (seccomp(2)): it needs no privilege, works in every container, and
// nobody in the process can take it off again. It denies what makes a process or turns this one into another program,
// lets threads be made, and leaves everything else as it is. The filter is written by hand, because a library that
// sends foreign architectures to its default action lets `int 0x80` through (elastic/go-seccomp-bpf 1.6.0: the program
// ran). The api refuses to start where it cannot be put on, and shows it in /readyz.
//
// The other half of the promise is a test of the binary: nothing that starts programs is linked (arch_test.go).
package nospawn
