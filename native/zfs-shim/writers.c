/*
 * Sets how many threads issue the writes of a transaction group.
 *
 * The library uses 80 % of the processors, rounded down. On a host with two that is one thread, which computes every
 * checksum, allocates every block and submits it to the disk. Here it is one per processor, up to the number at which
 * the library's own rule yields several.
 */
#include "internal.h"

taskq_t *
taskq_create(const char *name, int threads, pri_t priority, int minimum, int maximum, uint_t flags)
{
	taskq_t *(*library)(const char *, int, pri_t, int, int, uint_t) =
	    bh_library_function(__func__);

	/* With this flag `threads` is a share of the processors in percent. */
	if (strncmp(name, "z_wr_iss", 8) == 0 && (flags & TASKQ_THREADS_CPU_PCT) != 0 &&
	    sysconf(_SC_NPROCESSORS_ONLN) <= 4)
		threads = 100;
	return (library(name, threads, priority, minimum, maximum, flags));
}
