/*
 * Functions of the library that are replaced: the dynamic linker resolves these first, from the executable.
 */
#include "internal.h"

#include <sys/arc_impl.h>
#include <sys/random.h>

#include <dlfcn.h>

void *
bh_library_function(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	VERIFY3P(function, !=, NULL);
	return (function);
}

/*
 * The library caches unused block buffers up to 1/32 of the size that this returns, and that fraction cannot be set.
 * Without a cached buffer, a read costs three times the work: a buffer is created, filled from the ARC, and another is
 * evicted for it. This sets it to a quarter of the ARC. A larger share would be harmful: blocks that these buffers
 * refer to stay in the ARC until the buffers are evicted, in LRU order rather than in the ARC's own order, and so does
 * dirty data, which by default is at most another quarter. The same bound limits how much a rewinding import verifies
 * at a time, at most half of the cache.
 *
 * Measured alternately with tgt on a loaded host with two cores, all at real-time priority, on tmpfs, medians of the
 * ratio to tgt's CPU per operation, together with the congestion control of local connections
 * (protocols/serving/src/stream.rs): 4k random reads at depth 32 0.35 before, 0.23 after; at depth 1 0.48 and 0.43; 1
 * MiB reads 0.62 and 0.46. `make bench` measures the same points. Were the function renamed by a later library, only
 * the gain would be lost.
 */
#define	BH_BUFFERED_SHARE_FACTOR	8

uint64_t
arc_target_bytes(void)
{
	return (arc_c * BH_BUFFERED_SHARE_FACTOR);
}

/* A wait for a condition. A thread that commits an intent log first does its own part of the commit. */
void
cv_wait(kcondvar_t *cv, kmutex_t *mp)
{
	if (bh_in_place_work(cv, mp))
		return;
	memset(&mp->m_owner, 0, sizeof (mp->m_owner));
	VERIFY0(pthread_cond_wait(cv, &mp->m_lock));
	mp->m_owner = pthread_self();
}

int
cv_wait_sig(kcondvar_t *cv, kmutex_t *mp)
{
	cv_wait(cv, mp);
	return (1);
}

/*
 * A wait with a deadline. The library's own function uses the wall clock: setting it back by an hour would stop
 * transaction groups for an hour, setting it forward would let a live pool's heartbeat appear
 * late. The library's times are already those of the monotonic clock.
 */
static int
wait_until(kcondvar_t *cv, kmutex_t *mp, hrtime_t deadline_ns)
{
	struct timespec deadline = {
		.tv_sec = deadline_ns / NANOSEC,
		.tv_nsec = deadline_ns % NANOSEC,
	};

	if (bh_in_place_work(cv, mp))
		return (1);
	if (deadline_ns <= gethrtime())
		return (-1);

	/* The mutex has no owner during the wait. */
	memset(&mp->m_owner, 0, sizeof (mp->m_owner));
	int error = pthread_cond_clockwait(cv, &mp->m_lock, CLOCK_MONOTONIC, &deadline);
	mp->m_owner = pthread_self();

	if (error == ETIMEDOUT)
		return (-1);
	VERIFY0(error);
	return (1);
}

/* `tick` counts in units of 2^23 ns, as ddi_get_lbolt() does. */
int
cv_timedwait(kcondvar_t *cv, kmutex_t *mp, clock_t tick)
{
	return (wait_until(cv, mp, (hrtime_t)MIN(tick, INT64_MAX >> 23) << 23));
}

int
cv_timedwait_hires(kcondvar_t *cv, kmutex_t *mp, hrtime_t time, hrtime_t resolution, int flag)
{
	hrtime_t now = gethrtime();

	if ((flag & CALLOUT_FLAG_ABSOLUTE) == 0)
		time = time > INT64_MAX - now ? INT64_MAX : now + time;
	return (wait_until(cv, mp, time));
}

/*
 * Random bytes. The library's own reads /dev/urandom for eight bytes at a time; this reads some hundred at a time from
 * the system and caches them per thread.
 */
int
random_get_pseudo_bytes(uint8_t *out, size_t length)
{
	static __thread uint8_t stock[256];	/* getrandom() fills this much in one piece */
	static __thread size_t left;

	while (length > 0) {
		if (left == 0) {
			ssize_t got = getrandom(stock, sizeof (stock), 0);

			VERIFY3S(got, ==, sizeof (stock));
			left = sizeof (stock);
		}
		size_t count = MIN(length, left);

		memcpy(out, stock + sizeof (stock) - left, count);
		/* No byte is used twice, nor readable in a crash dump. */
		memset(stock + sizeof (stock) - left, 0, count);
		left -= count;
		out += count;
		length -= count;
	}
	return (0);
}

/*
 * Whether a buffer is contiguous memory. The library's own function builds every larger buffer from pages, whatever the
 * tunable: an allocation for each 4 KiB, and a copy of every block on its way into the ARC, which cannot share memory
 * of another layout with a reader or writer.
 */
boolean_t
abd_size_alloc_linear(size_t size)
{
	return (zfs_abd_scatter_enabled == 0 || size < 4 * PAGESIZE);
}

/*
 * Settings of jemalloc. Freed memory stays mapped for a minute, and the system can reclaim it: the buffers of the next
 * burst of writes then cause no page faults. Huge pages, where the system allows madvise: the page faults of filling a
 * cache were a third of the CPU time of starting a pool with a thousand volumes.
 */
const char *malloc_conf = "muzzy_decay_ms:60000,thp:always";
