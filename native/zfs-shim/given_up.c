/*
 * Stops the use of leaves that failed to flush, or are overdue: they are given up.
 *
 * The library ignores the error of a flush, so that a commit would be acknowledged as durable. The contents of a leaf
 * are unknown from its last successful flush on, whether or not a later one succeeds. So such a leaf is given up: it
 * gets no more I/O, misses all transaction groups since the last one that it certainly has, and counts as faulted.
 * Commits wait until the other devices have recorded that.
 *
 * A leaf that the pool cannot do without is never given up: its flush stays with the driver.
 *
 * The library can fault a leaf only while no flush is in flight. Hence a flush that was given up is completed first,
 * and a separate thread writes the record.
 */
#include "internal.h"

#include <sys/dmu.h>
#include <sys/dmu_tx.h>
#include <sys/dsl_pool.h>
#include <sys/txg.h>

#include <pthread.h>
#include <stdlib.h>

/* Pause before a failed record is retried. */
#define	BH_RECORD_PAUSE_S	1

/* A leaf that was given up, until that is on record. */
typedef struct leaf {
	struct leaf *l_next;
	uint64_t l_pool;
	uint64_t l_guid;
	/* The last transaction group that it certainly has. */
	uint64_t l_txg;
	/* When it was given up, in seconds since 1970. */
	uint64_t l_since_s;
} leaf_t;

static struct {
	pthread_mutex_t gu_mutex;
	pthread_cond_t gu_changed;
	leaf_t *gu_leaves;
	/* How many there are; read without the mutex. */
	uint32_t gu_count;
} given_up = {
	.gu_mutex = PTHREAD_MUTEX_INITIALIZER,
	.gu_changed = PTHREAD_COND_INITIALIZER,
};

/* The caller has the mutex. */
static leaf_t **
find(uint64_t pool, uint64_t guid)
{
	leaf_t **at = &given_up.gu_leaves;

	while (*at != NULL && ((*at)->l_pool != pool || (*at)->l_guid != guid))
		at = &(*at)->l_next;
	return (at);
}

static boolean_t
is_listed(const vdev_t *vd)
{
	return (*find(spa_guid(vd->vdev_spa), vd->vdev_guid) != NULL);
}

boolean_t
bh_is_given_up(const vdev_t *vd)
{
	if (__atomic_load_n(&given_up.gu_count, __ATOMIC_ACQUIRE) == 0)
		return (B_FALSE);
	VERIFY0(pthread_mutex_lock(&given_up.gu_mutex));
	boolean_t listed = is_listed(vd);
	VERIFY0(pthread_mutex_unlock(&given_up.gu_mutex));
	return (listed);
}

/* Whether a leaf other than `without` is complete. The caller has the mutex. */
static boolean_t
is_whole(vdev_t *leaf, const void *without)
{
	return (leaf != without && vdev_readable(leaf) && vdev_writeable(leaf) &&
	    vdev_dtl_empty(leaf, DTL_MISSING) && !is_listed(leaf));
}

/* Adds a leaf to the list. The caller has the mutex. */
static void
list(uint64_t pool, uint64_t guid, uint64_t txg)
{
	leaf_t *leaf = malloc(sizeof (*leaf));

	VERIFY3P(leaf, !=, NULL);
	*leaf = (leaf_t){
		.l_next = given_up.gu_leaves,
		.l_pool = pool,
		.l_guid = guid,
		.l_txg = MAX(txg, TXG_INITIAL),
		.l_since_s = gethrestime_sec(),
	};
	given_up.gu_leaves = leaf;
	__atomic_add_fetch(&given_up.gu_count, 1, __ATOMIC_RELEASE);
	VERIFY0(pthread_cond_broadcast(&given_up.gu_changed));
}

/* Some of the groups may be in the DTL already, and the library's own function panics where a range overlaps one in
 * it. */
void
bh_note_range(vdev_t *vd, uint64_t since, uint64_t last)
{
	zfs_range_tree_t *missing = vd->vdev_dtl[DTL_MISSING];

	if (last < since)
		return;
	mutex_enter(&vd->vdev_dtl_lock);
	zfs_range_tree_clear(missing, since, last - since + 1);
	zfs_range_tree_add(missing, since, last - since + 1);
	mutex_exit(&vd->vdev_dtl_lock);
}

/*
 * The flush in flight prevents changes of the pool's devices. A log device can always be given up: the record blocks on
 * the transaction groups with the log's contents.
 *
 * The entry in memory is made before the flush completes: a resilver that finishes in between must not treat the leaf
 * as whole, and detach the device that it replaces.
 */
