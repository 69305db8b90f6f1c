/*
 * Pools: the functions of the kernel module's ioctl layer, which the library does not have.
 */
#include "internal.h"

#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>
#include <sys/txg.h>
#include <sys/vdev_trim.h>
#include <sys/mmp.h>
#include <sys/metaslab_impl.h>
#include <zfeature_common.h>
#include <zfs_prop.h>
#include <pthread.h>
#include <unistd.h>

/* Whether a change is possible: on a suspended pool it would block for ever. */
static int
refuse_change(spa_t *spa)
{
	if (!spa_writeable(spa))
		return (EROFS);
	if (spa_suspended(spa))
		return (EAGAIN);
	return (0);
}

static int
refuse_read_only(spa_t *spa)
{
	return (spa_writeable(spa) ? 0 : EROFS);
}

static int
refuse_nothing(spa_t *spa)
{
	return (0);
}

/*
 * The pool that was accessed last. While devices fail, the library may wait for them with its list of pools locked;
 * with it, a monitor and a resume bypass that lock. Cleared before the pool is closed.
 */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static spa_t *known_pool;

static void
set_known_pool(spa_t *spa)
{
	(void) pthread_mutex_lock(&known_lock);
	known_pool = spa;
	(void) pthread_mutex_unlock(&known_lock);
}

/* Runs `call` with the pool called `name` if it is the remembered one; otherwise EAGAIN. */
#define	BH_WITH_KNOWN_POOL(name, spa, error, call)		\
	do {							\
		(void) pthread_mutex_lock(&known_lock);		\
		spa = known_pool;				\
		if (spa != NULL && strcmp(spa_name(spa), name) == 0) \
			call;					\
		else						\
			error = EAGAIN;				\
		(void) pthread_mutex_unlock(&known_lock);	\
	} while (0)

/*
 * Holds the pool called `name` open, until spa_close() with the same tag. A remembered pool is held without the lock of
 * the pool list.
 */
static int
hold_pool(const char *name, spa_t **spa, const void *tag)
{
	int error = 0;

	BH_WITH_KNOWN_POOL(name, *spa, error, spa_open_ref(*spa, tag));
	return (error == EAGAIN ? spa_open(name, spa, tag) : error);
}

/* Runs `call` with the pool held open as `spa`, unless `refuse` returns an error. */
#define	BH_WITH_POOL(name, spa, error, refuse, call)		\
	do {							\
		(error) = hold_pool((name), &(spa), FTAG);	\
		if ((error) != 0)				\
			break;					\
		(error) = refuse(spa);				\
		if ((error) == 0)				\
			(error) = (call);			\
		spa_close((spa), FTAG);				\
	} while (0)

/* No pool may have a cache file: see init.c. */
static nvlist_t *
without_cache_file(nvlist_t *properties)
{
	nvlist_t *copy = NULL;

	if (properties == NULL)
		copy = fnvlist_alloc();
	else
		copy = fnvlist_dup(properties);
	fnvlist_add_string(copy, "cachefile", "none");
	return (copy);
}

int32_t
bh_pool_create(const char *name, struct nvlist *vdev_tree, struct nvlist *properties)
{
	nvlist_t *props = without_cache_file(properties);
	nvlist_t *root = fnvlist_alloc();

	/* The creation properties of a POSIX file system at the root of the pool. */
	fnvlist_add_uint64(root, "version", ZPL_VERSION);
	fnvlist_add_uint64(root, "normalization", 0);
	fnvlist_add_uint64(root, "utf8only", 0);
	fnvlist_add_uint64(root, "casesensitivity", 0);

	int error = spa_create(name, vdev_tree, props, root, NULL);

	nvlist_free(root);
	nvlist_free(props);
	return (error);
}

/* A larger list of spares or caches is damaged. */
#define	BH_AUX_LIST_BYTES_MAX	(16ULL << 20)

