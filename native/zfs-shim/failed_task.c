/*
 * Lets a task of a transaction group fail without ending the process.
 *
 * The check of several snapshots reserves space for the first ones before it refuses a later one with an existing name
 * or for which there is no room. If the transaction group has no other change, the library treats it as empty, finds
 * the reserved space, and aborts the process.
 */
#include "internal.h"

#include <sys/dmu_objset.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_synctask.h>

void
dsl_sync_task_sync(dsl_sync_task_t *task, dmu_tx_t *tx)
{
	void (*library)(dsl_sync_task_t *, dmu_tx_t *) = bh_library_function(__func__);
	/* The task may be freed afterwards. */
	dsl_pool_t *pool = task->dst_pool;
	uint64_t txg = dmu_tx_get_txg(tx);

	library(task, tx);
	/* The group is not empty: the next pass processes the directories as after a successful task. */
	if (!txg_list_empty(&pool->dp_dirty_dirs, txg) &&
	    !dmu_objset_is_dirty(pool->dp_meta_objset, txg))
		dmu_buf_will_dirty(pool->dp_root_dir->dd_dbuf, tx);
}
