/*
 * Determines which leaves have all acknowledged data.
 *
 * When several devices fail together, each misses some of the last transaction group, and the library has no further
 * information. Only acknowledged data matters. No acknowledgement is sent before the devices of a group were flushed,
 * and a device that fails such a flush is recorded first (given_up.c). So a leaf misses no acknowledged data as long as
 * no other leaf of its group has completed a flush issued after the leaf's first failure: the flush for any write that
 * it missed was issued later.
 */
#include "internal.h"

#include <sys/dsl_pool.h>

#include <pthread.h>
#include <stdlib.h>

/* A leaf that failed this long before the rest misses the writes at the time of their failure. Longer than any
 * deadline. */
#define	BH_GONE_BEFORE	SEC2NSEC(120)

/* The state of a leaf. There are as many as devices that were ever opened. */
typedef struct sync_state {
	struct sync_state *s_next;
	uint64_t s_pool;
	uint64_t s_guid;
	/* When it failed first since it was whole; 0 if it did not. */
	hrtime_t s_failed;
	/* The error of its latest failure. */
	int s_error;
	/* The open transaction group then. */
	uint64_t s_failed_txg;
	/* When the latest flush that it completed was issued. */
	hrtime_t s_flushed;
} sync_state_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sync_state_t *sync_states;

/* The caller has the mutex. */
static sync_state_t *
find(const vdev_t *vd)
{
	uint64_t pool = spa_guid(vd->vdev_spa);
	sync_state_t *one = sync_states;

	while (one != NULL && (one->s_pool != pool || one->s_guid != vd->vdev_guid))
		one = one->s_next;
	return (one);
}

/* The caller has the mutex. */
static sync_state_t *
find_or_add(const vdev_t *vd)
{
	sync_state_t *one = find(vd);

	if (one == NULL) {
		one = calloc(1, sizeof (*one));
		VERIFY3P(one, !=, NULL);
		one->s_next = sync_states;
		one->s_pool = spa_guid(vd->vdev_spa);
		one->s_guid = vd->vdev_guid;
		sync_states = one;
	}
	return (one);
}

uint64_t
bh_open_txg(const spa_t *spa)
{
	const dsl_pool_t *dp = spa->spa_dsl_pool;

	return (dp == NULL ? 0 : __atomic_load_n(&dp->dp_tx.tx_open_txg, __ATOMIC_ACQUIRE));
}

/* Any write that it failed is in its DTL by then, and removed from it only after a resilver. */
static boolean_t
is_whole_again(const sync_state_t *one, vdev_t *vd)
{
	return (spa_last_synced_txg(vd->vdev_spa) > one->s_failed_txg + 1 &&
	    !bh_is_given_up(vd) && vdev_readable(vd) && vdev_writeable(vd) &&
	    vdev_dtl_empty(vd, DTL_MISSING));
}

void
bh_sync_state_note(const zio_t *zio)
{
	vdev_t *vd = zio->io_vd;
	boolean_t failed = zio->io_error != 0;
	/* If a device has no cache to flush, each write acts as a flush. */
	boolean_t makes_durable = zio->io_type == ZIO_TYPE_FLUSH ||
	    (zio->io_type == ZIO_TYPE_WRITE && vd->vdev_nowritecache);

	if (vd->vdev_aux != NULL || !spa_writeable(vd->vdev_spa) ||
	    (zio->io_type != ZIO_TYPE_WRITE && zio->io_type != ZIO_TYPE_FLUSH))
		return;
	if (failed && zio->io_type == ZIO_TYPE_FLUSH && zio->io_error == ENOTSUP)
		return;
	if (!failed && !makes_durable)
		return;

	VERIFY0(pthread_mutex_lock(&lock));
	sync_state_t *one = find_or_add(vd);
	if (failed)
		one->s_error = zio->io_error;
	if (failed && one->s_failed == 0) {
		one->s_failed = gethrtime();
		one->s_failed_txg = bh_open_txg(vd->vdev_spa);
	} else if (!failed) {
		hrtime_t asked = zio->io_queued_timestamp;

		one->s_flushed = MAX(one->s_flushed, asked != 0 ? asked : gethrtime());
		if (one->s_failed != 0 && is_whole_again(one, vd))
			one->s_failed = 0;
	}
	VERIFY0(pthread_mutex_unlock(&lock));
}