uint32_t
bh_io_give_up(struct bh_io *io)
{
	zio_t *zio = (zio_t *)io;
	vdev_t *vd = zio->io_vd;

	if (!spa_writeable(vd->vdev_spa) || vd->vdev_aux != NULL)
		return (1);
	VERIFY0(pthread_mutex_lock(&given_up.gu_mutex));
	boolean_t listed = is_listed(vd);
	boolean_t spared = listed || vd->vdev_top->vdev_islog || bh_is_held(vd->vdev_top, is_whole, vd);
	/* Its writes were flushed before its uberblock was written. */
	if (spared && !listed) {
		uint64_t since = MAX(spa_last_synced_txg(vd->vdev_spa), TXG_INITIAL);

		list(spa_guid(vd->vdev_spa), vd->vdev_guid, since);
		bh_note_range(vd, since, bh_open_txg(vd->vdev_spa));
	}
	VERIFY0(pthread_mutex_unlock(&given_up.gu_mutex));
	return (spared);
}

void
bh_give_up_leg(uint64_t pool, uint64_t guid, uint64_t since)
{
	VERIFY0(pthread_mutex_lock(&given_up.gu_mutex));
	if (*find(pool, guid) == NULL)
		list(pool, guid, since);
	VERIFY0(pthread_mutex_unlock(&given_up.gu_mutex));
}

uint32_t
bh_io_suspend(struct bh_io *io)
{
	spa_t *spa = ((zio_t *)io)->io_spa;

	if (spa_suspended(spa))
		return (0);
	zio_suspend(spa, NULL, ZIO_SUSPEND_IOERR);
	return (1);
}

void
bh_io_resume(struct bh_io *io)
{
	spa_t *spa = ((zio_t *)io)->io_spa;

	mutex_enter(&spa->spa_suspend_lock);
	const zio_t *failed = spa->spa_suspend_zio_root;
	/* Other failed I/O is for an administrator to resume, as always, and so is a pool that another host may have. */
	if (spa->spa_suspended == ZIO_SUSPEND_IOERR && (failed == NULL ||
	    list_is_empty((list_t *)&failed->io_child_list))) {
		spa->spa_suspended = ZIO_SUSPEND_NONE;
		cv_broadcast(&spa->spa_suspend_cv);
	}
	mutex_exit(&spa->spa_suspend_lock);
}

/* The leaf of the pool that was given up first, or NULL. The caller has the mutex. */
static const leaf_t *
first_of(uint64_t pool)
{
	const leaf_t *first = NULL;

	/* The newest is at the head. */
	for (const leaf_t *leaf = given_up.gu_leaves; leaf != NULL; leaf = leaf->l_next) {
		if (leaf->l_pool == pool)
			first = leaf;
	}
	return (first);
}

uint64_t
bh_given_up_first(const spa_t *spa, uint64_t *since_s)
{
	uint64_t guid = 0;

	*since_s = 0;
	if (__atomic_load_n(&given_up.gu_count, __ATOMIC_ACQUIRE) == 0)
		return (0);
	VERIFY0(pthread_mutex_lock(&given_up.gu_mutex));
	const leaf_t *first = first_of(spa_guid((spa_t *)spa));
	if (first != NULL) {
		guid = first->l_guid;
		*since_s = first->l_since_s;
	}
	VERIFY0(pthread_mutex_unlock(&given_up.gu_mutex));
	return (guid);
}

void
bh_given_up_await(spa_t *spa)
{
	if (__atomic_load_n(&given_up.gu_count, __ATOMIC_ACQUIRE) == 0)
		return;
	VERIFY0(pthread_mutex_lock(&given_up.gu_mutex));
	while (first_of(spa_guid(spa)) != NULL)
		VERIFY0(pthread_cond_wait(&given_up.gu_changed, &given_up.gu_mutex));
	VERIFY0(pthread_mutex_unlock(&given_up.gu_mutex));
}

/* Fails where the pool has failmode=continue and is suspended: then no transaction can begin. */
int
bh_note_missing(spa_t *spa, uint64_t guid, uint64_t since)
{
	dmu_tx_t *tx = dmu_tx_create_dd(spa_get_dsl(spa)->dp_mos_dir);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);

	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	uint64_t open = dmu_tx_get_txg(tx);
	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	vdev_t *vd = spa_lookup_by_guid(spa, guid, B_FALSE);
	if (vd != NULL && !vd->vdev_detached) {
		bh_note_range(vd, since, open);
		vdev_dirty(vd->vdev_top, VDD_DTL, vd, open);
	}
	spa_config_exit(spa, SCL_VDEV, FTAG);
	dmu_tx_commit(tx);
	return (0);
}

