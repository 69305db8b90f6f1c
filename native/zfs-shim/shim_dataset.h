/*
 * Datasets and their properties, as Rust sees them. Functions return 0 or a positive errno;
 * strings are copied before a function returns, and those given to a visitor live as long as
 * its call. Property lists are libnvpair lists: {name: uint64 or string}.
 */
#ifndef BH_SHIM_DATASET_H
#define	BH_SHIM_DATASET_H

#include <stdint.h>

struct nvlist;
struct bh_new_key;

#define	BH_KIND_FILESYSTEM	1U
#define	BH_KIND_VOLUME		2U
#define	BH_KIND_OTHER		3U

/* What a walk visits. Of snapshots alone only the name, the numbers of their creation, and their space are set. */
#define	BH_SNAPSHOTS_SKIPPED	0U
#define	BH_SNAPSHOTS_TOO	1U
#define	BH_SNAPSHOTS_ONLY	2U

/* One dataset or snapshot. Sizes in bytes. */
typedef struct bh_dataset {
	const char *bd_name;
	const char *bd_origin;	/* the snapshot a clone came from, or "" */
	uint64_t bd_guid;
	uint64_t bd_creation_txg;
	uint64_t bd_creation_time_s;
	uint64_t bd_used;
	uint64_t bd_referenced;
	uint64_t bd_available;
	uint64_t bd_logical_referenced;
	uint64_t bd_refreservation;
	/* Except for snapshots: the parts of bd_used, its limits, before compression. */
	uint64_t bd_used_by_data;
	uint64_t bd_used_by_snapshots;
	uint64_t bd_used_by_children;
	uint64_t bd_used_by_reservation;
	uint64_t bd_logical_used;
	uint64_t bd_quota;	/* 0 for none, as the next two */
	uint64_t bd_reservation;
	uint64_t bd_ref_quota;
	uint64_t bd_written;	/* since the snapshot before it */
	uint64_t bd_compress_percent;	/* 100 where nothing was saved */
	uint64_t bd_objects;	/* files, directories and the like, as of the last transaction group */
	uint64_t bd_volume_size;	/* 0 if not a volume */
	uint64_t bd_volume_block_size;
	uint32_t bd_kind;
	uint32_t bd_is_snapshot;
} bh_dataset_t;

typedef void bh_dataset_visitor_t(void *arg, const bh_dataset_t *dataset);
/* `property` may end in one of ZFS's suffixes $recvd, $inherit, $iuv. */
typedef void bh_property_visitor_t(void *arg, const char *dataset,
    const char *property, const char *value);

int bh_dataset_stat(const char *name, bh_dataset_visitor_t *visit, void *arg);
/* Visits `name` and all its descendants, or `snapshots` of them. */
int bh_dataset_walk(const char *name, uint32_t snapshots,
    bh_dataset_visitor_t *visit, void *arg);
/*
 * Visits every text property that starts with `prefix` and is set on a dataset of the pool itself. Reads little per
 * dataset and opens none. An overridden received value is visited, too: its name with a suffix, and no text.
 */
int bh_user_properties(const char *pool, const char *prefix,
    bh_property_visitor_t *visit, void *arg);

/* Visits those of one dataset; no snapshot. */
int bh_own_user_properties(const char *name, const char *prefix,
    bh_property_visitor_t *visit, void *arg);

/* All properties in effect: {name: {value, source}}; the caller frees the list. */
int bh_dataset_properties(const char *name, struct nvlist **out);
/*
 * Sets properties that may be changed at any time. Values of properties with named values may
 * be text. On an error `bad` (of `bad_size` bytes) names the property, or is empty.
 */
int bh_dataset_set(const char *name, struct nvlist *properties, char *bad,
    uint64_t bad_size);
/*
 * Changes user properties of datasets of one pool, all at once or none: {dataset: {"set": {name: text}, "removed":
 * {name}}}. Removing an unset property is no error. `bad` as above.
 */
int bh_properties_edit(const char *pool, struct nvlist *datasets, char *bad,
    uint64_t bad_size);
/* Reverts a property to its inherited value. */
int bh_dataset_inherit(const char *name, const char *property);

/* The name of one of a native property's named values, else NULL. A constant. */
const char *bh_property_text(const char *property, uint64_t value);
/* The values of a native property as text for people, else NULL. A constant. */
const char *bh_property_values(const char *property);

