/*
 * The functions of the ZFS library that the Rust side may call: opaque handles, fixed-width integers, no policy.
 * Functions return 0 or a positive errno value.
 *
 * A `struct nvlist` is libnvpair's own list; the receiver of one in an `out` argument frees it. Strings are
 * NUL-terminated and are copied before a function returns.
 */
#ifndef BULKHEAD_ZFS_SHIM_H
#define	BULKHEAD_ZFS_SHIM_H

#include <stdint.h>

struct nvlist;

/* ------------------------------------------------------------------ engine (init.c) */

/* Applied before the library starts.  Zero leaves the library's default. */
struct bh_engine_options {
	uint64_t arc_bytes_min;
	uint64_t arc_bytes_max;
	uint64_t dirty_bytes_max;
	uint32_t host_id;	/* must not be zero */
	uint32_t txg_timeout_s;
	uint32_t scatter_buffers;	/* 0: every buffer is one piece */
	uint32_t debug_flags;
	uint32_t debug_messages;	/* 0: keep no ring of debug messages */
	uint32_t library_walks;		/* 0: quick_import.c replaces walks of all datasets */
	/* Of pools with multihost=on: interval of MMP writes, and how many may fail in a row. */
	uint32_t multihost_interval_ms;
	uint32_t multihost_fail_intervals;
	int32_t reason_fd;		/* receives the reason of a crash; -1: none */
};

/*
 * The build id of the loaded library (NT_GNU_BUILD_ID); `length` is 0 when it has none, and more
 * than `bytes_max` when it does not fit.
 */
void bh_library_build_id(uint8_t *out, uint64_t bytes_max, uint64_t *length);

/*
 * Whether the loaded library was built with its debugging checks (ZFS_DEBUG), which make many of its
 * structures larger.
 */
int32_t bh_library_has_checks(void);

/*
 * The version of the loaded library as reported by its package's libzfs, such as "zfs-2.3.2-2". ENOENT when that is not
 * installed.
 */
int32_t bh_library_version(char *out, uint64_t bytes_max);

/*
 * Excludes all memory of the allocator, present and future, from core dumps (core_dump.c). Once per process, before it
 * starts threads, whose stacks would be excluded, too.
 */
int32_t bh_core_exclude_heap(void);

/* Starts the library.  Once per process; never fork afterwards. */
int32_t bh_engine_start(const struct bh_engine_options *options);

/*
 * Compares the values of the library's getters with those at our headers' offsets in an imported pool. ENOEXEC when the
 * library was built with another layout than this shim.
 */
int32_t bh_layout_check(const char *pool);

/* Selects an implementation such as ("sha256", "shani"); ENOTSUP when this host does not support it. */
int32_t bh_checksum_select(const char *algorithm, const char *implementation);

/* Bytes in the ARC, and its maximum. */
void bh_cache_bytes(uint64_t *used, uint64_t *max);

/* ------------------------------------------------------------------ devices (device.c) */

struct bh_device_shape {
	uint64_t bytes;
	uint32_t logical_block;		/* smallest I/O, bytes */
	uint32_t physical_block;	/* best smallest I/O, bytes */
	uint32_t merges;		/* not 0: adjoining I/O becomes one of up to 1 MiB, not 128 KiB */
	uint32_t trim;
	uint32_t far;			/* not 0: on another host; see `read_load` */
};

#define	BH_IO_READ	0
#define	BH_IO_WRITE	1
#define	BH_IO_FLUSH	2
#define	BH_IO_TRIM	3
#define	BH_IO_FLUSH_HERE	4	/* a flush that may be carried out inside submit() */
#define	BH_IO_WRITE_HERE	5	/* a write that may be made durable inside submit() */
#define	BH_IO_WRITE_OF_LOG	6	/* a write that is flushed as soon as it is done */
#define	BH_IO_READ_OF_COPY	7	/* a read of a scrub, a resilver or a rebuild */
#define	BH_IO_READ_OF_SCAN	8	/* its read of pointers to blocks, for which a client may wait, too */
#define	BH_IO_WRITE_AWAITED	9	/* as WRITE_OF_LOG, and the thread that submits it calls receive() or release() */

