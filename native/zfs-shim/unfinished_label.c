/*
 * A load does not go by a label of a transaction group that was never finished.
 *
 * Half of the labels are written before the uberblock.  The library wants the newest label that is no newer than the
 * uberblock that it loads, but it asks on a thread that does not hold the configuration, and gets the newest of all.
 * Where a process ended in the middle of a detach, that is the label of the pool without the detached device: in it the
 * last device of a mirror has the number of the mirror, and the library does not use the device ("damaged").  The pool
 * went on with the device that was let go, which lacks the log blocks of after the detach: what clients had been
 * told is durable was lost.
 */
#include "internal.h"

#include <sys/vdev.h>

/* Whether what is read is that of a pool that is there, of which nobody writes labels meanwhile. */
static boolean_t
is_being_loaded(spa_t *spa)
{
	const spa_load_state_t state = spa_load_state(spa);

	return (state == SPA_LOAD_OPEN || state == SPA_LOAD_IMPORT || state == SPA_LOAD_TRYIMPORT ||
	    state == SPA_LOAD_RECOVER);
}

/* Comes before the library's own. */
nvlist_t *
vdev_label_read_config(vdev_t *vd, uint64_t txg)
{
	nvlist_t *(*library)(vdev_t *, uint64_t) = bh_library_function(__func__);
	spa_t *spa = vd->vdev_spa;

	/* A rewind takes older uberblocks than its labels, and spares are of several pools. */
	if (txg == UINT64_MAX && is_being_loaded(spa) && !spa->spa_extreme_rewind &&
	    spa->spa_load_max_txg == UINT64_MAX && vd->vdev_aux == NULL && spa_last_synced_txg(spa) != 0)
		txg = spa_last_synced_txg(spa);
	return (library(vd, txg));
}
