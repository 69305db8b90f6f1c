/*
 * Receives the snapshots of volumes and file systems. The caller has checked each record of the stream; properties of
 * the complete dataset are checked here, before it is visible.
 */
#include "internal.h"

#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dmu_recv.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_destroy.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/txg.h>
#include <sys/zap.h>
#include <sys/zap_impl.h>
#include <sys/zfs_znode.h>
#include <sys/zfs_file.h>

#include "shim_dataset.h"
#include "shim_transfer.h"
#include "volume_impl.h"

/* Maximum size of the table with a volume's size. */
#define	BH_TABLE_BYTES_MAX	(128ULL << 10)
/* Largest volume. */
#define	BH_VOLUME_BYTES_MAX	(1ULL << 60)
/* Room for the name of a temporary dataset below the one that is received. */
#define	BH_LONG_NAME		(ZFS_MAX_DATASET_NAME_LEN + 6)

/*
 * Whether a block of `length` bytes is a table with the volume's size in it, and nothing else. The library aborts when
 * two entries have the same hash, which a sender can cause with any two names.
 */
static boolean_t
is_table(const void *block, uint64_t length, uint64_t block_size)
{
	const mzap_phys_t *table = block;
	uint64_t entries = length / MZAP_ENT_LEN - 1;
	boolean_t found = B_FALSE;

	if (table->mz_block_type != ZBT_MICRO || table->mz_normflags != 0 ||
	    table->mz_salt == 0)
		return (B_FALSE);
	for (uint64_t i = 0; i < entries; i++) {
		const mzap_ent_phys_t *entry = &table->mz_chunk[i];

		if (entry->mze_name[0] == '\0')
			continue;
		if (found || entry->mze_cd != 0 || entry->mze_value == 0 ||
		    entry->mze_value > BH_VOLUME_BYTES_MAX ||
		    entry->mze_value % block_size != 0 ||
		    strncmp(entry->mze_name, BH_SIZE_KEY, MZAP_NAME_LEN) != 0)
			return (B_FALSE);
		found = B_TRUE;
	}
	return (found);
}

/* Whether all required objects of a volume are present. Its contents are on disk already. */
static int
check_volume(objset_t *os, boolean_t is_raw)
{
	dmu_object_info_t data, table;

	if (dmu_object_info(os, BH_DATA_OBJECT, &data) != 0 ||
	    dmu_object_info(os, BH_PROPERTIES_OBJECT, &table) != 0)
		return (EBADMSG);
	if (data.doi_type != DMU_OT_ZVOL || !ISP2(data.doi_data_block_size) ||
	    table.doi_type != DMU_OT_ZVOL_PROP ||
	    table.doi_data_block_size > BH_TABLE_BYTES_MAX ||
	    table.doi_max_offset > table.doi_data_block_size)
		return (EBADMSG);

	uint64_t length = table.doi_data_block_size;
	void *block = kmem_zalloc(length, KM_SLEEP);
	int error = dmu_read(os, BH_PROPERTIES_OBJECT, 0, length, block,
	    DMU_READ_NO_PREFETCH | (is_raw ? DMU_READ_NO_DECRYPT : 0));
	if (error == 0 && !is_table(block, length, data.doi_data_block_size))
		error = EBADMSG;
	kmem_free(block, length);
	return (error);
}

/* Whether the master node of a file system is complete; the next open checks the rest. */
static int
check_files(objset_t *os)
{
	dmu_object_info_t master;

	if (dmu_object_info(os, MASTER_NODE_OBJ, &master) != 0 ||
	    master.doi_type != DMU_OT_MASTER_NODE)
		return (EBADMSG);
	return (0);
}

static int
check_received(dmu_recv_cookie_t *receive)
{
	dsl_pool_t *dp = receive->drc_ds->ds_dir->dd_pool;
	objset_t *os;

	/* Until then it cannot be read. */
	txg_wait_synced(dp, 0);
	dsl_pool_config_enter(dp, FTAG);
	int error = dmu_objset_from_ds(receive->drc_ds, &os);
	dsl_pool_config_exit(dp, FTAG);
	if (error != 0)
		return (error);
	if (dmu_objset_type(os) == DMU_OST_ZFS)
		return (check_files(os));
	return (check_volume(os, receive->drc_raw));
}

/*
 * Aborts a receive with a refused result. The library cleans up after a failed end. This one fails because it names a
 * pool that cannot exist. A snapshot name that is too long would pass the check of the end, and abort the process after
 * it.
 */
static void
give_up(dmu_recv_cookie_t *receive)
{
	receive->drc_tofs = "%";
	receive->drc_should_save = B_FALSE;
	receive->drc_resumable = B_FALSE;
	VERIFY3S(dmu_recv_end(receive, NULL), !=, 0);
}

int
bh_receive(const char *volume, const char *tag, const char *origin,
    void *begin, uint32_t flags, struct nvlist *properties, int32_t fd)
{
	char unused[BH_LONG_NAME];
	zfs_file_t from = { .f_fd = fd, .f_dump_fd = -1 };
	dmu_recv_cookie_t receive;
	offset_t offset = 0;

	int error = dmu_recv_begin(volume, tag, begin,
	    (flags & BH_RECEIVE_FORCE) != 0, B_FALSE,
	    (flags & BH_RECEIVE_RESUMABLE) != 0, NULL, NULL,
	    origin[0] == '\0' ? NULL : origin, &receive, &from, &offset);
	if (error != 0)
		return (error);
	error = dmu_recv_stream(&receive, &offset);
	if (error != 0)
		return (error);
	error = check_received(&receive);
	/* The new dataset is not visible before its end, so that it has these from the start. */
	if (error == 0 && receive.drc_newfs && !nvlist_empty(properties))
		error = bh_dataset_set(volume, properties, unused,
		    sizeof (unused));
	if (error != 0) {
		give_up(&receive);
		return (error);
	}
	return (dmu_recv_end(&receive, NULL));
}

int
bh_receive_token(const char *volume, char *token, uint64_t token_size,
    uint32_t *is_partial)
{
	dsl_pool_t *dp;
	dsl_dataset_t *ds;
	int error = bh_dataset_hold(volume, &dp, &ds, FTAG);

	if (error != 0)
		return (error);
	char *found = get_receive_resume_token(ds);

	*is_partial = DS_IS_INCONSISTENT(ds);
	token[0] = '\0';
	if (found != NULL) {
		if (strlcpy(token, found, token_size) >= token_size)
			error = ENAMETOOLONG;
		kmem_strfree(found);
	}
	bh_dataset_release(dp, ds, FTAG);
	return (error);
}

int
bh_receive_abort(const char *volume)
{
	char part[BH_LONG_NAME];
	dsl_pool_t *dp;
	dsl_dataset_t *ds;

	(void) snprintf(part, sizeof (part), "%s/%s", volume, recv_clone_name);
	int error = dsl_destroy_head(part);
	if (error != ENOENT)
		return (error);
	/* There is no partial clone next to it: it is itself a partial dataset, or there is none. */
	error = bh_dataset_hold(volume, &dp, &ds, FTAG);
	if (error != 0)
		return (error);
	boolean_t is_part = DS_IS_INCONSISTENT(ds);
	bh_dataset_release(dp, ds, FTAG);
	return (is_part ? dsl_destroy_head(volume) : ENOENT);
}
