/*
 * A volume's blocks: loans of cached blocks, writes, frees, and what is allocated where.
 *
 * Every access holds the volume's range lock, so calls are atomic against each other. A block
 * that a reader has pinned is never moved or changed below it: writers of other bytes of the
 * same block leave its buffer in place, and the pool copies a pinned block before it syncs it.
 */
#include "volume_impl.h"

#include <sys/dmu_zfetch.h>
#include <sys/dsl_dataset.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>

#include <stdlib.h>

/* Reads of at least this many blocks always tell the prefetcher. */
#define	BH_STREAM_BLOCKS_MIN	4
/* A zeroing write goes in transactions of this size. */
#define	BH_ZERO_BYTES		(128ULL << 10)
/* Block handles of small writes live on the stack. */
#define	BH_STACK_BLOCKS		16
/* Beside BH_NO_WAIT and BH_MAY_WAIT: reads are started, and whoever asked is told of their end. */
#define	BH_BEGIN		2U

/* What a hole reads as. Never written. */
static uint8_t bh_zeroes[BH_ZERO_BYTES];

struct bh_read {
	bh_volume_t *brd_volume;
	zfs_locked_range_t *brd_range;
	uint64_t brd_offset;
	uint64_t brd_length;
	/* Of a read that was begun, and what is called at its end. */
	zio_t *brd_root;
	bh_read_done_t *brd_done;
	void *brd_arg;
	uint64_t brd_part_count;
	uint64_t brd_block_count;
	bh_part_t *brd_parts;
	dmu_buf_impl_t *brd_blocks[];
};

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

/* Where a block's contents are. */
typedef enum bh_place {
	BH_PINNED,	/* in memory, and now held */
	BH_HOLE,	/* nowhere: it reads as zeroes */
	BH_REACHABLE,	/* its block pointer is in memory */
	BH_FAR		/* even finding it needs a disk */
} bh_place_t;

static boolean_t
is_inside(const bh_volume_t *volume, uint64_t offset, uint64_t length)
{
	uint64_t size = __atomic_load_n(&volume->bv_size, __ATOMIC_ACQUIRE);
	return (length <= size && offset <= size - length);
}

static uint64_t
block_count(const bh_volume_t *volume, uint64_t offset, uint64_t length)
{
	return (((offset + length - 1) >> volume->bv_block_shift) -
	    (offset >> volume->bv_block_shift) + 1);
}

int
bh_lock_range(bh_volume_t *volume, uint64_t offset, uint64_t length,
    zfs_rangelock_type_t type, uint32_t wait, zfs_locked_range_t **out)
{
	zfs_locked_range_t *range = wait == BH_MAY_WAIT ?
	    zfs_rangelock_enter(&volume->bv_ranges, offset, length, type) :
	    zfs_rangelock_tryenter(&volume->bv_ranges, offset, length, type);

	if (range == NULL)
		return (EAGAIN);
	if (!is_inside(volume, offset, length)) {
		zfs_rangelock_exit(range);
		return (ERANGE);
	}
	*out = range;
	return (0);
}

/*
 * Whether the block pointer of (level, block) says hole, where `parent` holds that pointer, or
 * the dnode if it is NULL.
 */
static boolean_t
pointer_is_hole(dnode_t *dn, dmu_buf_impl_t *parent, uint64_t block)
{
	int shift = dn->dn_indblkshift - SPA_BLKPTRSHIFT;
	boolean_t hole;

	if (parent == NULL) {
		rw_enter(&dn->dn_dbuf->db_rwlock, RW_READER);
		hole = BP_IS_HOLE(&dn->dn_phys->dn_blkptr[block]);
		rw_exit(&dn->dn_dbuf->db_rwlock);
		return (hole);
	}
	rw_enter(&parent->db_rwlock, RW_READER);
	const blkptr_t *pointers = parent->db.db_data;
	hole = BP_IS_HOLE(&pointers[block & ((1ULL << shift) - 1)]);
	rw_exit(&parent->db_rwlock);
	return (hole);
}

