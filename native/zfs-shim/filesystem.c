/*
 * Creates empty file systems that kernel ZFS can mount: for files, as parents of volumes, and the root of a new pool,
 * which the library in user space leaves empty.
 *
 * The contents are those of ZPL version 5 with system attributes: a master node that refers to the root directory, the
 * list of unlinked files and the registry of attributes.
 */
#include "keys.h"
#include "accounting.h"

#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dmu_tx.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/sa.h>
#include <sys/txg.h>
#include <sys/zap.h>
#include <sys/zfs_acl.h>
#include <sys/zfs_sa.h>
#include <sys/zfs_znode.h>
#include <zfs_prop.h>

#include "initial.h"
#include "shim_dataset.h"

/* Mode of the root directory. */
#define	BH_ROOT_MODE	0755ULL
/* The number of initial objects: a directory, lists, and the attributes' registry. */
#define	BH_OBJECTS	8
/* Readable by every user; writable by the owner. */
#define	BH_LOOK		(ACE_LIST_DIRECTORY | ACE_TRAVERSE | \
	ACE_READ_NAMED_ATTRS | ACE_READ_ATTRIBUTES | ACE_READ_ACL | \
	ACE_SYNCHRONIZE)
#define	BH_CHANGE	(ACE_ADD_FILE | ACE_ADD_SUBDIRECTORY | \
	ACE_DELETE_CHILD | ACE_WRITE_NAMED_ATTRS | ACE_WRITE_ATTRIBUTES | \
	ACE_WRITE_ACL | ACE_WRITE_OWNER)
#define	BH_ACE_ENTRIES	3

/* An entry for the owner, the group or everyone, as stored. */
typedef struct bh_ace {
	uint16_t ba_type;
	uint16_t ba_flags;
	uint32_t ba_mask;
} bh_ace_t;

static const bh_ace_t root_access[BH_ACE_ENTRIES] = {
	{ ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_OWNER, BH_LOOK | BH_CHANGE },
	{ ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_GROUP | ACE_IDENTIFIER_GROUP,
	    BH_LOOK },
	{ ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_EVERYONE, BH_LOOK },
};

static const bh_new_root_t plain_root = {
	.bn_mode = BH_ROOT_MODE,
	.bn_access = root_access,
	.bn_access_bytes = sizeof (root_access),
};

/* The attribute layer's callback for a list of variable length. */
static void
locate_access(void **data, uint32_t *length, uint32_t total, boolean_t start,
    void *arg)
{
	const bh_new_root_t *root = arg;

	(void) total, (void) start;
	*data = (void *)root->bn_access;
	*length = (uint32_t)root->bn_access_bytes;
}

static void
fill_root_directory(objset_t *os, const sa_attr_type_t *types, uint64_t folder,
    const bh_new_root_t *root, dmu_tx_t *tx)
{
	inode_timespec_t now;
	uint64_t time[2];
	uint64_t mode = S_IFDIR | root->bn_mode, size = 2, links = 2;
	uint64_t owner = root->bn_owner, group = root->bn_group;
	uint64_t generation = dmu_tx_get_txg(tx);
	uint64_t flags = ZFS_ACL_TRIVIAL | ZFS_ARCHIVE | ZFS_AV_MODIFIED;
	uint64_t entries = root->bn_access_bytes / sizeof (bh_ace_t);
	sa_bulk_attr_t bulk[ZPL_END];
	sa_handle_t *handle;
	int count = 0;

	gethrestime(&now);
	time[0] = now.tv_sec;
	time[1] = now.tv_nsec;
	/* Everybody may pass. */
	if ((mode & 0111) == 0111)
		flags |= ZFS_NO_EXECS_DENIED;
	/* Kernel ZFS expects the order of its own attributes. */
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_MODE], NULL, &mode, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_SIZE], NULL, &size, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_GEN], NULL, &generation, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_UID], NULL, &owner, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_GID], NULL, &group, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_PARENT], NULL, &folder, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_FLAGS], NULL, &flags, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_ATIME], NULL, time, 16);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_MTIME], NULL, time, 16);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_CTIME], NULL, time, 16);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_CRTIME], NULL, time, 16);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_LINKS], NULL, &links, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_DACL_COUNT], NULL, &entries, 8);
	SA_ADD_BULK_ATTR(bulk, count, types[ZPL_DACL_ACES], locate_access,
	    (void *)root, root->bn_access_bytes);

	VERIFY0(sa_handle_get(os, folder, NULL, SA_HDL_PRIVATE, &handle));
	VERIFY0(sa_replace_all_by_template(handle, bulk, count, tx));
	sa_handle_destroy(handle);
}

