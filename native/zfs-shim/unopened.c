/*
 * An import that does not go on without devices whose labels were read.
 *
 * The library takes the newest uberblock among the devices that it can open.  A device can have labels that say that it is the
 * newest one and not be opened, such as a disk that has become smaller: the pool would go back to what an older one holds.
 * Whoever imports names the devices that he counts on, and is told which of these the library could not open.  Nothing is
 * written up to there.
 */
#include "internal.h"

#include <sys/uberblock_impl.h>

/* What the import of this thread counts on; the library loads a pool on the thread that imports it. */
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

/* Comes before the library's own.  Where too few devices can be opened, the load ends with this. */
int
vdev_open(vdev_t *vd)
{
	int (*library)(vdev_t *) = bh_library_function(__func__);
	int error = library(vd);

	if (import.unopened != NULL && vd == vd->vdev_spa->spa_root_vdev)
		note_unopened(vd);
	return (error);
}

/* Comes before the library's own, which chooses where a load begins. Without an uberblock the load fails. */
void
vdev_uberblock_load(vdev_t *root, uberblock_t *ub, nvlist_t **config)
{
	void (*library)(vdev_t *, uberblock_t *, nvlist_t **) = bh_library_function(__func__);

	library(root, ub, config);
	if (import.unopened == NULL)
		return;
	/* That a device is another one than its place says is found after they were opened. */
	spa_config_enter(root->vdev_spa, SCL_STATE, FTAG, RW_READER);
	note_unopened(root);
	spa_config_exit(root->vdev_spa, SCL_STATE, FTAG);
	if (!nvlist_empty(import.unopened)) {
		nvlist_free(*config);
		*config = NULL;
		memset(ub, 0, sizeof (*ub));
	}
}
