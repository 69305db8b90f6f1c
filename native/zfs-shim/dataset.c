/*
 * Datasets: creation, listing, changes and removal, with the checks that the library leaves to the kernel's control
 * device.
 */
#include "keys.h"

#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_destroy.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/zap.h>
#include <sys/zfeature.h>
#include <sys/zfs_znode.h>
#include <sys/zio_checksum.h>
#include <sys/zio_compress.h>
#include <zfs_prop.h>

#include "initial.h"
#include "shim_dataset.h"
#include "volume_impl.h"

/* The largest block size of a volume that kernel ZFS allows without a changed tunable. */
#define	BH_VOLUME_BLOCK_BYTES_MAX	(16ULL << 20)

typedef struct walk {
	bh_dataset_visitor_t *w_visit;
	void *w_arg;
} walk_t;

static uint32_t
kind_of(objset_t *os)
{
	switch (dmu_objset_type(os)) {
	case DMU_OST_ZFS:
		return (BH_KIND_FILESYSTEM);
	case DMU_OST_ZVOL:
		return (BH_KIND_VOLUME);
	default:
		return (BH_KIND_OTHER);
	}
}

static void
fill_origin(dsl_dataset_t *ds, char *origin)
{
	dsl_dir_t *dd = ds->ds_dir;
	dsl_dataset_t *source;

	origin[0] = '\0';
	if (ds->ds_is_snapshot || !dsl_dir_is_clone(dd))
		return;
	if (dsl_dataset_hold_obj(dd->dd_pool, dsl_dir_phys(dd)->dd_origin_obj,
	    FTAG, &source) != 0)
		return;
	dsl_dataset_name(source, origin);
	dsl_dataset_rele(source, FTAG);
}

static void
fill_space(dsl_dataset_t *ds, bh_dataset_t *found)
{
	dsl_dir_t *dd = ds->ds_dir;

	found->bd_available = dsl_get_available(ds);
	found->bd_refreservation = dsl_get_refreservation(ds);
	found->bd_ref_quota = dsl_get_refquota(ds);
	mutex_enter(&dd->dd_lock);
	found->bd_used_by_data = dsl_dir_get_usedds(dd);
	found->bd_used_by_snapshots = dsl_dir_get_usedsnap(dd);
	found->bd_used_by_children = dsl_dir_get_usedchild(dd);
	found->bd_used_by_reservation = dsl_dir_get_usedrefreserv(dd);
	found->bd_logical_used = dsl_dir_get_logicalused(dd);
	found->bd_quota = dsl_dir_get_quota(dd);
	found->bd_reservation = dsl_dir_get_reservation(dd);
	mutex_exit(&dd->dd_lock);
}

/* The size and block size of a volume. EACCES while the key that encrypts them is not loaded. */
static int
volume_shape(objset_t *os, uint64_t *size, uint64_t *block_size)
{
	dsl_dataset_t *ds = dmu_objset_ds(os);
	spa_t *spa = dmu_objset_spa(os);
	dsl_key_mapping_t *mapping = NULL;
	dmu_object_info_t info;
	int error = 0;

	/* The key of an open volume is available; otherwise it is loaded temporarily. */
	if (os->os_encrypted)
		error = spa_keystore_create_mapping(spa, ds, FTAG, &mapping);
	if (error != 0)
		return (error);
	error = zap_lookup(os, BH_PROPERTIES_OBJECT, BH_SIZE_KEY, 8, 1, size);
	if (error == 0)
		error = dmu_object_info(os, BH_DATA_OBJECT, &info);
	if (error == 0)
		*block_size = info.doi_data_block_size;
	if (mapping != NULL)
		key_mapping_rele(spa, mapping, FTAG);
	return (error);
}

