/*
 * The snapshots of an open file system, as clients see them, and the settings that apply while it is open.
 */
#include "files_impl.h"

#include <sys/dsl_dataset.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>

static const char *const settings[BH_SETTINGS] = {
	[BH_SETTING_SNAPDIR] = "snapdir",
	[BH_SETTING_ACLMODE] = "aclmode",
	[BH_SETTING_ACLINHERIT] = "aclinherit",
	[BH_SETTING_ACLTYPE] = "acltype",
};

/* The library has no argument for callbacks, so each setting has its own function. */
static void
store(void *arg, uint32_t which, uint64_t value)
{
	bh_files_t *files = arg;
	__atomic_store_n(&files->bf_settings[which], value, __ATOMIC_RELAXED);
}

static void
snapdir_changed(void *arg, uint64_t value)
{
	store(arg, BH_SETTING_SNAPDIR, value);
}

static void
aclmode_changed(void *arg, uint64_t value)
{
	store(arg, BH_SETTING_ACLMODE, value);
}

static void
aclinherit_changed(void *arg, uint64_t value)
{
	store(arg, BH_SETTING_ACLINHERIT, value);
}

static void
acltype_changed(void *arg, uint64_t value)
{
	store(arg, BH_SETTING_ACLTYPE, value);
}

static dsl_prop_changed_cb_t *const changed[BH_SETTINGS] = {
	[BH_SETTING_SNAPDIR] = snapdir_changed,
	[BH_SETTING_ACLMODE] = aclmode_changed,
	[BH_SETTING_ACLINHERIT] = aclinherit_changed,
	[BH_SETTING_ACLTYPE] = acltype_changed,
};

int
bh_files_watch_settings(bh_files_t *files)
{
	objset_t *os = files->bf_os;
	int error = 0;

	if (dmu_objset_is_snapshot(os))
		return (0);
	dsl_pool_config_enter(dmu_objset_pool(os), FTAG);
	for (size_t i = 0; i < BH_SETTINGS && error == 0; i++)
		error = dsl_prop_register(dmu_objset_ds(os), settings[i],
		    changed[i], files);
	dsl_pool_config_exit(dmu_objset_pool(os), FTAG);
	return (error);
}

void
bh_files_forget_settings(bh_files_t *files)
{
	if (!dmu_objset_is_snapshot(files->bf_os))
		dsl_prop_unregister_all(dmu_objset_ds(files->bf_os), files);
}

uint64_t
bh_files_setting(bh_files_t *files, uint32_t which)
{
	VERIFY3U(which, <, BH_SETTINGS);
	return (__atomic_load_n(&files->bf_settings[which], __ATOMIC_RELAXED));
}

int
bh_files_snapshots(bh_files_t *files, uint64_t cursor, uint8_t *data,
    uint64_t bytes_max, uint64_t *bytes, uint32_t *end)
{
	dsl_pool_t *pool = dmu_objset_pool(files->bf_os);
	dsl_dataset_t *head = dmu_objset_ds(files->bf_os);

	dsl_pool_config_enter(pool, FTAG);
	int error = bh_list_entries(pool->dp_meta_objset,
	    dsl_dataset_phys(head)->ds_snapnames_zapobj, cursor, data, bytes_max,
	    bytes, end);
	dsl_pool_config_exit(pool, FTAG);
	return (error);
}

int
bh_files_find_snapshot(bh_files_t *files, const char *name, uint64_t *number)
{
	dsl_pool_t *pool = dmu_objset_pool(files->bf_os);

	dsl_pool_config_enter(pool, FTAG);
	int error = dsl_dataset_snap_lookup(dmu_objset_ds(files->bf_os), name,
	    number);
	dsl_pool_config_exit(pool, FTAG);
	return (error);
}

int
bh_files_snapshot_name(bh_files_t *files, uint64_t number, char *name)
{
	dsl_pool_t *pool = dmu_objset_pool(files->bf_os);
	dsl_dir_t *dir = dmu_objset_ds(files->bf_os)->ds_dir;
	dsl_dataset_t *snapshot;

	if (number == 0 || number >= DN_MAX_OBJECT)
		return (ENOENT);
	dsl_pool_config_enter(pool, FTAG);
	int error = dsl_dataset_hold_obj(pool, number, FTAG, &snapshot);
	if (error == 0) {
		if (snapshot->ds_is_snapshot && snapshot->ds_dir == dir)
			dsl_dataset_name(snapshot, name);
		else
			error = ENOENT;
		dsl_dataset_rele(snapshot, FTAG);
	}
	dsl_pool_config_exit(pool, FTAG);
	/* The number was reused for another object. */
	return (error == EINVAL || error == EEXIST ? ENOENT : error);
}

void
bh_files_snapshots_changed(bh_files_t *files, uint64_t *seconds,
    uint64_t *nanoseconds)
{
	inode_timespec_t time = dmu_objset_snap_cmtime(files->bf_os);

	*seconds = (uint64_t)time.tv_sec;
	*nanoseconds = (uint64_t)time.tv_nsec;
}