/* The pool's own list of its spares or caches; NULL if it is unreadable. */
static nvlist_t *
read_aux_list(spa_t *spa, uint64_t object)
{
	objset_t *mos = spa->spa_meta_objset;
	nvlist_t *list = NULL;
	dmu_buf_t *bonus;

	if (object == 0 || dmu_bonus_hold(mos, object, FTAG, &bonus) != 0)
		return (NULL);
	uint64_t length = *(uint64_t *)bonus->db_data;
	dmu_buf_rele(bonus, FTAG);
	if (length == 0 || length > BH_AUX_LIST_BYTES_MAX)
		return (NULL);

	char *packed = kmem_alloc(length, KM_SLEEP);
	if (dmu_read(mos, object, 0, length, packed, DMU_READ_NO_PREFETCH) == 0 &&
	    nvlist_unpack(packed, length, &list, KM_SLEEP) != 0)
		list = NULL;
	kmem_free(packed, length);
	return (list);
}

/* Writes the paths of the found devices, by their numbers, into the list. */
static void
update_paths(nvlist_t *list, const char *key, nvlist_t *paths)
{
	nvlist_t **devices;
	uint_t count;

	if (nvlist_lookup_nvlist_array(list, key, &devices, &count) != 0)
		return;
	for (uint_t i = 0; i < count; i++) {
		char number[24];
		const char *path;
		uint64_t guid;

		if (nvlist_lookup_uint64(devices[i], ZPOOL_CONFIG_GUID, &guid) != 0)
			continue;
		(void) snprintf(number, sizeof (number), "%llu", (u_longlong_t)guid);
		if (nvlist_lookup_string(paths, number, &path) == 0)
			fnvlist_add_string(devices[i], ZPOOL_CONFIG_PATH, path);
	}
}

/*
 * In user space the library does not search for spares and caches while it examines a pool before the import, and then
 * drops those that the pool names. Here they are loaded again.
 */
static void
load_spares_and_caches(spa_t *spa, nvlist_t *paths)
{
	nvlist_t *spares = read_aux_list(spa, spa->spa_spares.sav_object);
	nvlist_t *caches = read_aux_list(spa, spa->spa_l2cache.sav_object);

	spa_config_enter(spa, SCL_ALL, FTAG, RW_WRITER);
	if (spares != NULL && spa->spa_spares.sav_config == NULL) {
		update_paths(spares, ZPOOL_CONFIG_SPARES, paths);
		spa->spa_spares.sav_config = spares;
		spa_load_spares(spa);
		spa->spa_spares.sav_sync = B_TRUE;
		spa->spa_spares.sav_label_sync = B_TRUE;
	} else {
		nvlist_free(spares);
	}
	if (caches != NULL && spa->spa_l2cache.sav_config == NULL) {
		update_paths(caches, ZPOOL_CONFIG_L2CACHE, paths);
		spa->spa_l2cache.sav_config = caches;
		spa_load_l2cache(spa);
		spa->spa_l2cache.sav_sync = B_TRUE;
		spa->spa_l2cache.sav_label_sync = B_TRUE;
	} else {
		nvlist_free(caches);
	}
	spa_config_exit(spa, SCL_ALL, FTAG);
}

/*
 * Before it opens a pool, the library can read all blocks that the last three transaction groups wrote, of every
 * dataset, and refuse a pool with disks that have lost some of them: two thirds of a millisecond for each written
 * volume. The caller determines whether the disks may have lost power since, and whether a rewind was requested.
 */
static void
choose_start(nvlist_t *config, uint32_t flags)
{
	nvlist_t *policy = fnvlist_alloc();
	uint32_t rewind = ZPOOL_NEVER_REWIND;

	if ((flags & BH_IMPORT_REWIND) != 0)
		rewind = ZPOOL_DO_REWIND;
	else if ((flags & BH_IMPORT_CHECK_NEWEST) != 0)
		rewind = ZPOOL_NO_REWIND;
	fnvlist_add_uint32(policy, ZPOOL_LOAD_REWIND_POLICY, rewind);
	fnvlist_add_nvlist(config, ZPOOL_LOAD_POLICY, policy);
	nvlist_free(policy);
}

