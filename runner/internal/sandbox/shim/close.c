#include "shim.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Go opens everything close-on-exec; this is for what was not opened by Go. close_range(2) is Linux 5.9. */
void close_from(unsigned int first)
{
	struct rlimit limit;

	if (syscall(SYS_close_range, first, ~0U, 0) == 0)
		return;
	if (getrlimit(RLIMIT_NOFILE, &limit))
		fail("close_range");
	for (unsigned int fd = first; fd < limit.rlim_cur; fd++)
		close((int)fd);
}
