/*
 * A volume's blocks: writes, frees, and allocation. volume_read.c has the reads.
 *
 * Every access holds the volume's range lock, so calls are atomic against each other. A block that a reader has pinned
 * is never moved or changed: writers of other bytes of the same block do not replace its buffer, and the pool copies a
 * pinned block before it syncs it.
 */
#include "volume_impl.h"

#include <sys/dsl_dataset.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>

#include <stdlib.h>

struct bh_write {
	bh_volume_t *bw_volume;
	uint64_t bw_offset;
	uint64_t bw_length;
	uint64_t bw_count;
	bh_part_t *bw_parts;
	bh_segment_t bw_segments[];
};

struct bh_update {
	bh_volume_t *bu_volume;
	zfs_locked_range_t *bu_range;
	uint64_t bu_offset;
	uint64_t bu_length;
};

/*
 * Pins a block that is about to be written. Blocks that are overwritten completely need no old contents, only their
 * position in the tree. dn_struct_rwlock is held.
 */
static int
pin_for_write(bh_volume_t *volume, uint64_t id, boolean_t whole,
    uint32_t wait, dmu_buf_impl_t **block)
{
	if (wait == BH_NO_WAIT) {
		switch (bh_find_block(volume, id, block)) {
		case BH_PINNED:
			return (0);
		case BH_HOLE:
			break;
		case BH_REACHABLE:
			if (whole)
				break;
			return (EAGAIN);
		case BH_FAR:
			return (EAGAIN);
		}
	}
	return (dbuf_hold_impl(volume->bv_dnode, 0, id, FALSE, FALSE, volume,
	    block));
}

static int
pin_all_for_write(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint32_t wait, dmu_buf_impl_t **blocks)
{
	dnode_t *dn = volume->bv_dnode;
	uint64_t size = volume->bv_block_size;
	uint64_t count = bh_block_count(volume, offset, length);
	uint64_t pinned = 0;
	int error = 0;

	rw_enter(&dn->dn_struct_rwlock, RW_READER);
	for (; pinned < count && error == 0; pinned++) {
		uint64_t within = P2PHASE(offset, size);
		uint64_t bytes = MIN(size - within, length);
		blocks[pinned] = NULL;
		error = pin_for_write(volume, offset >> volume->bv_block_shift,
		    bytes == size, wait, &blocks[pinned]);
		offset += bytes;
		length -= bytes;
	}
	rw_exit(&dn->dn_struct_rwlock);
	if (error != 0)
		bh_release_blocks(volume, blocks, pinned - 1);
	return (error);
}

/* Changes one pinned block inside a transaction. */
static void
write_block(dmu_buf_impl_t *db, uint64_t within, uint64_t bytes,
    const uint8_t *data, dmu_tx_t *tx)
{
	boolean_t whole = bytes == db->db.db_size;

	if (whole)
		dmu_buf_will_fill(&db->db, tx, B_FALSE);
	else
		dmu_buf_will_dirty(&db->db, tx);
	memcpy((uint8_t *)db->db.db_data + within, data, bytes);
	if (whole)
		dmu_buf_fill_done(&db->db, tx, B_FALSE);
}

/* Assigns the segments to the pinned blocks. Buffers of the pool change owner. */
static void
write_blocks(bh_volume_t *volume, dmu_buf_impl_t **blocks, uint64_t offset,
    bh_segment_t *segments, uint64_t segment_count, dmu_tx_t *tx)
{
	uint64_t size = volume->bv_block_size;
	dmu_buf_impl_t **block = blocks;

	for (uint64_t i = 0; i < segment_count; i++) {
		bh_segment_t *segment = &segments[i];
		if (segment->bs_arc != NULL) {
			ASSERT3U(P2PHASE(offset, size), ==, 0);
			dbuf_assign_arcbuf(*block++, segment->bs_arc, tx);
			segment->bs_arc = NULL;
			offset += size;
			continue;
		}
		for (uint64_t done = 0; done < segment->bs_length; ) {
			uint64_t within = P2PHASE(offset, size);
			uint64_t bytes = MIN(size - within,
			    segment->bs_length - done);
			write_block(*block, within, bytes,
			    segment->bs_data + done, tx);
			offset += bytes;
			done += bytes;
			if (P2PHASE(offset, size) == 0)
				block++;
		}
	}
}

