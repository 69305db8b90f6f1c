/*
 * Which parts of a volume are allocated.
 */
#include "volume_impl.h"

/* Adds a run, joining it with the last one if both are in the same state. */
static void
add_run(bh_run_t *runs, uint64_t *count, uint64_t length, uint32_t allocated)
{
	if (*count > 0 && runs[*count - 1].br_allocated == allocated) {
		runs[*count - 1].br_length += length;
		return;
	}
	runs[*count] = (bh_run_t){ length, allocated, 0 };
	(*count)++;
}

/* Walks the synced tree of block pointers; nobody writes to the extent meanwhile. */
static int
walk_runs(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_run_t *runs, uint64_t runs_max, uint64_t *count)
{
	uint64_t end = offset + length;
	uint32_t allocated = 0;

	*count = 0;
	while (offset < end && *count < runs_max) {
		/* The start of the next run in the other state. */
		uint64_t next = offset;
		int error = dnode_next_offset(volume->bv_dnode,
		    allocated ? DNODE_FIND_HOLE : 0, &next, 1, 1, 0);
		if (error != 0 && error != ESRCH)
			return (error);
		if (error == ESRCH || next > end)
			next = end;
		if (next > offset)
			add_run(runs, count, next - offset, allocated);
		offset = next;
		allocated = !allocated;
	}
	return (0);
}

int
bh_status(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_run_t *runs, uint64_t runs_max, uint64_t *count)
{
	zfs_locked_range_t *range;

	if (runs_max == 0)
		return (EINVAL);
	int error = bh_lock_range(volume, offset, length, RL_READER, BH_MAY_WAIT,
	    &range);
	if (error != 0)
		return (error);
	/* What is allocated is decided when a transaction group is synced. */
	uint64_t dirty = __atomic_load_n(&volume->bv_dirty_txg,
	    __ATOMIC_ACQUIRE);
	spa_t *spa = volume->bv_os->os_spa;
	if (dirty > spa_last_synced_txg(spa))
		txg_wait_synced(spa_get_dsl(spa), dirty);
	error = walk_runs(volume, offset, length, runs, runs_max, count);
	zfs_rangelock_exit(range);
	return (error);
}