int32_t
bh_pool_import(const char *name, struct nvlist *config, struct nvlist *properties,
    struct nvlist *aux_paths, uint32_t flags, const uint64_t *expected, uint32_t expected_count)
{
	/* Whether the pool may be taken from another host is decided above this layer. */
	uint64_t import_flags = ZFS_IMPORT_ANY_HOST;
	char pool[ZFS_MAX_DATASET_NAME_LEN];
	nvlist_t *props = without_cache_file(properties);

	if ((flags & BH_IMPORT_MISSING_LOG) != 0)
		import_flags |= ZFS_IMPORT_MISSING_LOG;
	if ((flags & BH_IMPORT_SKIP_ACTIVITY_CHECK) != 0)
		import_flags |= ZFS_IMPORT_SKIP_MMP;
	(void) strlcpy(pool, name, sizeof (pool));
	choose_start(config, flags);

	bh_unopened_begin(expected, expected_count);
	int error = bh_import(pool, config, props, import_flags);

	bh_unopened_end(config);
	nvlist_free(props);
	spa_t *spa;
	if (error == 0 && spa_open(pool, &spa, FTAG) == 0) {
		/* From the start: devices may fail before the first query of the health. */
		set_known_pool(spa);
		if (spa_writeable(spa))
			load_spares_and_caches(spa, aux_paths);
		spa_close(spa, FTAG);
	}
	return (error);
}

/* Exporting a suspended pool would block for ever. */
static int
refuse_suspended(const char *name)
{
	struct bh_pool_health health = { 0 };

	return (bh_pool_health(name, &health) == 0 && health.suspended != 0 ? EAGAIN : 0);
}

int32_t
bh_pool_export(const char *name, uint32_t force)
{
	int error = refuse_suspended(name);

	if (error != 0)
		return (error);
	set_known_pool(NULL);
	return (bh_export(name, force != 0));
}

int32_t
bh_pool_destroy(const char *name)
{
	int error = refuse_suspended(name);

	if (error != 0)
		return (error);
	set_known_pool(NULL);
	return (spa_destroy(name));
}

/* Longest wait for a change of devices' states before the status of a pool is refused. */
#define	BH_CONFIG_WAIT_MS_MAX	10000

/* Whether neither the list of pools nor the pool's configuration is locked now. */
static boolean_t
can_be_read(spa_t *spa)
{
	if (!mutex_tryenter(&spa_namespace_lock))
		return (B_FALSE);

	boolean_t readable = spa_config_tryenter(spa, SCL_CONFIG | SCL_STATE, FTAG, RW_READER);

	if (readable)
		spa_config_exit(spa, SCL_CONFIG | SCL_STATE, FTAG);
	mutex_exit(&spa_namespace_lock);
	return (readable);
}

/*
 * EAGAIN if the pool's configuration cannot be read within a short time. While devices fail, a change of their states
 * blocks on the I/O in flight, which blocks on the devices, and readers queue up after it.
 */
static int
refuse_locked(const char *name)
{
	spa_t *spa;
	int error = hold_pool(name, &spa, FTAG);

	if (error != 0)
		return (error);
	for (int waited_ms = 0; !can_be_read(spa); waited_ms++) {
		/* A healthy change of states completes in milliseconds. */
		if (spa_suspended(spa) || waited_ms >= BH_CONFIG_WAIT_MS_MAX) {
			error = EAGAIN;
			break;
		}
		(void) usleep(1000);
	}
	spa_close(spa, FTAG);
	return (error);
}

/*
 * The library's own state of a device is whether it responds, not whether it is complete: a returned one is online for
 * some transaction groups before its resilver begins.
 */
