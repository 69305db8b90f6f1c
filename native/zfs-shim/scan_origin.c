/*
 * A scan that is interrupted at the origin of all datasets.
 *
 * A scan reads the pool's own objects, then the origin, an empty snapshot that leads to all other datasets, and takes
 * for granted that nothing interrupts it there: the library ends the process otherwise, and without its assertions it
 * would call the scan finished and a device whole that was given no dataset.  But it looks for a reason to interrupt
 * at the root of each dataset: an export, or somebody who waits for the transaction group when a scrub has taken its
 * second and a resilver its three.
 *
 * It never interrupts a scan that has yet to come to where it was interrupted before.  So a scan comes to the origin as if that
 * were the place, and the first look is at the next dataset.
 */
#include "internal.h"

#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>

/* Comes before the library's own. */
int
dsl_dataset_hold_obj(dsl_pool_t *dp, uint64_t object, const void *tag, dsl_dataset_t **out)
{
	static int (*library)(dsl_pool_t *, uint64_t, const void *, dsl_dataset_t **);

	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__),
		    __ATOMIC_RELAXED);
	/* The thread that scans, while it looks for what there is to read. */
	if (dp->dp_origin_snap != NULL && object == dp->dp_origin_snap->ds_object &&
	    dp->dp_tx.tx_sync_thread == curthread && dp->dp_scan->scn_zio_root != NULL)
		SET_BOOKMARK(&dp->dp_scan->scn_phys.scn_bookmark, object, 0, 0, 0);
	return (library(dp, object, tag, out));
}