/* Where the library may continue after a finished I/O. */
#define	BH_CONTINUE_ELSEWHERE	0	/* on a thread of its own */
#define	BH_CONTINUE_HERE		1	/* on this one, a driver's, if it cannot wait for another I/O */
#define	BH_CONTINUE_SUBMITTER	2	/* on this one, which submitted it and is still in submit() */

/* What a scan does next. */
#define	BH_SCAN_GO_ON	0
#define	BH_SCAN_LEAVE	1	/* it continues in the next transaction group */
#define	BH_SCAN_AGAIN	2	/* the step is requested again: the function has blocked for a while */

/* A step of a scan (scan_pace.c), which reads at most one block. */
struct bh_scan_step {
	uint64_t pool;		/* GUID */
	uint64_t group;		/* the transaction group that syncs */
	uint32_t is_group_awaited;	/* the end of that group */
	uint32_t are_writers_delayed;	/* by the amount of dirty data */
};

/* An I/O of the library, which bh_io_complete() returns to it. */
struct bh_io;

struct bh_device_driver {
	/* Opens; `*device` is passed to the functions below until `close`. */
	int32_t (*open)(const char *path, uint64_t vdev_guid, uint32_t writable,
	    struct bh_device_shape *shape, void **device);
	/* The shape of an open device now. */
	int32_t (*reshape)(void *device, struct bh_device_shape *shape);
	/* No I/O is outstanding. */
	void (*close)(void *device);
	/* Starts an I/O, which must be completed once, at any time, on any thread. */
	void (*submit)(void *device, struct bh_io *io, uint32_t kind, uint64_t offset,
	    uint64_t length);
	/* The library writes to the device no more. Nothing is written to the pool until this returns. */
	void (*unusable)(uint64_t vdev_guid);
	/* The `far` of the shape, when the device was opened. */
	uint32_t (*is_far)(const void *device);
	/* Added to the queue length of the device when a mirror chooses one to read from. On the path of each read. */
	uint32_t (*read_load)(const void *device);
	/* A scan is about to take a step. May block for a fraction of a second. */
	uint32_t (*scan_step)(const struct bh_scan_step *step);
	/* A scan reads a block from all devices that it needs, and writes it where it is missing. */
	void (*scan_read_begins)(uint64_t bytes);
	void (*scan_read_ended)(uint64_t bytes);
	/*
	 * Receives a reply for a BH_IO_WRITE_AWAITED of this thread and completes its I/O, or leaves both to another thread
	 * after some milliseconds. The caller holds no lock. Returns whether this thread awaits more replies.
	 */
	uint32_t (*receive)(void);
	/* This thread awaits no more replies: another thread receives them. Completes no I/O. */
	void (*release)(void);
};

/* Before bh_engine_start(); `driver` must stay valid for ever. */
void bh_driver_install(const struct bh_device_driver *driver);

struct bh_piece {
	void *data;
	uint64_t length;
};

/* The pieces of the I/O's memory; 0 if there are more than `pieces_max`. */
uint32_t bh_io_pieces(struct bh_io *io, struct bh_piece *pieces, uint32_t pieces_max);
/* Copies all of the I/O's data to `data`, or from it. */
void bh_io_copy_to(struct bh_io *io, void *data);
void bh_io_copy_from(struct bh_io *io, const void *data);
/*
 * Completes the I/O. `place` is one of BH_CONTINUE_*; a thread on which the library may continue must hold no lock.
 */
void bh_io_complete(struct bh_io *io, int32_t error, uint32_t place);

