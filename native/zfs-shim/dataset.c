/*
 * Datasets: making, listing, changing and removing them, with the checks that the library
 * leaves to the kernel's control device.
 */
#include "directory.h"

#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_destroy.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/zap.h>
#include <sys/zfeature.h>
#include <sys/zio_checksum.h>
#include <sys/zio_compress.h>
#include <zfs_prop.h>

#include <pthread.h>

#include "shim_dataset.h"
#include "volume_impl.h"

/* Read ahead of a dataset's property list: its index and leaf, and some more. */
#define	BH_PROPERTIES_BYTES	(64ULL << 10)
/* Threads that read the property lists of a level, and below how many lists one does alone. */
#define	BH_READERS		4
#define	BH_READERS_LISTS_MIN	64
/* The largest block of a volume that kernel ZFS makes without a changed tunable. */
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

static int
visit_one(const char *name, void *arg)
{
	walk_t *walk = arg;
	char origin[ZFS_MAX_DATASET_NAME_LEN];
	bh_dataset_t found = { .bd_name = name, .bd_origin = origin };
	dmu_object_info_t info;
	objset_t *os;

	int error = dmu_objset_hold(name, FTAG, &os);
	if (error != 0)
		/* Destroyed meanwhile: not an error of the walk. */
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
	if (!found.bd_is_snapshot) {
		found.bd_available = dsl_get_available(ds);
		found.bd_refreservation = dsl_get_refreservation(ds);
	}
	if (found.bd_kind == BH_KIND_VOLUME &&
	    zap_lookup(os, BH_PROPERTIES_OBJECT, BH_SIZE_KEY, 8, 1,
	    &found.bd_volume_size) == 0 &&
	    dmu_object_info(os, BH_DATA_OBJECT, &info) == 0)
		found.bd_volume_block_size = info.doi_data_block_size;
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

int
bh_dataset_walk(const char *name, uint32_t snapshots,
    bh_dataset_visitor_t *visit, void *arg)
{
	walk_t walk = { visit, arg };

	return (dmu_objset_find(name, visit_one, &walk,
	    DS_FIND_CHILDREN | (snapshots != 0 ? DS_FIND_SNAPSHOTS : 0)));
}

typedef struct property_walk {
	objset_t *pw_mos;
	const char *pw_prefix;
	bh_property_visitor_t *pw_visit;
	void *pw_arg;
	/* Held while the visitor is called. */
	pthread_mutex_t *pw_visiting;
	zap_attribute_t *pw_entry;
	char pw_value[ZAP_MAXVALUELEN];
} property_walk_t;

static int
visit_properties(property_walk_t *walk, uint64_t object, const char *dataset)
{
	zap_attribute_t *entry = walk->pw_entry;
	zap_cursor_t cursor;
	int error;

	for (zap_cursor_init(&cursor, walk->pw_mos, object);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor)) {
		if (entry->za_integer_length != 1 || strncmp(entry->za_name,
		    walk->pw_prefix, strlen(walk->pw_prefix)) != 0)
			continue;
		error = zap_lookup(walk->pw_mos, object, entry->za_name, 1,
		    sizeof (walk->pw_value), walk->pw_value);
		if (error != 0)
			break;
		VERIFY0(pthread_mutex_lock(walk->pw_visiting));
		walk->pw_visit(walk->pw_arg, dataset, entry->za_name,
		    walk->pw_value);
		VERIFY0(pthread_mutex_unlock(walk->pw_visiting));
	}
	zap_cursor_fini(&cursor);
	return (error == ENOENT ? 0 : error);
}

/* What a directory of the dataset tree points at. */
static int
read_directory(objset_t *mos, uint64_t object, uint64_t *properties,
    uint64_t *children)
{
	dmu_buf_t *bonus;
	int error = dmu_bonus_hold(mos, object, FTAG, &bonus);

	if (error != 0)
		return (error);
	const dsl_dir_phys_t *phys = bonus->db_data;
	*properties = phys->dd_props_zapobj;
	*children = phys->dd_child_dir_zapobj;
	dmu_buf_rele(bonus, FTAG);
	return (0);
}

typedef struct child {
	uint64_t c_object;
	uint64_t c_properties;
	uint64_t c_children;
	char c_name[ZFS_MAX_DATASET_NAME_LEN];
} child_t;

