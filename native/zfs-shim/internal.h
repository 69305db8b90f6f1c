/*
 * Shared by the shim's own files. The library's headers are included here and nowhere else before shim.h, because
 * libspl shadows some system headers.
 */
#ifndef BULKHEAD_ZFS_SHIM_INTERNAL_H
#define	BULKHEAD_ZFS_SHIM_INTERNAL_H

#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/vdev_impl.h>
#include <sys/abd.h>
#include <sys/zio.h>
#include <libnvpair.h>

#include "shim.h"

/* Whether a leaf is served by device.c. */
boolean_t bh_device_is_ours(const vdev_t *vd);
/* Whether such a leaf, which is open, is on another host. */
boolean_t bh_device_is_far(const vdev_t *vd);

/* device.c: the functions of the Rust side. */
const struct bh_device_driver *bh_driver(void);

/* device.c: the library has changed the state of a leaf; the caller has the states of the pool's devices locked. */
void bh_device_state_changed(vdev_t *vd);

/*
 * given_up.c: whether a leaf failed a flush that is not on record yet. The second function blocks until all given-up
 * leaves of the pool are on record.
 */
boolean_t bh_is_given_up(const vdev_t *vd);
void bh_given_up_await(spa_t *spa);
/* The first leaf of the pool that blocks commits this way, and since when, in seconds since 1970; 0 if none. Never
 * blocks. */
uint64_t bh_given_up_first(const spa_t *spa, uint64_t *since_s);

/*
 * log_gaps.c: blocks until the logs of the pool have no gap of a failed block; notes such a gap, which the open
 * group closes.
 */
void bh_log_gaps_await(spa_t *spa);
void bh_log_gap_note(spa_t *spa);

/* failed_writes.c: handles the consequences of a write that failed on a leaf. */
void bh_failed_write_note(zio_t *zio);

/* Adds the groups from `since` to `last` to a leaf's DTL in memory, in one step. */
void bh_note_range(vdev_t *vd, uint64_t since, uint64_t last);

/*
 * given_up.c: marks as given up a leg that its pool's record excludes, with all data since a transaction group; and
 * adds the groups since a given one, up to the open one, to a leaf's DTL.
 */
void bh_give_up_leg(uint64_t pool, uint64_t guid, uint64_t since);
int bh_note_missing(spa_t *spa, uint64_t guid, uint64_t since);

/*
 * sync_state.c: records the result of an I/O of a leaf; whether a suspended pool may resume with the devices that
 * respond, because no other device alone has acknowledged data; the leaves, and those with all acknowledged data.
 */
void bh_sync_state_note(const zio_t *zio);
/* The open transaction group; 0 while the pool has none. */
uint64_t bh_open_txg(const spa_t *spa);
boolean_t bh_may_resume(spa_t *spa, const uint64_t *guids, uint32_t count);
nvlist_t *bh_sync_states(spa_t *spa);
/* Leaves that are not complete: indices and numbers. None while the configuration is being changed. */
nvlist_t *bh_list_missing(spa_t *spa);
/* Whether enough leaves below `vd` are complete for all of its data. */
boolean_t bh_is_held(vdev_t *vd, boolean_t (*is_whole)(vdev_t *leaf, const void *arg), const void *arg);

/* dataset.c: a dataset by its name, and its pool, held until bh_dataset_release(). */
int bh_dataset_hold(const char *name, dsl_pool_t **dp, dsl_dataset_t **ds, const void *tag);
void bh_dataset_release(dsl_pool_t *dp, dsl_dataset_t *ds, const void *tag);

/* dataset.c: the space of a volume that is written completely. */
uint64_t bh_space_of_volume(spa_t *spa, uint64_t size, uint64_t block_size, uint64_t copies);

/* interpose.c: the library's own definition of an interposed function. */
void *bh_library_function(const char *name);

/* space_estimate.c: a device is being opened; depending on its parents, the space estimate for dirty data grows. */
void bh_space_note_device(const vdev_t *leaf);

/* crash_report.c: reports a fault on stderr, with its location, before it terminates the process, and in the file `fd`,
 * if it is not -1. */
void bh_crash_report_prepare(int fd);

/* quick_import.c: leave the walks of all datasets at an import to the library. */
extern boolean_t bh_library_walks;

/* import_config.c: spa_import(), with the configuration written once. */
int bh_import(char *pool, nvlist_t *config, nvlist_t *properties, uint64_t flags);