/* Writes all contents of an empty file system. */
static void
fill(objset_t *os, const bh_new_root_t *root, dmu_tx_t *tx)
{
	const uint64_t master = MASTER_NODE_OBJ;
	uint64_t version = ZPL_VERSION, no = 0, utf8_only = root->bn_utf8_only;
	sa_attr_type_t *types;

	VERIFY0(zap_create_claim(os, master, DMU_OT_MASTER_NODE, DMU_OT_NONE, 0,
	    tx));
	VERIFY0(zap_update(os, master, ZPL_VERSION_STR, 8, 1, &version, tx));
	VERIFY0(zap_update(os, master, "normalization", 8, 1, &no, tx));
	VERIFY0(zap_update(os, master, "utf8only", 8, 1, &utf8_only, tx));
	VERIFY0(zap_update(os, master, "casesensitivity", 8, 1, &no, tx));

	uint64_t attributes = zap_create(os, DMU_OT_SA_MASTER_NODE, DMU_OT_NONE,
	    0, tx);
	VERIFY0(zap_add(os, master, ZFS_SA_ATTRS, 8, 1, &attributes, tx));
	uint64_t unlinked = zap_create(os, DMU_OT_UNLINKED_SET, DMU_OT_NONE, 0,
	    tx);
	VERIFY0(zap_add(os, master, ZFS_UNLINKED_SET, 8, 1, &unlinked, tx));

	VERIFY0(sa_setup(os, attributes, zfs_attr_table, ZPL_END, &types));
	uint64_t folder = zap_create_norm(os, 0, DMU_OT_DIRECTORY_CONTENTS,
	    DMU_OT_SA, DN_BONUS_SIZE(DNODE_MIN_SIZE), tx);
	fill_root_directory(os, types, folder, root, tx);
	VERIFY0(zap_add(os, master, ZFS_ROOT_OBJ, 8, 1, &folder, tx));
}

typedef struct new_filesystem {
	const bh_new_root_t *nf_root;
	bh_initial_t nf_initial;
} new_filesystem_t;

/* Runs while the new dataset is synced. */
static void
fill_new(objset_t *os, void *arg, cred_t *cr, dmu_tx_t *tx)
{
	const new_filesystem_t *new = arg;

	(void) cr;
	fill(os, new->nf_root, tx);
	bh_initial_set(dmu_objset_ds(os), &new->nf_initial, tx);
}

int
bh_filesystem_make(const char *name, const bh_new_root_t *root,
    struct nvlist *properties, const struct bh_new_key *key, char *bad,
    uint64_t bad_size)
{
	new_filesystem_t new = { root, { fnvlist_alloc(), fnvlist_alloc() } };
	dsl_crypto_params_t *params = NULL;

	int error = bh_initial_check(name, ZFS_TYPE_FILESYSTEM, properties, 0,
	    &new.nf_initial, bad, bad_size);
	if (error == 0)
		error = bh_key_params(key, &params);
	/* The library leaves it to the creator of a dataset. */
	if (error == 0 && key != NULL)
		fnvlist_add_string(new.nf_initial.i_properties,
		    zfs_prop_to_name(ZFS_PROP_KEYLOCATION), key->bn_location);
	if (error == 0) {
		error = dmu_objset_create(name, DMU_OST_ZFS, 0, params, fill_new,
		    &new);
		dsl_crypto_params_free(params, error != 0);
	}
	bh_initial_free(&new.nf_initial);
	return (error);
}

int
bh_filesystem_create(const char *name)
{
	nvlist_t *none = fnvlist_alloc();
	char bad[1];

	int error = bh_filesystem_make(name, &plain_root, none, NULL, bad, sizeof (bad));
	nvlist_free(none);
	return (error);
}

/* In one transaction; all objects are new ones. */
static int
fill_open(objset_t *os)
{
	dmu_tx_t *tx = dmu_tx_create(os);

	dmu_tx_hold_bonus(tx, DMU_NEW_OBJECT);
	for (int i = 0; i < BH_OBJECTS; i++)
		dmu_tx_hold_zap(tx, DMU_NEW_OBJECT, TRUE, NULL);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	fill(os, &plain_root, tx);
	dmu_tx_commit(tx);
	txg_wait_synced(dmu_objset_pool(os), 0);
	return (0);
}

int
bh_filesystem_complete(const char *name)
{
	uint64_t version;
	objset_t *os;
	int error = dmu_objset_own(name, DMU_OST_ZFS, B_FALSE, B_TRUE, FTAG,
	    &os);

	if (error != 0)
		return (error);
	if (zap_lookup(os, MASTER_NODE_OBJ, ZPL_VERSION_STR, 8, 1,
	    &version) != 0)
		error = fill_open(os);
	bh_accounting_disown(os, FTAG);
	return (error);
}
