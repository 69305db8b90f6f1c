/*
 * Fails an import without devices that had readable labels.
 *
 * The library selects the newest uberblock among the devices that it can open. A device with the newest labels may fail
 * to open, such as a disk that has shrunk: the pool would revert to the state of an older one. The importer names the
 * devices that it expects, and gets back those that the library could not open. No write is issued before that.
 */
#include "internal.h"

#include <sys/uberblock_impl.h>

/* The expected devices of this thread's import; the library loads a pool on the thread that imports it. */
static __thread struct {
	const uint64_t *guids;
	uint32_t count;
	nvlist_t *unopened;
} import;

void
bh_unopened_begin(const uint64_t *guids, uint32_t count)
{
	import.guids = guids;
	import.count = count;
	import.unopened = fnvlist_alloc();
}

void
bh_unopened_end(nvlist_t *config)
{
	if (!nvlist_empty(import.unopened))
		fnvlist_add_nvlist(config, BH_IMPORT_UNOPENED, import.unopened);
	nvlist_free(import.unopened);
	memset(&import, 0, sizeof (import));
}

static void
note_unopened(vdev_t *root)
{
	for (uint32_t i = 0; i < import.count; i++) {
		vdev_t *vd = vdev_lookup_by_guid(root, import.guids[i]);
		char number[24];

		/* One that the pool's own list does not name any more was detached after its label had been written. */
		if (vd == NULL || vdev_readable(vd))
			continue;
		(void) snprintf(number, sizeof (number), "%llu", (u_longlong_t)vd->vdev_guid);
		fnvlist_add_uint64(import.unopened, number, vd->vdev_stat.vs_aux);
	}
}

/* Interposes the library's function. If too few devices can be opened, the load stops with this. */
int
vdev_open(vdev_t *vd)
{
	int (*library)(vdev_t *) = bh_library_function(__func__);
	int error;

	if (vd->vdev_ops->vdev_op_leaf && bh_is_closed_device(vd->vdev_guid)) {
		vdev_set_state(vd, B_TRUE, VDEV_STATE_CANT_OPEN, VDEV_AUX_OPEN_FAILED);
		return (SET_ERROR(ENXIO));
	}
	error = library(vd);

	if (import.unopened != NULL && vd == vd->vdev_spa->spa_root_vdev)
		note_unopened(vd);
	return (error);
}

/* Interposes the library's function, which chooses where a load begins. Without an uberblock the load fails. */
void
vdev_uberblock_load(vdev_t *root, uberblock_t *ub, nvlist_t **config)
{
	void (*library)(vdev_t *, uberblock_t *, nvlist_t **) = bh_library_function(__func__);

	library(root, ub, config);
	if (import.unopened == NULL)
		return;
	/* A device of a different identity than expected is detected after the open. */
	spa_config_enter(root->vdev_spa, SCL_STATE, FTAG, RW_READER);
	note_unopened(root);
	spa_config_exit(root->vdev_spa, SCL_STATE, FTAG);
	if (!nvlist_empty(import.unopened)) {
		nvlist_free(*config);
		*config = NULL;
		memset(ub, 0, sizeof (*ub));
	}
}
