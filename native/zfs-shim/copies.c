/*
 * Distinguishes a pool from copies of its devices.
 *
 * The library opens any device that has the GUID of a device of the pool, at the newest uberblock among all, and
 * assumes that each of them is complete. A device with an older uberblock than the rest of its mirror missed
 * transaction groups. If the pool has recorded that, the device's DTL contains them. If not, the device is an older
 * image of itself, as restored by a storage array, and its outdated blocks of those groups would be served and built
 * upon until a checksum error is found. So an import records its missing data, with the first transaction group: before
 * that the uberblocks differ, and after that the DTL has it.
 *
 * Each import also has its own number in the labels: two devices with equal labels were written to by only one process.
 * The labels also identify the copies that an administrator rejected, by their uberblocks.
 */
#include "internal.h"

#include <sys/txg.h>

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Of the single pool of this process. */
static uint64_t start;
static uint64_t rejected[2 * BH_LABEL_REJECTED_MAX];
static uint32_t rejected_count;
static uint64_t leaves;

/* The parameters of this thread's import. */
static __thread struct {
	const uint64_t *list;
	uint32_t count;
} behind;

void
bh_label_start(const uint64_t *words, uint32_t count, uint64_t pool)
{
	VERIFY3U(count, <=, 2 * BH_LABEL_REJECTED_MAX);
	VERIFY0(pthread_mutex_lock(&lock));
	(void) random_get_pseudo_bytes((uint8_t *)&start, sizeof (start));
	memcpy(rejected, words, count * sizeof (uint64_t));
	rejected_count = count;
	leaves = pool;
	VERIFY0(pthread_mutex_unlock(&lock));
}

void
bh_copies_add_to_label(nvlist_t *label)
{
	VERIFY0(pthread_mutex_lock(&lock));
	if (start != 0)
		fnvlist_add_uint64(label, BH_LABEL_START, start);
	if (rejected_count > 0)
		fnvlist_add_uint64_array(label, BH_LABEL_REJECTED, rejected, rejected_count);
	if (leaves != 0)
		fnvlist_add_uint64(label, BH_LABEL_LEAVES, leaves);
	VERIFY0(pthread_mutex_unlock(&lock));
	bh_abandoned_add_to_label(label);
}

void
bh_import_behind(const uint64_t *list, uint32_t count)
{
	behind.list = list;
	behind.count = count;
}

/* The transaction group since which it misses data that the pool has not recorded; 0: all of it is recorded. */
static uint64_t
missing_since(vdev_t *vd, uint64_t newest, boolean_t is_of_history)
{
	if (is_of_history)
		return (MAX(newest, TXG_INITIAL));
	mutex_enter(&vd->vdev_dtl_lock);
	zfs_range_tree_t *missing = vd->vdev_dtl[DTL_MISSING];
	boolean_t knows = !zfs_range_tree_is_empty(missing) && zfs_range_tree_min(missing) <= newest + 1;
	mutex_exit(&vd->vdev_dtl_lock);
	/* An uberblock that no other device has any more may belong to another history. */
	return (knows ? 0 : TXG_INITIAL);
}

void
bh_copies_note_behind(spa_t *spa)
{
	const uint64_t first = spa_first_txg(spa);

	for (uint32_t i = 0; i < behind.count; i++) {
		const uint64_t *one = &behind.list[3 * i];

		spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
		vdev_t *vd = spa_lookup_by_guid(spa, one[0], B_FALSE);
		uint64_t since = vd == NULL || !vd->vdev_ops->vdev_op_leaf ? 0 :
		    missing_since(vd, one[1], one[2] != 0);
		if (since != 0) {
			bh_note_range(vd, since, first);
			vdev_dirty(vd->vdev_top, VDD_DTL, vd, first);
		}
		spa_config_exit(spa, SCL_VDEV, FTAG);
	}
}

int32_t
bh_leaf_missing_since(const char *name, uint64_t guid, uint64_t *since, uint64_t *first)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	*since = UINT64_MAX;
	*first = spa_first_txg(spa);
	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	vdev_t *vd = spa_lookup_by_guid(spa, guid, B_FALSE);
	if (vd == NULL || !vd->vdev_ops->vdev_op_leaf) {
		error = ENODEV;
	} else {
		mutex_enter(&vd->vdev_dtl_lock);
		zfs_range_tree_t *missing = vd->vdev_dtl[DTL_MISSING];
		if (!zfs_range_tree_is_empty(missing))
			*since = zfs_range_tree_min(missing);
		mutex_exit(&vd->vdev_dtl_lock);
	}
	spa_config_exit(spa, SCL_VDEV, FTAG);
	spa_close(spa, FTAG);
	return (error);
}
