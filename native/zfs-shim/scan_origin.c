/*
 * Handles a scan that is interrupted at the origin of all datasets.
 *
 * A scan reads the pool's own objects, then the origin, an empty snapshot that leads to all other datasets, and assumes
 * that it is not interrupted there: otherwise the library aborts the process, and without its assertions it would
 * consider the scan finished and a device complete that received no dataset. But it checks for a reason to interrupt at
 * the root of each dataset: an export, or a thread blocked on the transaction group when a scrub has used its
 * second and a resilver its three.
 *
 * It never interrupts a scan that has not reached its previous stopping point. So a scan enters the origin as if it
 * were that point, and the first check is at the next dataset.
 */
#include "internal.h"

#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>

/* Interposes the library's function. */
int
dsl_dataset_hold_obj(dsl_pool_t *dp, uint64_t object, const void *tag, dsl_dataset_t **out)
{
	static int (*library)(dsl_pool_t *, uint64_t, const void *, dsl_dataset_t **);

	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__),
		    __ATOMIC_RELAXED);
	/* The scanning thread, while it searches for blocks to read. */
	if (dp->dp_origin_snap != NULL && object == dp->dp_origin_snap->ds_object &&
	    dp->dp_tx.tx_sync_thread == curthread && dp->dp_scan->scn_zio_root != NULL)
		SET_BOOKMARK(&dp->dp_scan->scn_phys.scn_bookmark, object, 0, 0, 0);
	return (library(dp, object, tag, out));
}
