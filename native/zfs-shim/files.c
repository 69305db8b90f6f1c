/*
 * A file system's objects: opening and closing it, attributes, directories, contents. files_change.c changes them.
 */
#include "files_impl.h"
#include "accounting.h"

#include <sys/dsl_dataset.h>
#include <sys/dsl_prop.h>
#include <sys/txg.h>
#include <sys/zap_impl.h>
#include <zfs_prop.h>

#include <stdlib.h>

#include "volume_impl.h"

/* Reads a number of the master node; a missing one is 0. */
static int
master_number(objset_t *os, const char *name, uint64_t *out)
{
	*out = 0;
	int error = zap_lookup(os, MASTER_NODE_OBJ, name, 8, 1, out);
	return (error == ENOENT ? 0 : error);
}

static int
read_facts(bh_files_t *files, const char *name, struct bh_files_facts *facts)
{
	objset_t *os = files->bf_os;
	const struct { const char *name; uint64_t *to; } numbers[] = {
		{ ZPL_VERSION_STR, &facts->version },
		{ ZFS_ROOT_OBJ, &facts->root },
		{ ZFS_UNLINKED_SET, &facts->unlinked },
		{ BH_RECEIPTS, &facts->receipts },
		{ "normalization", &facts->normalization },
		{ "utf8only", &facts->utf8only },
		{ "casesensitivity", &facts->casesensitivity },
		{ ZFS_SA_ATTRS, &facts->system_attributes },
	};
	int error = 0;

	memset(facts, 0, sizeof (*facts));
	for (size_t i = 0; i < sizeof (numbers) / sizeof (numbers[0]) && error == 0; i++)
		error = master_number(os, numbers[i].name, numbers[i].to);
	if (error == 0)
		error = dsl_prop_get_integer(name, zfs_prop_to_name(ZFS_PROP_ACLTYPE),
		    &facts->acltype, NULL);
	if (error != 0)
		return (error);
	facts->identity = dmu_objset_fsid_guid(os);
	facts->objset = dmu_objset_id(os);
	return (0);
}

static int
set_up(bh_files_t *files, const char *name, uint32_t read_only,
    struct bh_files_facts *facts)
{
	objset_t *os = files->bf_os;
	uint64_t property = 0;

	int error = read_facts(files, name, facts);
	if (error == 0)
		error = dsl_prop_get_integer(name, "readonly", &property, NULL);
	if (error == 0 && facts->system_attributes != 0)
		error = sa_setup(os, facts->system_attributes, zfs_attr_table,
		    ZPL_END, &files->bf_types);
	if (error == 0)
		error = bh_files_watch_settings(files);
	if (error != 0)
		return (error);
	files->bf_unlinked = facts->unlinked;
	boolean_t writable = !dmu_objset_is_snapshot(os) &&
	    spa_writeable(os->os_spa) && read_only == 0;
	files->bf_read_only = !writable || property != 0;
	facts->read_only = files->bf_read_only;
	facts->fixed = !writable;
	const zil_header_t *header = dmu_objset_zil(os)->zl_header;
	if (!dmu_objset_is_snapshot(os) && !BP_IS_HOLE(&header->zh_log)) {
		facts->log_waits = (header->zh_flags & ZIL_REPLAY_NEEDED) != 0;
		facts->log_is_foreign = BP_SHOULD_BYTESWAP(&header->zh_log);
	}
	files->bf_replays = writable && facts->log_waits != 0;
	return (0);
}

int
bh_files_open(const char *name, uint32_t read_only, bh_files_t **out,
    struct bh_files_facts *facts)
{
	bh_files_t *files = calloc(1, sizeof (*files));

	if (files == NULL)
		return (ENOMEM);
	boolean_t is_fixed = read_only != 0 || strchr(name, '@') != NULL;
	int error = dmu_objset_own(name, DMU_OST_ZFS, is_fixed, B_TRUE, files,
	    &files->bf_os);
	if (error != 0) {
		free(files);
		return (error);
	}
	rw_init(&files->bf_attributes, NULL, RW_DEFAULT, NULL);
	mutex_init(&files->bf_pending.bp_mutex, NULL, MUTEX_DEFAULT, NULL);
	error = set_up(files, name, read_only, facts);
	if (error != 0) {
		bh_files_close(files);
		return (error);
	}
	*out = files;
	return (0);
}

void
bh_files_close(bh_files_t *files)
{
	if (files->bf_log != NULL) {
		bh_wait_until_written(dmu_objset_pool(files->bf_os));
		/* Commits that wait for this are completed. */
		bh_given_up_await(files->bf_os->os_spa);
		bh_log_close(files->bf_log);
	}
	bh_files_forget_settings(files);
	bh_accounting_disown(files->bf_os, files);
	mutex_destroy(&files->bf_pending.bp_mutex);
	rw_destroy(&files->bf_attributes);
	free(files);
}