/*
 * Decides the fate of a flush that failed or is overdue (given_up.c). Not 0: its device is given up, and the flush must
 * be completed with an error. 0: the pool has no other copy of the device's data, and the flush must not be completed
 * unless it succeeds.
 */
uint32_t bh_io_give_up(struct bh_io *io);
/* Suspends the pool of such a flush; not 0 if it was not suspended already. */
uint32_t bh_io_suspend(struct bh_io *io);
/* Resumes the pool, unless further I/O of it failed. */
void bh_io_resume(struct bh_io *io);
/* Blocks until a device is given up, and records it. For a dedicated thread. */
void bh_given_up_record(void);

/*
 * Legs (leg.c): devices of a pool that have a record elsewhere of whether their data is complete.
 *
 * A leg has failed: until it is excluded the library does not probe it.
 */
void bh_leg_failed(uint64_t guid);
/* It is excluded from the record, and misses all data since a transaction group. Its errors may be passed on. */
void bh_leg_excluded(uint64_t pool_guid, uint64_t guid, uint64_t since);
/* The last complete leg failed without a failed write or flush, and is in use again. */
void bh_leg_used_again(uint64_t guid);
/* Not 0: an error of this I/O must be withheld until its leg is excluded. */
uint32_t bh_io_is_binding(struct bh_io *io);
/* From now on the library reads from other devices, until it reopens this one. */
void bh_io_read_elsewhere(struct bh_io *io);
/* Reverts that. */
void bh_io_read_here(struct bh_io *io);

/*
 * ------------------------------------------------------------------ pools (pool.c)
 *
 * Changes return EROFS on a read-only pool, and EAGAIN on a suspended one.
 */

int32_t bh_pool_create(const char *name, struct nvlist *vdev_tree, struct nvlist *properties);

/* Import flags. */
#define	BH_IMPORT_MISSING_LOG	(1u << 0)
#define	BH_IMPORT_SKIP_ACTIVITY_CHECK	(1u << 1)
/* Refuse the pool if blocks written by the newest transaction groups are unreadable, and report whether an older
 * state could be opened. */
#define	BH_IMPORT_CHECK_NEWEST	(1u << 2)
/* Open such an older state: later data is lost. */
#define	BH_IMPORT_REWIND	(1u << 3)

/*
 * `config` describes the pool as in its labels, and receives the library's findings. `aux_paths` has the paths of found
 * spares and caches, keyed by their numbers in decimal. The import fails if one of the `expected` devices cannot be
 * opened; `config` then has the library's reasons in BH_IMPORT_UNOPENED, keyed by their numbers in decimal.
 */
#define	BH_IMPORT_UNOPENED	"bulkhead:unopened"
int32_t bh_pool_import(const char *name, struct nvlist *config, struct nvlist *properties,
    struct nvlist *aux_paths, uint32_t flags, const uint64_t *expected, uint32_t expected_count);
/* The name in labels of the text that the two functions below write. */
#define	BH_LABEL_NOTE	"bulkhead:connections"
/* The name in labels of the list of devices, by their numbers, that had failed when the labels were written. */
#define	BH_LABEL_FAILED	"bulkhead:failed"
/* The name of the list of removed groups in labels, by their indices. */
#define	BH_LABEL_REMOVED	"bulkhead:removed"
/* The name in labels of the number of the record of a pool's legs. */
#define	BH_LABEL_RECORD	"bulkhead:record"
/* The name in labels of the number of the import that wrote them, and of the list of rejected copies. */
#define	BH_LABEL_START	"bulkhead:start"
#define	BH_LABEL_REJECTED	"bulkhead:rejected"
/* Maximum number of listed copies. */
#define	BH_LABEL_REJECTED_MAX	32
/*
 * The name in labels of the list of devices whose data was given up when an administrator confirmed that it is not newer:
 * the number of each, and the newest transaction group of the pool at that time.
 */
