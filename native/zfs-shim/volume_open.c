/*
 * A volume as a whole: opening, closing, resizing, and rolling back to a snapshot.
 */
#include "volume_impl.h"

#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_prop.h>
#include <sys/txg.h>
#include <sys/zap.h>

#include <stdlib.h>

static int
read_size(objset_t *os, uint64_t *size)
{
	return (zap_lookup(os, BH_PROPERTIES_OBJECT, BH_SIZE_KEY, 8, 1, size));
}

/* Releases all resources but the objset. */
static void
shut_down(bh_volume_t *volume)
{
	spa_t *spa = volume->bv_os->os_spa;
	dsl_pool_t *dp = spa_get_dsl(spa);
	/* At the open it was set to an upper bound. */
	uint64_t dirty = MIN(volume->bv_dirty_txg,
	    __atomic_load_n(&dp->dp_tx.tx_open_txg, __ATOMIC_ACQUIRE));

	/* Cached blocks can only be dropped once they are clean, and so is the log then. */
	if ((volume->bv_log != NULL || volume->bv_log_retired) &&
	    dirty > spa_last_synced_txg(spa))
		txg_wait_synced(dp, dirty);
	if (volume->bv_log != NULL)
		bh_log_close(volume->bv_log);
	bh_unlogged_forget(&volume->bv_unlogged);
	volume->bv_log = NULL;
	volume->bv_log_retired = B_FALSE;
	if (volume->bv_dnode != NULL)
		dnode_rele(volume->bv_dnode, volume);
	volume->bv_dnode = NULL;
	dmu_objset_evict_dbufs(volume->bv_os);
}

/* Initialises a volume with an owned objset. */
static int
set_up(bh_volume_t *volume, const char *name, uint32_t flags)
{
	objset_t *os = volume->bv_os;
	uint64_t property_read_only = 0;
	dmu_object_info_t info;

	int error = read_size(os, &volume->bv_size);
	if (error == 0)
		error = dmu_object_info(os, BH_DATA_OBJECT, &info);
	if (error == 0)
		error = dsl_prop_get_integer(name, "readonly",
		    &property_read_only, NULL);
	if (error == 0 && !ISP2(info.doi_data_block_size))
		error = EINVAL;
	if (error == 0)
		error = dnode_hold(os, BH_DATA_OBJECT, volume,
		    &volume->bv_dnode);
	if (error != 0)
		return (error);

	volume->bv_block_size = info.doi_data_block_size;
	volume->bv_block_shift = highbit64(info.doi_data_block_size) - 1;
	boolean_t writable = !dmu_objset_is_snapshot(os) &&
	    spa_writeable(os->os_spa);
	volume->bv_read_only = !writable || property_read_only != 0 ||
	    (flags & BH_OPEN_READ_ONLY) != 0;
	if (writable)
		error = bh_log_replay(volume);
	/* The replay may have changed much; its groups count as changes. */
	if (writable)
		volume->bv_dirty_txg = spa_last_synced_txg(os->os_spa) +
		    TXG_CONCURRENT_STATES;
	return (error);
}

int
bh_volume_open(const char *name, uint32_t flags, bh_volume_t **out)
{
	bh_volume_t *volume = calloc(1, sizeof (*volume));

	if (volume == NULL)
		return (ENOMEM);
	boolean_t read_only = (flags & BH_OPEN_READ_ONLY) != 0 ||
	    strchr(name, '@') != NULL;
	int error = dmu_objset_own(name, DMU_OST_ZVOL, read_only, B_TRUE,
	    volume, &volume->bv_os);
	if (error != 0) {
		free(volume);
		return (error);
	}
	mutex_init(&volume->bv_log_mutex, NULL, MUTEX_DEFAULT, NULL);
	bh_unlogged_init(&volume->bv_unlogged);
	zfs_rangelock_init(&volume->bv_ranges, NULL, NULL);
	error = set_up(volume, name, flags);
	if (error != 0) {
		bh_volume_close(volume);
		return (error);
	}
	*out = volume;
	return (0);
}