/* Lists the children of one dataset, asking for all of them to be read at once. */
static int
list_children(property_walk_t *walk, uint64_t zap, const char *parent,
    child_t **out, uint64_t *out_count)
{
	zap_attribute_t *entry = walk->pw_entry;
	uint64_t capacity = 0, count = 0;
	child_t *children = NULL;
	zap_cursor_t cursor;
	int error;

	for (zap_cursor_init(&cursor, walk->pw_mos, zap);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor)) {
		/* The pool's own: $MOS, $FREE, $ORIGIN. */
		if (entry->za_name[0] == '$')
			continue;
		if (count == capacity) {
			capacity = MAX(16, capacity * 2);
			child_t *more = realloc(children,
			    capacity * sizeof (*children));
			if (more == NULL) {
				error = ENOMEM;
				break;
			}
			children = more;
		}
		child_t *child = &children[count++];
		child->c_object = entry->za_first_integer;
		(void) snprintf(child->c_name, sizeof (child->c_name), "%s/%s",
		    parent, entry->za_name);
		dmu_prefetch_dnode(walk->pw_mos, child->c_object,
		    ZIO_PRIORITY_SYNC_READ);
	}
	zap_cursor_fini(&cursor);
	*out = children;
	*out_count = count;
	return (error == ENOENT ? 0 : error);
}

static property_walk_t *
begin_walk(objset_t *mos, const char *prefix, bh_property_visitor_t *visit,
    void *arg, pthread_mutex_t *visiting)
{
	property_walk_t *walk = kmem_zalloc(sizeof (*walk), KM_SLEEP);

	walk->pw_mos = mos;
	walk->pw_prefix = prefix;
	walk->pw_visit = visit;
	walk->pw_arg = arg;
	walk->pw_visiting = visiting;
	walk->pw_entry = zap_attribute_alloc();
	return (walk);
}

static void
end_walk(property_walk_t *walk)
{
	zap_attribute_free(walk->pw_entry);
	kmem_free(walk, sizeof (*walk));
}

/* The lists of some datasets of a level. */
typedef struct reader {
	property_walk_t *r_walk;
	const child_t *r_children;
	uint64_t r_count;
	int r_error;
	pthread_t r_thread;
	boolean_t r_has_thread;
} reader_t;

static void *
read_lists(void *arg)
{
	reader_t *reader = arg;

	/* All are asked for before the first is waited for. */
	for (uint64_t i = 0; i < reader->r_count; i++)
		dmu_prefetch(reader->r_walk->pw_mos,
		    reader->r_children[i].c_properties, 0, 0,
		    BH_PROPERTIES_BYTES, ZIO_PRIORITY_SYNC_READ);
	for (uint64_t i = 0; i < reader->r_count && reader->r_error == 0; i++)
		reader->r_error = visit_properties(reader->r_walk,
		    reader->r_children[i].c_properties,
		    reader->r_children[i].c_name);
	return (NULL);
}

/* Reads the lists of a level, many of them on several threads: the CPU is what it costs. */
static int
visit_level(property_walk_t *walk, const child_t *children, uint64_t count)
{
	uint64_t threads = count < BH_READERS_LISTS_MIN ? 1 : BH_READERS;
	reader_t readers[BH_READERS];
	int error = 0;

	for (uint64_t i = 0; i < threads; i++) {
		uint64_t first = count * i / threads;
		reader_t *reader = &readers[i];
		*reader = (reader_t){
			.r_walk = begin_walk(walk->pw_mos, walk->pw_prefix,
			    walk->pw_visit, walk->pw_arg, walk->pw_visiting),
			.r_children = children + first,
			.r_count = count * (i + 1) / threads - first,
		};
		/* The last part is the caller's, as is one that gets no thread. */
		reader->r_has_thread = i + 1 < threads &&
		    pthread_create(&reader->r_thread, NULL, read_lists,
		    reader) == 0;
		if (!reader->r_has_thread)
			(void) read_lists(reader);
	}
	for (uint64_t i = 0; i < threads; i++) {
		if (readers[i].r_has_thread)
			VERIFY0(pthread_join(readers[i].r_thread, NULL));
		end_walk(readers[i].r_walk);
		if (error == 0)
			error = readers[i].r_error;
	}
	return (error);
}

/*
 * One level of the tree after the other: first all directories, then all property lists, so
 * that a thousand volumes cost a few round trips to the disks and not thousands.
 */