static void
add_missing_data(const char *name, nvlist_t *status)
{
	spa_t *spa;

	if (hold_pool(name, &spa, FTAG) != 0)
		return;
	nvlist_t *lacking = bh_list_missing(spa);
	spa_close(spa, FTAG);
	fnvlist_add_nvlist(status, "lacking", lacking);
	fnvlist_free(lacking);
}

int32_t
bh_pool_status(const char *name, struct nvlist **out)
{
	/*
	 * The library acquires the configuration with the list of all pools locked. If it had to wait for devices there, no
	 * request could read the pool's health or resume it.
	 */
	int error = refuse_locked(name);

	*out = NULL;
	if (error == EAGAIN)
		return (error);
	error = spa_get_stats(name, out, NULL, 0);
	if (error == 0 && *out != NULL)
		add_missing_data(name, *out);

	/* A pool that cannot be opened still has a configuration, which is the result. */
	return (*out != NULL ? 0 : error);
}

/* Adds the defaults of settable properties that are not set. */
static void
add_defaults(nvlist_t *properties)
{
	for (int number = 0; number < ZPOOL_NUM_PROPS; number++) {
		zpool_prop_t property = number;
		const char *name = zpool_prop_to_name(property);

		if (zpool_prop_readonly(property) || zpool_prop_setonce(property) ||
		    nvlist_exists(properties, name))
			continue;
		nvlist_t *entry = fnvlist_alloc();
		fnvlist_add_uint64(entry, ZPROP_SOURCE, ZPROP_SRC_DEFAULT);
		if (zpool_prop_get_type(property) == PROP_TYPE_STRING) {
			const char *text = zpool_prop_default_string(property);
			fnvlist_add_string(entry, ZPROP_VALUE, text != NULL ? text : "");
		} else {
			fnvlist_add_uint64(entry, ZPROP_VALUE,
			    zpool_prop_default_numeric(property));
		}
		fnvlist_add_nvlist(properties, name, entry);
		fnvlist_free(entry);
	}
}

/* The features that this software supports, named and described as `zpool get` shows them. */
static void
add_features(spa_t *spa, nvlist_t *properties)
{
	for (spa_feature_t i = 0; i < SPA_FEATURES; i++) {
		char name[ZAP_MAXNAMELEN];
		const char *state = "disabled";

		if (!spa_feature_table[i].fi_zfs_mod_supported)
			continue;
		if (spa_feature_is_enabled(spa, i))
			state = spa_feature_is_active(spa, i) ? "active" : "enabled";
		(void) snprintf(name, sizeof (name), "feature@%s", spa_feature_table[i].fi_uname);
		nvlist_t *entry = fnvlist_alloc();
		fnvlist_add_uint64(entry, ZPROP_SOURCE,
		    spa_feature_is_enabled(spa, i) ? ZPROP_SRC_LOCAL : ZPROP_SRC_DEFAULT);
		fnvlist_add_string(entry, ZPROP_VALUE, state);
		fnvlist_add_nvlist(properties, name, entry);
		fnvlist_free(entry);
	}
}

static int
properties_of(spa_t *spa, nvlist_t *properties)
{
	int error = spa_prop_get(spa, properties);

	if (error == 0)
		add_features(spa, properties);
	return (error);
}

int32_t
bh_pool_properties(const char *name, struct nvlist **out)
{
	spa_t *spa;
	int error;
	nvlist_t *properties = fnvlist_alloc();

	BH_WITH_POOL(name, spa, error, refuse_nothing, properties_of(spa, properties));
	if (error != 0) {
		nvlist_free(properties);
		properties = NULL;
	} else {
		add_defaults(properties);
	}
	*out = properties;
	return (error);
}

int32_t
bh_pool_set_properties(const char *name, struct nvlist *properties)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, spa_prop_set(spa, properties));
	return (error);
}

