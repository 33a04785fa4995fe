#include "textflag.h"

// arm64 has none of these calls: a process is made by clone (the way "start").

TEXT ·fork(SB), NOSPLIT, $0-8
	B  none<>(SB)

TEXT ·vfork(SB), NOSPLIT, $0-8
	B  none<>(SB)

TEXT ·int80(SB), NOSPLIT, $0-8
	B  none<>(SB)

TEXT ·x32(SB), NOSPLIT, $0-8
	B  none<>(SB)

TEXT none<>(SB), NOSPLIT, $0-8
	MOVD $-1048576, R0
	MOVD R0, ret+0(FP)
	RET
