/*
 * A note in the labels of a pool's devices, a list of failed devices, and the number of the record of the legs.
 *
 * An importer reads the labels of a pool long before it can read any other part of it. Information for that early stage
 * is stored as one more text next to the library's own entries. Every other reader finds entries by known names, and
 * a pool that other software opens loses the note with the next label.
 *
 * The library's labels describe only some kinds of failure, and it writes none when a device fails: a head that finds
 * only the other devices could not detect that they are the newer ones. So each change of a device's state is written
 * to the labels of all, with the next transaction group. A device that returns is removed from the list before its
 * missing data is copied: the group that begins its resilver writes the labels.
 */
#include "internal.h"

#include <sys/dsl_pool.h>
#include <sys/txg.h>

/* The list shares 112 KiB with the description of the devices; one that does not fit would not be written at all. */
#define	BH_NOTED_LABEL_BYTES_MAX	(64 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Only one pool at a time has a note. */
static uint64_t noted_guid;
static char *note;

/* The labels of a process are those of one pool. */
static uint64_t record;

void
bh_label_record(uint64_t number)
{
	__atomic_store_n(&record, number, __ATOMIC_RELEASE);
}

/* If such a device is found, the pool is opened only by its record, wherever the device is. */
static void
add_record(nvlist_t *label)
{
	uint64_t number = __atomic_load_n(&record, __ATOMIC_ACQUIRE);

	if (number != 0)
		fnvlist_add_uint64(label, BH_LABEL_RECORD, number);
}

static void
keep_note(uint64_t guid, const char *text)
{
	char *copy = *text == '\0' ? NULL : strdup(text);

	VERIFY0(pthread_mutex_lock(&lock));
	char *old = note;
	note = copy;
	noted_guid = guid;
	VERIFY0(pthread_mutex_unlock(&lock));
	free(old);
}

static void
add_note(const spa_t *spa, nvlist_t *label)
{
	size_t bytes;

	VERIFY0(pthread_mutex_lock(&lock));
	if (note != NULL && spa->spa_root_vdev->vdev_guid == noted_guid &&
	    nvlist_size(label, &bytes, NV_ENCODE_XDR) == 0 &&
	    bytes + strlen(note) < BH_NOTED_LABEL_BYTES_MAX)
		fnvlist_add_string(label, BH_LABEL_NOTE, note);
	VERIFY0(pthread_mutex_unlock(&lock));
}

/* Numbers of the unusable devices below `vd`, as many as fit, and their count. */
static uint_t
list_failed(vdev_t *vd, uint64_t *out, uint_t room)
{
	uint_t count = 0;

	if (vd->vdev_ops->vdev_op_leaf && vdev_is_concrete(vd)) {
		if (vdev_writeable(vd))
			return (0);
		if (room > 0)
			*out = vd->vdev_guid;
		return (1);
	}
	for (uint64_t c = 0; c < vd->vdev_children; c++) {
		uint_t taken = MIN(count, room);

		count += list_failed(vd->vdev_child[c], out + taken, room - taken);
	}
	return (count);
}

/* More would not fit into the label; an omitted one counts as possibly newer. */
#define	BH_FAILED_MAX	256

static void
add_failed(const spa_t *spa, nvlist_t *label)
{
	uint64_t failed[BH_FAILED_MAX];
	uint_t count = list_failed(spa->spa_root_vdev, failed, BH_FAILED_MAX);

	if (count > 0)
		fnvlist_add_uint64_array(label, BH_LABEL_FAILED, failed,
		    MIN(count, BH_FAILED_MAX));
}

/*
 * Groups that were removed. They have no labels left, and without this list they would count as missing at each start,
 * which would wait for them.
 */
static void
add_removed(const spa_t *spa, nvlist_t *label)
{
	uint64_t removed[BH_FAILED_MAX];
	uint_t count = 0;
	const vdev_t *root = spa->spa_root_vdev;

	for (uint64_t c = 0; c < root->vdev_children && count < BH_FAILED_MAX; c++) {
		if (root->vdev_child[c]->vdev_ops == &vdev_indirect_ops)
			removed[count++] = c;
	}
	if (count > 0)
		fnvlist_add_uint64_array(label, BH_LABEL_REMOVED, removed, count);
}

/*
 * Interposes the library's function, which does nothing in user space. It is called for each device with a changed
 * state, by a caller that has the states locked.
 */
void
zfs_post_state_change(spa_t *spa, vdev_t *vd, uint64_t before)
{
	(void) before;
	bh_device_state_changed(vd);
	if (vd->vdev_aux != NULL || spa->spa_load_state != SPA_LOAD_NONE ||
	    !spa->spa_sync_on || spa->spa_is_exporting || !spa_writeable(spa) ||
	    spa_config_held(spa, SCL_STATE, RW_WRITER) != SCL_STATE)
		return;
	vdev_t *root = spa->spa_root_vdev;
	dsl_pool_t *dp = spa_get_dsl(spa);

	/* Until an unusable device is on record, a log block that it does not get is missing there without a DTL entry. */
	if (!vdev_writeable(vd))
		bh_log_gap_note(spa);
	for (uint64_t c = 0; c < root->vdev_children; c++)
		vdev_state_dirty(root->vdev_child[c]);
	/* At once: a head that imports the pool shortly after needs it. */
	if (!dsl_pool_config_held(dp))
		txg_kick(dp, __atomic_load_n(&dp->dp_tx.tx_open_txg, __ATOMIC_ACQUIRE));
}

nvlist_t *
spa_config_generate(spa_t *spa, vdev_t *vd, uint64_t txg, int getstats)
{
	nvlist_t *(*library)(spa_t *, vdev_t *, uint64_t, int) = bh_library_function(__func__);
	nvlist_t *config = library(spa, vd, txg, getstats);

	/* With its own device it is a label, without one a description of the pool. */
	if (config != NULL && vd != NULL && vd != spa->spa_root_vdev) {
		/* The pool is free for any host only with the last groups, which are still pending (`waits.c`). */
		if (spa->spa_state == POOL_STATE_EXPORTED &&
		    spa->spa_final_txg == UINT64_MAX)
			fnvlist_add_uint64(config, ZPOOL_CONFIG_POOL_STATE,
			    POOL_STATE_ACTIVE);
		add_record(config);
		bh_copies_add_to_label(config);
		add_failed(spa, config);
		add_removed(spa, config);
		add_note(spa, config);
	}
	return (config);
}

void
bh_label_note(uint64_t pool_guid, const char *text)
{
	keep_note(pool_guid, text);
}

int
bh_write_label_note(spa_t *spa, const char *text)
{
	keep_note(spa->spa_root_vdev->vdev_guid, text);
	spa_config_enter(spa, SCL_CONFIG, FTAG, RW_WRITER);
	vdev_config_dirty(spa->spa_root_vdev);
	spa_config_exit(spa, SCL_CONFIG, FTAG);
	return (0);
}
