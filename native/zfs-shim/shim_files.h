/*
 * File systems, as exposed to Rust: objects with attributes, directories and contents, and transactions that change
 * several of them together. A POSIX file system on top of that is implemented in Rust (engines/zpl).
 *
 * Every function returns 0 or a positive errno. No function may be called after bh_files_close().
 *
 * The caller of a change must exclude concurrent changes of the object and reads of its contents. Reads of attributes
 * and directories need no such exclusion.
 */
#ifndef BH_SHIM_FILES_H
#define	BH_SHIM_FILES_H

#include <stdint.h>

#include "shim_volume.h"

typedef struct bh_files bh_files_t;
typedef struct bh_files_loan bh_files_loan_t;

/* The properties of a file system at its open. */
struct bh_files_facts {
	uint64_t version;	/* of the ZPL */
	uint64_t identity;	/* stays with the dataset: dmu_objset_fsid_guid() */
	uint64_t objset;	/* number of the dataset in its pool; a snapshot has another one */
	uint64_t root;		/* object of the root directory */
	uint64_t unlinked;	/* object of the list of unlinked objects */
	uint64_t receipts;	/* object with receipts of requests; 0: there is none */
	uint64_t normalization;
	uint64_t utf8only;
	uint64_t casesensitivity;
	uint64_t acltype;	/* ZFS_ACLTYPE_* */
	uint64_t system_attributes;	/* object of the registry; 0: attributes have their old form */
	uint32_t read_only;
	uint32_t fixed;	/* nor can a log be replayed */
	uint32_t log_waits;	/* an intent log has to be replayed before the first change */
	uint32_t log_is_foreign;	/* and a machine of the other byte order has written it */
};

/* Attributes of an object; see sys/zfs_sa.h. `has` is the mask of present ones. Times are pairs, as they are stored. */
struct bh_node {
	uint64_t mode;
	uint64_t size;
	uint64_t generation;
	uint64_t uid;
	uint64_t gid;
	uint64_t parent;
	uint64_t flags;
	uint64_t atime_s;
	uint64_t atime_ns;
	uint64_t mtime_s;
	uint64_t mtime_ns;
	uint64_t ctime_s;
	uint64_t ctime_ns;
	uint64_t crtime_s;
	uint64_t crtime_ns;
	uint64_t links;
	uint64_t project;
	uint64_t device;
	uint64_t extended;	/* the directory of extended attributes */
	uint64_t has;
	/* These are not stored. */
	uint64_t block_size;
	uint64_t space;
	uint64_t slots;		/* of the table of objects */
	uint64_t last_block;	/* number of the last block that it has had; of one that has had only one 0 */
};

#define	BH_HAS_MODE	(1ULL << 0)
#define	BH_HAS_SIZE	(1ULL << 1)
#define	BH_HAS_GENERATION	(1ULL << 2)
#define	BH_HAS_UID	(1ULL << 3)
#define	BH_HAS_GID	(1ULL << 4)
#define	BH_HAS_PARENT	(1ULL << 5)
#define	BH_HAS_FLAGS	(1ULL << 6)
#define	BH_HAS_ATIME	(1ULL << 7)
#define	BH_HAS_MTIME	(1ULL << 8)
#define	BH_HAS_CTIME	(1ULL << 9)
#define	BH_HAS_CRTIME	(1ULL << 10)
#define	BH_HAS_LINKS	(1ULL << 11)
#define	BH_HAS_PROJECT	(1ULL << 12)
#define	BH_HAS_DEVICE	(1ULL << 13)
#define	BH_HAS_EXTENDED	(1ULL << 14)

/* Attributes of variable length. */
#define	BH_TEXT_LINK	0U
#define	BH_TEXT_ACL	1U
#define	BH_TEXT_EXTENDED	2U	/* extended attributes, as a packed list */

/* An entry of a directory, as bh_files_list() puts it into its buffer; its name follows, padded to 8 bytes. */
struct bh_entry {
	uint64_t cursor;	/* where to go on after it */
	uint64_t value;
	uint64_t name_length;
};

#define	BH_STEP_MAKE	0U
#define	BH_STEP_SET	1U
#define	BH_STEP_ENTER	2U
#define	BH_STEP_LEAVE	3U
#define	BH_STEP_UNLINK	4U
#define	BH_STEP_FORGET	5U
#define	BH_STEP_FREE	6U
#define	BH_STEP_WRITE	7U
#define	BH_STEP_LOG	8U
#define	BH_STEP_EXTEND	9U
#define	BH_STEP_CLONE	10U
#define	BH_STEP_HOLE	11U

