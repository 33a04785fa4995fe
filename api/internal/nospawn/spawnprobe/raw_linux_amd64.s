#include "textflag.h"

// func fork() int64
TEXT ·fork(SB), NOSPLIT, $0-8
	MOVQ $57, AX
	JMP  spawn<>(SB)

// func vfork() int64
TEXT ·vfork(SB), NOSPLIT, $0-8
	MOVQ $58, AX
	JMP  spawn<>(SB)

TEXT spawn<>(SB), NOSPLIT, $0-8
	SYSCALL
	TESTQ AX, AX
	JNE  parent
	MOVQ $231, AX // exit_group
	XORL DI, DI
	SYSCALL
parent:
	MOVQ AX, ret+0(FP)
	RET

// func int80() int64
TEXT ·int80(SB), NOSPLIT, $0-8
	MOVL $20, AX
	BYTE $0xCD; BYTE $0x80
	MOVLQSX AX, AX
	MOVQ AX, ret+0(FP)
	RET

// func x32() int64
TEXT ·x32(SB), NOSPLIT, $0-8
	MOVQ $0x40000027, AX
	SYSCALL
	MOVQ AX, ret+0(FP)
	RET