/* Notes the transaction group of a change; groups only increase. */
void
bh_note_dirty(bh_volume_t *volume, uint64_t txg)
{
	uint64_t known = __atomic_load_n(&volume->bv_dirty_txg,
	    __ATOMIC_RELAXED);
	while (known < txg && !__atomic_compare_exchange_n(
	    &volume->bv_dirty_txg, &known, txg, B_TRUE, __ATOMIC_RELEASE,
	    __ATOMIC_RELAXED))
		continue;
}

/* Enters a transaction that changes the volume. A refused one is freed. */
static int
enter_change(bh_volume_t *volume, dmu_tx_t *tx, uint32_t wait)
{
	int error = dmu_tx_assign(tx,
	    wait == BH_MAY_WAIT ? DMU_TX_WAIT : DMU_TX_NOWAIT);

	if (error != 0) {
		dmu_tx_abort(tx);
		return (error == ERESTART ? EAGAIN : error);
	}
	bh_note_dirty(volume, dmu_tx_get_txg(tx));
	return (0);
}

/* Whether the requester of a change still needs it. */
static boolean_t
is_permitted(const bh_permit_t *permit)
{
	return (permit == NULL || permit->bp_begin(permit->bp_arg) != 0);
}

/*
 * Enters a transaction that writes an extent. `kept_back`: it is admitted to reserved space although the pool is full,
 * for bh_kept_back_commit().
 */
static int
enter_write(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint32_t wait, dmu_tx_t **out, boolean_t *kept_back)
{
	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);

	dmu_tx_hold_write_by_dnode(tx, volume->bv_dnode, offset, (int)length);
	int error = enter_change(volume, tx, wait);
	*out = tx;
	*kept_back = B_FALSE;
	if (!bh_is_refused_for_space(error) || !bh_has_reservation(volume))
		return (error);
	if (wait == BH_NO_WAIT)
		return (EAGAIN);
	if (!bh_is_reserved_whole(volume))
		return (error);
	*kept_back = B_TRUE;
	return (bh_kept_back_begin(volume, offset, length, out));
}

/*
 * One transaction: writes segments to locked and pinned blocks. The permit is checked last: a transaction may block for
 * as long as the pool's devices do.
 */
static int
write_pinned(bh_volume_t *volume, dmu_buf_impl_t **blocks, uint64_t offset,
    uint64_t length, bh_segment_t *segments, uint64_t segment_count,
    uint32_t wait, const bh_permit_t *permit)
{
	dmu_tx_t *tx;
	boolean_t kept_back;

	int error = enter_write(volume, offset, length, wait, &tx, &kept_back);
	if (error != 0)
		return (error);
	if (!is_permitted(permit)) {
		bh_kept_back_commit(tx, kept_back);
		return (ECANCELED);
	}
	write_blocks(volume, blocks, offset, segments, segment_count, tx);
	bh_log_write(volume, tx, offset, length);
	bh_kept_back_commit(tx, kept_back);
	return (0);
}

/* Writes segments to a locked extent. */
static int
write_locked(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_segment_t *segments, uint64_t segment_count, uint32_t wait,
    const bh_permit_t *permit)
{
	uint64_t count = bh_block_count(volume, offset, length);
	dmu_buf_impl_t *few[BH_STACK_BLOCKS];
	dmu_buf_impl_t **blocks = count <= BH_STACK_BLOCKS ? few :
	    kmem_alloc(count * sizeof (*blocks), KM_SLEEP);

	(void) bh_log_open(volume);
	int error = pin_all_for_write(volume, offset, length, wait, blocks);
	if (error == 0) {
		error = write_pinned(volume, blocks, offset, length, segments,
		    segment_count, wait, permit);
		bh_release_blocks(volume, blocks, count);
	}
	if (blocks != few)
		kmem_free(blocks, count * sizeof (*blocks));
	return (error);
}