/* A bit of `flags`. */
#define	BH_STEP_OF_NEW	1U	/* stands for the object that was made by a step before */
#define	BH_STEP_REPLACES	2U	/* the name may be taken */

/*
 * One step of a change.
 *
 * MAKE: creates an object with the attributes `node`, the access control list `data` of `value` entries, and, if it is a symbolic link, the text
 * `name`. `object` is 0, or the required number. It is a directory if its mode is one. Its
 * generation is the transaction group unless `node` has one. `block_size` is that of its first block, or 0.
 * SET: sets of `object` the attributes of `node` that `node->has` names, and the access control list, if there is one, as in MAKE.
 * ENTER: adds the name `name` in the directory `object` for the entry `value`; with OF_NEW its object is added.
 * LEAVE: removes the name from the directory.
 * UNLINK: `object` is added to the list of unlinked ones. FORGET: it is removed from it.
 * FREE: frees `object` and all its blocks.
 * HOLE: `length` bytes at offset `value` of `object` become a hole; 0: up to the end.
 * EXTEND: `object` gets the list of extended attributes `data`.
 * CLONE: `object` gets the blocks of the pointers in `data`, at offset `value`. Together they are `node->size` bytes long. `block_size` is its new block size, or 0.
 * WRITE: `data` at offset `value` of `object`. `block_size` is its new block size, or 0.
 * LOG: a record of type `value`, without its common header, which the intent log gets. With OF_NEW it is
 * one of a creation, and receives number and generation, or one of attributes, and receives the number. `object`, of a record of a write: the generation of the file; 0: its bytes are in the record already.
 */
struct bh_step {
	uint32_t kind;
	uint32_t flags;
	uint64_t object;
	uint64_t value;
	uint64_t block_size;
	const struct bh_node *node;
	const char *name;
	const uint8_t *data;
	uint64_t length;
};

/* The result of a change. */
struct bh_changed {
	uint64_t object;	/* that was made */
	uint64_t group;		/* the transaction group */
};

/* A bit of `flags` of bh_files_change(). */
#define	BH_CHANGE_FREES	1U	/* it is to be made although there is no space */

/*
 * Owns the file system or snapshot `name`. Its log is not replayed. EINVAL: it is no file system; EACCES: its key is
 * missing.
 */
int bh_files_open(const char *name, uint32_t read_only, bh_files_t **out, struct bh_files_facts *facts);
/* Syncs all changes and releases the file system. */
void bh_files_close(bh_files_t *files);

/* ENOENT unless the object is one of a file system. */
int bh_files_node(bh_files_t *files, uint64_t object, struct bh_node *out);
/* `length` is the room on entry. ERANGE: it is too small, and `length` returns the required size. ENOENT: there is
 * none. */
int bh_files_text(bh_files_t *files, uint64_t object, uint32_t which, uint8_t *data, uint64_t *length);
int bh_files_look_up(bh_files_t *files, uint64_t directory, const char *name, uint64_t *value);
/* Fills `data` with entries from `cursor` on; 0 is the start. `end` is not 0 if the last entry is included. */
int bh_files_list(bh_files_t *files, uint64_t directory, uint64_t cursor, uint8_t *data, uint64_t bytes_max,
    uint64_t *bytes, uint32_t *end);
/* Entries of a directory, or of the list of unlinked objects. */
int bh_files_count(bh_files_t *files, uint64_t directory, uint64_t *count);
/* Writes all of `data` if it succeeds: zeros in holes. */
int bh_files_read(bh_files_t *files, uint64_t object, uint64_t offset, uint8_t *data, uint64_t length);
/*
 * The same without a copy: pins the blocks. Changes of the object block until bh_files_loan_release(), which any thread
 * may call. ENOTSUP: the range is not completely in blocks.
 */