static int
visit_children(property_walk_t *walk, uint64_t zap, const char *parent,
    int depth)
{
	child_t *children;
	uint64_t count;

	if (depth > BH_DEPTH_MAX)
		return (ELOOP);
	int error = list_children(walk, zap, parent, &children, &count);
	for (uint64_t i = 0; i < count && error == 0; i++) {
		error = read_directory(walk->pw_mos, children[i].c_object,
		    &children[i].c_properties, &children[i].c_children);
	}
	if (error == 0)
		error = visit_level(walk, children, count);
	for (uint64_t i = 0; i < count && error == 0; i++) {
		if (bh_may_have_children(walk->pw_mos, children[i].c_children))
			error = visit_children(walk, children[i].c_children,
			    children[i].c_name, depth + 1);
	}
	free(children);
	return (error);
}

int
bh_user_properties(const char *pool, const char *prefix,
    bh_property_visitor_t *visit, void *arg)
{
	uint64_t properties, children;
	dsl_pool_t *dp;
	int error = dsl_pool_hold(pool, FTAG, &dp);

	if (error != 0)
		return (error);
	pthread_mutex_t visiting = PTHREAD_MUTEX_INITIALIZER;
	property_walk_t *walk = begin_walk(dp->dp_meta_objset, prefix, visit,
	    arg, &visiting);
	error = read_directory(walk->pw_mos, dp->dp_root_dir_obj, &properties,
	    &children);
	if (error == 0)
		error = visit_properties(walk, properties, pool);
	if (error == 0)
		error = visit_children(walk, children, pool, 0);
	end_walk(walk);
	dsl_pool_rele(dp, FTAG);
	return (error);
}

int
bh_own_user_properties(const char *name, const char *prefix,
    bh_property_visitor_t *visit, void *arg)
{
	const char *missing;
	dsl_pool_t *dp;
	dsl_dir_t *dd;
	int error = dsl_pool_hold(name, FTAG, &dp);

	if (error != 0)
		return (error);
	error = dsl_dir_hold(dp, name, FTAG, &dd, &missing);
	if (error == 0) {
		/* The library finds the parent of a dataset that is not there. */
		error = missing == NULL ? 0 : ENOENT;
		pthread_mutex_t visiting = PTHREAD_MUTEX_INITIALIZER;
		property_walk_t *walk = begin_walk(dp->dp_meta_objset, prefix,
		    visit, arg, &visiting);
		if (error == 0)
			error = visit_properties(walk,
			    dsl_dir_phys(dd)->dd_props_zapobj, name);
		end_walk(walk);
		dsl_dir_rele(dd, FTAG);
	}
	dsl_pool_rele(dp, FTAG);
	return (error);
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
		uint64_t size;
		dmu_object_info_t info;
		dmu_objset_stats(os, list);
		if (dmu_objset_type(os) == DMU_OST_ZVOL &&
		    zap_lookup(os, BH_PROPERTIES_OBJECT, BH_SIZE_KEY, 8, 1,
		    &size) == 0 &&
		    dmu_object_info(os, BH_DATA_OBJECT, &info) == 0) {
			dsl_prop_nvlist_add_uint64(list, ZFS_PROP_VOLSIZE,
			    size);
			dsl_prop_nvlist_add_uint64(list, ZFS_PROP_VOLBLOCKSIZE,
			    info.doi_data_block_size);
		}
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

/* Whether this pool can take a value; `pool` may be any dataset of it. */
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
	default:
		return (0);
	}
}

/* Properties that a volume (and a file system without a mount) can have changed. */
static boolean_t
is_settable(zfs_prop_t property)
{
	switch (property) {
	case ZFS_PROP_VOLSIZE:		/* bh_volume_resize() */
	case ZFS_PROP_KEYLOCATION:
	case ZFS_PROP_KEYFORMAT:
	case ZFS_PROP_VERSION:
		return (B_FALSE);
	default:
		return (!zfs_prop_readonly(property) &&
		    !zfs_prop_setonce(property) &&
		    zfs_prop_valid_for_type(property,
		    ZFS_TYPE_VOLUME | ZFS_TYPE_FILESYSTEM, B_FALSE));
	}
}

