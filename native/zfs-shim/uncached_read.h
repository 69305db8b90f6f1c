/*
 * Reads the blocks of every dataset that a start needs, with the library's caches bypassed: for a
 * block that is read once, those cost several allocations and fresh memory, ten times the work of
 * the read itself.
 *
 * The result is the last state written by a completed transaction group. All functions report when
 * they cannot determine the result; the caller then uses the library's own functions.
 */
#ifndef BH_UNCACHED_READ_H
#define	BH_UNCACHED_READ_H

#include "internal.h"

#include <sys/blkptr.h>
#include <sys/dmu_objset.h>
#include <sys/dnode.h>

/* A position in the list of a pool's own objects. Released by bh_dnodes_end(). */
typedef struct bh_dnodes {
	objset_t *d_mos;
	/* The block that was read last, and is held. */
	dmu_buf_t *d_block;
} bh_dnodes_t;

/* Reads one dnode. An errno if there is no such object. */
int bh_dnode_read(bh_dnodes_t *dnodes, uint64_t object, dnode_phys_t *out);
void bh_dnodes_end(bh_dnodes_t *dnodes);

/* The bonus of a dnode if it is of this type and at least this long; otherwise NULL. */
const void *bh_dnode_bonus(const dnode_phys_t *dnode, dmu_object_type_t type,
    uint64_t bytes);

/* A requested block. */
typedef struct bh_block {
	blkptr_t b_pointer;
	zbookmark_phys_t b_bookmark;
} bh_block_t;

/* Called for every block in turn; `data` is NULL if it could not be read. */
typedef void bh_block_visitor_t(void *arg, uint64_t index, const void *data);

/* Whether a block can be read here: it has contents, neither encrypted nor byte-swapped. */
boolean_t bh_block_is_plain(const blkptr_t *pointer);

/* Reads plain blocks, many at a time, in bounded memory. */
void bh_blocks_read(spa_t *spa, const bh_block_t *blocks, uint64_t count,
    bh_block_visitor_t *visit, void *arg);

#endif /* BH_UNCACHED_READ_H */