int32_t
bh_pool_property_parse(struct nvlist *properties, const char *name, const char *text,
    uint32_t creating)
{
	uint64_t value;
	char *end;

	if (zpool_prop_feature(name)) {
		const char *feature = strchr(name, '@') + 1;

		if (zfeature_lookup_name(feature, NULL) != 0)
			return (ENOENT);
		if (strcmp(text, "enabled") != 0)
			return (EINVAL);
		return (nvlist_add_uint64(properties, name, 0));
	}
	if (zfs_prop_user(name))
		return (nvlist_add_string(properties, name, text));

	zpool_prop_t prop = zpool_name_to_prop(name);
	if (prop == ZPOOL_PROP_INVAL)
		return (ENOENT);
	/* The first is set by init.c, the second describes a mount, which does not exist here. */
	if (prop == ZPOOL_PROP_CACHEFILE || prop == ZPOOL_PROP_ALTROOT)
		return (EROFS);
	if (zpool_prop_readonly(prop) ||
	    (zpool_prop_setonce(prop) && creating == 0))
		return (EROFS);

	switch (zpool_prop_get_type(prop)) {
	case PROP_TYPE_STRING:
		return (nvlist_add_string(properties, name, text));
	case PROP_TYPE_INDEX:
		if (zpool_prop_string_to_index(prop, text, &value) != 0)
			return (EINVAL);
		return (nvlist_add_uint64(properties, name, value));
	default:
		errno = 0;
		value = strtoull(text, &end, 10);
		if (errno != 0 || end == text || *end != '\0')
			return (EINVAL);
		return (nvlist_add_uint64(properties, name, value));
	}
}

const char *
bh_pool_property_word(const char *name, uint64_t value)
{
	const char *word = NULL;
	zpool_prop_t prop = zpool_name_to_prop(name);

	if (prop == ZPOOL_PROP_INVAL || zpool_prop_get_type(prop) != PROP_TYPE_INDEX ||
	    zpool_prop_index_to_string(prop, value, &word) != 0)
		return (NULL);
	return (word);
}

/* Exported by the library, and declared for libzfs only. */
extern const char *zpool_prop_values(zpool_prop_t prop);

const char *
bh_pool_property_values(const char *name)
{
	zpool_prop_t prop = zpool_name_to_prop(name);

	if (prop == ZPOOL_PROP_INVAL)
		return (NULL);
	return (zpool_prop_values(prop));
}

static int
wait_synced(spa_t *spa)
{
	bh_wait_until_written(spa_get_dsl(spa));
	return (0);
}

int32_t
bh_pool_sync(const char *name)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, wait_synced(spa));
	return (error);
}

int32_t
bh_pool_change_guid(const char *name)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, spa_change_guid(spa, NULL));
	return (error);
}

int32_t
bh_pool_label_note(const char *name, const char *text)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, bh_write_label_note(spa, text));
	return (error);
}

static void
describe_health(spa_t *spa, struct bh_pool_health *out)
{
	out->suspended = (uint32_t)spa->spa_suspended;
	out->root_state = (uint32_t)spa->spa_root_vdev->vdev_state;
	out->synced_txg = spa_last_synced_txg(spa);
	out->sync_started_ns = (uint64_t)spa->spa_sync_starttime;
	out->now_ns = (uint64_t)gethrtime();
	out->unrecorded_guid = bh_given_up_first(spa, &out->unrecorded_since_s);
}

int32_t
bh_pool_health(const char *name, struct bh_pool_health *out)
{
	spa_t *spa = NULL;
	int error = 0;

	if (!mutex_tryenter(&spa_namespace_lock)) {
		BH_WITH_KNOWN_POOL(name, spa, error, describe_health(spa, out));
		return (error);
	}
	/* spa_lookup would block on a pool that is being exported. */
	while ((spa = spa_next(spa)) != NULL) {
		if (strcmp(spa_name(spa), name) == 0)
			break;
	}
	if (spa == NULL || spa->spa_is_exporting || spa->spa_root_vdev == NULL) {
		error = spa == NULL ? ENOENT : EAGAIN;
	} else {
		describe_health(spa, out);
		set_known_pool(spa);
	}
	mutex_exit(&spa_namespace_lock);
	return (error);
}

