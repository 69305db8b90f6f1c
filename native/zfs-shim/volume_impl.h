/*
 * Shared by the files of a volume: volume.c, volume_read.c, volume_open.c, intent_log.c, unlogged_writes.c, `waits.c`,
 * full_pool.c, allocated_runs.c.
 */
#ifndef BH_VOLUME_IMPL_H
#define	BH_VOLUME_IMPL_H

#include "internal.h"

#include <sys/arc.h>
#include <sys/dbuf.h>
#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dmu_tx.h>
#include <sys/dnode.h>
#include <sys/zfs_rlock.h>
#include <sys/zil.h>
#include <sys/zil_impl.h>

#include "shim_volume.h"

/* A volume's two objects: its data, and a ZAP with its size. The numbers are on-disk format. */
#define	BH_DATA_OBJECT		1ULL
#define	BH_PROPERTIES_OBJECT	2ULL
#define	BH_SIZE_KEY		"size"

/* Large writes that are not in the intent log (unlogged_writes.c). */
typedef struct bh_unlogged {
	/* Protects the notes. Acquired inside transactions. */
	kmutex_t bu_mutex;
	/* Held while notes are recorded. Acquired outside transactions. */
	kmutex_t bu_recording;
	struct bh_note *bu_notes;
	uint64_t bu_count;
	uint64_t bu_capacity;
	/* There are notes that may not be recorded yet. */
	uint32_t bu_is_behind;
} bh_unlogged_t;

/* Records of a replay that are parts of one block, from its start on. */
typedef struct bh_gathered {
	uint8_t *bg_data;
	uint64_t bg_offset;
	uint64_t bg_length;
} bh_gathered_t;

struct bh_volume {
	objset_t *bv_os;
	dnode_t *bv_dnode;
	/* Opened by the first write, so that closing an untouched volume does not wait. */
	zilog_t *bv_log;
	kmutex_t bv_log_mutex;
	bh_unlogged_t bv_unlogged;
	zfs_rangelock_t bv_ranges;
	uint64_t bv_size;
	/* The newest transaction group that changes contents: status must wait for it. */
	uint64_t bv_dirty_txg;
	/* Where a sequential reader would continue; a hint, so races do not matter. */
	uint64_t bv_next_block;
	uint32_t bv_block_size;
	uint32_t bv_block_shift;
	boolean_t bv_read_only;
	/* An empty log of the last owner is being removed. */
	boolean_t bv_log_retired;
	int bv_replay_error;
	bh_gathered_t bv_gathered;
};

/* A part of a write: plain memory, or (when `bs_arc` is set) one whole block. */
typedef struct bh_segment {
	const uint8_t *bs_data;
	uint64_t bs_length;
	arc_buf_t *bs_arc;
} bh_segment_t;

/* intent_log.c */
zilog_t *bh_log_open(bh_volume_t *volume);
int bh_log_replay(bh_volume_t *volume);
void bh_log_commit(bh_volume_t *volume);
void bh_log_record(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset,
    uint64_t length);
boolean_t bh_log_replays_without(uint64_t txg);
void bh_log_write(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset,
    uint64_t length);
void bh_log_free(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset,
    uint64_t length);

/* Declares blocks to be cloned to a transaction; whether the pointers of a log are valid in the pool. */
void bh_hold_clone(dmu_tx_t *tx, dnode_t *dn, uint64_t offset, uint64_t length, uint64_t block_size);
boolean_t bh_may_be_cloned(spa_t *spa, const blkptr_t *pointers, uint64_t count);

/* unlogged_writes.c */
void bh_unlogged_init(bh_unlogged_t *unlogged);
void bh_unlogged_forget(bh_unlogged_t *unlogged);
void bh_unlogged_fini(bh_unlogged_t *unlogged);
boolean_t bh_unlogged_note(bh_volume_t *volume, const dmu_tx_t *tx,
    uint64_t offset, uint64_t length);
void bh_unlogged_record(bh_volume_t *volume);
boolean_t bh_group_is_better(spa_t *spa, uint64_t bytes);

/* waits.c */
void bh_log_close(zilog_t *log);

/*
 * full_pool.c: a write that was refused for lack of space, although its space is reserved. Between begin and its commit
 * there is no second one; a result of begin other than 0 is a failure. The first check does not wait. The commit is
 * also called for ordinary writes.
 */
boolean_t bh_is_refused_for_space(int error);
boolean_t bh_has_reservation(const bh_volume_t *volume);
boolean_t bh_is_reserved_whole(const bh_volume_t *volume);
int bh_kept_back_begin(bh_volume_t *volume, uint64_t offset, uint64_t length,
    dmu_tx_t **out);
void bh_kept_back_commit(dmu_tx_t *tx, boolean_t kept_back);
/* The same for any change: enter, a transaction marked as one that frees (dmu_tx_mark_netfree()), its commit, leave. */
void bh_kept_back_enter(dsl_pool_t *dp);
void bh_kept_back_leave(void);

/* allocated_runs.c; the second returns the first byte after all blocks, including those only in memory. */
int bh_next_offset(dnode_t *dn, boolean_t hole, uint64_t *offset);
uint64_t bh_blocks_end(dnode_t *dn);
void bh_await_tree(dnode_t *dn, uint64_t offset, uint64_t length);

/* volume.c */
void bh_note_dirty(bh_volume_t *volume, uint64_t txg);

/* volume_read.c */
/* A zeroing write goes in transactions of this size. */
#define	BH_ZERO_BYTES		(128ULL << 10)
/* Block handles of small writes live on the stack. */
#define	BH_STACK_BLOCKS		16
/* The contents of a hole. Never written. */
extern uint8_t bh_zeroes[BH_ZERO_BYTES];

/* The location of a block's contents. */
typedef enum bh_location {
	BH_PINNED,	/* in memory, and now held */
	BH_HOLE,	/* nowhere: it reads as zeroes */
	BH_REACHABLE,	/* its block pointer is in memory */
	BH_FAR		/* even finding it needs a disk */
} bh_location_t;

boolean_t bh_is_inside(const bh_volume_t *volume, uint64_t offset,
    uint64_t length);
uint64_t bh_block_count(const bh_volume_t *volume, uint64_t offset,
    uint64_t length);
/* Finds a block without any I/O, and pins it if it is in memory. dn_struct_rwlock is held. */
bh_location_t bh_find_block(bh_volume_t *volume, uint64_t block,
    dmu_buf_impl_t **out);
void bh_release_blocks(bh_volume_t *volume, dmu_buf_impl_t **blocks,
    uint64_t count);
/* Locks an extent, checks that it exists. EAGAIN if that would block and may not. */
int bh_lock_range(bh_volume_t *volume, uint64_t offset, uint64_t length,
    zfs_rangelock_type_t type, uint32_t wait, zfs_locked_range_t **out);
int bh_copy_out(bh_volume_t *volume, uint64_t offset, uint64_t length,
    uint8_t *data);

#endif /* BH_VOLUME_IMPL_H */