/* Objects of other types have numbers, too: ZAPs, quotas, and internal ones of the library. */
int
bh_files_bonus(bh_files_t *files, uint64_t object, dmu_buf_t **out)
{
	dmu_object_info_t info;

	if (object == 0 || object >= DN_MAX_OBJECT)
		return (ENOENT);
	int error = dmu_bonus_hold(files->bf_os, object, files, out);
	if (error != 0)
		return (error == EEXIST || error == EINVAL ? ENOENT : error);
	dmu_object_info_from_db(*out, &info);
	if (info.doi_bonus_type != DMU_OT_SA ||
	    (info.doi_type != DMU_OT_PLAIN_FILE_CONTENTS &&
	    info.doi_type != DMU_OT_DIRECTORY_CONTENTS)) {
		dmu_buf_rele(*out, files);
		return (ENOENT);
	}
	return (0);
}

/*
 * The handle has its own hold on the buffer: the hold that sa_handle_get would acquire by the object's number is added
 * to the caller's.
 */
int
bh_files_handle(bh_files_t *files, dmu_buf_t *bonus, sa_handle_t **out)
{
	dmu_buf_add_ref(bonus, NULL);
	int error = sa_handle_get_from_db(files->bf_os, bonus, NULL,
	    SA_HDL_PRIVATE, out);
	if (error != 0)
		sa_handle_destroy(*out);
	return (error);
}

/* In the kernel's order. Attributes that are read without the layout come first. */
const bh_attribute_t bh_node_attributes[BH_NODE_ATTRIBUTES] = {
	{ ZPL_MODE, offsetof(struct bh_node, mode), 8, BH_HAS_MODE },
	{ ZPL_SIZE, offsetof(struct bh_node, size), 8, BH_HAS_SIZE },
	{ ZPL_GEN, offsetof(struct bh_node, generation), 8, BH_HAS_GENERATION },
	{ ZPL_UID, offsetof(struct bh_node, uid), 8, BH_HAS_UID },
	{ ZPL_GID, offsetof(struct bh_node, gid), 8, BH_HAS_GID },
	{ ZPL_PARENT, offsetof(struct bh_node, parent), 8, BH_HAS_PARENT },
	{ ZPL_FLAGS, offsetof(struct bh_node, flags), 8, BH_HAS_FLAGS },
	{ ZPL_ATIME, offsetof(struct bh_node, atime_s), 16, BH_HAS_ATIME },
	{ ZPL_MTIME, offsetof(struct bh_node, mtime_s), 16, BH_HAS_MTIME },
	{ ZPL_CTIME, offsetof(struct bh_node, ctime_s), 16, BH_HAS_CTIME },
	{ ZPL_CRTIME, offsetof(struct bh_node, crtime_s), 16, BH_HAS_CRTIME },
	{ ZPL_LINKS, offsetof(struct bh_node, links), 8, BH_HAS_LINKS },
	{ ZPL_PROJID, offsetof(struct bh_node, project), 8, BH_HAS_PROJECT },
	{ ZPL_RDEV, offsetof(struct bh_node, device), 8, BH_HAS_DEVICE },
	{ ZPL_XATTR, offsetof(struct bh_node, extended), 8, BH_HAS_EXTENDED },
};

int
bh_files_attributes(bh_files_t *files, sa_handle_t *handle, struct bh_node *out)
{
	for (size_t i = 0; i < BH_NODE_ATTRIBUTES; i++) {
		const bh_attribute_t *one = &bh_node_attributes[i];
		int error = sa_lookup(handle, files->bf_types[one->ba_attribute],
		    bh_attribute_in(out, one), one->ba_bytes);
		if (error == 0)
			out->has |= one->ba_has;
		else if (error != ENOENT)
			return (error);
	}
	return (0);
}

static uint64_t
last_block(dmu_buf_t *bonus)
{
	dmu_buf_impl_t *db = (dmu_buf_impl_t *)bonus;

	DB_DNODE_ENTER(db);
	dnode_t *dnode = DB_DNODE(db);
	rw_enter(&dnode->dn_struct_rwlock, RW_READER);
	uint64_t last = dnode->dn_maxblkid;
	rw_exit(&dnode->dn_struct_rwlock);
	DB_DNODE_EXIT(db);
	return (last);
}