static int
scan_command(spa_t *spa, uint32_t command)
{
	switch (command) {
	case BH_SCRUB_START:
		return (spa_scan(spa, POOL_SCAN_SCRUB));
	case BH_SCRUB_PAUSE:
		return (spa_scrub_pause_resume(spa, POOL_SCRUB_PAUSE));
	case BH_SCRUB_CANCEL:
		return (spa_scan_stop(spa));
	default:
		return (EINVAL);
	}
}

int32_t
bh_pool_scrub(const char *name, uint32_t command)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, scan_command(spa, command));
	return (error);
}

static int
trim_command(spa_t *spa, const uint64_t *vdev_guids, uint32_t count, uint32_t command)
{
	pool_trim_func_t function = POOL_TRIM_START;
	nvlist_t *guids = fnvlist_alloc();
	nvlist_t *errors = fnvlist_alloc();
	char key[24];
	int error = 0;

	if (command == BH_TRIM_CANCEL)
		function = POOL_TRIM_CANCEL;
	else if (command == BH_TRIM_SUSPEND)
		function = POOL_TRIM_SUSPEND;
	for (uint32_t i = 0; i < count; i++) {
		(void) snprintf(key, sizeof (key), "%u", i);
		fnvlist_add_uint64(guids, key, vdev_guids[i]);
	}
	if (spa_vdev_trim(spa, guids, function, 0, B_TRUE, B_FALSE, errors) > 0) {
		nvpair_t *first = nvlist_next_nvpair(errors, NULL);
		int64_t code;

		error = first != NULL && nvpair_value_int64(first, &code) == 0 ?
		    (int)code : EINVAL;
	}
	nvlist_free(errors);
	nvlist_free(guids);
	return (error);
}

int32_t
bh_pool_trim(const char *name, const uint64_t *vdev_guids, uint32_t count, uint32_t command)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, trim_command(spa, vdev_guids, count, command));
	return (error);
}

/* A device with a failed flush is not opened before that is on record. A suspended pool cannot write a record. */
static void
await_records(spa_t *spa)
{
	if (!spa_suspended(spa))
		bh_given_up_await(spa);
}

static int
clear_errors(spa_t *spa, uint64_t vdev_guid, boolean_t resumes)
{
	vdev_t *vd = NULL;

	/* An opened device may be read from at once. A caller that resumes has verified that its data is complete. */
	if (!resumes && spa_suspended(spa))
		return (EAGAIN);

	/* Another host may have taken the pool while it was suspended here. */
	if (spa_multihost(spa) && spa_suspended(spa) && spa_mmp_remote_host_activity(spa))
		return (EREMOTEIO);

	await_records(spa);
	spa_vdev_state_enter(spa, SCL_NONE);
	if (vdev_guid != 0) {
		vd = spa_lookup_by_guid(spa, vdev_guid, B_TRUE);
		if (vd == NULL) {
			(void) spa_vdev_state_exit(spa, NULL, ENODEV);
			return (ENODEV);
		}
	}
	vdev_clear(spa, vd);
	/*
	 * Blocks neither on a transaction group nor on the list of pools: its lock's holder may wait for the very I/O that is
	 * resumed here. Changed states are written later.
	 */
	(void) spa_vdev_state_exit(spa, NULL, 0);

	return (resumes && zio_resume(spa) != 0 ? EIO : 0);
}

int32_t
bh_pool_clear(const char *name, uint64_t vdev_guid, uint32_t resumes)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_read_only, clear_errors(spa, vdev_guid, resumes != 0));
	return (error);
}

int32_t
bh_pool_may_resume(const char *name, const uint64_t *vdev_guids, uint32_t count)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_nothing,
	    bh_may_resume(spa, vdev_guids, count) ? 0 : ESTALE);
	return (error);
}

int32_t
bh_pool_sync_states(const char *name, struct nvlist **out)
{
	spa_t *spa;
	int error;

	*out = NULL;
	BH_WITH_POOL(name, spa, error, refuse_nothing, (*out = bh_sync_states(spa), 0));
	return (error);
}