/* With sync=always a write must be in the log before it completes. */
static boolean_t
is_sync_always(const bh_volume_t *volume)
{
	return (volume->bv_os->os_sync == ZFS_SYNC_ALWAYS);
}

/* Locks an extent for a change. */
static int
lock_for_change(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint32_t wait, zfs_locked_range_t **range)
{
	if (volume->bv_read_only)
		return (EROFS);
	if (wait == BH_NO_WAIT && is_sync_always(volume))
		return (EAGAIN);
	return (bh_lock_range(volume, offset, length, RL_WRITER, wait, range));
}

/* Unlocks the locks of lock_for_change(); the change is then as durable as required. */
static void
unlock_changed(bh_volume_t *volume, zfs_locked_range_t *range,
    boolean_t changed)
{
	zfs_rangelock_exit(range);
	if (changed && is_sync_always(volume))
		bh_log_commit(volume);
}

static int
write_segments(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_segment_t *segments, uint64_t segment_count, uint32_t wait,
    const bh_permit_t *permit)
{
	zfs_locked_range_t *range;

	int error = lock_for_change(volume, offset, length, wait, &range);
	if (error != 0)
		return (error);
	error = write_locked(volume, offset, length, segments, segment_count,
	    wait, permit);
	unlock_changed(volume, range, error == 0);
	return (error);
}

int
bh_write_copy(bh_volume_t *volume, uint64_t offset, const uint8_t *data,
    uint64_t length, uint32_t wait, const bh_permit_t *permit)
{
	bh_segment_t segment = { .bs_data = data, .bs_length = length };

	if (length == 0 || length > BH_LOAN_BYTES_MAX)
		return (EINVAL);
	return (write_segments(volume, offset, length, &segment, 1, wait,
	    permit));
}

int
bh_write_lend(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_write_t **out)
{
	uint64_t size = volume->bv_block_size;

	if (length == 0 || length > BH_LOAN_BYTES_MAX)
		return (EINVAL);
	if (volume->bv_read_only)
		return (EROFS);
	if (!bh_is_inside(volume, offset, length))
		return (ERANGE);

	uint64_t count = bh_block_count(volume, offset, length);
	uint64_t end = offset + length;
	uint64_t head = MIN(length, (size - P2PHASE(offset, size)) % size);
	uint64_t tail = head == length ? 0 : P2PHASE(end, size);
	bh_write_t *write = malloc(sizeof (*write) +
	    count * (sizeof (bh_segment_t) + sizeof (bh_part_t)) + head + tail);
	if (write == NULL)
		return (ENOMEM);
	write->bw_volume = volume;
	write->bw_offset = offset;
	write->bw_length = length;
	write->bw_count = count;
	write->bw_parts = (bh_part_t *)&write->bw_segments[count];

	/* The edges' bytes are stored after the parts. */
	uint8_t *plain = (uint8_t *)&write->bw_parts[count];
	for (uint64_t i = 0, at = offset; i < count; i++) {
		uint64_t bytes = MIN(size - P2PHASE(at, size), end - at);
		arc_buf_t *arc = bytes < size ? NULL :
		    arc_loan_buf(volume->bv_os->os_spa, B_FALSE, (int)size);
		uint8_t *data = plain;
		if (arc != NULL)
			data = arc->b_data;
		else
			plain += bytes;
		write->bw_parts[i] = (bh_part_t){ data, bytes };
		write->bw_segments[i] = (bh_segment_t){ data, bytes, arc };
		at += bytes;
	}
	*out = write;
	return (0);
}

const bh_part_t *
bh_write_parts(const bh_write_t *write, uint64_t *count)
{
	*count = write->bw_count;
	return (write->bw_parts);
}

void
bh_write_discard(bh_write_t *write)
{
	for (uint64_t i = 0; i < write->bw_count; i++) {
		if (write->bw_segments[i].bs_arc != NULL)
			dmu_return_arcbuf(write->bw_segments[i].bs_arc);
	}
	free(write);
}