/* When the latest flush was issued that a leaf below `vd`, other than `without`, has completed. The caller has the
 * mutex. */
static hrtime_t
last_flush_below(vdev_t *vd, const vdev_t *without)
{
	hrtime_t last = 0;

	if (vd == without)
		return (0);
	if (vd->vdev_ops->vdev_op_leaf) {
		const sync_state_t *one = find(vd);

		return (one == NULL ? 0 : one->s_flushed);
	}
	for (uint64_t c = 0; c < vd->vdev_children; c++)
		last = MAX(last, last_flush_below(vd->vdev_child[c], without));
	return (last);
}

/* Whether the leaf has all acknowledged data. The caller has the devices of the pool locked. */
static boolean_t
has_all_reported(vdev_t *vd)
{
	boolean_t has;

	VERIFY0(pthread_mutex_lock(&lock));
	const sync_state_t *one = find(vd);
	if (one == NULL || one->s_failed == 0)
		has = vdev_dtl_empty(vd, DTL_MISSING);
	else
		has = last_flush_below(vd->vdev_top, vd) < one->s_failed;
	VERIFY0(pthread_mutex_unlock(&lock));
	return (has);
}

/* The devices that respond, whether or not the library has them open. */
struct responders {
	const uint64_t *guids;
	uint32_t count;
};

static boolean_t
is_responding(const vdev_t *leaf, const struct responders *responders)
{
	for (uint32_t i = 0; i < responders->count; i++) {
		if (responders->guids[i] == leaf->vdev_guid)
			return (B_TRUE);
	}
	return (B_FALSE);
}

boolean_t
bh_is_held(vdev_t *vd, boolean_t (*is_whole)(vdev_t *leaf, const void *arg), const void *arg)
{
	if (vd->vdev_ops->vdev_op_leaf)
		return (is_whole(vd, arg));

	uint64_t parity = vdev_get_nparity(vd);
	uint64_t wanted = parity == 0 ? 1 : vd->vdev_children - parity;
	uint64_t whole = 0;
	for (uint64_t c = 0; c < vd->vdev_children; c++)
		whole += bh_is_held(vd->vdev_child[c], is_whole, arg);
	return (whole >= wanted);
}

/* Whether the leaf responds and is complete. */
static boolean_t
is_whole(vdev_t *leaf, const void *responders)
{
	return (is_responding(leaf, responders) && !bh_is_given_up(leaf) &&
	    vdev_dtl_empty(leaf, DTL_MISSING));
}

/* When a responding leaf below `vd` failed first; the maximum if none did. The caller has the mutex. */
static hrtime_t
first_failure_below(vdev_t *vd, const struct responders *responders)
{
	hrtime_t first = INT64_MAX;

	if (vd->vdev_ops->vdev_op_leaf) {
		const sync_state_t *one = is_responding(vd, responders) ? find(vd) : NULL;

		return (one == NULL || one->s_failed == 0 ? INT64_MAX : one->s_failed);
	}
	for (uint64_t c = 0; c < vd->vdev_children; c++)
		first = MIN(first, first_failure_below(vd->vdev_child[c], responders));
	return (first);
}

/*
 * Whether a leaf below `vd` does not respond that was still in use when the rest failed: of two writes at that time
 * each may be on only one leaf, and the library considers both written. The caller has the mutex.
 */
static boolean_t
misses_one_of_late(vdev_t *vd, const struct responders *responders, hrtime_t failure)
{
	if (vd->vdev_ops->vdev_op_leaf) {
		const sync_state_t *one = find(vd);

		return (!is_responding(vd, responders) && (one == NULL || one->s_failed == 0 ||
		    one->s_flushed >= one->s_failed || one->s_failed > failure - BH_GONE_BEFORE));
	}
	for (uint64_t c = 0; c < vd->vdev_children; c++) {
		if (misses_one_of_late(vd->vdev_child[c], responders, failure))
			return (B_TRUE);
	}
	return (B_FALSE);
}

