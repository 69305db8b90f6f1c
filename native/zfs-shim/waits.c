/*
 * Limits waiting for transaction groups to the necessary ones.
 *
 * Each group that is waited for costs clients of a moving pool a few writes and flushes, and the library is not
 * optimised for that: a full sync includes two groups more than have any contents, and the close of a log fills its
 * own group with an empty commit. So a server with some open volumes waited for a dozen groups, one after another,
 * before its pool was exported.
 */
#include "volume_impl.h"

#include <sys/dsl_pool.h>
#include <sys/txg.h>
#include <sys/zil_impl.h>

/* This thread exports a pool. */
static __thread boolean_t exporting;
/* The log that this thread closes, and that has all its records in synced groups. */
static __thread const zilog_t *closing_clean;

/*
 * Blocks until all earlier changes are on disk. Each transaction that has been entered is in the open group or an
 * earlier one. The two further groups of the library's own wait only empty the lists of freed space.
 */
void
bh_wait_until_written(dsl_pool_t *dp)
{
	txg_wait_synced(dp,
	    __atomic_load_n(&dp->dp_tx.tx_open_txg, __ATOMIC_ACQUIRE));
}

/*
 * Whether the newest block of the log is open: it has records that no commit needs. A commit with its own records
 * in the previous block leaves it so for the next commit.
 */
static boolean_t
has_open_block(zilog_t *log)
{
	mutex_enter(&log->zl_lock);
	const lwb_t *newest = list_tail(&log->zl_lwb_list);
	boolean_t open = newest != NULL && newest->lwb_state == LWB_STATE_OPENED;
	mutex_exit(&log->zl_lock);
	return (open);
}

/*
 * Closes the log of a volume without writers, with all changes on disk: a commit would write nothing, except for an
 * open block, which the library does not close without one.
 */
void
bh_log_close(zilog_t *log)
{
	if (!has_open_block(log))
		closing_clean = log;
	zil_close(log);
	closing_clean = NULL;
}

/* Interposes the library's function. */
void
zil_commit(zilog_t *log, uint64_t object)
{
	static void (*library)(zilog_t *, uint64_t);

	if (log == closing_clean)
		return;
	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__),
		    __ATOMIC_RELAXED);
	library(log, object);
	/* The commit is complete: blocks of other commits must not depend on the waits below. */
	bh_in_place_hand_over();
	bh_log_gaps_await(log->zl_spa);
	/* The commit is not acknowledged before failed devices are on record. */
	bh_given_up_await(log->zl_spa);
}

/*
 * Marks the pool as free for any host in the labels. The library does so before it flushes its in-memory state of free
 * space, which may need many groups: another host would open the pool in between.
 *
 * The next group writes it. The library has determined the last group with contents, and a group may have synced since:
 * then there is one more. Returns the last group, which is waited for.
 */
static uint64_t
label_as_exported(spa_t *spa)
{
	/* No group is being synced while this is held. */
	spa_config_enter(spa, SCL_ALL, FTAG, RW_WRITER);
	spa->spa_final_txg = MAX(spa->spa_final_txg,
	    spa_last_synced_txg(spa) + 1 + TXG_DEFER_SIZE);
	uint64_t last = spa->spa_final_txg;
	vdev_config_dirty(spa->spa_root_vdev);
	spa_config_exit(spa, SCL_ALL, FTAG);
	return (last);
}

/* Interposes the library's function. */
void
txg_wait_synced(dsl_pool_t *dp, uint64_t txg)
{
	static void (*library)(dsl_pool_t *, uint64_t);

	if (bh_log_replays_without(txg))
		return;
	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__),
		    __ATOMIC_RELAXED);
	/* The last groups are waited for once. */
	if (exporting && dp->dp_spa->spa_state == POOL_STATE_EXPORTED &&
	    dp->dp_spa->spa_final_txg != UINT64_MAX) {
		exporting = B_FALSE;
		txg = MAX(txg, label_as_exported(dp->dp_spa));
	}
	if (txg == 0 && exporting)
		txg = __atomic_load_n(&dp->dp_tx.tx_open_txg, __ATOMIC_ACQUIRE);
	library(dp, txg);
}

int
bh_export(const char *pool, boolean_t force)
{
	spa_t *spa;

	/* The next importer needs the list of incomplete devices. */
	if (spa_open(pool, &spa, FTAG) == 0) {
		bh_given_up_await(spa);
		spa_close(spa, FTAG);
	}
	exporting = B_TRUE;
	int error = spa_export(pool, NULL, force, B_FALSE);
	exporting = B_FALSE;
	return (error);
}
