/*
 * The initial state of a new dataset (initial.c), for the functions that create datasets.
 */
#ifndef BH_INITIAL_H
#define	BH_INITIAL_H

#include "internal.h"

#include <sys/dsl_dataset.h>
#include <sys/fs/zfs.h>

/* Checked already. */
typedef struct bh_initial {
	nvlist_t *i_properties;
	/* Quotas and reservations, which are stored outside the property list. */
	nvlist_t *i_limits;
} bh_initial_t;

/*
 * dataset.c: converts properties to the form of the property layer, with limits separated, if a dataset of the type can
 * have them. `pool` may be any dataset of it. On an error `bad` names the property.
 */
int bh_properties_check(const char *pool, zfs_type_t type, nvlist_t *properties,
    nvlist_t *plain, nvlist_t *special, char *bad, uint64_t bad_size);

/* Fills `initial`, both lists of which are empty, for a dataset that begins with `referenced` bytes. */
int bh_initial_check(const char *name, zfs_type_t type, nvlist_t *properties,
    uint64_t referenced, const bh_initial_t *initial, char *bad, uint64_t bad_size);
/* Called in the transaction that creates the dataset. */
void bh_initial_set(dsl_dataset_t *ds, const bh_initial_t *initial, dmu_tx_t *tx);
void bh_initial_free(const bh_initial_t *initial);

#endif /* BH_INITIAL_H */