/* Turns one pair into what the property layer stores, and checks it. */
static int
check_pair(const char *pool, nvpair_t *pair, nvlist_t *plain,
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
	if (!is_settable(property))
		return (EPERM);
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

static int
check_all(const char *pool, nvlist_t *properties, nvlist_t *plain,
    nvlist_t *special, char *bad, uint64_t bad_size)
{
	nvpair_t *pair = NULL;

	bad[0] = '\0';
	while ((pair = nvlist_next_nvpair(properties, pair)) != NULL) {
		int error = check_pair(pool, pair, plain, special);
		if (error != 0) {
			(void) strlcpy(bad, nvpair_name(pair), bad_size);
			return (error);
		}
	}
	return (0);
}

/* Limits and reservations are kept outside the property list. */
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

int
bh_dataset_set(const char *name, struct nvlist *properties, char *bad,
    uint64_t bad_size)
{
	nvlist_t *plain = fnvlist_alloc();
	nvlist_t *special = fnvlist_alloc();
	nvpair_t *pair = NULL;
	uint64_t compression;
	int error = check_all(name, properties, plain, special, bad, bad_size);

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
	    !zfs_prop_inheritable(known) || !is_settable(known))
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

typedef struct volume_shape {
	uint64_t vs_size;
	uint64_t vs_block_size;
	/* Already checked. */
	nvlist_t *vs_properties;
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
	dsl_props_set_sync_impl(dmu_objset_ds(os), ZPROP_SRC_LOCAL,
	    shape->vs_properties, tx);
}

/*
 * Moves what cannot be set while the dataset is made from `plain` and `special` to `rest`:
 * limits, whose checks need the dataset, and compression, which may switch on a feature.
 */
static void
set_aside(nvlist_t *plain, nvlist_t *special, nvlist_t *rest)
{
	const char *compression = zfs_prop_to_name(ZFS_PROP_COMPRESSION);
	uint64_t value;

	fnvlist_merge(rest, special);
	if (nvlist_lookup_uint64(plain, compression, &value) == 0) {
		fnvlist_add_uint64(rest, compression, value);
		fnvlist_remove(plain, compression);
	}
}

int
bh_volume_create(const char *name, uint64_t size, uint64_t block_size,
    struct nvlist *properties, struct nvlist *rest, char *bad, uint64_t bad_size)
{
	volume_shape_t shape = { size, block_size, NULL };
	char pool[ZFS_MAX_DATASET_NAME_LEN];

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
	/* Checked against the pool: the volume does not exist yet. */
	(void) strlcpy(pool, name, sizeof (pool));
	pool[strcspn(pool, "/")] = '\0';
	nvlist_t *special = fnvlist_alloc();
	shape.vs_properties = fnvlist_alloc();
	int error = check_all(pool, properties, shape.vs_properties, special,
	    bad, bad_size);
	if (error == 0) {
		set_aside(shape.vs_properties, special, rest);
		error = dmu_objset_create(name, DMU_OST_ZVOL, 0, NULL,
		    make_volume, &shape);
	}
	nvlist_free(special);
	nvlist_free(shape.vs_properties);
	return (error);
}

/* What the pool charges for one block, in the worst of its top-level devices. */
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

int
bh_volume_reservation(const char *pool, uint64_t size, uint64_t block_size,
    uint64_t copies, uint64_t *out)
{
	const uint64_t pointers = 1ULL << (DN_MAX_INDBLKSHIFT - SPA_BLKPTRSHIFT);
	spa_t *spa;
	int error = spa_open(pool, &spa, FTAG);

	if (error != 0)
		return (error);
	uint64_t blocks = size / block_size;
	uint64_t data = blocks * charged_bytes(spa, block_size) * copies;
	spa_close(spa, FTAG);

	/* The dataset's own metadata, then every level of pointer blocks, all in one copy more. */
	uint64_t metadata = DN_MAX_LEVELS;
	for (uint64_t level = blocks; level > 1; ) {
		level = (level + pointers - 1) / pointers;
		metadata += level;
	}
	metadata *= MIN(copies + 1, SPA_DVAS_PER_BP);
	*out = data + (metadata << DN_MAX_INDBLKSHIFT);
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

int
bh_snapshot_rename(const char *dataset, const char *from, const char *to)
{
	return (dsl_dataset_rename_snapshot(dataset, from, to, B_FALSE));
}

int
bh_dataset_clone(const char *clone, const char *snapshot)
{
	return (dmu_objset_clone(clone, snapshot));
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