/*
 * Looks for a block without any I/O, and pins it if it is in memory. dn_struct_rwlock is held.
 *
 * A block that is not in the table of cached blocks is not dirty, so the tree of block pointers
 * tells the truth about it (except for a free that was not synced yet, which reading the block
 * takes care of).
 */
static bh_place_t
find_block(bh_volume_t *volume, uint64_t block, dmu_buf_impl_t **out)
{
	dnode_t *dn = volume->bv_dnode;
	uint64_t hash;

	*out = NULL;
	if (dbuf_hold_impl(dn, 0, block, FALSE, TRUE, volume, out) == 0)
		return (BH_PINNED);

	dmu_buf_impl_t *db = dbuf_find(volume->bv_os, BH_DATA_OBJECT, 0, block,
	    &hash);
	if (db != NULL) {
		/* On its way in, or dirty in a way that reading it resolves. */
		mutex_exit(&db->db_mtx);
		return (BH_REACHABLE);
	}

	int shift = dn->dn_indblkshift - SPA_BLKPTRSHIFT;
	int levels = MAX(dn->dn_phys->dn_nlevels, 1);
	if (block > dn->dn_phys->dn_maxblkid)
		return (BH_HOLE);
	/* From the lowest pointer block that is in memory. */
	for (int level = 1; level < levels; level++) {
		dmu_buf_impl_t *parent;
		if (dbuf_hold_impl(dn, level, block >> (shift * level), FALSE,
		    TRUE, FTAG, &parent) != 0)
			continue;
		boolean_t hole = pointer_is_hole(dn, parent,
		    block >> (shift * (level - 1)));
		dbuf_rele(parent, FTAG);
		return (hole ? BH_HOLE : level == 1 ? BH_REACHABLE : BH_FAR);
	}
	if (pointer_is_hole(dn, NULL, block >> (shift * (levels - 1))))
		return (BH_HOLE);
	return (levels == 1 ? BH_REACHABLE : BH_FAR);
}

static void
release_blocks(bh_volume_t *volume, dmu_buf_impl_t **blocks, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (blocks[i] != NULL)
			dbuf_rele(blocks[i], volume);
	}
}

/* Tells the prefetcher of a read, if it looks like a part of a stream. */
static void
note_stream(bh_volume_t *volume, uint64_t first, uint64_t count,
    boolean_t missed)
{
	uint64_t expected = __atomic_load_n(&volume->bv_next_block,
	    __ATOMIC_RELAXED);

	__atomic_store_n(&volume->bv_next_block, first + count,
	    __ATOMIC_RELAXED);
	if (missed || count >= BH_STREAM_BLOCKS_MIN || first == expected)
		dmu_zfetch(&volume->bv_dnode->dn_zfetch, first, count, B_TRUE,
		    missed, B_TRUE);
}

static boolean_t
is_being_read(dmu_buf_impl_t *db)
{
	mutex_enter(&db->db_mtx);
	boolean_t is_read = db->db_state == DB_READ || db->db_state == DB_FILL;
	mutex_exit(&db->db_mtx);
	return (is_read);
}

/*
 * Pins one block for reading, starting a read of it below `*root` if need be. Holes leave
 * `*block` NULL. dn_struct_rwlock is held.
 */
static int
pin_block(bh_volume_t *volume, uint64_t id, uint32_t wait, zio_t **root,
    dmu_buf_impl_t **block)
{
	dnode_t *dn = volume->bv_dnode;

	switch (find_block(volume, id, block)) {
	case BH_PINNED:
	case BH_HOLE:
		return (0);
	case BH_FAR:
		if (wait != BH_MAY_WAIT)
			return (EAGAIN);
		break;
	case BH_REACHABLE:
		break;
	}
	int error = dbuf_hold_impl(dn, 0, id, TRUE, FALSE, volume, block);
	if (error != 0) {
		*block = NULL;
		return (error == ENOENT ? 0 : error);
	}
	/* What somebody else reads is his to wait for: nobody could be told of its end. */
	if (wait == BH_BEGIN && is_being_read(*block)) {
		dbuf_rele(*block, volume);
		*block = NULL;
		return (EAGAIN);
	}
	if (*root == NULL)
		*root = zio_root(volume->bv_os->os_spa, NULL, NULL,
		    ZIO_FLAG_CANFAIL);
	/* Errors reach the root. What the ARC has is there when this returns. */
	(void) dbuf_read(*block, *root, DB_RF_CANFAIL | DB_RF_NEVERWAIT |
	    DB_RF_HAVESTRUCT | DB_RF_NOPREFETCH);
	return (0);
}