/* The root directory of a new file system, and its properties that are fixed at creation. */
typedef struct bh_new_root {
	uint64_t bn_owner;
	uint64_t bn_group;
	uint64_t bn_mode;	/* permissions only */
	const void *bn_access;	/* its access control list: entries of 8 bytes */
	uint64_t bn_access_bytes;
	uint64_t bn_utf8_only;	/* names have to be UTF-8 */
} bh_new_root_t;

/* An empty file system that kernel ZFS can mount, like the parents of volumes. */
int bh_filesystem_create(const char *name);
/*
 * The same with a specified root directory. Properties, `key` and `bad` are those of bh_volume_create().
 */
int bh_filesystem_make(const char *name, const bh_new_root_t *root,
    struct nvlist *properties, const struct bh_new_key *key, char *bad,
    uint64_t bad_size);
/*
 * Adds the contents to the root file system of a new pool that the library omits in user space, so that kernel ZFS can
 * mount it. Does nothing if they exist.
 */
int bh_filesystem_complete(const char *name);
/*
 * Creates a volume with `properties`, which are checked as by bh_dataset_set() and set in the transaction that creates
 * it. Without its own `key` it inherits from its parent: plain, or encrypted with the parent's.
 */
int bh_volume_create(const char *name, uint64_t size, uint64_t block_size,
    struct nvlist *properties, const struct bh_new_key *key, char *bad,
    uint64_t bad_size);
/* Bytes to reserve so that every block of a volume can be written. */
int bh_volume_reservation(const char *pool, uint64_t size, uint64_t block_size,
    uint64_t copies, uint64_t *out);

int bh_dataset_destroy(const char *name);
/* `names` is {snapshot: boolean}: all or none. */
int bh_snapshots_destroy(struct nvlist *names);
/* `names` is {snapshot: boolean}, of one pool: all in one transaction group, or none. */
int bh_snapshots_create(struct nvlist *names, struct nvlist *properties);
/*
 * Adds the holds {snapshot: tag}, all or none; EEXIST if a snapshot has one of that name.
 */
int bh_snapshots_hold(struct nvlist *holds);
/* Removes the holds {snapshot: {tag: boolean}}, all or none; ESRCH if a snapshot does not have one. */
int bh_snapshots_release(struct nvlist *holds);
/* The holds of a snapshot: {tag: seconds since 1970}. The caller frees the list. */
int bh_snapshot_holds(const char *name, struct nvlist **out);
/*
 * Called for a range of a volume that was written, or freed, in ascending order, and with a length of 0 for metadata that
 * was read. It ends the comparison with EINTR by a result other than 0.
 */
typedef int32_t bh_change_visitor_t(void *arg, uint64_t offset, uint64_t length,
    int32_t freed);
/* The changes of a volume from one of its snapshots to a later one; EXDEV if they are not in that order. */
int bh_snapshot_changes(const char *from, const char *to,
    bh_change_visitor_t *visit, void *arg);
int bh_dataset_rename(const char *from, const char *to);
int bh_snapshot_rename(const char *dataset, const char *from, const char *to);
/* `properties` and `bad` are those of bh_volume_create(). */
int bh_dataset_clone(const char *name, const char *snapshot,
    struct nvlist *properties, char *bad, uint64_t bad_size);
/* On EEXIST `conflict` (256 bytes) has the name of the common snapshot. */
int bh_dataset_promote(const char *name, char *conflict);
/* Rolls a dataset that is not open back to its newest snapshot. */
int bh_dataset_rollback(const char *name, const char *snapshot);

/* Data that is damaged beyond repair (damage.c). */
typedef struct bh_damage {
	const char *bd_dataset;	/* "" for the pool's own metadata, and for what is gone */
	uint64_t bd_offset;	/* the extent of a volume; */
	uint64_t bd_length;	/* 0 where it is no known extent of one */
	uint64_t bd_birth_txg;	/* when the block was written; 0 if that is not known */
} bh_damage_t;

typedef void bh_damage_visitor_t(void *arg, const bh_damage_t *damage);
/* Visits the first `max` damaged ranges that the pool has recorded. Reads the pool. */
int32_t bh_pool_damage(const char *name, uint32_t max, bh_damage_visitor_t *visit, void *arg);

#endif /* BH_SHIM_DATASET_H */
