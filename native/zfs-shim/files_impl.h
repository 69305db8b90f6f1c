/*
 * Shared by the files of a file system: files.c, files_change.c, files_log.c.
 */
#ifndef BH_FILES_IMPL_H
#define	BH_FILES_IMPL_H

#include "internal.h"

#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dmu_tx.h>
#include <sys/dnode.h>
#include <sys/sa.h>
#include <sys/zap.h>
#include <sys/zfs_acl.h>
#include <sys/zfs_sa.h>
#include <sys/zfs_znode.h>
#include <sys/zil.h>
#include <sys/zil_impl.h>

#include "shim_files.h"

/* The entry of the master node for the object with receipts. A kernel preserves unknown entries. */
#define	BH_RECEIPTS	"org.bulkhead:receipts"

/* Bytes of contents that the log must fetch at a commit, by transaction group. */
typedef struct bh_pending {
	kmutex_t bp_mutex;
	uint64_t bp_groups[TXG_SIZE];
	uint64_t bp_bytes[TXG_SIZE];
} bh_pending_t;

struct bh_files {
	objset_t *bf_os;
	sa_attr_type_t *bf_types;
	uint64_t bf_unlinked;
	/* Opened with the file system, unless it is read-only. */
	zilog_t *bf_log;
	/* Held during changes of attributes or a block size, only while in memory. */
	krwlock_t bf_attributes;
	/* The last transaction group with a change that could not be logged. */
	uint64_t bf_unlogged;
	bh_pending_t bf_pending;
	boolean_t bf_read_only;
	/* Its log is still to be replayed, even if it is read-only for clients. */
	boolean_t bf_replays;
	/* The last values from the library; 0 for a snapshot. */
	uint64_t bf_settings[BH_SETTINGS];
	int bf_replay_error;
	bh_record_visitor_t *bf_visit;
	void *bf_visit_arg;
};

/* files.c: an attribute of a file, and its offset in a bh_node. */
typedef struct bh_attribute {
	zpl_attr_t ba_attribute;
	size_t ba_offset;
	uint16_t ba_bytes;
	uint64_t ba_has;
} bh_attribute_t;

#define	BH_NODE_ATTRIBUTES	15
extern const bh_attribute_t bh_node_attributes[BH_NODE_ATTRIBUTES];

static inline void *
bh_attribute_in(struct bh_node *node, const bh_attribute_t *attribute)
{
	return ((uint8_t *)node + attribute->ba_offset);
}

/* The attributes of an object. The bonus buffer is held; bf_attributes is, too. */
int bh_files_handle(bh_files_t *files, dmu_buf_t *bonus, sa_handle_t **out);
int bh_files_bonus(bh_files_t *files, uint64_t object, dmu_buf_t **out);
/* Those of a fixed length. */
int bh_files_attributes(bh_files_t *files, sa_handle_t *handle, struct bh_node *out);

static inline boolean_t
bh_files_refuses_changes(const bh_files_t *files)
{
	return (files->bf_read_only && !files->bf_replays);
}

/* Entries of a list of names with numbers. */
int bh_list_entries(objset_t *os, uint64_t list, uint64_t cursor, uint8_t *data,
    uint64_t bytes_max, uint64_t *bytes, uint32_t *end);

/* files_snapshots.c */
int bh_files_watch_settings(bh_files_t *files);
void bh_files_forget_settings(bh_files_t *files);

/*
 * files_checks.c: whether a step is valid; 0, or the reason for its refusal. The bytes of a hole that are in blocks of
 * its object, and an object that may have contents.
 */
uint64_t bh_files_hole_bytes(dnode_t *dnode, const struct bh_step *step);
int bh_files_hold_contents(bh_files_t *files, uint64_t object, const void *tag, dnode_t **out);
int bh_files_check_write(bh_files_t *files, dnode_t *dnode, const struct bh_step *step);
/* Whether a range has as many blocks as there are pointers. */
boolean_t bh_files_has_blocks(const dnode_t *dnode, uint64_t offset, uint64_t length, uint64_t count);
int bh_files_check_clone(bh_files_t *files, const struct bh_step *step);
int bh_files_check_new(bh_files_t *files, const struct bh_step *step);
int bh_files_check_text(bh_files_t *files, sa_handle_t *handle, zpl_attr_t which, uint64_t length);
int bh_files_check_name(bh_files_t *files, const struct bh_step *step);
int bh_files_check_unlinked(bh_files_t *files, const struct bh_step *step);

/* files_log.c */
void bh_files_log_open(bh_files_t *files);
void bh_files_log_step(bh_files_t *files, const struct bh_step *step,
    const struct bh_changed *made, uint64_t slots, dmu_tx_t *tx);

#endif /* BH_FILES_IMPL_H */
