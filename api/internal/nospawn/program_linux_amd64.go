package nospawn

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_X86_64
	// firstForeignCall is __X32_SYSCALL_BIT: x32 numbers are a second table behind the same architecture.
	firstForeignCall = 0x40000000
)

var deniedHere = []uint32{unix.SYS_FORK, unix.SYS_VFORK}
