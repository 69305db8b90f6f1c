/*
 * Reads blocks and dnodes with the library's caches bypassed.
 */
#include "uncached_read.h"

#include <sys/dbuf.h>
#include <sys/dmu.h>

/* Memory for blocks that are read together: hundreds of property lists. */
#define	BH_WINDOW_BYTES		(4ULL << 20)
#define	BH_WINDOW_BLOCKS	512

int
bh_dnode_read(bh_dnodes_t *dnodes, uint64_t object, dnode_phys_t *out)
{
	dnode_t *meta = DMU_META_DNODE(dnodes->d_mos);
	uint64_t offset = object << DNODE_SHIFT;
	dmu_buf_t *block = dnodes->d_block;

	if (object == 0 || object >= DN_MAX_OBJECT)
		return (EINVAL);
	if (block == NULL || offset < block->db_offset ||
	    offset >= block->db_offset + block->db_size) {
		bh_dnodes_end(dnodes);
		int error = dmu_buf_hold_by_dnode(meta, offset, dnodes, &block,
		    DMU_READ_NO_PREFETCH);
		if (error != 0)
			return (error);
		dnodes->d_block = block;
	}
	/* Held while the description is written. */
	dmu_buf_impl_t *db = (dmu_buf_impl_t *)block;
	rw_enter(&db->db_rwlock, RW_READER);
	*out = *(const dnode_phys_t *)((const char *)block->db_data +
	    (offset - block->db_offset));
	rw_exit(&db->db_rwlock);
	return (out->dn_type == DMU_OT_NONE ? ENOENT : 0);
}

void
bh_dnodes_end(bh_dnodes_t *dnodes)
{
	if (dnodes->d_block != NULL)
		dmu_buf_rele(dnodes->d_block, dnodes);
	dnodes->d_block = NULL;
}

const void *
bh_dnode_bonus(const dnode_phys_t *dnode, dmu_object_type_t type,
    uint64_t bytes)
{
	uint64_t pointers_bytes = dnode->dn_nblkptr * sizeof (blkptr_t);

	if (dnode->dn_bonustype != type || dnode->dn_bonuslen < bytes ||
	    offsetof(dnode_phys_t, dn_blkptr) + pointers_bytes + bytes >
	    sizeof (*dnode))
		return (NULL);
	return (DN_BONUS(dnode));
}

boolean_t
bh_block_is_plain(const blkptr_t *pointer)
{
	return (!BP_IS_HOLE(pointer) && !BP_IS_PROTECTED(pointer) &&
	    !BP_SHOULD_BYTESWAP(pointer) && (!BP_IS_EMBEDDED(pointer) ||
	    BPE_GET_ETYPE(pointer) == BP_EMBEDDED_TYPE_DATA));
}

/* One of the blocks that are being read together. */
typedef struct slot {
	abd_t *s_data;
	uint64_t s_offset;
	int s_error;
} slot_t;

typedef struct window {
	spa_t *w_spa;
	char *w_memory;
	slot_t w_slots[BH_WINDOW_BLOCKS];
} window_t;

static void
note_error(zio_t *zio)
{
	slot_t *slot = zio->io_private;

	slot->s_error = zio->io_error;
}

static uint64_t
slot_bytes(const bh_block_t *block)
{
	/* Aligned, so that a device can transfer the data directly. */
	return (P2ROUNDUP((uint64_t)BP_GET_LSIZE(&block->b_pointer),
	    (uint64_t)PAGESIZE));
}

/* How many of the blocks fit into the window. */
static uint64_t
lay_out(window_t *window, const bh_block_t *blocks, uint64_t count)
{
	uint64_t used = 0, fitting = 0;

	while (fitting < MIN(count, BH_WINDOW_BLOCKS) &&
	    used + slot_bytes(&blocks[fitting]) <= BH_WINDOW_BYTES) {
		window->w_slots[fitting] = (slot_t){ .s_offset = used };
		used += slot_bytes(&blocks[fitting++]);
	}
	return (fitting);
}

static void
read_window(window_t *window, const bh_block_t *blocks, uint64_t count)
{
	/* The library reports errors when it reads the same block. */
	const zio_flag_t flags = ZIO_FLAG_CANFAIL | ZIO_FLAG_SPECULATIVE;
	zio_t *all = zio_root(window->w_spa, NULL, NULL, flags);

	for (uint64_t i = 0; i < count; i++) {
		const bh_block_t *block = &blocks[i];
		slot_t *slot = &window->w_slots[i];
		uint64_t bytes = BP_GET_LSIZE(&block->b_pointer);

		if (!bh_block_is_plain(&block->b_pointer) ||
		    zfs_blkptr_verify(window->w_spa, &block->b_pointer,
		    BLK_CONFIG_NEEDED, BLK_VERIFY_ONLY) != 0) {
			slot->s_error = EINVAL;
			continue;
		}
		slot->s_data = abd_get_from_buf(window->w_memory +
		    slot->s_offset, bytes);
		zio_nowait(zio_read(all, window->w_spa, &block->b_pointer,
		    slot->s_data, bytes, note_error, slot,
		    ZIO_PRIORITY_SYNC_READ, flags, &block->b_bookmark));
	}
	/* Each block has its own error. */
	(void) zio_wait(all);
	for (uint64_t i = 0; i < count; i++) {
		if (window->w_slots[i].s_data != NULL)
			abd_free(window->w_slots[i].s_data);
	}
}

void
bh_blocks_read(spa_t *spa, const bh_block_t *blocks, uint64_t count,
    bh_block_visitor_t *visit, void *arg)
{
	window_t *window = kmem_alloc(sizeof (*window), KM_SLEEP);
	uint64_t done = 0;

	window->w_spa = spa;
	window->w_memory = vmem_alloc(BH_WINDOW_BYTES, KM_SLEEP);
	while (done < count) {
		uint64_t fitting = lay_out(window, blocks + done, count - done);

		read_window(window, blocks + done, fitting);
		for (uint64_t i = 0; i < fitting; i++) {
			const slot_t *slot = &window->w_slots[i];
			visit(arg, done + i, slot->s_error != 0 ? NULL :
			    window->w_memory + slot->s_offset);
		}
		done += fitting;
		/* Larger than the whole window. */
		if (fitting == 0)
			visit(arg, done++, NULL);
	}
	vmem_free(window->w_memory, BH_WINDOW_BYTES);
	kmem_free(window, sizeof (*window));
}
