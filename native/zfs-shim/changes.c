/*
 * The parts of a volume that were written or freed between two of its snapshots, by the birth times of its blocks:
 * without reading data.
 */
#include "volume_impl.h"

#include <sys/dmu_traverse.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/spa.h>
#include <sys/zfeature.h>

#include "shim_dataset.h"

typedef struct changes {
	bh_change_visitor_t *c_visit;
	void *c_arg;
	/* Holes have the time of their creation, unless they were never anything else. */
	boolean_t c_holes_are_dated;
} changes_t;

static int
visit(const changes_t *changes, uint64_t offset, uint64_t length, boolean_t freed)
{
	if (changes->c_visit(changes->c_arg, offset, length, freed) != 0)
		return (SET_ERROR(EINTR));
	return (0);
}

static int
visit_block(spa_t *spa, zilog_t *zilog, const blkptr_t *bp,
    const zbookmark_phys_t *zb, const struct dnode_phys *dnp, void *arg)
{
	changes_t *changes = arg;

	(void) spa, (void) zilog;
	if (zb->zb_object != BH_DATA_OBJECT || zb->zb_level < 0 || dnp == NULL)
		return (0);
	/* A hole in an indirect block frees all below it; the blocks of other indirect blocks are visited. */
	if (zb->zb_level > 0 && !BP_IS_HOLE(bp))
		return (visit(changes, 0, 0, B_FALSE));
	if (BP_IS_HOLE(bp) && BP_GET_LOGICAL_BIRTH(bp) == 0 &&
	    changes->c_holes_are_dated)
		return (0);
	uint64_t block = (uint64_t)dnp->dn_datablkszsec << SPA_MINBLOCKSHIFT;
	int shift = zb->zb_level * (dnp->dn_indblkshift - SPA_BLKPTRSHIFT);

	if (shift >= 64 - SPA_MAXBLOCKSHIFT)
		return (SET_ERROR(EOVERFLOW));
	uint64_t length = block << shift;
	return (visit(changes, zb->zb_blkid * length, length, BP_IS_HOLE(bp)));
}

int
bh_snapshot_changes(const char *from, const char *to,
    bh_change_visitor_t *visit, void *arg)
{
	changes_t changes = { visit, arg, B_FALSE };
	dsl_pool_t *pool;
	dsl_dataset_t *older, *newer;
	int error = dsl_pool_hold(to, FTAG, &pool);

	if (error != 0)
		return (error);
	error = dsl_dataset_hold(pool, to, FTAG, &newer);
	if (error != 0) {
		dsl_pool_rele(pool, FTAG);
		return (error);
	}
	error = dsl_dataset_hold(pool, from, FTAG, &older);
	uint64_t txg = 0;
	if (error == 0) {
		txg = dsl_dataset_phys(older)->ds_creation_txg;
		if (older->ds_dir != newer->ds_dir || !newer->ds_is_snapshot ||
		    txg > dsl_dataset_phys(newer)->ds_creation_txg)
			error = EXDEV;
		dsl_dataset_rele(older, FTAG);
	}
	if (error != 0) {
		dsl_dataset_rele(newer, FTAG);
		dsl_pool_rele(pool, FTAG);
		return (error);
	}
	uint64_t dated = 0;
	changes.c_holes_are_dated = spa_feature_enabled_txg(pool->dp_spa,
	    SPA_FEATURE_HOLE_BIRTH, &dated) && dated <= txg;
	/* Prevents its destruction; the pool is not locked during the traversal. */
	dsl_dataset_long_hold(newer, FTAG);
	dsl_pool_rele(pool, FTAG);
	error = traverse_dataset(newer, txg, TRAVERSE_PRE |
	    TRAVERSE_PREFETCH_METADATA | TRAVERSE_NO_DECRYPT, visit_block,
	    &changes);
	dsl_dataset_long_rele(newer, FTAG);
	dsl_dataset_rele(newer, FTAG);
	return (error);
}
