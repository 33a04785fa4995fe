package nospawn

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_AARCH64
	// firstForeignCall is above every number: arm64 has one table.
	firstForeignCall = 0xffffffff
)

// deniedHere is empty: arm64 has neither fork nor vfork, only clone.
var deniedHere []uint32