int
bh_files_node(bh_files_t *files, uint64_t object, struct bh_node *out)
{
	dmu_object_info_t info;
	sa_handle_t *handle;
	dmu_buf_t *bonus;

	int error = bh_files_bonus(files, object, &bonus);
	if (error != 0)
		return (error);
	memset(out, 0, sizeof (*out));
	rw_enter(&files->bf_attributes, RW_READER);
	error = bh_files_handle(files, bonus, &handle);
	if (error == 0) {
		error = bh_files_attributes(files, handle, out);
		sa_handle_destroy(handle);
	}
	rw_exit(&files->bf_attributes);
	dmu_object_info_from_db(bonus, &info);
	out->block_size = info.doi_data_block_size;
	out->space = info.doi_physical_blocks_512 << SPA_MINBLOCKSHIFT;
	out->slots = info.doi_dnodesize >> DNODE_SHIFT;
	out->last_block = last_block(bonus);
	dmu_buf_rele(bonus, files);
	return (error);
}

int
bh_files_text(bh_files_t *files, uint64_t object, uint32_t which, uint8_t *data,
    uint64_t *length)
{
	static const zpl_attr_t attributes[] = {
		[BH_TEXT_LINK] = ZPL_SYMLINK, [BH_TEXT_ACL] = ZPL_DACL_ACES,
		[BH_TEXT_EXTENDED] = ZPL_DXATTR,
	};
	sa_handle_t *handle;
	dmu_buf_t *bonus;
	int size = 0;

	if (which >= sizeof (attributes) / sizeof (attributes[0]))
		return (EINVAL);
	int error = bh_files_bonus(files, object, &bonus);
	if (error != 0)
		return (error);
	rw_enter(&files->bf_attributes, RW_READER);
	error = bh_files_handle(files, bonus, &handle);
	if (error == 0) {
		error = sa_size(handle, files->bf_types[attributes[which]],
		    &size);
		if (error == 0 && size > *length)
			error = ERANGE;
		if (error == 0)
			error = sa_lookup(handle, files->bf_types[attributes[which]],
			    data, size);
		sa_handle_destroy(handle);
	}
	rw_exit(&files->bf_attributes);
	dmu_buf_rele(bonus, files);
	*length = size;
	return (error);
}

int
bh_files_look_up(bh_files_t *files, uint64_t directory, const char *name,
    uint64_t *value)
{
	return (zap_lookup(files->bf_os, directory, name, 8, 1, value));
}

/* Puts one entry into the buffer; FALSE if it does not fit. */
static boolean_t
put_entry(uint8_t *data, uint64_t bytes_max, uint64_t *bytes, uint64_t cursor,
    const zap_attribute_t *found)
{
	struct bh_entry entry = { cursor, found->za_first_integer,
	    strlen(found->za_name) };
	uint64_t padded = P2ROUNDUP(entry.name_length, 8);

	if (bytes_max - *bytes < sizeof (entry) + padded)
		return (B_FALSE);
	memcpy(data + *bytes, &entry, sizeof (entry));
	memcpy(data + *bytes + sizeof (entry), found->za_name, entry.name_length);
	*bytes += sizeof (entry) + padded;
	return (B_TRUE);
}

int
bh_list_entries(objset_t *os, uint64_t list, uint64_t cursor, uint8_t *data,
    uint64_t bytes_max, uint64_t *bytes, uint32_t *end)
{
	zap_attribute_t *found = zap_attribute_long_alloc();
	zap_cursor_t at;
	int error;

	*bytes = 0;
	*end = 0;
	zap_cursor_init_serialized(&at, os, list, cursor);
	while ((error = zap_cursor_retrieve(&at, found)) == 0) {
		if (found->za_integer_length != 8 || found->za_num_integers != 1) {
			error = EIO;
			break;
		}
		zap_cursor_advance(&at);
		if (!put_entry(data, bytes_max, bytes, zap_cursor_serialize(&at),
		    found))
			break;
	}
	zap_cursor_fini(&at);
	zap_attribute_free(found);
	if (error == ENOENT) {
		*end = 1;
		error = 0;
	}
	return (error);
}

int
bh_files_list(bh_files_t *files, uint64_t directory, uint64_t cursor,
    uint8_t *data, uint64_t bytes_max, uint64_t *bytes, uint32_t *end)
{
	return (bh_list_entries(files->bf_os, directory, cursor, data, bytes_max,
	    bytes, end));
}

int
bh_files_count(bh_files_t *files, uint64_t directory, uint64_t *count)
{
	return (zap_count(files->bf_os, directory, count));
}

int
bh_files_read(bh_files_t *files, uint64_t object, uint64_t offset, uint8_t *data,
    uint64_t length)
{
	return (dmu_read(files->bf_os, object, offset, length, data,
	    DMU_READ_PREFETCH));
}

struct bh_files_loan {
	bh_files_t *bfl_files;
	dmu_buf_t **bfl_blocks;
	int bfl_count;
	bh_part_t bfl_parts[];
};

