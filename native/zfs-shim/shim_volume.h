/*
 * Volumes, as Rust sees them: opaque handles, fixed-width integers, errno values.
 *
 * Every function returns 0 or a positive errno. EAGAIN means that a call that may not block would have to; ERANGE that
 * the extent does not lie inside the volume. Functions take no ownership of strings. No function may be called after
 * bh_volume_close().
 */
#ifndef BH_SHIM_VOLUME_H
#define	BH_SHIM_VOLUME_H

#include <stdint.h>

typedef struct bh_volume bh_volume_t;
typedef struct bh_read bh_read_t;
typedef struct bh_write bh_write_t;
typedef struct bh_update bh_update_t;

/* Contiguous bytes of a loan. */
typedef struct bh_part {
	uint8_t *bp_data;
	uint64_t bp_length;
} bh_part_t;

/* A run of blocks that are all stored, or all holes. */
typedef struct bh_run {
	uint64_t br_length;
	uint32_t br_allocated;
	uint32_t br_reserved;
} bh_run_t;

/* The largest number of bytes that one call reads or lends. */
#define	BH_LOAN_BYTES_MAX	(32ULL << 20)

/* Flags of bh_volume_open(). */
#define	BH_OPEN_READ_ONLY	0x1U

/* Whether a call may block on a disk, a lock or a transaction. */
#define	BH_NO_WAIT		0U
#define	BH_MAY_WAIT		1U

/*
 * Whether a change that had to wait may still take effect. Called just before the change, when nothing is left to wait
 * for; after 0 nothing is changed, and the call returns ECANCELED. A NULL permit always allows it. May be called
 * several times by one call.
 */
typedef uint32_t bh_permit_begin_t(const void *arg);
typedef struct bh_permit {
	bh_permit_begin_t *bp_begin;
	const void *bp_arg;
} bh_permit_t;

/*
 * Owns the volume or snapshot `name` and replays its intent log. ENOTRECOVERABLE if that cannot be completed: the log
 * stays, and another attempt continues where this one stopped.
 */
int bh_volume_open(const char *name, uint32_t flags, bh_volume_t **out);
/* Destroys the intent log of a volume that is not open: its contents were acknowledged, and are lost. */
int bh_volume_discard_log(const char *name);
/* Syncs all changes and releases the volume. No loan may be left. */
void bh_volume_close(bh_volume_t *volume);

typedef void bh_name_visitor_t(void *arg, const char *name);

/*
 * Visits the volumes of a pool with unreplayed logs, which hold writes that an earlier owner acknowledged, until they
 * are opened. Reads one block of each volume.
 */
int bh_unreplayed_volumes(const char *pool, bh_name_visitor_t *visit, void *arg);
typedef void bh_identity_visitor_t(void *arg, const char *name, uint64_t identity);

/*
 * Visits the file systems of a pool, with the result of dmu_objset_fsid_guid(). Opens none: reads one block of each
 * dataset, with the caches bypassed.
 */
int bh_file_systems(const char *pool, bh_identity_visitor_t *visit, void *arg);
/* How many volumes a pool has. Reads one block of each dataset, with the caches bypassed. */
int bh_volume_count(const char *pool, uint64_t *out);
/* The number when this process imported it, without reading. ENOENT if unknown. */
int bh_volume_count_at_import(const char *pool, uint64_t *out);
/* Whether `name`, a volume or file system, has a log that must be replayed. */
int bh_volume_is_unreplayed(const char *name, uint32_t *out);

uint64_t bh_volume_size(const bh_volume_t *volume);
uint32_t bh_volume_block_size(const bh_volume_t *volume);
uint32_t bh_volume_is_read_only(const bh_volume_t *volume);

/* Changes the size, which must be a positive multiple of the block size, while in use. */
int bh_volume_resize(bh_volume_t *volume, uint64_t size);

/*
 * Rolls the volume back to its newest snapshot, given by its full name. The volume must have no users and no held reads
 * until the return; write loans may exist. The size may change.
 */
int bh_volume_rollback(bh_volume_t *volume, const char *snapshot);

/*
 * Pins the blocks of an extent and locks it for reading. Parts stay valid and unchanged until
 * bh_read_release(), which any thread may call.
 */
int bh_read_hold(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint32_t wait, bh_read_t **out);
/*
 * The same without blocking. EINPROGRESS if blocks of it are being read: then `*out` must be passed to bh_read_finish()
 * or bh_read_abandon(). Any other error, in particular EAGAIN, leaves nothing to release.
 */
int bh_read_begin(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_read_t **out);
/* The completion callback: the read, held as by bh_read_hold(), or NULL and an error. */
typedef void bh_read_done_t(void *arg, bh_read_t *read, int32_t error);
/*
 * Calls `done` once, when the blocks are available: from this call, or on a thread of the library, which it must not
 * block. EAGAIN: another reader still has a read of one of them in flight.
 */
void bh_read_finish(bh_read_t *read, bh_read_done_t *done, void *arg);
/* The result is not needed any more. */
void bh_read_abandon(bh_read_t *read);
const bh_part_t *bh_read_parts(const bh_read_t *read, uint64_t *count);
void bh_read_release(bh_read_t *read);

/* Lends buffers for a write: whole blocks as buffers that the pool adopts without a copy. */
int bh_write_lend(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_write_t **out);
const bh_part_t *bh_write_parts(const bh_write_t *write, uint64_t *count);
/* Frees the loan unless it returns EAGAIN. */
int bh_write_commit(bh_write_t *write, uint32_t wait,
    const bh_permit_t *permit);
void bh_write_discard(bh_write_t *write);

/* Writes by copying. */
int bh_write_copy(bh_volume_t *volume, uint64_t offset, const uint8_t *data,
    uint64_t length, uint32_t wait, const bh_permit_t *permit);
/* Stores zeroes. */
int bh_write_zeroes(bh_volume_t *volume, uint64_t offset, uint64_t length,
    const bh_permit_t *permit);
/* Frees whole blocks and zeroes the edges. */
int bh_free(bh_volume_t *volume, uint64_t offset, uint64_t length,
    const bh_permit_t *permit);

/* Locks an extent for writing and reads it into `data`. */
int bh_update_begin(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint8_t *data, bh_update_t **out);
/* Writes `data`, unless it is NULL, and unlocks. Always frees `update`. */
int bh_update_end(bh_update_t *update, const uint8_t *data);

/* Commits all completed writes through the intent log. */
int bh_flush(bh_volume_t *volume);

/* Starts the log, so that the first flush needs no transaction group. Blocks on one itself. */
int bh_log_begin(bh_volume_t *volume);

/* Fills at most `runs_max` runs that cover `length` bytes or their first part. */
int bh_status(bh_volume_t *volume, uint64_t offset, uint64_t length,
    bh_run_t *runs, uint64_t runs_max, uint64_t *count);

#endif /* BH_SHIM_VOLUME_H */