/* Pins the blocks of an extent that is locked; those that have to be read are, below `*root`. */
static int
start_reads(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint32_t wait, dmu_buf_impl_t **blocks, uint64_t *pinned, zio_t **root)
{
	dnode_t *dn = volume->bv_dnode;
	uint64_t first = offset >> volume->bv_block_shift;
	uint64_t count = block_count(volume, offset, length);
	int error = 0;

	*pinned = 0;
	*root = NULL;
	rw_enter(&dn->dn_struct_rwlock, RW_READER);
	while (*pinned < count && error == 0) {
		error = pin_block(volume, first + *pinned, wait, root,
		    &blocks[*pinned]);
		if (error == 0)
			(*pinned)++;
	}
	/* A call that will be repeated must not be noted twice. */
	if (error == 0 && (wait != BH_NO_WAIT || *root == NULL))
		note_stream(volume, first, count, *root != NULL);
	rw_exit(&dn->dn_struct_rwlock);
	return (error);
}

/* Waits until a block that somebody is reading is there. */
static int
await_block(dmu_buf_impl_t *db)
{
	int error = 0;

	mutex_enter(&db->db_mtx);
	while (db->db_state == DB_READ || db->db_state == DB_FILL)
		cv_wait(&db->db_changed, &db->db_mtx);
	if (db->db_state != DB_CACHED)
		error = EIO;
	mutex_exit(&db->db_mtx);
	return (error);
}

/* Whether what is pinned can be read now; EAGAIN while somebody reads a block of it. */
static int
are_there(dmu_buf_impl_t **blocks, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (blocks[i] != NULL && blocks[i]->db_state != DB_CACHED)
			return (EAGAIN);
	}
	return (0);
}

/* Ends the reads that pin_block() started, by waiting for them or by letting them run on. */
static int
finish_reads(zio_t *root, dmu_buf_impl_t **blocks, uint64_t count,
    uint32_t wait)
{
	int error = 0;

	if (wait != BH_MAY_WAIT) {
		if (root != NULL)
			zio_nowait(root);
		return (are_there(blocks, count));
	}
	if (root != NULL)
		error = zio_wait(root);
	for (uint64_t i = 0; i < count && error == 0; i++) {
		dmu_buf_impl_t *db = blocks[i];
		if (db != NULL && db->db_state != DB_CACHED)
			error = await_block(db);
	}
	return (error);
}

/* Pins the blocks of an extent that is locked. */
static int
pin_blocks(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint32_t wait, dmu_buf_impl_t **blocks)
{
	uint64_t pinned;
	zio_t *root;
	int error = start_reads(volume, offset, length, wait, blocks, &pinned,
	    &root);
	int read_error = finish_reads(root, blocks, pinned, wait);
	if (error == 0)
		error = read_error;
	if (error != 0)
		release_blocks(volume, blocks, pinned);
	return (error);
}

/* Reads an extent that the caller has locked. */
int
bh_copy_out(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint8_t *data)
{
	uint64_t count = block_count(volume, offset, length);
	dmu_buf_impl_t *few[BH_STACK_BLOCKS];
	dmu_buf_impl_t **blocks = count <= BH_STACK_BLOCKS ? few :
	    kmem_alloc(count * sizeof (*blocks), KM_SLEEP);
	int error = pin_blocks(volume, offset, length, BH_MAY_WAIT, blocks);

	for (uint64_t i = 0; i < count && error == 0; i++) {
		uint64_t within = P2PHASE(offset, volume->bv_block_size);
		uint64_t bytes = MIN(volume->bv_block_size - within, length);
		if (blocks[i] == NULL)
			memset(data, 0, bytes);
		else
			memcpy(data, (uint8_t *)blocks[i]->db.db_data + within,
			    bytes);
		data += bytes;
		offset += bytes;
		length -= bytes;
	}
	if (error == 0)
		release_blocks(volume, blocks, count);
	if (blocks != few)
		kmem_free(blocks, count * sizeof (*blocks));
	return (error);
}