/* The requested field of each block. */
static void
list_parts(bh_files_loan_t *loan, uint64_t offset, uint64_t length)
{
	for (int i = 0; i < loan->bfl_count; i++) {
		const dmu_buf_t *block = loan->bfl_blocks[i];
		uint64_t within = offset - block->db_offset;
		uint64_t bytes = MIN(block->db_size - within, length);
		loan->bfl_parts[i].bp_data = (uint8_t *)block->db_data + within;
		loan->bfl_parts[i].bp_length = bytes;
		offset += bytes;
		length -= bytes;
	}
	VERIFY0(length);
}

int
bh_files_lend(bh_files_t *files, uint64_t object, uint64_t offset,
    uint64_t length, bh_files_loan_t **out)
{
	dmu_buf_t **blocks = NULL;
	dnode_t *dn;
	int count = 0;

	if (length == 0 || length > BH_LOAN_BYTES_MAX || offset > INT64_MAX)
		return (EINVAL);
	int error = dnode_hold(files->bf_os, object, FTAG, &dn);
	if (error != 0)
		return (error);
	/* After a single block, which may have any size, there are only zeros. */
	if (dn->dn_maxblkid == 0 && offset + length > dn->dn_datablksz)
		error = ENOTSUP;
	else
		error = dmu_buf_hold_array_by_dnode(dn, offset, length, B_TRUE,
		    files, &count, &blocks, DMU_READ_PREFETCH);
	dnode_rele(dn, FTAG);
	if (error != 0)
		return (error);
	bh_files_loan_t *loan = malloc(sizeof (*loan) +
	    count * sizeof (bh_part_t));
	if (loan == NULL) {
		dmu_buf_rele_array(blocks, count, files);
		return (ENOMEM);
	}
	loan->bfl_files = files;
	loan->bfl_blocks = blocks;
	loan->bfl_count = count;
	list_parts(loan, offset, length);
	*out = loan;
	return (0);
}

const bh_part_t *
bh_files_loan_parts(const bh_files_loan_t *loan, uint64_t *count)
{
	*count = loan->bfl_count;
	return (loan->bfl_parts);
}

void
bh_files_loan_release(bh_files_loan_t *loan)
{
	dmu_buf_rele_array(loan->bfl_blocks, loan->bfl_count, loan->bfl_files);
	free(loan);
}

/* Blocks until the blocks of an object are on disk, and locks its block tree. EBUSY: it is being changed all the
 * time. */
static int
lock_written(dnode_t *dnode)
{
	for (int attempt = 0; attempt < 2; attempt++) {
		rw_enter(&dnode->dn_struct_rwlock, RW_READER);
		if (!dnode_is_dirty(dnode))
			return (0);
		rw_exit(&dnode->dn_struct_rwlock);
		if (attempt == 0)
			bh_wait_until_written(dmu_objset_pool(dnode->dn_objset));
	}
	return (EBUSY);
}

int
bh_files_next(bh_files_t *files, uint64_t object, uint32_t hole,
    uint64_t *offset)
{
	dnode_t *dnode;
	int error = dnode_hold(files->bf_os, object, files, &dnode);

	if (error != 0)
		return (error);
	error = *offset >= bh_blocks_end(dnode) ? ENXIO : lock_written(dnode);
	if (error == 0) {
		error = bh_next_offset(dnode, hole != 0, offset);
		rw_exit(&dnode->dn_struct_rwlock);
	} else if (error == ENXIO) {
		/* After all blocks, on disk or in memory. */
		error = hole != 0 ? 0 : ENXIO;
	} else {
		/* Unknown: all of it counts as data. */
		error = hole != 0 ? ENXIO : 0;
	}
	dnode_rele(dnode, files);
	return (error == ESRCH ? ENXIO : error);
}

int
bh_files_next_object(bh_files_t *files, uint64_t *object)
{
	/* The library counts bytes of the dnode object. */
	if (*object >= DN_MAX_OBJECT)
		return (ENOENT);
	int error = dmu_object_next(files->bf_os, object, B_FALSE, 0);
	return (error == ESRCH ? ENOENT : error);
}

void
bh_files_space(bh_files_t *files, uint64_t *used, uint64_t *available,
    uint64_t *objects, uint64_t *objects_available)
{
	dmu_objset_space(files->bf_os, used, available, objects,
	    objects_available);
}

uint64_t
bh_files_record_size(bh_files_t *files)
{
	return (__atomic_load_n(&files->bf_os->os_recordsize, __ATOMIC_RELAXED));
}

void
bh_files_settle(bh_files_t *files)
{
	bh_wait_until_written(dmu_objset_pool(files->bf_os));
}
