/*
 * Which parts of an object are allocated.
 */
#include "volume_impl.h"

/* Indirect blocks that the library may check one by one. */
#define	BH_POINTER_BLOCKS_MAX	1024

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

/*
 * The next data, or hole, from `offset` on; ESRCH if there is none. The object is not dirty, and dn_struct_rwlock is held.
 *
 * The library's own function uses the number of a block modulo the maximum of a tree with so few levels, and treats a
 * block of an odd size as data even if it is not.
 */
int
bh_next_offset(dnode_t *dn, boolean_t hole, uint64_t *offset)
{
	const dnode_phys_t *phys = dn->dn_phys;
	boolean_t is_in_hole = phys->dn_nlevels == 0 ||
	    *offset >= (phys->dn_maxblkid + 1) * dn->dn_datablksz ||
	    (!ISP2(dn->dn_datablksz) && phys->dn_nlevels == 1 &&
	    BP_IS_HOLE(&phys->dn_blkptr[0]));

	if (is_in_hole)
		return (hole ? 0 : ESRCH);
	return (dnode_next_offset(dn, DNODE_FIND_HAVELOCK |
	    (hole ? DNODE_FIND_HOLE : 0), offset, 1, 1, 0));
}

uint64_t
bh_blocks_end(dnode_t *dn)
{
	rw_enter(&dn->dn_struct_rwlock, RW_READER);
	uint64_t end = (dn->dn_maxblkid + 1) * dn->dn_datablksz;
	rw_exit(&dn->dn_struct_rwlock);
	return (end);
}

/*
 * Called before a range is freed. The library finds the indirect blocks in the tree on disk. If that has fewer levels
 * than the one in memory, it visits every index of such a block: for a file with one byte at its start, and one just
 * written at the largest offset, it would visit more than fit into memory. It may then wait for a transaction group.
 */
void
bh_await_tree(dnode_t *dn, uint64_t offset, uint64_t length)
{
	uint64_t end = bh_blocks_end(dn);
	int shift = dn->dn_datablkshift + dn->dn_indblkshift - SPA_BLKPTRSHIFT;
	uint64_t bytes = offset >= end ? 0 : MIN(length, end - offset);
	if (dn->dn_datablkshift == 0 || bytes >> shift <= BH_POINTER_BLOCKS_MAX)
		return;
	/* Each round adds levels, and their number is small. */
	while (dn->dn_phys->dn_nlevels < dn->dn_nlevels)
		bh_wait_until_written(dmu_objset_pool(dn->dn_objset));
}

/* Walks the synced tree of block pointers; the extent must not be written to during the walk. */
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
		rw_enter(&volume->bv_dnode->dn_struct_rwlock, RW_READER);
		int error = bh_next_offset(volume->bv_dnode, allocated != 0, &next);
		rw_exit(&volume->bv_dnode->dn_struct_rwlock);
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
	/* Allocation is decided when a transaction group is synced. */
	uint64_t dirty = __atomic_load_n(&volume->bv_dirty_txg,
	    __ATOMIC_ACQUIRE);
	spa_t *spa = volume->bv_os->os_spa;
	if (dirty > spa_last_synced_txg(spa))
		txg_wait_synced(spa_get_dsl(spa), dirty);
	error = walk_runs(volume, offset, length, runs, runs_max, count);
	zfs_rangelock_exit(range);
	return (error);
}
