/*
 * Waits for transaction groups no longer than what was done asks for.
 *
 * Each group that is waited for costs clients of a pool that moves a few writes and flushes, and the
 * library is generous where nobody waits for it: "everything" means two groups more than have any
 * contents, and the close of a log fills a group of its own with a commit that commits nothing. So a
 * server with some open volumes waited for a dozen groups, one after the other, before it was rid of its pool.
 */
#include "volume_impl.h"

#include <sys/dsl_pool.h>
#include <sys/txg.h>
#include <sys/zil_impl.h>

/* This thread lets go of a pool. */
static __thread boolean_t exporting;
/* The log that this thread closes, and whose records are all in groups that are on disk. */
static __thread const zilog_t *closing_clean;

/*
 * Waits until all that was done before is on disk. Whatever has entered a transaction is in the open
 * group or an earlier one. Two more groups, as the library waits for, only empty the lists of
 * space that was freed.
 */
void
bh_wait_until_written(dsl_pool_t *dp)
{
	txg_wait_synced(dp,
	    __atomic_load_n(&dp->dp_tx.tx_open_txg, __ATOMIC_ACQUIRE));
}

/*
 * Whether the newest block of the log is open: records are in it that nobody waits for.  A commit whose own records are in the
 * block before leaves it so for the next commit.
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
 * Closes the log of a volume that nobody writes to any more, and whose changes are all on disk: a commit would write
 * nothing, but for an open block, which the library does not close without one.
 */
void
bh_log_close(zilog_t *log)
{
	if (!has_open_block(log))
		closing_clean = log;
	zil_close(log);
	closing_clean = NULL;
}

/* Comes before the library's own. */
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
	bh_log_gaps_await(log->zl_spa);
	/* Nobody is told that this is durable before it is known where it is not. */
	bh_given_up_await(log->zl_spa);
}

/*
 * Has the labels say that the pool is free for any host.  The library has them say so before it flushes what it has
 * in memory about free space, which may take many groups: another host would open the pool meanwhile.
 *
 * The next group writes it.  The library has said which group is the last with contents, and a group may have ended
 * since: then there is one more.  Returns the last group, which is waited for.
 */
static uint64_t
label_as_exported(spa_t *spa)
{
	/* No group is being written while this is held. */
	spa_config_enter(spa, SCL_ALL, FTAG, RW_WRITER);
	spa->spa_final_txg = MAX(spa->spa_final_txg,
	    spa_last_synced_txg(spa) + 1 + TXG_DEFER_SIZE);
	uint64_t last = spa->spa_final_txg;
	vdev_config_dirty(spa->spa_root_vdev);
	spa_config_exit(spa, SCL_ALL, FTAG);
	return (last);
}

/* Comes before the library's own. */
void
txg_wait_synced(dsl_pool_t *dp, uint64_t txg)
{
	static void (*library)(dsl_pool_t *, uint64_t);

	if (bh_log_replays_without(txg))
		return;
	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__),
		    __ATOMIC_RELAXED);
	/* The end of the last groups is waited for once. */
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

	/* Whoever imports it next has to know which devices lack something. */
	if (spa_open(pool, &spa, FTAG) == 0) {
		bh_given_up_await(spa);
		spa_close(spa, FTAG);
	}
	exporting = B_TRUE;
	int error = spa_export(pool, NULL, force, B_FALSE);
	exporting = B_FALSE;
	return (error);
}