/* copies.c: the entries of the import and of copies in labels; adds, before the first transaction group, the missing
 * data of devices to their DTLs. */
void bh_copies_add_to_label(nvlist_t *label);
void bh_copies_note_behind(spa_t *spa);

/* abandoned.c: the list of abandoned devices in labels. */
void bh_abandoned_add_to_label(nvlist_t *label);

/*
 * unopened.c: the devices that this thread's imports expect until the end, which adds those that the library could not
 * open to the list, by their numbers, with the library's reason.
 */
void bh_unopened_begin(const uint64_t *guids, uint32_t count);
void bh_unopened_end(nvlist_t *config);

/* label_note.c: sets this note for the next labels of the pool. */
int bh_write_label_note(spa_t *spa, const char *text);

/* volume.c: whether it is the parent of the reads of one bh_read_finish(). */
boolean_t bh_is_read_root(const zio_t *zio);
/* waits.c: all earlier changes are on disk on return; spa_export() with that shorter wait. */
void bh_wait_until_written(dsl_pool_t *dp);
int bh_export(const char *pool, boolean_t force);

/*
 * in_place.c: between begin and end the calling thread commits an intent log, and runs the steps itself that the
 * library would pass to other threads.
 */
void bh_in_place_begin(void);
void bh_in_place_end(void);
boolean_t bh_in_place_is_committing(void);
/*
 * Defers a write of the log to a device of this host until the thread waits for its commit, so that the same write to
 * another host is in flight before. B_FALSE if it is not deferred.
 */
boolean_t bh_in_place_defer(zio_t *zio);
/* The thread receives the reply to a write of the log itself when it waits for its commit. */
void bh_in_place_await(void);
/*
 * Called before each wait of a thread for a condition, with its mutex. In the wait for a commit: carries out a deferred
 * write or receives a reply, with the mutex released. In any other wait: hands over. Returns whether the mutex was
 * released, after which the condition must be checked again.
 */
boolean_t bh_in_place_work(const kcondvar_t *cv, kmutex_t *mutex);
/* Leaves deferred writes and awaited replies of this thread to other threads. Blocks on no I/O. */
void bh_in_place_hand_over(void);
/* Whether it reads or writes a block of an intent log, or a copy of the block on a device. */
boolean_t bh_is_log_block(const zio_t *zio);
/* device.c: carries out a deferred write on this thread, or without blocking; receives or releases awaited replies. */
void bh_device_write_here(zio_t *zio);
void bh_device_write_of_log(zio_t *zio);
boolean_t bh_device_receive(void);
void bh_device_release(void);
/*
 * Between these the calling thread reads an intent log, which must be read one block after another. It continues after
 * each block by itself.
 */
void bh_in_place_walk_begin(void);
void bh_in_place_walk_end(void);
/* Whether `zio` is such a read. */
boolean_t bh_in_place_is_walked(const zio_t *zio);
/* Continues after a finished I/O on this thread; `is_log`: a write or flush of an intent log. */
void bh_in_place_continue(zio_t *zio, boolean_t is_log);

/*
 * BH_OPENZFS is the version of the headers: 20309 is 2.3.9. These inner functions changed after 2.3.2; for a version in
 * between, which no Debian release has, the compiler detects which variant applies.
 */
#if BH_OPENZFS >= 20309
#define	BH_WHO_ASKS	CRED()
#define	BH_OPENED_FOR	, cred_t *opener
#else
#define	BH_WHO_ASKS	CRED(), curproc
#define	BH_OPENED_FOR
#endif

/* BH_LIBRARY_CHECKS: the library to be linked with has its debugging checks, as Debian's does. */
#if BH_LIBRARY_CHECKS
#if !defined(ZFS_DEBUG) || !defined(DEBUG) || defined(NDEBUG)
#error "the library is built with ZFS_DEBUG: structures differ without it"
#endif
#elif defined(ZFS_DEBUG) || defined(DEBUG) || !defined(NDEBUG)
#error "the library is built without ZFS_DEBUG: structures differ with it"
#endif
/* The structure with the largest difference. A header that decides it differently must cause an error. */
_Static_assert((sizeof (zfs_refcount_t) == sizeof (uint64_t)) == !BH_LIBRARY_CHECKS, "zfs_refcount_t");

#endif