/*
 * Interposes the library's function, which determines whether the pool needs a device for its data. For a faulted
 * device, the library counts no member of any replacement as complete. So a new device could not be faulted while it
 * replaces the only other one, nor be detached, and its failure would suspend the pool. The complete members are
 * counted here, whatever the state of the device in question. The caller has the states locked.
 */
boolean_t
vdev_dtl_required(vdev_t *vd)
{
	static boolean_t (*library)(vdev_t *);
	vdev_state_t state = vd->vdev_state;

	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__), __ATOMIC_RELAXED);
	if (state == VDEV_STATE_FAULTED)
		vd->vdev_state = VDEV_STATE_CANT_OPEN;
	boolean_t is_required = library(vd);
	vd->vdev_state = state;
	return (is_required);
}

/*
 * Faults the leaf, and returns when that is on disk. The library's own vdev_fault() only marks the leaf as degraded
 * where the pool needs it now. A listed leaf gets no I/O, and enough other leaves were complete when it was listed: the
 * leaf misses any write that has failed on them since, too. That would only block all commits.
 */
static void
fault(spa_t *spa, uint64_t guid)
{
	spa_vdev_state_enter(spa, SCL_NONE);
	vdev_t *vd = spa_lookup_by_guid(spa, guid, B_FALSE);
	if (vd != NULL) {
		vd->vdev_tmpoffline = B_TRUE;
		vd->vdev_label_aux = VDEV_AUX_ERR_EXCEEDED;
		vd->vdev_delayed_close = B_FALSE;
		vd->vdev_faulted = 1ULL;
		vd->vdev_degraded = 0ULL;
		vdev_set_state(vd, B_FALSE, VDEV_STATE_FAULTED, VDEV_AUX_ERR_EXCEEDED);
	}
	(void) spa_vdev_state_exit(spa, vd, 0);
}

/* Records the failure; FALSE if that was not possible, or an administrator cleared it concurrently. */
static boolean_t
record(const leaf_t *leaf)
{
	spa_t *spa;

	/*
	 * A hold on a pool when its import completes is counted among those that are never released, and its release aborts
	 * the process; a hold during an export accesses a partly freed pool. Neither state includes a record.
	 */
	mutex_enter(&spa_namespace_lock);
	while ((spa = spa_by_guid(leaf->l_pool, 0)) != NULL &&
	    (spa->spa_load_thread != NULL || spa->spa_export_thread != NULL))
		cv_wait(&spa_namespace_cv, &spa_namespace_lock);
	if (spa != NULL)
		spa_open_ref(spa, FTAG);
	mutex_exit(&spa_namespace_lock);
	/* Exported, or destroyed. */
	if (spa == NULL)
		return (B_TRUE);

	boolean_t done = B_FALSE;
	if (bh_note_missing(spa, leaf->l_guid, leaf->l_txg) == 0) {
		fault(spa, leaf->l_guid);
		spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
		const vdev_t *vd = spa_lookup_by_guid(spa, leaf->l_guid, B_FALSE);
		done = vd == NULL || vd->vdev_faulted != 0;
		spa_config_exit(spa, SCL_VDEV, FTAG);
	}
	spa_close(spa, FTAG);
	return (done);
}

void
bh_given_up_record(void)
{
	VERIFY0(pthread_mutex_lock(&given_up.gu_mutex));
	while (given_up.gu_leaves == NULL)
		VERIFY0(pthread_cond_wait(&given_up.gu_changed, &given_up.gu_mutex));
	leaf_t *leaf = given_up.gu_leaves;
	leaf_t copy = *leaf;
	VERIFY0(pthread_mutex_unlock(&given_up.gu_mutex));

	if (!record(&copy)) {
		(void) sleep(BH_RECORD_PAUSE_S);
		return;
	}
	VERIFY0(pthread_mutex_lock(&given_up.gu_mutex));
	leaf_t **at = find(copy.l_pool, copy.l_guid);
	*at = leaf->l_next;
	free(leaf);
	__atomic_sub_fetch(&given_up.gu_count, 1, __ATOMIC_RELEASE);
	VERIFY0(pthread_cond_broadcast(&given_up.gu_changed));
	VERIFY0(pthread_mutex_unlock(&given_up.gu_mutex));
}