void
bh_volume_close(bh_volume_t *volume)
{
	shut_down(volume);
	dmu_objset_disown(volume->bv_os, B_TRUE, volume);
	zfs_rangelock_fini(&volume->bv_ranges);
	bh_unlogged_fini(&volume->bv_unlogged);
	mutex_destroy(&volume->bv_log_mutex);
	free(volume);
}

int
bh_volume_discard_log(const char *name)
{
	objset_t *os;
	int error = dmu_objset_own(name, DMU_OST_ZVOL, B_FALSE, B_TRUE, FTAG, &os);

	if (error != 0)
		return (error);
	(void) zil_destroy(dmu_objset_zil(os), B_FALSE);
	bh_wait_until_written(dmu_objset_pool(os));
	dmu_objset_disown(os, B_TRUE, FTAG);
	return (0);
}

uint64_t
bh_volume_size(const bh_volume_t *volume)
{
	return (__atomic_load_n(&volume->bv_size, __ATOMIC_ACQUIRE));
}

uint32_t
bh_volume_block_size(const bh_volume_t *volume)
{
	return (volume->bv_block_size);
}

uint32_t
bh_volume_is_read_only(const bh_volume_t *volume)
{
	return (volume->bv_read_only);
}

/* Stores the size; durable on return. */
static int
store_size(bh_volume_t *volume, uint64_t size)
{
	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);

	dmu_tx_hold_zap(tx, BH_PROPERTIES_OBJECT, TRUE, NULL);
	dmu_tx_mark_netfree(tx);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	uint64_t txg = dmu_tx_get_txg(tx);
	error = zap_update(volume->bv_os, BH_PROPERTIES_OBJECT, BH_SIZE_KEY, 8,
	    1, &size, tx);
	dmu_tx_commit(tx);
	txg_wait_synced(dmu_objset_pool(volume->bv_os), txg);
	return (error);
}

int
bh_volume_resize(bh_volume_t *volume, uint64_t size)
{
	if (volume->bv_read_only)
		return (EROFS);
	if (size == 0 || size % volume->bv_block_size != 0)
		return (EINVAL);

	/* The range from the smaller of the two sizes on is locked against use. */
	uint64_t old = volume->bv_size;
	zfs_locked_range_t *range = zfs_rangelock_enter(&volume->bv_ranges,
	    MIN(old, size), UINT64_MAX - MIN(old, size), RL_WRITER);
	int error = 0;
	/* A log that still refers to bytes beyond the new end must not be replayed later. */
	if (size < old && volume->bv_log != NULL)
		txg_wait_synced(dmu_objset_pool(volume->bv_os), 0);
	error = store_size(volume, size);
	if (size < old)
		bh_await_tree(volume->bv_dnode, size, old - size);
	if (error == 0) {
		__atomic_store_n(&volume->bv_size, size, __ATOMIC_RELEASE);
		if (size < old)
			error = dmu_free_long_range(volume->bv_os,
			    BH_DATA_OBJECT, size, DMU_OBJECT_END);
	}
	zfs_rangelock_exit(range);
	return (error);
}

int
bh_volume_rollback(bh_volume_t *volume, const char *snapshot)
{
	char name[ZFS_MAX_DATASET_NAME_LEN];
	nvlist_t *result;

	if (dmu_objset_is_snapshot(volume->bv_os) ||
	    !spa_writeable(volume->bv_os->os_spa))
		return (EROFS);
	/* It may have been renamed since it was opened. */
	dmu_objset_name(volume->bv_os, name);
	shut_down(volume);
	result = fnvlist_alloc();
	int error = dsl_dataset_rollback(name, snapshot, volume, result);
	nvlist_free(result);

	/* We own the dataset throughout, so it exists; its objset is a new one. */
	VERIFY0(dmu_objset_hold(name, volume, &volume->bv_os));
	VERIFY3P(volume->bv_os->os_dsl_dataset->ds_owner, ==, volume);
	dmu_objset_rele(volume->bv_os, volume);
	int set_up_error = set_up(volume, name,
	    volume->bv_read_only ? BH_OPEN_READ_ONLY : 0);
	return (error != 0 ? error : set_up_error);
}