/* How many parts an extent can have: holes in large blocks take several of the zero buffer. */
static uint64_t
part_count_max(const bh_volume_t *volume, uint64_t blocks)
{
	uint64_t per_block = MAX(volume->bv_block_size / BH_ZERO_BYTES, 1);
	return (blocks * per_block + 1);
}

static void
list_parts(bh_read_t *read)
{
	uint64_t size = read->brd_volume->bv_block_size;
	uint64_t offset = read->brd_offset;
	uint64_t length = read->brd_length;
	bh_part_t *part = read->brd_parts;

	for (uint64_t i = 0; i < read->brd_block_count; i++) {
		uint64_t within = P2PHASE(offset, size);
		uint64_t bytes = MIN(size - within, length);
		dmu_buf_impl_t *db = read->brd_blocks[i];
		offset += bytes;
		length -= bytes;
		if (db != NULL) {
			part->bp_data = (uint8_t *)db->db.db_data + within;
			part->bp_length = bytes;
			part++;
			continue;
		}
		for (uint64_t left = bytes; left > 0; part++) {
			part->bp_data = bh_zeroes;
			part->bp_length = MIN(left, BH_ZERO_BYTES);
			left -= part->bp_length;
		}
	}
	read->brd_part_count = part - read->brd_parts;
}

/* Locks an extent for a read of it that has no blocks yet. */
static int
new_read(bh_volume_t *volume, uint64_t offset, uint64_t length, uint32_t wait,
    bh_read_t **out)
{
	zfs_locked_range_t *range;

	if (length == 0 || length > BH_LOAN_BYTES_MAX)
		return (EINVAL);
	int error = bh_lock_range(volume, offset, length, RL_READER, wait, &range);
	if (error != 0)
		return (error);

	uint64_t blocks = block_count(volume, offset, length);
	bh_read_t *read = malloc(sizeof (*read) + blocks * sizeof (void *) +
	    part_count_max(volume, blocks) * sizeof (bh_part_t));
	if (read == NULL) {
		zfs_rangelock_exit(range);
		return (ENOMEM);
	}
	read->brd_volume = volume;
	read->brd_range = range;
	read->brd_offset = offset;
	read->brd_length = length;
	read->brd_block_count = blocks;
	read->brd_parts = (bh_part_t *)&read->brd_blocks[blocks];
	*out = read;
	return (0);
}

static void
free_read(bh_read_t *read)
{
	zfs_rangelock_exit(read->brd_range);
	free(read);
}

int
bh_read_hold(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint32_t wait, bh_read_t **out)
{
	bh_read_t *read;
	int error = new_read(volume, offset, length, wait, &read);

	if (error != 0)
		return (error);
	error = pin_blocks(volume, offset, length, wait, read->brd_blocks);
	if (error != 0) {
		free_read(read);
		return (error);
	}
	list_parts(read);
	*out = read;
	return (0);
}

int
bh_read_begin(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_read_t **out)
{
	uint64_t pinned;
	zio_t *root;
	bh_read_t *read;
	int error = new_read(volume, offset, length, BH_NO_WAIT, &read);

	if (error != 0)
		return (error);
	error = start_reads(volume, offset, length, BH_BEGIN, read->brd_blocks,
	    &pinned, &root);
	if (error == 0 && root != NULL &&
	    are_there(read->brd_blocks, pinned) != 0) {
		read->brd_root = root;
		*out = read;
		return (EINPROGRESS);
	}
	/* What somebody else reads is his to wait for. */
	int read_error = finish_reads(root, read->brd_blocks, pinned,
	    BH_NO_WAIT);
	if (error == 0)
		error = read_error;
	if (error != 0) {
		release_blocks(volume, read->brd_blocks, pinned);
		free_read(read);
		return (error);
	}
	list_parts(read);
	*out = read;
	return (0);
}

