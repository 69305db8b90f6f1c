/*
 * Blocks of an intent log that could not be written, or for which there was no space.
 *
 * A log is a chain: a reader after a crash stops at the first missing block. If a block fails, the library has the
 * waiting commits wait for transaction groups instead. But it continues the chain after the block, and acknowledges
 * later commits there. These are durable only when the group that was open at the failure is on disk: with that group
 * the chain starts after the block. So every commit of the pool must wait for it.
 *
 * The same applies if one leaf of several failed to write a block. The leaf's DTL does not include the blocks of a log:
 * a start with that leaf alone, while the rest is late, would treat the log as complete there.
 */
#include "internal.h"

#include <sys/dsl_pool.h>
#include <sys/txg.h>
#include <sys/zil_impl.h>

#include <pthread.h>
#include <stdlib.h>

/* A pool with a log that has a gap, until the log begins after it. */
typedef struct gap {
	struct gap *g_next;
	uint64_t g_pool;
	/* The transaction group that closes it. */
	uint64_t g_txg;
} gap_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gap_t *gaps;
/* How many there are; read without the mutex. */
static uint32_t gap_count;

/* The library's completion of a written or failed block, the same for all. */
static zio_done_func_t *library_done;

/* The caller has the mutex. */
static gap_t **
find(uint64_t pool)
{
	gap_t **at = &gaps;

	while (*at != NULL && (*at)->g_pool != pool)
		at = &(*at)->g_next;
	return (at);
}

void
bh_log_gap_note(spa_t *spa)
{
	uint64_t txg = bh_open_txg(spa);

	if (txg == 0)
		return;
	VERIFY0(pthread_mutex_lock(&lock));
	gap_t **at = find(spa_guid(spa));
	if (*at == NULL) {
		gap_t *gap = calloc(1, sizeof (*gap));

		VERIFY3P(gap, !=, NULL);
		gap->g_pool = spa_guid(spa);
		*at = gap;
		__atomic_add_fetch(&gap_count, 1, __ATOMIC_RELEASE);
	}
	(*at)->g_txg = MAX((*at)->g_txg, txg);
	VERIFY0(pthread_mutex_unlock(&lock));
}

/* Before any acknowledgement: a commit with a later block completes later. */
static void
log_block_done(zio_t *zio)
{
	if (zio->io_error != 0)
		bh_log_gap_note(zio->io_spa);
	library_done(zio);
}

/* Interposes the library's function. */
zio_t *
zio_rewrite(zio_t *parent, spa_t *spa, uint64_t txg, blkptr_t *bp, abd_t *data, uint64_t size,
    zio_done_func_t *done, void *private, zio_priority_t priority, zio_flag_t flags, zbookmark_phys_t *bookmark)
{
	static typeof (zio_rewrite) *library;

	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__), __ATOMIC_RELAXED);
	if (done != NULL && bookmark != NULL && bookmark->zb_level == ZB_ZIL_LEVEL &&
	    bookmark->zb_object == ZB_ZIL_OBJECT) {
		__atomic_store_n(&library_done, done, __ATOMIC_RELAXED);
		done = log_block_done;
	}
	return (library(parent, spa, txg, bp, data, size, done, private, priority, flags, bookmark));
}

/* Interposes the library's function. A block without space is not written, and no other code is notified. */
int
zio_alloc_zil(spa_t *spa, objset_t *os, uint64_t txg, blkptr_t *new_bp, uint64_t size, boolean_t *slog)
{
	static typeof (zio_alloc_zil) *library;

	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__), __ATOMIC_RELAXED);
	int error = library(spa, os, txg, new_bp, size, slog);
	if (error != 0)
		bh_log_gap_note(spa);
	return (error);
}

/* The group that must be on disk before the logs of the pool have no gap, or 0. */
static uint64_t
ended_by(spa_t *spa)
{
	uint64_t txg = 0;

	VERIFY0(pthread_mutex_lock(&lock));
	gap_t **at = find(spa_guid(spa));
	gap_t *gap = *at;
	if (gap != NULL && gap->g_txg > spa_last_synced_txg(spa)) {
		txg = gap->g_txg;
	} else if (gap != NULL) {
		*at = gap->g_next;
		free(gap);
		__atomic_sub_fetch(&gap_count, 1, __ATOMIC_RELEASE);
	}
	VERIFY0(pthread_mutex_unlock(&lock));
	return (txg);
}

void
bh_log_gaps_await(spa_t *spa)
{
	if (__atomic_load_n(&gap_count, __ATOMIC_ACQUIRE) == 0 || !spa_writeable(spa))
		return;
	/* A gap before the block of this commit was noted before its end. Later ones are for later commits. */
	uint64_t txg = ended_by(spa);
	if (txg != 0)
		txg_wait_synced(spa_get_dsl(spa), txg);
}
