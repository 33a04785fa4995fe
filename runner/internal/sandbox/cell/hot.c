/*
 * The pages that a run is going to use, asked for at once. One by one each of them would be a page fault. ../hot.go finds
 * them. Kernels before 5.14 refuse, and then they are faults.
 */
#include "cell.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { POPULATE_READ = 22, POPULATE_WRITE = 23 }; /* madvise(2); the headers of the build image have no names for them */
enum { MOST_RANGES = 1024 };

/* hotRange in ../hot.go. */
static struct range {
	uint64_t start;
	uint32_t length, write;
} hot[MOST_RANGES];
static size_t count;

void learn_hot(const struct message *message)
{
	size_t length = message->length - 1;

	if (length % sizeof hot[0] || length > sizeof hot)
		give_up("hot pages");
	memcpy(hot, message->text + 1, length);
	count = length / sizeof hot[0];
}

void fetch_hot(void)
{
	for (size_t i = 0; i < count; i++)
		if (madvise((void *)(uintptr_t)hot[i].start, hot[i].length, hot[i].write ? POPULATE_WRITE : POPULATE_READ))
			if (errno == EINVAL)
				return; /* this kernel does not know it. Else a mapping has gone */
}