/* All that was begun has ended. */
static void
reads_ended(zio_t *root)
{
	bh_read_t *read = root->io_private;
	bh_read_done_t *done = read->brd_done;
	void *arg = read->brd_arg;
	int error = root->io_error;

	if (error == 0)
		error = are_there(read->brd_blocks, read->brd_block_count);
	if (error != 0) {
		bh_read_release(read);
		read = NULL;
	} else {
		list_parts(read);
	}
	done(arg, read, error);
}

boolean_t
bh_is_read_root(const zio_t *zio)
{
	return (zio->io_done == reads_ended);
}

void
bh_read_finish(bh_read_t *read, bh_read_done_t *done, void *arg)
{
	zio_t *root = read->brd_root;

	read->brd_done = done;
	read->brd_arg = arg;
	root->io_done = reads_ended;
	root->io_private = read;
	/* From here on the read, and with it the volume, may be gone. */
	zio_nowait(root);
}

void
bh_read_abandon(bh_read_t *read)
{
	zio_nowait(read->brd_root);
	bh_read_release(read);
}

const bh_part_t *
bh_read_parts(const bh_read_t *read, uint64_t *count)
{
	*count = read->brd_part_count;
	return (read->brd_parts);
}

void
bh_read_release(bh_read_t *read)
{
	release_blocks(read->brd_volume, read->brd_blocks,
	    read->brd_block_count);
	free_read(read);
}

/*
 * Pins a block that is about to be written. Blocks that are overwritten as a whole need no old
 * contents, only their place in the tree. dn_struct_rwlock is held.
 */
static int
pin_for_write(bh_volume_t *volume, uint64_t id, boolean_t whole,
    uint32_t wait, dmu_buf_impl_t **block)
{
	if (wait == BH_NO_WAIT) {
		switch (find_block(volume, id, block)) {
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
	uint64_t count = block_count(volume, offset, length);
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
		release_blocks(volume, blocks, pinned - 1);
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

/* Gives the segments to the pinned blocks. Buffers of the pool's own change owner. */
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

/* Notes the transaction group of a change; groups only grow. */
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

/* Enters a transaction that changes the volume. One that is refused is gone. */
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

/* Whether whoever asked for a change still wants it. */
static boolean_t
is_permitted(const bh_permit_t *permit)
{
	return (permit == NULL || permit->bp_begin(permit->bp_arg) != 0);
}

/*
 * Enters a transaction that writes an extent. `kept_back`: it is one that has its place although the pool is full,
 * as bh_kept_back_commit() is to be told.
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
 * One transaction: writes segments to blocks that are locked and pinned. The permit comes last: a
 * transaction may have to wait for as long as the pool's devices do.
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

/* Writes segments to an extent that is locked. */
static int
write_locked(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_segment_t *segments, uint64_t segment_count, uint32_t wait,
    const bh_permit_t *permit)
{
	uint64_t count = block_count(volume, offset, length);
	dmu_buf_impl_t *few[BH_STACK_BLOCKS];
	dmu_buf_impl_t **blocks = count <= BH_STACK_BLOCKS ? few :
	    kmem_alloc(count * sizeof (*blocks), KM_SLEEP);

	(void) bh_log_open(volume);
	int error = pin_all_for_write(volume, offset, length, wait, blocks);
	if (error == 0) {
		error = write_pinned(volume, blocks, offset, length, segments,
		    segment_count, wait, permit);
		release_blocks(volume, blocks, count);
	}
	if (blocks != few)
		kmem_free(blocks, count * sizeof (*blocks));
	return (error);
}

/* With sync=always a write has to be in the log before it completes. */
static boolean_t
is_sync_always(const bh_volume_t *volume)
{
	return (volume->bv_os->os_sync == ZFS_SYNC_ALWAYS);
}

/* Locks an extent that is going to be changed. */
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

/* Unlocks what lock_for_change() locked; what was changed is then as durable as it has to be. */
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
	if (!is_inside(volume, offset, length))
		return (ERANGE);

	uint64_t count = block_count(volume, offset, length);
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

	/* The edges' bytes stand behind the parts. */
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
