/*
 * Holds of snapshots: a held snapshot cannot be destroyed, by this or any other ZFS.
 */
#include "internal.h"

#include <sys/dsl_userhold.h>

#include "shim_dataset.h"

int
bh_snapshots_hold(struct nvlist *holds)
{
	nvlist_t *errors = fnvlist_alloc();
	int error = dsl_dataset_user_hold(holds, 0, errors);

	/* The library skips a missing snapshot, and reports it in the list only. */
	if (error == 0 && nvlist_next_nvpair(errors, NULL) != NULL)
		error = ENOENT;
	nvlist_free(errors);
	return (error);
}

int
bh_snapshots_release(struct nvlist *holds)
{
	nvlist_t *errors = fnvlist_alloc();
	int error = dsl_dataset_user_release(holds, errors);

	nvlist_free(errors);
	return (error);
}

int
bh_snapshot_holds(const char *name, struct nvlist **out)
{
	nvlist_t *found = fnvlist_alloc();
	int error = dsl_dataset_get_holds(name, found);

	if (error != 0) {
		nvlist_free(found);
		return (error);
	}
	*out = found;
	return (0);
}