static boolean_t
has_all_of_late(vdev_t *top, const struct responders *responders)
{
	VERIFY0(pthread_mutex_lock(&lock));
	hrtime_t failure = first_failure_below(top, responders);
	boolean_t misses = misses_one_of_late(top, responders, failure);
	VERIFY0(pthread_mutex_unlock(&lock));
	return (!misses);
}

boolean_t
bh_may_resume(spa_t *spa, const uint64_t *guids, uint32_t count)
{
	const struct responders responders = { guids, count };
	boolean_t may = B_TRUE;

	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	vdev_t *root = spa->spa_root_vdev;
	for (uint64_t c = 0; may && c < root->vdev_children; c++) {
		vdev_t *top = root->vdev_child[c];

		if (vdev_is_concrete(top))
			may = bh_is_held(top, is_whole, &responders) || has_all_of_late(top, &responders);
	}
	spa_config_exit(spa, SCL_VDEV, FTAG);
	return (may);
}

/* The latest error of a leaf that failed since it was whole, or 0. */
static int
error_of(const vdev_t *leaf)
{
	VERIFY0(pthread_mutex_lock(&lock));
	const sync_state_t *one = find(leaf);
	int error = one == NULL || one->s_failed == 0 ? 0 : one->s_error;
	VERIFY0(pthread_mutex_unlock(&lock));
	return (error);
}

/* The leaves below `vd` by their indices, those with all acknowledged data, and the failed ones. */
static void
list_leaves(vdev_t *vd, nvlist_t *places, nvlist_t *told, nvlist_t *errors)
{
	if (!vd->vdev_ops->vdev_op_leaf) {
		for (uint64_t c = 0; c < vd->vdev_children; c++)
			list_leaves(vd->vdev_child[c], places, told, errors);
	} else if (vdev_is_concrete(vd) && vd->vdev_path != NULL) {
		fnvlist_add_uint64(places, vd->vdev_path, vd->vdev_guid);
		if (has_all_reported(vd))
			fnvlist_add_uint64(told, vd->vdev_path, vd->vdev_guid);
		int error = error_of(vd);
		if (error != 0)
			fnvlist_add_uint64(errors, vd->vdev_path, error);
	}
}

/* Acquires no lock that a flush holds, and none that a thread holds which is blocked on a flush. */
nvlist_t *
bh_sync_states(spa_t *spa)
{
	nvlist_t *sync_states = fnvlist_alloc();
	nvlist_t *places = fnvlist_alloc();
	nvlist_t *told = fnvlist_alloc();
	nvlist_t *errors = fnvlist_alloc();

	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	list_leaves(spa->spa_root_vdev, places, told, errors);
	spa_config_exit(spa, SCL_VDEV, FTAG);
	fnvlist_add_uint64(sync_states, "pool_guid", spa_guid(spa));
	fnvlist_add_nvlist(sync_states, "places", places);
	fnvlist_add_nvlist(sync_states, "told", told);
	fnvlist_add_nvlist(sync_states, "errors", errors);
	fnvlist_free(errors);
	fnvlist_free(told);
	fnvlist_free(places);
	return (sync_states);
}

static void
list_missing_data(vdev_t *vd, nvlist_t *lacking)
{
	for (uint64_t c = 0; c < vd->vdev_children; c++)
		list_missing_data(vd->vdev_child[c], lacking);
	if (vd->vdev_ops->vdev_op_leaf && vdev_is_concrete(vd) && vd->vdev_path != NULL &&
	    !vdev_dtl_empty(vd, DTL_MISSING))
		fnvlist_add_uint64(lacking, vd->vdev_path, vd->vdev_guid);
}

nvlist_t *
bh_list_missing(spa_t *spa)
{
	nvlist_t *lacking = fnvlist_alloc();

	if (spa_config_tryenter(spa, SCL_CONFIG, FTAG, RW_READER)) {
		list_missing_data(spa->spa_root_vdev, lacking);
		spa_config_exit(spa, SCL_CONFIG, FTAG);
	}
	return (lacking);
}
