/*
 * Reads of a volume's blocks: block lookup, loans of cached data, and asynchronous reads.
 */
#include "volume_impl.h"

#include <sys/dmu_zfetch.h>
#include <sys/spa.h>

#include <stdlib.h>

/* Reads of at least this many blocks always notify the prefetcher. */
#define	BH_STREAM_BLOCKS_MIN	4
/* In addition to BH_NO_WAIT and BH_MAY_WAIT: reads are started, and the caller is notified of their completion. */
#define	BH_BEGIN		2U

uint8_t bh_zeroes[BH_ZERO_BYTES];

struct bh_read {
	bh_volume_t *brd_volume;
	zfs_locked_range_t *brd_range;
	uint64_t brd_offset;
	uint64_t brd_length;
	/* The root ZIO and the callback of an asynchronous read. */
	zio_t *brd_root;
	bh_read_done_t *brd_done;
	void *brd_arg;
	uint64_t brd_part_count;
	uint64_t brd_block_count;
	bh_part_t *brd_parts;
	dmu_buf_impl_t *brd_blocks[];
};

boolean_t
bh_is_inside(const bh_volume_t *volume, uint64_t offset, uint64_t length)
{
	uint64_t size = __atomic_load_n(&volume->bv_size, __ATOMIC_ACQUIRE);
	return (length <= size && offset <= size - length);
}

uint64_t
bh_block_count(const bh_volume_t *volume, uint64_t offset, uint64_t length)
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
	if (!bh_is_inside(volume, offset, length)) {
		zfs_rangelock_exit(range);
		return (ERANGE);
	}
	*out = range;
	return (0);
}

/*
 * Whether the block pointer of (level, block) is a hole, where `parent` holds that pointer, or the dnode if it is NULL.
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
 * Finds a block without any I/O, and pins it if it is in memory. dn_struct_rwlock is held.
 *
 * A block without a dbuf is not dirty, so the tree of block pointers is accurate for it (except for a free that was not
 * synced yet, which reading the block handles).
 */
bh_location_t
bh_find_block(bh_volume_t *volume, uint64_t block, dmu_buf_impl_t **out)
{
	dnode_t *dn = volume->bv_dnode;
	uint64_t hash;

	*out = NULL;
	if (dbuf_hold_impl(dn, 0, block, FALSE, TRUE, volume, out) == 0)
		return (BH_PINNED);

	dmu_buf_impl_t *db = dbuf_find(volume->bv_os, BH_DATA_OBJECT, 0, block,
	    &hash);
	if (db != NULL) {
		/* Being read, or dirty in a way that reading it resolves. */
		mutex_exit(&db->db_mtx);
		return (BH_REACHABLE);
	}

	int shift = dn->dn_indblkshift - SPA_BLKPTRSHIFT;
	int levels = MAX(dn->dn_phys->dn_nlevels, 1);
	if (block > dn->dn_phys->dn_maxblkid)
		return (BH_HOLE);
	/* From the lowest indirect block that is in memory. */
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

void
bh_release_blocks(bh_volume_t *volume, dmu_buf_impl_t **blocks, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (blocks[i] != NULL)
			dbuf_rele(blocks[i], volume);
	}
}

/* Notifies the prefetcher of a read, if it seems to be part of a stream. */
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

static void reads_ended(zio_t *root);

/*
 * Pins one block for reading, starting a read of it below `*root` if necessary. Holes leave `*block` NULL.
 * dn_struct_rwlock is held.
 */
static int
pin_block(bh_volume_t *volume, uint64_t id, uint32_t wait, zio_t **root,
    dmu_buf_impl_t **block)
{
	dnode_t *dn = volume->bv_dnode;

	switch (bh_find_block(volume, id, block)) {
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
	/* A read in flight for another reader has no completion callback for us, so the caller must wait for it. */
	if (wait == BH_BEGIN && is_being_read(*block)) {
		dbuf_rele(*block, volume);
		*block = NULL;
		return (EAGAIN);
	}
	if (*root == NULL)
		*root = zio_root(volume->bv_os->os_spa, reads_ended, NULL,
		    ZIO_FLAG_CANFAIL);
	/* Errors reach the root. Data in the ARC is available on return. */
	(void) dbuf_read(*block, *root, DB_RF_CANFAIL | DB_RF_NEVERWAIT |
	    DB_RF_HAVESTRUCT | DB_RF_NOPREFETCH);
	return (0);
}

/* Pins the blocks of an extent that is locked; blocks that must be read are read below `*root`. */
static int
start_reads(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint32_t wait, dmu_buf_impl_t **blocks, uint64_t *pinned, zio_t **root)
{
	dnode_t *dn = volume->bv_dnode;
	uint64_t first = offset >> volume->bv_block_shift;
	uint64_t count = bh_block_count(volume, offset, length);
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

/* Blocks until a block is read by another reader. */
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

/* Whether the pinned data can be read now; EAGAIN while another reader reads a block of it. */
static int
are_there(dmu_buf_impl_t **blocks, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (blocks[i] != NULL && blocks[i]->db_state != DB_CACHED)
			return (EAGAIN);
	}
	return (0);
}

/* Completes the reads that pin_block() started, by waiting for them or by letting them run on. */
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
		bh_release_blocks(volume, blocks, pinned);
	return (error);
}

/* Reads an extent that the caller has locked. */
int
bh_copy_out(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint8_t *data)
{
	uint64_t count = bh_block_count(volume, offset, length);
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
		bh_release_blocks(volume, blocks, count);
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

/* Locks an extent for an asynchronous read. */
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

	uint64_t blocks = bh_block_count(volume, offset, length);
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
	/* A read in flight for another reader must be waited for. */
	int read_error = finish_reads(root, read->brd_blocks, pinned,
	    BH_NO_WAIT);
	if (error == 0)
		error = read_error;
	if (error != 0) {
		bh_release_blocks(volume, read->brd_blocks, pinned);
		free_read(read);
		return (error);
	}
	list_parts(read);
	*out = read;
	return (0);
}

/* All started reads have completed. */
static void
reads_ended(zio_t *root)
{
	bh_read_t *read = root->io_private;

	/* A thread is blocked on the root, or the data is not needed any more. */
	if (read == NULL)
		return;
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
	root->io_private = read;
	/* From here on the read, and with it the volume, may be freed. */
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
	bh_release_blocks(read->brd_volume, read->brd_blocks,
	    read->brd_block_count);
	free_read(read);
}