int
bh_write_commit(bh_write_t *write, uint32_t wait, const bh_permit_t *permit)
{
	int error = write_segments(write->bw_volume, write->bw_offset,
	    write->bw_length, write->bw_segments, write->bw_count, wait,
	    permit);

	if (error != EAGAIN)
		bh_write_discard(write);
	return (error);
}

int
bh_write_zeroes(bh_volume_t *volume, uint64_t offset, uint64_t length,
    const bh_permit_t *permit)
{
	zfs_locked_range_t *range;

	int error = lock_for_change(volume, offset, length, BH_MAY_WAIT,
	    &range);
	if (error != 0)
		return (error);
	while (length > 0 && error == 0) {
		uint64_t bytes = MIN(length,
		    BH_ZERO_BYTES - P2PHASE(offset, BH_ZERO_BYTES));
		bh_segment_t zeroes = {
		    .bs_data = bh_zeroes, .bs_length = bytes };
		error = write_locked(volume, offset, bytes, &zeroes, 1,
		    BH_MAY_WAIT, permit);
		offset += bytes;
		length -= bytes;
	}
	unlock_changed(volume, range, error == 0);
	return (error);
}

/*
 * The record follows the free: logged before it, the record could be retired with an earlier
 * transaction group than the one that frees, and an acknowledged free would be lost.
 */
static int
free_locked(bh_volume_t *volume, uint64_t offset, uint64_t length)
{
	(void) bh_log_open(volume);
	bh_await_tree(volume->bv_dnode, offset, length);
	int error = dmu_free_long_range(volume->bv_os, BH_DATA_OBJECT, offset,
	    length);
	if (error != 0)
		return (error);

	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	dmu_tx_mark_netfree(tx);
	error = enter_change(volume, tx, BH_MAY_WAIT);
	if (error != 0)
		return (error);
	bh_log_free(volume, tx, offset, length);
	dmu_tx_commit(tx);
	return (0);
}

int
bh_free(bh_volume_t *volume, uint64_t offset, uint64_t length,
    const bh_permit_t *permit)
{
	zfs_locked_range_t *range;

	int error = lock_for_change(volume, offset, length, BH_MAY_WAIT,
	    &range);
	if (error != 0)
		return (error);
	error = is_permitted(permit) ?
	    free_locked(volume, offset, length) : ECANCELED;
	unlock_changed(volume, range, error == 0);
	return (error);
}

int
bh_update_begin(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint8_t *data, bh_update_t **out)
{
	zfs_locked_range_t *range;

	if (length == 0 || length > BH_LOAN_BYTES_MAX)
		return (EINVAL);
	int error = lock_for_change(volume, offset, length, BH_MAY_WAIT,
	    &range);
	if (error != 0)
		return (error);
	error = bh_copy_out(volume, offset, length, data);
	bh_update_t *update = error == 0 ? malloc(sizeof (*update)) : NULL;
	if (update == NULL) {
		zfs_rangelock_exit(range);
		return (error != 0 ? error : ENOMEM);
	}
	update->bu_volume = volume;
	update->bu_range = range;
	update->bu_offset = offset;
	update->bu_length = length;
	*out = update;
	return (0);
}

int
bh_update_end(bh_update_t *update, const uint8_t *data)
{
	bh_volume_t *volume = update->bu_volume;
	int error = 0;

	if (data != NULL) {
		bh_segment_t segment = {
		    .bs_data = data, .bs_length = update->bu_length };
		error = write_locked(volume, update->bu_offset,
		    update->bu_length, &segment, 1, BH_MAY_WAIT, NULL);
	}
	unlock_changed(volume, update->bu_range, error == 0 && data != NULL);
	free(update);
	return (error);
}

int
bh_flush(bh_volume_t *volume)
{
	/* Nothing was ever written. */
	if (__atomic_load_n(&volume->bv_log, __ATOMIC_ACQUIRE) != NULL)
		bh_log_commit(volume);
	return (0);
}