#define	BH_LABEL_ABANDONED	"bulkhead:abandoned"
/* Maximum number of listed devices. */
#define	BH_LABEL_ABANDONED_MAX	32
/* The name in labels of the GUID of the pool that the device is leaving for another pool. */
#define	BH_LABEL_LEAVES	"bulkhead:leaves"
/*
 * Sets the import number and the list of rejected copies for labels that this process writes from now on: the
 * transaction group of a root and a checksum for each. Labels also get the GUID of the pool that the devices leave,
 * unless it is 0.
 */
void bh_label_start(const uint64_t *rejected, uint32_t count, uint64_t leaves);
/*
 * Sets the list of abandoned devices for labels that this process writes from now on. Two words for each device. The
 * library opens none of the devices `closed`, until bh_admit_device().
 */
void bh_label_abandoned(const uint64_t *words, uint32_t count, const uint64_t *closed,
    uint32_t closed_count);
/* Whether the library must not open that device. */
int32_t bh_is_closed_device(uint64_t guid);
/* The library may open that device from now on. */
void bh_admit_device(uint64_t guid);
/*
 * The next import of this thread records the missing data of these devices. Three words for each: its number, the
 * transaction group of its newest uberblock, and whether another device has that uberblock.
 */
void bh_import_behind(const uint64_t *list, uint32_t count);
/* Sets the number of the record for labels that this process writes from now on; 0: none. */
void bh_label_record(uint64_t number);
/* Sets the note for labels of that pool that are written from now on, starting with its import. */
void bh_label_note(uint64_t pool_guid, const char *text);
/* The same for an open pool; its labels are written with its next transaction group. */
int32_t bh_pool_label_note(const char *name, const char *text);
int32_t bh_pool_export(const char *name, uint32_t force);
int32_t bh_pool_destroy(const char *name);
/* Configuration with statistics of every device, scan progress, health. */
int32_t bh_pool_status(const char *name, struct nvlist **out);
int32_t bh_pool_properties(const char *name, struct nvlist **out);
int32_t bh_pool_set_properties(const char *name, struct nvlist *properties);
/*
 * Adds property `name`, given as text, to `properties` in the form that the two functions above
 * take.  ENOENT: no such property; EROFS: it cannot be set; EINVAL: no such value.
 */
int32_t bh_pool_property_parse(struct nvlist *properties, const char *name, const char *text,
    uint32_t creating);
/* The name of a value of an enumerated property (static), or NULL if it is a plain number. */
const char *bh_pool_property_word(const char *name, uint64_t value);
/* The values of a pool's property as text for people, else NULL. A constant. */
const char *bh_pool_property_values(const char *name);
/* The first transaction group in a leaf's DTL, UINT64_MAX if it is empty; and the first one since the pool was
 * opened. */
int32_t bh_leaf_missing_since(const char *name, uint64_t guid, uint64_t *since, uint64_t *first);
/* Assigns a new GUID to the pool. ENXIO: a device is missing or incomplete. */
int32_t bh_pool_change_guid(const char *name);
/* Blocks until all data written so far is on disk. */
int32_t bh_pool_sync(const char *name);
/* Adds a record to the history in the pool. Blocks while the pool is suspended. */
int32_t bh_pool_history_add(const char *name, const char *text);
/* At most the newest `length` bytes of the history, as they are stored, the first one possibly cut. */
int32_t bh_pool_history_tail(const char *name, char *data, uint64_t *length);

/*
 * Never blocks: usable by a monitor while the pool hangs. EAGAIN while a pool is being imported or exported.
 */
struct bh_pool_health {
	uint32_t suspended;	/* 0 no, 1 devices failed, 2 owned by another host */
	uint32_t root_state;	/* vdev_state_t of the root */
	uint64_t synced_txg;
	uint64_t sync_started_ns;	/* of the latest transaction group; same clock as now_ns */
	uint64_t now_ns;
	/* A device that was given up and is not on record yet, which blocks commits; 0 for none. */
	uint64_t unrecorded_guid;
	uint64_t unrecorded_since_s;	/* since 1970 */
};
int32_t bh_pool_health(const char *name, struct bh_pool_health *out);

