/*
 * Sends snapshots, and manages the bookmarks that a send can be relative to.
 */
#include "internal.h"

#include <sys/dmu_objset.h>
#include <sys/dmu_send.h>
#include <sys/dnode.h>
#include <sys/dsl_bookmark.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>

#include "shim_transfer.h"

typedef struct sink {
	bh_send_sink_t *s_take;
	void *s_arg;
} sink_t;

static int
hand_on(objset_t *os, void *data, int length, void *arg)
{
	const sink_t *sink = arg;

	(void) os;
	return (sink->s_take(sink->s_arg, data, (uint64_t)length));
}

/*
 * Whether a send can resume at an offset: the start of a block of the object. Another system has supplied it. Numbers
 * above all objects identify the library's accounting objects.
 */
static int
check_resume(const char *snapshot, uint64_t object, uint64_t offset)
{
	dmu_object_info_t info;
	dsl_pool_t *dp;
	dsl_dataset_t *ds;
	objset_t *os;

	if (object == 0 && offset == 0)
		return (0);
	if (object >= DN_MAX_OBJECT)
		return (EINVAL);
	int error = bh_dataset_hold(snapshot, &dp, &ds, FTAG);
	if (error != 0)
		return (error);
	error = dmu_objset_from_ds(ds, &os);
	if (error == 0)
		error = dmu_object_info(os, object, &info);
	if (error == 0 && offset % info.doi_data_block_size != 0)
		error = EINVAL;
	bh_dataset_release(dp, ds, FTAG);
	return (error);
}

int
bh_send(const char *snapshot, const char *from, uint32_t flags,
    uint64_t resume_object, uint64_t resume_offset, bh_send_sink_t *sink,
    void *arg)
{
	sink_t to = { sink, arg };
	dmu_send_outparams_t out = { .dso_outfunc = hand_on, .dso_arg = &to };
	offset_t sent = 0;

	int error = check_resume(snapshot, resume_object, resume_offset);
	if (error != 0)
		return (error);
	return (dmu_send(snapshot, from[0] == '\0' ? NULL : from,
	    (flags & BH_SEND_EMBEDDED) != 0, (flags & BH_SEND_LARGE_BLOCKS) != 0,
	    (flags & BH_SEND_COMPRESSED) != 0, (flags & BH_SEND_RAW) != 0,
	    B_FALSE, resume_object, resume_offset, NULL, -1, &sent, &out));
}

/* With the pool's configuration held. */
static int
estimate_from(dsl_pool_t *dp, dsl_dataset_t *ds, const char *from,
    boolean_t compressed, uint64_t *bytes)
{
	zfs_bookmark_phys_t bookmark;
	dsl_dataset_t *base;
	int error;

	if (from[0] == '\0')
		return (dmu_send_estimate_fast(ds, NULL, NULL, compressed,
		    B_FALSE, bytes));
	if (strchr(from, '#') != NULL) {
		error = dsl_bookmark_lookup(dp, from, ds, &bookmark);
		return (error != 0 ? error : dmu_send_estimate_fast(ds, NULL,
		    &bookmark, compressed, B_FALSE, bytes));
	}
	error = dsl_dataset_hold(dp, from, FTAG, &base);
	if (error != 0)
		return (error);
	error = dmu_send_estimate_fast(ds, base, NULL, compressed, B_FALSE,
	    bytes);
	dsl_dataset_rele(base, FTAG);
	return (error);
}

int
bh_send_estimate(const char *snapshot, const char *from, uint32_t flags,
    uint64_t *bytes)
{
	dsl_pool_t *dp;
	dsl_dataset_t *ds;
	int error = bh_dataset_hold(snapshot, &dp, &ds, FTAG);

	if (error != 0)
		return (error);
	error = estimate_from(dp, ds, from,
	    (flags & (BH_SEND_COMPRESSED | BH_SEND_RAW)) != 0, bytes);
	bh_dataset_release(dp, ds, FTAG);
	return (error);
}

int
bh_bookmark_create(const char *bookmark, const char *of)
{
	nvlist_t *wanted = fnvlist_alloc();
	nvlist_t *errors = fnvlist_alloc();

	fnvlist_add_string(wanted, bookmark, of);
	int error = dsl_bookmark_create_nvl_validate(wanted);
	if (error == 0)
		error = dsl_bookmark_create(wanted, errors);
	nvlist_free(errors);
	nvlist_free(wanted);
	return (error);
}

int
bh_bookmark_destroy(const char *bookmark)
{
	nvlist_t *wanted = fnvlist_alloc();
	nvlist_t *errors = fnvlist_alloc();

	fnvlist_add_boolean(wanted, bookmark);
	int error = dsl_bookmark_destroy(wanted, errors);
	nvlist_free(errors);
	nvlist_free(wanted);
	return (error);
}

static uint64_t
number_of(nvlist_t *properties, const char *name)
{
	nvlist_t *property;
	uint64_t value = 0;

	if (nvlist_lookup_nvlist(properties, name, &property) == 0)
		(void) nvlist_lookup_uint64(property, "value", &value);
	return (value);
}

int
bh_bookmarks(const char *dataset, bh_bookmark_visitor_t *visit, void *arg)
{
	nvlist_t *wanted = fnvlist_alloc();
	nvlist_t *found = fnvlist_alloc();
	nvpair_t *pair = NULL;

	fnvlist_add_boolean(wanted, zfs_prop_to_name(ZFS_PROP_GUID));
	fnvlist_add_boolean(wanted, zfs_prop_to_name(ZFS_PROP_CREATETXG));
	fnvlist_add_boolean(wanted, zfs_prop_to_name(ZFS_PROP_CREATION));
	int error = dsl_get_bookmarks(dataset, wanted, found);
	while (error == 0 && (pair = nvlist_next_nvpair(found, pair)) != NULL) {
		nvlist_t *properties = fnvpair_value_nvlist(pair);

		visit(arg, nvpair_name(pair),
		    number_of(properties, zfs_prop_to_name(ZFS_PROP_GUID)),
		    number_of(properties, zfs_prop_to_name(ZFS_PROP_CREATETXG)),
		    number_of(properties, zfs_prop_to_name(ZFS_PROP_CREATION)));
	}
	nvlist_free(found);
	nvlist_free(wanted);
	return (error);
}