static int
visit_one(const char *name, void *arg)
{
	walk_t *walk = arg;
	char origin[ZFS_MAX_DATASET_NAME_LEN];
	bh_dataset_t found = { .bd_name = name, .bd_origin = origin };
	uint64_t block_size;
	objset_t *os;

	int error = dmu_objset_hold(name, FTAG, &os);
	if (error != 0)
		/* Destroyed concurrently: not an error of the walk. */
		return (error == ENOENT ? 0 : error);
	dsl_dataset_t *ds = dmu_objset_ds(os);
	found.bd_kind = kind_of(os);
	found.bd_is_snapshot = dmu_objset_is_snapshot(os);
	found.bd_guid = dsl_get_guid(ds);
	found.bd_creation_txg = dsl_get_creationtxg(ds);
	found.bd_creation_time_s = dsl_get_creation(ds);
	found.bd_used = dsl_get_used(ds);
	found.bd_referenced = dsl_get_referenced(ds);
	found.bd_logical_referenced = dsl_get_logicalreferenced(ds);
	found.bd_compress_percent = dsl_get_compressratio(ds);
	found.bd_objects = BP_GET_FILL(dsl_dataset_get_blkptr(ds));
	/* Fails for a dataset that is being destroyed. */
	(void) dsl_get_written(ds, &found.bd_written);
	if (!found.bd_is_snapshot)
		fill_space(ds, &found);
	/* An unfinished receive has no objects yet, or holes instead of them. */
	if (DS_IS_INCONSISTENT(ds))
		found.bd_kind = BH_KIND_OTHER;
	if (found.bd_kind == BH_KIND_VOLUME &&
	    volume_shape(os, &found.bd_volume_size, &block_size) == 0)
		found.bd_volume_block_size = block_size;
	fill_origin(ds, origin);
	walk->w_visit(walk->w_arg, &found);
	dmu_objset_rele(os, FTAG);
	return (0);
}

int
bh_dataset_stat(const char *name, bh_dataset_visitor_t *visit, void *arg)
{
	walk_t walk = { visit, arg };
	objset_t *os;

	/* Unlike in a walk, a missing dataset is an error here. */
	int error = dmu_objset_hold(name, FTAG, &os);
	if (error != 0)
		return (error);
	dmu_objset_rele(os, FTAG);
	return (visit_one(name, &walk));
}

/*
 * The snapshots of a dataset, without opening one: the kind and the shape of a volume stay unknown. Their objset would
 * be read, decompressed and evicted for each.
 */
