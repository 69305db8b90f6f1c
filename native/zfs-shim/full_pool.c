/*
 * Admits writes to reserved space although the pool is full.
 *
 * The library compares 24 times the data of a write, plus the dirty data before it, with the unused part of the
 * reservation. If that is insufficient, it checks the parent datasets, up to the pool, and these are full. So it
 * refuses a burst into a volume, and every write to a fully written one, although the volume uses no more space than
 * its reservation.
 *
 * Such a write is admitted here by the library's limit for changes that free space (space_estimate.c has
(space_estimate.c the replaced blocks are free, new ones are allocated from the pool's slop space. So these writes
 * are serialised, and the amount of dirty data is limited.
 */
#include "volume_impl.h"

#include <sys/dsl_dataset.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/spa_impl.h>

#include <pthread.h>

/* The maximum of dirty data, as a share of the pool's slop space. */
#define	BH_KEPT_BACK_SHARE	4
/* How many transaction groups a write may be delayed until dirty data has decreased. */
#define	BH_GROUPS_MAX	8

/* Held from the check of the dirty data until the write is included in it. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

boolean_t
bh_is_refused_for_space(int error)
{
	return (error == ENOSPC || error == EDQUOT);
}

boolean_t
bh_has_reservation(const bh_volume_t *volume)
{
	return (dmu_objset_ds(volume->bv_os)->ds_reserved != 0);
}

boolean_t
bh_is_reserved_whole(const bh_volume_t *volume)
{
	objset_t *os = volume->bv_os;
	uint64_t size = __atomic_load_n(&volume->bv_size, __ATOMIC_ACQUIRE);

	return (dmu_objset_ds(os)->ds_reserved >= bh_space_of_volume(os->os_spa, size,
	    volume->bv_block_size, os->os_copies));
}

/* The estimated space for the dirty data of the whole pool. */
static uint64_t
space_of_dirty_data(dsl_pool_t *dp)
{
	dsl_dir_t *root = dp->dp_root_dir;
	uint64_t space = 0;

	mutex_enter(&root->dd_lock);
	for (int i = 0; i < TXG_SIZE; i++)
		space += root->dd_space_towrite[i];
	mutex_exit(&root->dd_lock);
	return (space);
}

static void
wait_for_less_dirty_data(dsl_pool_t *dp)
{
	uint64_t share = spa_get_slop_space(dp->dp_spa) / BH_KEPT_BACK_SHARE;

	for (int i = 0; i < BH_GROUPS_MAX && space_of_dirty_data(dp) > share; i++)
		txg_wait_synced(dp, spa_last_synced_txg(dp->dp_spa) + 1);
}

void
bh_kept_back_enter(dsl_pool_t *dp)
{
	VERIFY0(pthread_mutex_lock(&one_at_a_time));
	wait_for_less_dirty_data(dp);
}

void
bh_kept_back_leave(void)
{
	VERIFY0(pthread_mutex_unlock(&one_at_a_time));
}

int
bh_kept_back_begin(bh_volume_t *volume, uint64_t offset, uint64_t length, dmu_tx_t **out)
{
	bh_kept_back_enter(dmu_objset_pool(volume->bv_os));

	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	dmu_tx_hold_write_by_dnode(tx, volume->bv_dnode, offset, (int)length);
	dmu_tx_mark_netfree(tx);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		bh_kept_back_leave();
		return (error);
	}
	bh_note_dirty(volume, dmu_tx_get_txg(tx));
	*out = tx;
	return (0);
}

void
bh_kept_back_commit(dmu_tx_t *tx, boolean_t kept_back)
{
	dmu_tx_commit(tx);
	if (kept_back)
		bh_kept_back_leave();
}
