/*
 * Handles the consequences of a write that failed on a leaf.
 *
 * They depend on the contents and the transaction group of the write, not on the error of the device:
 *
 * - Data of a group. The library adds the group to the leaf's DTL, but starts no copy: the resilver is requested here,
 *   once no scan runs, because it would cancel a running scrub.
 * - A block of an intent log, or data that only a log refers to yet. No DTL has it: commits wait for the group that
 *   closes the gap (log_gaps.c).
 * - A label, an uberblock, or a repair outside a scan: these are written again anyway.
 *
 * The library retries after EIO to distinguish errors, and records nothing before that. The retry is made only where
 * the whole write failed. So a leaf without peers first fails with EIO for any error of the device, and a write that
 * then succeeds misses no data. Where other leaves completed the write, it never fails with EIO.
 */
#include "internal.h"

#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>
#include <sys/vdev_rebuild.h>
#include <sys/zil.h>

#include <pthread.h>
#include <stdlib.h>

/* A pool with a leaf that needs a resilver. */
typedef struct want {
	struct want *w_next;
	uint64_t w_pool;
	/* The newest transaction group that such a leaf misses. */
	uint64_t w_txg;
} want_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static want_t *wants;
/* How many there are; read without the mutex. */
static uint32_t want_count;

/* The caller has the mutex. */
static want_t **
find(uint64_t pool)
{
	want_t **at = &wants;

	while (*at != NULL && (*at)->w_pool != pool)
		at = &(*at)->w_next;
	return (at);
}

static void
want_copy(spa_t *spa, uint64_t txg)
{
	VERIFY0(pthread_mutex_lock(&lock));
	want_t **at = find(spa_guid(spa));
	if (*at == NULL) {
		want_t *want = calloc(1, sizeof (*want));

		VERIFY3P(want, !=, NULL);
		want->w_pool = spa_guid(spa);
		*at = want;
		__atomic_add_fetch(&want_count, 1, __ATOMIC_RELEASE);
	}
	(*at)->w_txg = MAX((*at)->w_txg, txg);
	VERIFY0(pthread_mutex_unlock(&lock));
}

/* Whether a scan of the whole pool is active, which a resilver would cancel, or which would delay the resilver. */
static boolean_t
is_scanned(dsl_pool_t *dp)
{
	const dsl_scan_t *scan = dp->dp_scan;

	return ((scan->scn_phys.scn_state == DSS_SCANNING && !dsl_scan_is_paused_scrub(scan)) ||
	    dsl_errorscrubbing(dp) || vdev_rebuild_active(dp->dp_spa->spa_root_vdev));
}

static void
begin_copy(dsl_pool_t *dp)
{
	spa_t *spa = dp->dp_spa;

	if (__atomic_load_n(&want_count, __ATOMIC_ACQUIRE) == 0 || is_scanned(dp))
		return;
	VERIFY0(pthread_mutex_lock(&lock));
	want_t **at = find(spa_guid(spa));
	want_t *want = *at;
	boolean_t is_needed = want != NULL && vdev_resilver_needed(spa->spa_root_vdev, NULL, NULL);
	/* The DTL entry is made after the request, when the write completes. */
	if (want != NULL && (is_needed || want->w_txg <= spa_last_synced_txg(spa))) {
		*at = want->w_next;
		free(want);
		__atomic_sub_fetch(&want_count, 1, __ATOMIC_RELEASE);
	}
	VERIFY0(pthread_mutex_unlock(&lock));
	if (is_needed)
		spa_async_request(spa, SPA_ASYNC_RESILVER);
}

/*
 * Drops a requested resilver that no leaf needs any more in its group, for example because a new disk failed before.
 * The library would instead start a scrub of the whole pool, or restart a running one.
 */
static void
drop_unneeded_resilver(dsl_pool_t *dp, const dmu_tx_t *tx)
{
	dsl_scan_t *scan = dp->dp_scan;

	if (scan->scn_restart_txg != 0 && scan->scn_restart_txg <= tx->tx_txg &&
	    !vdev_resilver_needed(dp->dp_spa->spa_root_vdev, NULL, NULL))
		scan->scn_restart_txg = 0;
}

/* Interposes the library's function, which each transaction group calls. */
void
dsl_scan_sync(dsl_pool_t *dp, dmu_tx_t *tx)
{
	static void (*library)(dsl_pool_t *, dmu_tx_t *);

	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__), __ATOMIC_RELAXED);
	drop_unneeded_resilver(dp, tx);
	library(dp, tx);
	if (spa_sync_pass(dp->dp_spa) == 1)
		begin_copy(dp);
}

/* A write that failed. */
typedef struct lost {
	boolean_t l_is_log;
	/* The newest transaction group of data; 0 for none. */
	uint64_t l_txg;
} lost_t;

static void
add_lost(const zio_t *zio, lost_t *lost)
{
	zio_flag_t flags = zio->io_flags;

	if (zio->io_bookmark.zb_level == ZB_ZIL_LEVEL && zio->io_bookmark.zb_object == ZB_ZIL_OBJECT)
		lost->l_is_log = B_TRUE;
	/* Writes that the library adds to the DTL itself. */
	if ((flags & ZIO_FLAG_IO_REPAIR) == 0 || (flags & ZIO_FLAG_SCAN_THREAD) != 0 || zio->io_spa->spa_claiming)
		lost->l_txg = MAX(lost->l_txg, zio->io_txg);
}

/* Adjacent writes are aggregated into one without properties of its own: its parents have them. */
static lost_t
lost_by(zio_t *zio)
{
	lost_t lost = { 0 };
	zio_link_t *link = NULL;
	zio_t *above;

	if ((zio->io_flags & ZIO_FLAG_DELEGATED) == 0) {
		add_lost(zio, &lost);
		return (lost);
	}
	mutex_enter(&zio->io_lock);
	while ((above = zio_walk_parents(zio, &link)) != NULL)
		add_lost(above, &lost);
	mutex_exit(&zio->io_lock);
	return (lost);
}

void
bh_failed_write_note(zio_t *zio)
{
	vdev_t *vd = zio->io_vd;
	spa_t *spa = zio->io_spa;
	boolean_t is_alone = vd == vd->vdev_top;

	/* A leaf out of use is on record, with every later group. */
	if (vd->vdev_aux != NULL || !spa_writeable(spa) || vdev_is_dead(vd))
		return;
	const lost_t lost = lost_by(zio);
	boolean_t is_lost = lost.l_is_log || lost.l_txg != 0;

	if (!is_alone && zio->io_error == EIO)
		zio->io_error = EREMOTEIO;
	else if (is_alone && is_lost && zio->io_error != ENXIO && (zio->io_flags & ZIO_FLAG_IO_RETRY) == 0)
		zio->io_error = EIO;
	/* Without another leaf the whole write fails, and the log's own error handling syncs the group. */
	if (is_alone)
		return;
	/* Data of a group that is not being synced yet: a log refers to it. */
	if (lost.l_is_log || lost.l_txg > spa_syncing_txg(spa))
		bh_log_gap_note(spa);
	if (lost.l_txg != 0 && !bh_is_given_up(vd))
		want_copy(spa, lost.l_txg);
}