int bh_files_lend(bh_files_t *files, uint64_t object, uint64_t offset, uint64_t length, bh_files_loan_t **out);
/* The pinned parts, in order: `length` bytes. */
const bh_part_t *bh_files_loan_parts(const bh_files_loan_t *loan, uint64_t *count);
void bh_files_loan_release(bh_files_loan_t *loan);
/* The next data, or hole, from `offset` on. ENXIO: there is none. */
int bh_files_next(bh_files_t *files, uint64_t object, uint32_t hole, uint64_t *offset);
/* The object after `*object`, of any type; ENOENT if there is none. */
int bh_files_next_object(bh_files_t *files, uint64_t *object);
void bh_files_space(bh_files_t *files, uint64_t *used, uint64_t *available, uint64_t *objects,
    uint64_t *objects_available);
/* The size of the blocks of large files. */
uint64_t bh_files_record_size(bh_files_t *files);

/* Properties that apply while it is open. */
#define	BH_SETTING_SNAPDIR	0U	/* 0: the directory of snapshots is not listed; 1: it is; 2: there is none */
#define	BH_SETTING_ACLMODE	1U	/* ZFS_ACL_DISCARD, _GROUPMASK, _PASSTHROUGH, _RESTRICTED */
#define	BH_SETTING_ACLINHERIT	2U	/* ZFS_ACL_DISCARD, _NOALLOW, _RESTRICTED, _PASSTHROUGH, _PASSTHROUGH_X */
#define	BH_SETTING_ACLTYPE	3U	/* ZFS_ACLTYPE_* */
#define	BH_SETTINGS	4U

/* The current value of a property. */
uint64_t bh_files_setting(bh_files_t *files, uint32_t which);
/* As bh_files_list(), of the file system's snapshots: the value of each is its number in the pool. */
int bh_files_snapshots(bh_files_t *files, uint64_t cursor, uint8_t *data, uint64_t bytes_max, uint64_t *bytes,
    uint32_t *end);
/* ENOENT: there is none of that name. */
int bh_files_find_snapshot(bh_files_t *files, const char *name, uint64_t *number);
/* The full name of one of the file system's snapshots, for which there is room of 256 bytes; ENOENT: it is not one. */
int bh_files_snapshot_name(bh_files_t *files, uint64_t number, char *name);
/* When the last snapshot was created, renamed or destroyed. */
void bh_files_snapshots_changed(bh_files_t *files, uint64_t *seconds, uint64_t *nanoseconds);

/* Performs steps, all or none. EINVAL, EFBIG, ERANGE, EXDEV and the like: a step is invalid. */
int bh_files_change(bh_files_t *files, const struct bh_step *steps, uint32_t count, uint32_t flags,
    struct bh_changed *out);
/* Punches a hole. In several transactions; a change that logs it must follow. */
int bh_files_free(bh_files_t *files, uint64_t object, uint64_t offset, uint64_t length);
/* Creates the object with receipts, and returns when it is on disk. */
int bh_files_make_receipts(bh_files_t *files, uint64_t *object);
/* Commits all earlier changes. */
int bh_files_commit(bh_files_t *files);
/* Blocks until all earlier changes are in a synced transaction group. */
void bh_files_settle(bh_files_t *files);

/* An entry of a list of quotas. */
struct bh_quota {
	const char *list;	/* its name in the master node */
	const char *key;
	uint64_t limit;	/* 0: the entry is removed */
};

/*
 * Sets quotas, all or none, in one transaction; the first of a list creates the list. bh_files_settle() returns when
 * they are on disk. The caller must exclude concurrent calls.
 */
int bh_files_set_quotas(bh_files_t *files, const struct bh_quota *quotas, uint32_t count);

/* Bits of the result of bh_files_counted(). */
#define	BH_COUNTED_BYTES	1U
#define	BH_COUNTED_OBJECTS	2U
#define	BH_COUNTED_PROJECTS	4U

/* The complete counts of the owners of objects: a file system of an older version might not have them. */
uint32_t bh_files_counted(bh_files_t *files);

/*
 * A record of the intent log, without its common header; for a write, with its bytes. A visitor that does not return 0
 * stops the walk.
 */
typedef int32_t bh_record_visitor_t(void *arg, uint64_t type, const uint8_t *data, uint64_t length);
/* Visits the records that must be replayed. Changes nothing. */
int bh_files_log_walk(bh_files_t *files, bh_record_visitor_t *visit, void *arg);
/*
 * Replays the log: the visitor applies a change for each record. ENOTRECOVERABLE: it could not be replayed completely.
 * The log stays then, and another attempt continues where this one stopped.
 */
int bh_files_log_replay(bh_files_t *files, bh_record_visitor_t *visit, void *arg);

#endif /* BH_SHIM_FILES_H */
