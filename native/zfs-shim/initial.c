/*
 * The initial state of a new dataset, set in the transaction group that creates it: properties, quotas and
 * reservations. They are checked in advance, so that the transaction cannot fail because of them.
 */
#include "internal.h"

#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/zfeature.h>
#include <sys/zio_compress.h>
#include <zfs_prop.h>

#include "initial.h"

static uint64_t
limit_of(const bh_initial_t *initial, zfs_prop_t property)
{
	uint64_t value = 0;

	(void) nvlist_lookup_uint64(initial->i_limits,
	    zfs_prop_to_name(property), &value);
	return (value);
}

/* A quota or reservation of a dataset that is being created; it uses no space yet. */
static void
set_initial_limit(dsl_dataset_t *ds, zfs_prop_t property, uint64_t value,
    dmu_tx_t *tx)
{
	dsl_dir_t *dd = ds->ds_dir;

	if (property == ZFS_PROP_REFRESERVATION) {
		dsl_dataset_set_refreservation_sync_impl(ds, ZPROP_SRC_LOCAL,
		    value, tx);
		return;
	}
	dsl_prop_set_sync_impl(ds, zfs_prop_to_name(property), ZPROP_SRC_LOCAL,
	    sizeof (value), 1, &value, tx);
	switch (property) {
	case ZFS_PROP_QUOTA:
		dmu_buf_will_dirty(dd->dd_dbuf, tx);
		mutex_enter(&dd->dd_lock);
		dsl_dir_phys(dd)->dd_quota = value;
		mutex_exit(&dd->dd_lock);
		break;
	case ZFS_PROP_REFQUOTA:
		/* A later open of the dataset reads it from the property. */
		ds->ds_quota = value;
		break;
	default:
		VERIFY3S(property, ==, ZFS_PROP_RESERVATION);
		dsl_dir_set_reservation_sync_impl(dd, value, tx);
	}
}

void
bh_initial_set(dsl_dataset_t *ds, const bh_initial_t *initial, dmu_tx_t *tx)
{
	const spa_feature_t zstd = SPA_FEATURE_ZSTD_COMPRESS;
	nvpair_t *pair = NULL;
	uint64_t value;

	/* Enabled before the first block is compressed with it. */
	if (nvlist_lookup_uint64(initial->i_properties,
	    zfs_prop_to_name(ZFS_PROP_COMPRESSION), &value) == 0 &&
	    ZIO_COMPRESS_ALGO(value) == ZIO_COMPRESS_ZSTD &&
	    !dsl_dataset_feature_is_active(ds, zstd)) {
		void *const on = (void *)B_TRUE;
		ds->ds_feature_activation[zstd] = on;
		dsl_dataset_activate_feature(ds->ds_object, zstd, on, tx);
		ds->ds_feature[zstd] = on;
	}
	dsl_props_set_sync_impl(ds, ZPROP_SRC_LOCAL, initial->i_properties, tx);
	while ((pair = nvlist_next_nvpair(initial->i_limits, pair)) != NULL)
		set_initial_limit(ds, zfs_name_to_prop(nvpair_name(pair)),
		    fnvpair_value_uint64(pair), tx);
}

/* Whether that much can be reserved below the parent of `name`. */
static int
check_space(const char *name, uint64_t bytes)
{
	dsl_pool_t *dp;
	dsl_dir_t *parent;
	const char *last;
	int error = dsl_pool_hold(name, FTAG, &dp);

	if (error != 0)
		return (error);
	error = dsl_dir_hold(dp, name, FTAG, &parent, &last);
	if (error == 0) {
		if (bytes > dsl_dir_space_available(parent, NULL, 0, B_TRUE))
			error = ENOSPC;
		dsl_dir_rele(parent, FTAG);
	}
	dsl_pool_rele(dp, FTAG);
	return (error);
}

/* Whether limits are valid for a dataset that begins with `referenced` bytes; `bad` names one that cannot. */
static int
check_limits(const char *name, const bh_initial_t *initial, uint64_t referenced,
    char *bad, uint64_t bad_size)
{
	uint64_t aside = limit_of(initial, ZFS_PROP_RESERVATION);
	uint64_t own = limit_of(initial, ZFS_PROP_REFRESERVATION);
	uint64_t quota = limit_of(initial, ZFS_PROP_QUOTA);
	uint64_t refquota = limit_of(initial, ZFS_PROP_REFQUOTA);
	zfs_prop_t wrong = ZPROP_INVAL;

	int error = check_space(name, MAX(aside, own));
	if (error == ENOSPC)
		wrong = own >= aside ? ZFS_PROP_REFRESERVATION :
		    ZFS_PROP_RESERVATION;
	else if (quota != 0 && quota < MAX(aside, own))
		wrong = ZFS_PROP_QUOTA;
	else if (refquota != 0 && refquota < MAX(referenced, own))
		wrong = ZFS_PROP_REFQUOTA;
	if (wrong == ZPROP_INVAL)
		return (error);
	(void) strlcpy(bad, zfs_prop_to_name(wrong), bad_size);
	return (ENOSPC);
}

/* Checked against the pool: the dataset does not exist yet. */
int
bh_initial_check(const char *name, zfs_type_t type, nvlist_t *properties,
    uint64_t referenced, const bh_initial_t *initial, char *bad, uint64_t bad_size)
{
	char pool[ZFS_MAX_DATASET_NAME_LEN];

	(void) strlcpy(pool, name, sizeof (pool));
	pool[strcspn(pool, "/")] = '\0';
	int error = bh_properties_check(pool, type, properties,
	    initial->i_properties, initial->i_limits, bad, bad_size);
	if (error == 0 && !nvlist_empty(initial->i_limits))
		error = check_limits(name, initial, referenced, bad, bad_size);
	return (error);
}

void
bh_initial_free(const bh_initial_t *initial)
{
	nvlist_free(initial->i_properties);
	nvlist_free(initial->i_limits);
}