/* Commands of bh_pool_scrub. */
#define	BH_SCRUB_START	1
#define	BH_SCRUB_PAUSE	2
#define	BH_SCRUB_CANCEL	3
int32_t bh_pool_scrub(const char *name, uint32_t command);

#define	BH_TRIM_START	1
#define	BH_TRIM_CANCEL	2
#define	BH_TRIM_SUSPEND	3
int32_t bh_pool_trim(const char *name, const uint64_t *vdev_guids, uint32_t count,
    uint32_t command);

/*
 * guid 0: every device. A suspended pool resumes if `resumes` is not 0, EIO when it failed again at once; otherwise
 * EAGAIN.
 */
int32_t bh_pool_clear(const char *name, uint64_t vdev_guid, uint32_t resumes);
/* ESTALE when a device that does not respond may have data that the responding ones miss, so that a pool must not
 * resume. */
int32_t bh_pool_may_resume(const char *name, const uint64_t *vdev_guids, uint32_t count);
/*
 * Devices by their indices, as far as any hold data: numbers of all in `places`, of those with all acknowledged data in
 * `told`; and `pool_guid`. Works while the pool is suspended.
 */
int32_t bh_pool_sync_states(const char *name, struct nvlist **out);
int32_t bh_vdev_add(const char *name, struct nvlist *vdev_tree);
/* With `replacing`, the old device is detached when the new one is complete. */
int32_t bh_vdev_attach(const char *name, uint64_t vdev_guid, struct nvlist *vdev_tree,
    uint32_t replacing);
int32_t bh_vdev_detach(const char *name, uint64_t vdev_guid);
int32_t bh_vdev_remove(const char *name, uint64_t vdev_guid);
/* `*state` receives the vdev_state_t reached. */
int32_t bh_vdev_online(const char *name, uint64_t vdev_guid, uint32_t expand, uint32_t *state);
int32_t bh_vdev_offline(const char *name, uint64_t vdev_guid, uint32_t temporary);
/* The device had too many errors: it is not used any more. EBUSY if the pool cannot do without it. */
int32_t bh_vdev_fault(const char *name, uint64_t vdev_guid);

/* Names of the features this library supports, one call each; NULL past the last. */
const char *bh_feature_name(uint32_t index);

/*
 * ------------------------------------------------------------------ legs of an open pool (leg.c)
 *
 * The device misses all data since a transaction group. That is on disk on return if `waits`, otherwise with the open
 * group.
 */
int32_t bh_pool_leg_missing_data(const char *name, uint64_t guid, uint64_t since, uint32_t waits);
/* On return a further transaction group is on all devices, and they were flushed. */
int32_t bh_pool_write_group(const char *name);
/*
 * The last synced transaction group, how often a read of a device failed or returned wrong data, whether it is in use
 * and complete, and no copy is active; and whether the library writes to it.
 */
int32_t bh_pool_leg_progress(const char *name, uint64_t guid, uint64_t *synced, uint64_t *damaged,
    uint32_t *is_whole, uint32_t *is_written);
/* Attaches a device to the mirror of `sibling`, or forms one with it; `*guid` receives its number. */
int32_t bh_pool_leg_attach(const char *name, uint64_t sibling, const char *path, struct nvlist *vdev_tree,
    uint64_t *guid);
/* The part of a label that describes the device, with its checksum. */
#define	BH_LABEL_BYTES		(112 << 10)
/*
 * The label of a device without any data: BH_LABEL_BYTES for that offset of the device. Also the minimum bytes of a
 * device that can replace it.
 */
int32_t bh_pool_leg_label(const char *name, uint64_t guid, uint64_t offset, void *out, uint64_t *least);

#endif