int32_t
bh_vdev_add(const char *name, struct nvlist *vdev_tree)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, spa_vdev_add(spa, vdev_tree, B_FALSE));
	return (error);
}

int32_t
bh_vdev_attach(const char *name, uint64_t vdev_guid, struct nvlist *vdev_tree,
    uint32_t replacing)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change,
	    spa_vdev_attach(spa, vdev_guid, vdev_tree, replacing != 0, B_FALSE));
	return (error);
}

int32_t
bh_vdev_detach(const char *name, uint64_t vdev_guid)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, spa_vdev_detach(spa, vdev_guid, 0, B_FALSE));
	return (error);
}

int32_t
bh_vdev_remove(const char *name, uint64_t vdev_guid)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, spa_vdev_remove(spa, vdev_guid, B_FALSE));
	return (error);
}

static boolean_t
is_faulted(spa_t *spa, uint64_t vdev_guid)
{
	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	const vdev_t *vd = spa_lookup_by_guid(spa, vdev_guid, B_FALSE);
	boolean_t faulted = vd != NULL && vd->vdev_faulted != 0;
	spa_config_exit(spa, SCL_VDEV, FTAG);
	return (faulted);
}

/* The library does not change a device that was faulted by its number, as one with a failed flush is. */
static int
bring_online(spa_t *spa, uint64_t vdev_guid, int flags, vdev_state_t *reached)
{
	await_records(spa);
	int error = is_faulted(spa, vdev_guid) ? clear_errors(spa, vdev_guid, B_FALSE) : 0;

	return (error != 0 ? error : vdev_online(spa, vdev_guid, flags, reached));
}

int32_t
bh_vdev_online(const char *name, uint64_t vdev_guid, uint32_t expand, uint32_t *state)
{
	spa_t *spa;
	int error;
	vdev_state_t reached = VDEV_STATE_UNKNOWN;

	BH_WITH_POOL(name, spa, error, refuse_change, bring_online(spa, vdev_guid,
	    expand != 0 ? ZFS_ONLINE_EXPAND : 0, &reached));
	*state = (uint32_t)reached;
	return (error);
}

int32_t
bh_vdev_offline(const char *name, uint64_t vdev_guid, uint32_t temporary)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, vdev_offline(spa, vdev_guid,
	    temporary != 0 ? ZFS_OFFLINE_TEMPORARY : 0));
	return (error);
}

/* Whether the pool needs the device for its data: not enough of the other devices are readable. */
static int
refuse_required(spa_t *spa, uint64_t vdev_guid)
{
	spa_vdev_state_enter(spa, SCL_NONE);
	vdev_t *vd = spa_lookup_by_guid(spa, vdev_guid, B_FALSE);
	int error = vd == NULL ? ENODEV : 0;
	if (vd != NULL && !vd->vdev_top->vdev_islog && vdev_dtl_required(vd))
		error = EBUSY;
	(void) spa_vdev_state_exit(spa, NULL, 0);
	return (error);
}

static int
fault(spa_t *spa, uint64_t vdev_guid)
{
	await_records(spa);
	int error = refuse_required(spa, vdev_guid);

	return (error != 0 ? error : vdev_fault(spa, vdev_guid, VDEV_AUX_ERR_EXCEEDED));
}

int32_t
bh_vdev_fault(const char *name, uint64_t vdev_guid)
{
	spa_t *spa;
	int error;

	BH_WITH_POOL(name, spa, error, refuse_change, fault(spa, vdev_guid));
	return (error);
}

const char *
bh_feature_name(uint32_t index)
{
	uint32_t seen = 0;

	for (spa_feature_t i = 0; i < SPA_FEATURES; i++) {
		if (!spa_feature_table[i].fi_zfs_mod_supported)
			continue;
		if (seen++ == index)
			return (spa_feature_table[i].fi_uname);
	}
	return (NULL);
}
