/*
 * The preconditions of a change's steps. The library assumes them, and aborts the process otherwise, so each step is
 * checked before the transaction begins. A step that fails here is refused, and so is the whole change.
 *
 * Most of these steps never result from a client's request. They can result from an intent log of another system, and
 * from a damaged file system.
 */
#include "files_impl.h"
#include "volume_impl.h"

/* Bytes that one transaction may write: half of the library's limit. */
#define	BH_WRITE_BYTES_MAX	(DMU_MAX_ACCESS / 2)
/* Maximum size of all variable attributes of one object: a spill block, less headers and attributes of fixed length. */
#define	BH_TEXTS_BYTES_MAX	(SPA_OLD_MAXBLOCKSIZE - 4096)
/* Of one attribute: the library has 16 bits for it. */
#define	BH_TEXT_BYTES_MAX	UINT16_MAX

/* The library aborts where a hole reaches indirect blocks after the last block; there is nothing to free in that
 * range. */
uint64_t
bh_files_hole_bytes(dnode_t *dnode, const struct bh_step *step)
{
	uint64_t end = bh_blocks_end(dnode);

	if (step->value >= end)
		return (0);
	uint64_t bytes = end - step->value;
	return (step->length == 0 ? bytes : MIN(bytes, step->length));
}

int
bh_files_hold_contents(bh_files_t *files, uint64_t object, const void *tag, dnode_t **out)
{
	/* Higher numbers identify the library's accounting objects. */
	if (object >= DN_MAX_OBJECT)
		return (ENOENT);
	int error = dnode_hold(files->bf_os, object, tag, out);
	if (error != 0)
		return (error);
	/* The object with receipts is of the other type. Bytes in a directory, or in a ZAP, would destroy it. */
	if ((*out)->dn_type == DMU_OT_PLAIN_FILE_CONTENTS ||
	    (*out)->dn_type == DMU_OTN_UINT8_METADATA)
		return (0);
	dnode_rele(*out, tag);
	*out = NULL;
	return (EINVAL);
}

/* A block with a size that is not a power of two is the only one of its file. */
int
bh_files_check_write(bh_files_t *files, dnode_t *dnode, const struct bh_step *step)
{
	uint64_t offset = step->value, length = step->length;

	if (length > BH_WRITE_BYTES_MAX || offset > INT64_MAX)
		return (EFBIG);
	if (step->block_size > spa_maxblocksize(files->bf_os->os_spa))
		return (EINVAL);
	uint64_t block = dnode->dn_datablksz;
	/* If it cannot grow, it is unchanged. */
	if (step->block_size != 0 && dnode->dn_maxblkid == 0)
		block = P2ROUNDUP(step->block_size, (uint64_t)SPA_MINBLOCKSIZE);
	return (length != 0 && !ISP2(block) && offset + length > block ? EFBIG : 0);
}

boolean_t
bh_files_has_blocks(const dnode_t *dnode, uint64_t offset, uint64_t length, uint64_t count)
{
	uint64_t block = dnode->dn_datablksz;

	if (dnode->dn_datablkshift == 0 && offset + length > block)
		return (B_FALSE);
	return (count == (offset + length + block - 1) / block - offset / block);
}

int
bh_files_check_clone(bh_files_t *files, const struct bh_step *step)
{
	uint64_t offset = step->value, length = step->node->size;
	uint64_t block_max = spa_maxblocksize(files->bf_os->os_spa);

	if (length == 0 || offset > INT64_MAX || length > INT64_MAX - offset ||
	    step->length % sizeof (blkptr_t) != 0 || step->block_size > block_max)
		return (EINVAL);
	/* Each pointer is of one block. The transaction has a hold for each part of the range. */
	if ((length - 1) / block_max >= step->length / sizeof (blkptr_t))
		return (EINVAL);
	return (bh_may_be_cloned(files->bf_os->os_spa, (const blkptr_t *)step->data,
	    step->length / sizeof (blkptr_t)) ? 0 : EINVAL);
}

/* A new object. */
int
bh_files_check_new(bh_files_t *files, const struct bh_step *step)
{
	uint64_t link = step->name == NULL ? 0 : strlen(step->name);

	if (step->object >= DN_MAX_OBJECT ||
	    step->block_size > spa_maxblocksize(files->bf_os->os_spa))
		return (EINVAL);
	if (link > BH_TEXT_BYTES_MAX || step->length > BH_TEXT_BYTES_MAX ||
	    link + step->length > BH_TEXTS_BYTES_MAX)
		return (ERANGE);
	return (0);
}

/* A variable attribute replaces the object's previous value. */
int
bh_files_check_text(bh_files_t *files, sa_handle_t *handle, zpl_attr_t which, uint64_t length)
{
	static const zpl_attr_t texts[] = {
		ZPL_SYMLINK, ZPL_DACL_ACES, ZPL_DXATTR, ZPL_SCANSTAMP,
	};
	uint64_t bytes = length;

	if (length > BH_TEXT_BYTES_MAX)
		return (ERANGE);
	for (size_t i = 0; i < sizeof (texts) / sizeof (texts[0]); i++) {
		int size = 0;

		if (texts[i] == which)
			continue;
		int error = sa_size(handle, files->bf_types[texts[i]], &size);
		if (error != 0 && error != ENOENT)
			return (error);
		bytes += size;
	}
	return (bytes > BH_TEXTS_BYTES_MAX ? ERANGE : 0);
}

static int
check_directory(bh_files_t *files, uint64_t directory)
{
	dmu_object_info_t info;

	if (directory >= DN_MAX_OBJECT)
		return (ENOENT);
	int error = dmu_object_info(files->bf_os, directory, &info);
	if (error != 0)
		return (error);
	return (info.doi_type == DMU_OT_DIRECTORY_CONTENTS ? 0 : ENOTDIR);
}

int
bh_files_check_name(bh_files_t *files, const struct bh_step *step)
{
	uint64_t value;
	size_t length = strlen(step->name);
	int error = check_directory(files, step->object);

	if (error != 0)
		return (error);
	if (length == 0 || length >= ZAP_MAXNAMELEN)
		return (length == 0 ? EINVAL : ENAMETOOLONG);
	if (step->kind == BH_STEP_ENTER)
		return (0);
	return (zap_lookup(files->bf_os, step->object, step->name, 8, 1, &value));
}

/* It is on the list of unlinked objects, or not: each step must change that. */
int
bh_files_check_unlinked(bh_files_t *files, const struct bh_step *step)
{
	int error = zap_lookup_int(files->bf_os, files->bf_unlinked, step->object);

	if (step->kind == BH_STEP_FORGET)
		return (error);
	return (error == 0 ? EEXIST : error == ENOENT ? 0 : error);
}