static int
visit_snapshots(const char *name, walk_t *walk)
{
	char full[ZFS_MAX_DATASET_NAME_LEN];
	dsl_dataset_t *head, *ds;
	zap_cursor_t cursor;
	dsl_pool_t *dp;
	int error = dsl_pool_hold(name, FTAG, &dp);

	if (error != 0)
		return (error);
	error = dsl_dataset_hold(dp, name, FTAG, &head);
	if (error != 0) {
		dsl_pool_rele(dp, FTAG);
		return (error);
	}
	zap_attribute_t *entry = zap_attribute_alloc();
	for (zap_cursor_init(&cursor, dp->dp_meta_objset,
	    dsl_dataset_phys(head)->ds_snapnames_zapobj);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    (void) zap_cursor_advance(&cursor)) {
		if (entry->za_integer_length != 8 || entry->za_num_integers != 1) {
			error = SET_ERROR(EIO);
			break;
		}
		error = dsl_dataset_hold_obj(dp, entry->za_first_integer, FTAG,
		    &ds);
		if (error != 0)
			break;
		bh_dataset_t found = { .bd_name = full, .bd_origin = "",
		    .bd_kind = BH_KIND_OTHER, .bd_is_snapshot = 1 };
		int length = snprintf(full, sizeof (full), "%s@%s", name,
		    entry->za_name);
		found.bd_guid = dsl_get_guid(ds);
		found.bd_creation_txg = dsl_get_creationtxg(ds);
		found.bd_creation_time_s = dsl_get_creation(ds);
		found.bd_used = dsl_get_used(ds);
		found.bd_referenced = dsl_get_referenced(ds);
		dsl_dataset_rele(ds, FTAG);
		if (length > 0 && (size_t)length < sizeof (full))
			walk->w_visit(walk->w_arg, &found);
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	dsl_dataset_rele(head, FTAG);
	dsl_pool_rele(dp, FTAG);
	return (error == ENOENT ? 0 : error);
}

/* The full names of the direct children of a dataset, except the library's own, which begin with $. */
static int
list_children(const char *name, nvlist_t *children)
{
	dsl_pool_t *dp;
	dsl_dir_t *dd;
	zap_cursor_t cursor;
	int error = dsl_pool_hold(name, FTAG, &dp);

	if (error != 0)
		return (error);
	error = dsl_dir_hold(dp, name, FTAG, &dd, NULL);
	if (error == 0) {
		zap_attribute_t *entry = zap_attribute_alloc();
		for (zap_cursor_init(&cursor, dp->dp_meta_objset,
		    dsl_dir_phys(dd)->dd_child_dir_zapobj);
		    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
		    (void) zap_cursor_advance(&cursor)) {
			if (entry->za_name[0] == '$')
				continue;
			char *child = kmem_asprintf("%s/%s", name, entry->za_name);
			fnvlist_add_boolean(children, child);
			kmem_strfree(child);
		}
		zap_cursor_fini(&cursor);
		zap_attribute_free(entry);
		dsl_dir_rele(dd, FTAG);
		if (error == ENOENT)
			error = 0;
	}
	dsl_pool_rele(dp, FTAG);
	return (error);
}

/*
 * Children before their parent. The library's walk of children fails with ENOENT when one is destroyed concurrently,
 * which a caller would attribute to the dataset itself; so only its walk of snapshots is used.
 */
static int
walk_tree(const char *name, uint32_t snapshots, walk_t *walk)
{
	nvlist_t *children = fnvlist_alloc();
	int error = list_children(name, children);

	for (nvpair_t *child = nvlist_next_nvpair(children, NULL);
	    error == 0 && child != NULL;
	    child = nvlist_next_nvpair(children, child)) {
		error = walk_tree(nvpair_name(child), snapshots, walk);
		if (error == ENOENT)
			error = 0;
	}
	fnvlist_free(children);
	if (error != 0)
		return (error);
	if (snapshots == BH_SNAPSHOTS_ONLY)
		return (visit_snapshots(name, walk));
	return (dmu_objset_find(name, visit_one, walk,
	    snapshots == BH_SNAPSHOTS_SKIPPED ? 0 : DS_FIND_SNAPSHOTS));
}

int
bh_dataset_walk(const char *name, uint32_t snapshots,
    bh_dataset_visitor_t *visit, void *arg)
{
	walk_t walk = { visit, arg };

	return (walk_tree(name, snapshots, &walk));
}

/* The properties fixed at the creation of a file system; none while its key is missing. */
static void
add_fixed(objset_t *os, nvlist_t *list)
{
	const zfs_prop_t fixed[] = { ZFS_PROP_VERSION, ZFS_PROP_NORMALIZE,
	    ZFS_PROP_UTF8ONLY, ZFS_PROP_CASE };
	dsl_key_mapping_t *mapping = NULL;
	spa_t *spa = dmu_objset_spa(os);
	uint64_t value;

	if (os->os_encrypted && spa_keystore_create_mapping(spa,
	    dmu_objset_ds(os), FTAG, &mapping) != 0)
		return;
	for (size_t i = 0; i < sizeof (fixed) / sizeof (fixed[0]); i++) {
		const char *name = fixed[i] == ZFS_PROP_VERSION ? ZPL_VERSION_STR :
		    zfs_prop_to_name(fixed[i]);
		if (zap_lookup(os, MASTER_NODE_OBJ, name, 8, 1, &value) == 0)
			dsl_prop_nvlist_add_uint64(list, fixed[i], value);
	}
	if (mapping != NULL)
		key_mapping_rele(spa, mapping, FTAG);
}

static boolean_t is_settable(zfs_prop_t property, zfs_type_t type);

/* Adds the defaults of settable properties that are set nowhere. */
static void
add_defaults(nvlist_t *list, zfs_type_t type)
{
	for (int number = 0; number < ZFS_NUM_PROPS; number++) {
		zfs_prop_t property = number;

		if (!is_settable(property, type) ||
		    !zfs_prop_visible(property) ||
		    !zfs_prop_valid_for_type(property, type, B_FALSE) ||
		    nvlist_exists(list, zfs_prop_to_name(property)) ||
		    zfs_prop_get_type(property) == PROP_TYPE_STRING)
			continue;
		dsl_prop_nvlist_add_uint64(list, property,
		    zfs_prop_default_numeric(property));
	}
}

int
bh_dataset_properties(const char *name, struct nvlist **out)
{
	objset_t *os;
	nvlist_t *list;
	int error = dmu_objset_hold(name, FTAG, &os);

	if (error != 0)
		return (error);
	error = dsl_prop_get_all(os, &list);
	if (error == 0) {
		uint64_t size, block_size;
		dmu_objset_stats(os, list);
		if (dmu_objset_type(os) == DMU_OST_ZVOL &&
		    !DS_IS_INCONSISTENT(dmu_objset_ds(os)) &&
		    volume_shape(os, &size, &block_size) == 0) {
			dsl_prop_nvlist_add_uint64(list, ZFS_PROP_VOLSIZE,
			    size);
			dsl_prop_nvlist_add_uint64(list, ZFS_PROP_VOLBLOCKSIZE,
			    block_size);
		}
		if (dmu_objset_type(os) == DMU_OST_ZFS &&
		    !DS_IS_INCONSISTENT(dmu_objset_ds(os)))
			add_fixed(os, list);
		add_defaults(list, strchr(name, '@') != NULL ?
		    ZFS_TYPE_SNAPSHOT : dmu_objset_type(os) == DMU_OST_ZVOL ?
		    ZFS_TYPE_VOLUME : ZFS_TYPE_FILESYSTEM);
		*out = list;
	}
	dmu_objset_rele(os, FTAG);
	return (error);
}

static int
require_feature(const char *name, spa_feature_t feature)
{
	spa_t *spa;

	if (feature == SPA_FEATURE_NONE)
		return (0);
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	if (!spa_feature_is_enabled(spa, feature))
		error = ENOTSUP;
	spa_close(spa, FTAG);
	return (error);
}

/* Whether this pool supports a value; `pool` may be any dataset of it. */
static int
check_value(const char *pool, zfs_prop_t property, uint64_t value)
{
	const char *unused;

	if (zfs_prop_get_type(property) == PROP_TYPE_INDEX &&
	    zfs_prop_index_to_string(property, value, &unused) != 0)
		return (EINVAL);
	switch (property) {
	case ZFS_PROP_COMPRESSION:
		if (ZIO_COMPRESS_ALGO(value) == ZIO_COMPRESS_LZ4)
			return (require_feature(pool,
			    SPA_FEATURE_LZ4_COMPRESS));
		return (require_feature(pool,
		    zio_compress_to_feature(ZIO_COMPRESS_ALGO(value))));
	case ZFS_PROP_CHECKSUM:
	case ZFS_PROP_DEDUP:
		return (require_feature(pool,
		    zio_checksum_to_feature(value & ZIO_CHECKSUM_MASK)));
	case ZFS_PROP_COPIES:
		return (value >= 1 && value <= 3 ? 0 : ERANGE);
	/* The library accepts any number as a block size. */
	case ZFS_PROP_RECORDSIZE:
		if (value < SPA_MINBLOCKSIZE || value > SPA_MAXBLOCKSIZE || !ISP2(value))
			return (ERANGE);
		return (value <= SPA_OLD_MAXBLOCKSIZE ? 0 :
		    require_feature(pool, SPA_FEATURE_LARGE_BLOCKS));
	/* A value accepted here is asserted when the dataset is opened. */
	case ZFS_PROP_SPECIAL_SMALL_BLOCKS:
		return (value <= SPA_MAXBLOCKSIZE && ISP2(value) ? 0 : ERANGE);
	case ZFS_PROP_DNODESIZE:
		return (value == ZFS_DNSIZE_LEGACY ? 0 :
		    require_feature(pool, SPA_FEATURE_LARGE_DNODE));
	default:
		return (0);
	}
}

/* Properties that a dataset of the type (of one of the types) can have changed. */
static boolean_t
is_settable(zfs_prop_t property, zfs_type_t type)
{
	switch (property) {
	case ZFS_PROP_VOLSIZE:		/* bh_volume_resize() */
	case ZFS_PROP_KEYLOCATION:
	case ZFS_PROP_KEYFORMAT:
	case ZFS_PROP_VERSION:
		return (B_FALSE);
	/* Limits of space hold for volumes, too, though zfs(8) sets none. */
	case ZFS_PROP_QUOTA:
	case ZFS_PROP_REFQUOTA:
		return (B_TRUE);
	default:
		return (!zfs_prop_readonly(property) &&
		    !zfs_prop_setonce(property) &&
		    zfs_prop_valid_for_type(property, type, B_FALSE));
	}
}

/* Converts one pair to the form of the property layer, and checks it. */
static int
check_pair(const char *pool, zfs_type_t type, nvpair_t *pair, nvlist_t *plain,
    nvlist_t *special)
{
	const char *name = nvpair_name(pair);
	zfs_prop_t property = zfs_name_to_prop(name);
	const char *text = NULL;
	uint64_t value = 0;

	if (nvpair_type(pair) == DATA_TYPE_STRING)
		(void) nvpair_value_string(pair, &text);
	else if (nvpair_value_uint64(pair, &value) != 0)
		return (EINVAL);

	if (property == ZPROP_USERPROP) {
		if (!zfs_prop_user(name) || text == NULL)
			return (EINVAL);
		if (strlen(name) >= ZAP_MAXNAMELEN ||
		    strlen(text) >= ZAP_MAXVALUELEN)
			return (ENAMETOOLONG);
		return (nvlist_add_string(plain, name, text));
	}
	if (!is_settable(property, ZFS_TYPE_VOLUME | ZFS_TYPE_FILESYSTEM))
		return (EPERM);
	if (!is_settable(property, type))
		return (EMEDIUMTYPE);
	/* The library does not check it for a new dataset. */
	if (text != NULL && strlen(text) >= ZAP_MAXVALUELEN)
		return (ENAMETOOLONG);
	if (zfs_prop_get_type(property) == PROP_TYPE_STRING)
		return (text == NULL ? EINVAL :
		    nvlist_add_string(plain, name, text));
	if (text != NULL && (zfs_prop_get_type(property) != PROP_TYPE_INDEX ||
	    zfs_prop_string_to_index(property, text, &value) != 0))
		return (EINVAL);
	int error = check_value(pool, property, value);
	if (error != 0)
		return (error);
	switch (property) {
	case ZFS_PROP_QUOTA:
	case ZFS_PROP_REFQUOTA:
	case ZFS_PROP_RESERVATION:
	case ZFS_PROP_REFRESERVATION:
		return (nvlist_add_uint64(special, name, value));
	default:
		return (nvlist_add_uint64(plain, name, value));
	}
}

int
bh_properties_check(const char *pool, zfs_type_t type, nvlist_t *properties,
    nvlist_t *plain, nvlist_t *special, char *bad, uint64_t bad_size)
{
	nvpair_t *pair = NULL;

	bad[0] = '\0';
	while ((pair = nvlist_next_nvpair(properties, pair)) != NULL) {
		int error = check_pair(pool, type, pair, plain,
		    special);
		if (error != 0) {
			(void) strlcpy(bad, nvpair_name(pair), bad_size);
			return (error);
		}
	}
	return (0);
}

/* Limits and reservations are stored outside the property list. */
static int
set_special(const char *name, nvpair_t *pair)
{
	uint64_t value = fnvpair_value_uint64(pair);

	switch (zfs_name_to_prop(nvpair_name(pair))) {
	case ZFS_PROP_QUOTA:
		return (dsl_dir_set_quota(name, ZPROP_SRC_LOCAL, value));
	case ZFS_PROP_REFQUOTA:
		return (dsl_dataset_set_refquota(name, ZPROP_SRC_LOCAL, value));
	case ZFS_PROP_RESERVATION:
		return (dsl_dir_set_reservation(name, ZPROP_SRC_LOCAL, value));
	case ZFS_PROP_REFRESERVATION:
		return (dsl_dataset_set_refreservation(name, ZPROP_SRC_LOCAL,
		    value));
	default:
		return (EINVAL);
	}
}

static int
type_of(const char *name, zfs_type_t *type)
{
	objset_t *os;
	int error = dmu_objset_hold(name, FTAG, &os);

	if (error != 0)
		return (error);
	*type = dmu_objset_type(os) == DMU_OST_ZVOL ? ZFS_TYPE_VOLUME :
	    ZFS_TYPE_FILESYSTEM;
	dmu_objset_rele(os, FTAG);
	return (0);
}

int
bh_dataset_set(const char *name, struct nvlist *properties, char *bad,
    uint64_t bad_size)
{
	nvlist_t *plain = fnvlist_alloc();
	nvlist_t *special = fnvlist_alloc();
	nvpair_t *pair = NULL;
	uint64_t compression;
	zfs_type_t type;
	int error = type_of(name, &type);

	bad[0] = '\0';
	if (error == 0)
		error = bh_properties_check(name, type, properties, plain, special, bad,
		    bad_size);

	/* Marks the feature as in use before the first block is compressed with it. */
	if (error == 0 && nvlist_lookup_uint64(plain,
	    zfs_prop_to_name(ZFS_PROP_COMPRESSION), &compression) == 0)
		error = dsl_dataset_set_compression(name, ZPROP_SRC_LOCAL,
		    compression);
	if (error == 0 && !nvlist_empty(plain))
		error = dsl_props_set(name, ZPROP_SRC_LOCAL, plain);
	while (error == 0 &&
	    (pair = nvlist_next_nvpair(special, pair)) != NULL) {
		error = set_special(name, pair);
		if (error != 0)
			(void) strlcpy(bad, nvpair_name(pair), bad_size);
	}
	nvlist_free(plain);
	nvlist_free(special);
	return (error);
}

int
bh_dataset_inherit(const char *name, const char *property)
{
	zfs_prop_t known = zfs_name_to_prop(property);

	if (known == ZPROP_USERPROP ? !zfs_prop_user(property) :
	    !zfs_prop_inheritable(known) || !is_settable(known,
	    ZFS_TYPE_VOLUME | ZFS_TYPE_FILESYSTEM))
		return (EINVAL);
	return (dsl_prop_inherit(name, property, ZPROP_SRC_NONE));
}

const char *
bh_property_text(const char *property, uint64_t value)
{
	zfs_prop_t known = zfs_name_to_prop(property);
	const char *text;

	if (known == ZPROP_USERPROP ||
	    zfs_prop_get_type(known) != PROP_TYPE_INDEX ||
	    zfs_prop_index_to_string(known, value, &text) != 0)
		return (NULL);
	return (text);
}

/* Exported by the library, and declared for libzfs only. */
extern const char *zfs_prop_values(zfs_prop_t prop);

const char *
bh_property_values(const char *property)
{
	zfs_prop_t known = zfs_name_to_prop(property);

	if (known == ZPROP_USERPROP)
		return (NULL);
	return (zfs_prop_values(known));
}

typedef struct volume_shape {
	uint64_t vs_size;
	uint64_t vs_block_size;
	bh_initial_t vs_initial;
} volume_shape_t;

/* Runs while the new dataset is synced: its two objects, and its properties. */
static void
make_volume(objset_t *os, void *arg, cred_t *cr, dmu_tx_t *tx)
{
	const volume_shape_t *shape = arg;

	VERIFY0(dmu_object_claim(os, BH_DATA_OBJECT, DMU_OT_ZVOL,
	    (int)shape->vs_block_size, DMU_OT_NONE, 0, tx));
	VERIFY0(zap_create_claim(os, BH_PROPERTIES_OBJECT, DMU_OT_ZVOL_PROP,
	    DMU_OT_NONE, 0, tx));
	VERIFY0(zap_update(os, BH_PROPERTIES_OBJECT, BH_SIZE_KEY, 8, 1,
	    &shape->vs_size, tx));
	bh_initial_set(dmu_objset_ds(os), &shape->vs_initial, tx);
}

int
bh_dataset_hold(const char *name, dsl_pool_t **dp, dsl_dataset_t **ds, const void *tag)
{
	int error = dsl_pool_hold(name, tag, dp);

	if (error != 0)
		return (error);
	error = dsl_dataset_hold(*dp, name, tag, ds);
	if (error != 0)
		dsl_pool_rele(*dp, tag);
	return (error);
}

void
bh_dataset_release(dsl_pool_t *dp, dsl_dataset_t *ds, const void *tag)
{
	dsl_dataset_rele(ds, tag);
	dsl_pool_rele(dp, tag);
}

/* The initial properties of a clone of the snapshot. */
static int
referenced_bytes(const char *snapshot, uint64_t *bytes)
{
	dsl_pool_t *dp;
	dsl_dataset_t *ds;
	int error = bh_dataset_hold(snapshot, &dp, &ds, FTAG);

	if (error != 0)
		return (error);
	*bytes = dsl_dataset_phys(ds)->ds_referenced_bytes;
	bh_dataset_release(dp, ds, FTAG);
	return (0);
}

int
bh_volume_create(const char *name, uint64_t size, uint64_t block_size,
    struct nvlist *properties, const struct bh_new_key *key, char *bad,
    uint64_t bad_size)
{
	dsl_crypto_params_t *params = NULL;

	bad[0] = '\0';
	if (!ISP2(block_size) || block_size < SPA_MINBLOCKSIZE ||
	    block_size > BH_VOLUME_BLOCK_BYTES_MAX)
		return (EDOM);
	if (size == 0 || size % block_size != 0)
		return (EINVAL);
	if (block_size > SPA_OLD_MAXBLOCKSIZE) {
		int error = require_feature(name, SPA_FEATURE_LARGE_BLOCKS);
		if (error != 0)
			return (error);
	}
	volume_shape_t shape = { size, block_size,
	    { fnvlist_alloc(), fnvlist_alloc() } };
	int error = bh_initial_check(name, ZFS_TYPE_VOLUME, properties, 0,
	    &shape.vs_initial, bad, bad_size);
	if (error == 0) {
		error = bh_key_params(key, &params);
		/* The library leaves it to the creator of a dataset. */
		if (key != NULL)
			fnvlist_add_string(shape.vs_initial.i_properties,
			    zfs_prop_to_name(ZFS_PROP_KEYLOCATION),
			    key->bn_location);
	}
	if (error == 0) {
		error = dmu_objset_create(name, DMU_OST_ZVOL, 0, params,
		    make_volume, &shape);
		dsl_crypto_params_free(params, error != 0);
	}
	bh_initial_free(&shape.vs_initial);
	return (error);
}

/* The space that the pool charges for one block, in the worst of its top-level devices. */
static uint64_t
charged_bytes(spa_t *spa, uint64_t block_size)
{
	uint64_t worst = block_size;
	vdev_t *root = spa->spa_root_vdev;

	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	for (uint64_t i = 0; i < root->vdev_children; i++) {
		vdev_t *top = root->vdev_child[i];
		if (top->vdev_islog || !vdev_is_concrete(top))
			continue;
		uint64_t asize = vdev_psize_to_asize(top, block_size);
		worst = MAX(worst, (asize >> SPA_MINBLOCKSHIFT) *
		    top->vdev_deflate_ratio);
	}
	spa_config_exit(spa, SCL_VDEV, FTAG);
	return (worst);
}

/* The same count as in the stock tools: their reservation for a volume must also be a full one here. */
#define	BH_OWN_METADATA_BLOCKS	7

uint64_t
bh_space_of_volume(spa_t *spa, uint64_t size, uint64_t block_size, uint64_t copies)
{
	const uint64_t pointers = 1ULL << (DN_MAX_INDBLKSHIFT - SPA_BLKPTRSHIFT);
	uint64_t blocks = size / block_size;
	uint64_t data, whole;

	/* The dataset's own metadata, then every level of indirect blocks, all with one more copy. */
	uint64_t metadata = BH_OWN_METADATA_BLOCKS;
	for (uint64_t level = blocks; level > 1; ) {
		level = (level + pointers - 1) / pointers;
		metadata += level;
	}
	metadata *= MIN(copies + 1, SPA_DVAS_PER_BP);
	/* More than any pool has. */
	if (__builtin_mul_overflow(blocks, charged_bytes(spa, block_size) * copies,
	    &data) || __builtin_add_overflow(data, metadata << DN_MAX_INDBLKSHIFT,
	    &whole))
		return (UINT64_MAX);
	return (whole);
}

int
bh_volume_reservation(const char *pool, uint64_t size, uint64_t block_size,
    uint64_t copies, uint64_t *out)
{
	spa_t *spa;
	int error = spa_open(pool, &spa, FTAG);

	if (error != 0)
		return (error);
	*out = bh_space_of_volume(spa, size, block_size, copies);
	spa_close(spa, FTAG);
	return (0);
}

int
bh_dataset_destroy(const char *name)
{
	return (dsl_destroy_head(name));
}

int
bh_snapshots_destroy(struct nvlist *names)
{
	nvlist_t *errors = fnvlist_alloc();
	int error = dsl_destroy_snapshots_nvl(names, B_FALSE, errors);

	nvlist_free(errors);
	return (error);
}

int
bh_snapshots_create(struct nvlist *names, struct nvlist *properties)
{
	nvlist_t *errors = fnvlist_alloc();
	int error = dsl_dataset_snapshot(names, properties, errors);

	nvlist_free(errors);
	return (error);
}

int
bh_dataset_rename(const char *from, const char *to)
{
	return (dsl_dir_rename(from, to));
}

/* The time by which clients detect changes of the snapshots. The library does not update it for new names. */
static void
note_new_names(const char *dataset)
{
	dsl_pool_t *pool;
	dsl_dataset_t *head;

	if (dsl_pool_hold(dataset, FTAG, &pool) != 0)
		return;
	if (dsl_dataset_hold(pool, dataset, FTAG, &head) == 0) {
		mutex_enter(&head->ds_dir->dd_lock);
		gethrestime(&head->ds_dir->dd_snap_cmtime);
		mutex_exit(&head->ds_dir->dd_lock);
		dsl_dataset_rele(head, FTAG);
	}
	dsl_pool_rele(pool, FTAG);
}

int
bh_snapshot_rename(const char *dataset, const char *from, const char *to)
{
	int error = dsl_dataset_rename_snapshot(dataset, from, to, B_FALSE);

	if (error == 0)
		note_new_names(dataset);
	return (error);
}

typedef struct new_clone {
	const char *nc_name;
	const char *nc_snapshot;
	bh_initial_t nc_initial;
} new_clone_t;

/* Only file systems have children. */
static boolean_t
is_filesystem(dsl_dir_t *dd)
{
	dsl_dataset_t *head;
	objset_t *os;

	if (dsl_dataset_hold_obj(dd->dd_pool,
	    dsl_dir_phys(dd)->dd_head_dataset_obj, FTAG, &head) != 0)
		return (B_FALSE);
	boolean_t is = dmu_objset_from_ds(head, &os) == 0 &&
	    dmu_objset_type(os) == DMU_OST_ZFS;
	dsl_dataset_rele(head, FTAG);
	return (is);
}

static int
check_clone(void *arg, dmu_tx_t *tx)
{
	const new_clone_t *clone = arg;
	dsl_pool_t *dp = dmu_tx_pool(tx);
	dsl_dataset_t *snapshot;
	dsl_dir_t *parent;
	const char *last;
	int error = dsl_dataset_hold(dp, clone->nc_snapshot, FTAG, &snapshot);

	if (error != 0)
		return (error);
	boolean_t is_snapshot = snapshot->ds_is_snapshot;
	dsl_dataset_rele(snapshot, FTAG);
	if (!is_snapshot)
		return (EINVAL);
	error = dsl_dir_hold(dp, clone->nc_name, FTAG, &parent, &last);
	if (error != 0)
		return (error);
	if (last == NULL)
		error = EEXIST;
	else if (!is_filesystem(parent))
		error = ZFS_ERR_WRONG_PARENT;
	else if (dsl_fs_ss_limit_check(parent, 1, ZFS_PROP_FILESYSTEM_LIMIT,
	    NULL, BH_WHO_ASKS) != 0)
		error = EDQUOT;
	dsl_dir_rele(parent, FTAG);
	return (error);
}

static void
sync_clone(void *arg, dmu_tx_t *tx)
{
	const new_clone_t *clone = arg;
	dsl_pool_t *dp = dmu_tx_pool(tx);
	dsl_dataset_t *snapshot, *ds;
	dsl_dir_t *parent;
	const char *last;

	VERIFY0(dsl_dataset_hold(dp, clone->nc_snapshot, FTAG, &snapshot));
	VERIFY0(dsl_dir_hold(dp, clone->nc_name, FTAG, &parent, &last));
	uint64_t number = dsl_dataset_create_sync(parent, last, snapshot, 0,
	    CRED(), NULL, tx);
	VERIFY0(dsl_dataset_hold_obj(dp, number, FTAG, &ds));
	spa_history_log_internal_ds(ds, "clone", tx, "origin=%s (%llu)",
	    clone->nc_snapshot, (u_longlong_t)snapshot->ds_object);
	bh_initial_set(ds, &clone->nc_initial, tx);
	dsl_dataset_rele(ds, FTAG);
	dsl_dir_rele(parent, FTAG);
	dsl_dataset_rele(snapshot, FTAG);
}

int
bh_dataset_clone(const char *name, const char *snapshot,
    struct nvlist *properties, char *bad, uint64_t bad_size)
{
	/* Those of a clone itself, and two for each property. */
	const int blocks = 6;
	new_clone_t clone = { name, snapshot,
	    { fnvlist_alloc(), fnvlist_alloc() } };
	uint64_t referenced = 0;
	zfs_type_t type;

	bad[0] = '\0';
	int error = referenced_bytes(snapshot, &referenced);
	if (error == 0)
		error = type_of(snapshot, &type);
	if (error == 0)
		error = bh_initial_check(name, type, properties, referenced,
		    &clone.nc_initial, bad, bad_size);
	if (error == 0)
		error = dsl_sync_task(name, check_clone, sync_clone, &clone,
		    blocks + 2 * (int)(
		    fnvlist_num_pairs(clone.nc_initial.i_properties) +
		    fnvlist_num_pairs(clone.nc_initial.i_limits)),
		    ZFS_SPACE_CHECK_NORMAL);
	bh_initial_free(&clone.nc_initial);
	return (error);
}

int
bh_dataset_promote(const char *name, char *conflict)
{
	conflict[0] = '\0';
	return (dsl_dataset_promote(name, conflict));
}

int
bh_dataset_rollback(const char *name, const char *snapshot)
{
	nvlist_t *result = fnvlist_alloc();
	int error = dsl_dataset_rollback(name, snapshot, NULL, result);

	nvlist_free(result);
	return (error);
}
