/*
 * Prevents a load from using a label of a transaction group that was never committed.
 *
 * Half of the labels are written before the uberblock. The library selects the newest label that is no newer than the
 * uberblock that it loads, but it calls this on a thread that does not hold the configuration, and gets the newest of
 * all. If a process was terminated during a detach, that is the label of the pool without the detached device: in it
 * the last device of a mirror has the number of the mirror, and the library does not use the device ("damaged"). The
 * pool continued with the detached device, which misses the log blocks written after the detach: acknowledged writes
 * were lost.
 */
#include "internal.h"

#include <sys/vdev.h>

/* Whether the label belongs to an existing pool that has no writer of labels at the time. */
static boolean_t
is_being_loaded(spa_t *spa)
{
	const spa_load_state_t state = spa_load_state(spa);

	return (state == SPA_LOAD_OPEN || state == SPA_LOAD_IMPORT || state == SPA_LOAD_TRYIMPORT ||
	    state == SPA_LOAD_RECOVER);
}

/* Interposes the library's function. */
nvlist_t *
vdev_label_read_config(vdev_t *vd, uint64_t txg)
{
	nvlist_t *(*library)(vdev_t *, uint64_t) = bh_library_function(__func__);
	spa_t *spa = vd->vdev_spa;

	/* A rewind uses older uberblocks than its labels, and spares belong to several pools. */
	if (txg == UINT64_MAX && is_being_loaded(spa) && !spa->spa_extreme_rewind &&
	    spa->spa_load_max_txg == UINT64_MAX && vd->vdev_aux == NULL && spa_last_synced_txg(spa) != 0)
		txg = spa_last_synced_txg(spa);
	return (library(vd, txg));
}
