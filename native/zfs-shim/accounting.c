/*
 * Supplies the library with the owner of an object of a file system, so that it counts the usage of users, groups and
 * projects. The library in user space has no such function, because the kernel module registers its own.
 *
 * Without one it would not update the counts of a file system that a kernel has created, and they would be wrong after
 * every change.
 */
#include "internal.h"

#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/sa.h>
#include <sys/sa_impl.h>
#include <sys/zfs_acl.h>
#include <sys/zfs_project.h>
#include <sys/zfs_sa.h>
#include <sys/zfs_znode.h>

#include "accounting.h"

/* A 64-bit field of the attributes, which have fixed offsets after their header. */
static uint64_t
word_at(const uint8_t *attributes, size_t offset, boolean_t swapped)
{
	uint64_t word;

	memcpy(&word, attributes + offset, sizeof (word));
	return (swapped ? BSWAP_64(word) : word);
}

static int
owner_of_system_attributes(const uint8_t *bonus, zfs_file_info_t *info)
{
	sa_hdr_phys_t header;

	memcpy(&header, bonus, sizeof (header));
	/* Created in this transaction group, and not filled in yet. */
	if (header.sa_magic == 0)
		return (0);
	boolean_t swapped = header.sa_magic == BSWAP_32(SA_MAGIC);
	if (!swapped && header.sa_magic != SA_MAGIC)
		return (ENOENT);
	if (swapped)
		header.sa_layout_info = BSWAP_16(header.sa_layout_info);

	size_t bytes = SA_HDR_SIZE((&header));
	/* Every bonus buffer has at least this size. */
	if (bytes < sizeof (header) ||
	    bytes + SA_PROJID_OFFSET + sizeof (uint64_t) > DN_OLD_MAX_BONUSLEN)
		return (ENOENT);
	const uint8_t *attributes = bonus + bytes;
	info->zfi_user = word_at(attributes, SA_UID_OFFSET, swapped);
	info->zfi_group = word_at(attributes, SA_GID_OFFSET, swapped);
	info->zfi_generation = word_at(attributes, SA_GEN_OFFSET, swapped);
	if (word_at(attributes, SA_FLAGS_OFFSET, swapped) & ZFS_PROJID)
		info->zfi_project = word_at(attributes, SA_PROJID_OFFSET, swapped);
	return (0);
}

static int
owner_of(dmu_object_type_t type, const void *bonus, zfs_file_info_t *info)
{
	if (type != DMU_OT_ZNODE && type != DMU_OT_SA)
		return (ENOENT);
	info->zfi_user = 0;
	info->zfi_group = 0;
	info->zfi_generation = 0;
	info->zfi_project = ZFS_DEFAULT_PROJID;
	/* The attributes are not being changed: the owner is the one that the library has stored. */
	if (bonus == NULL)
		return (EEXIST);
	if (type == DMU_OT_SA)
		return (owner_of_system_attributes(bonus, info));

	znode_phys_t old;
	memcpy(&old, bonus, offsetof(znode_phys_t, zp_acl));
	/* The library returns these in the byte order of this host. */
	info->zfi_user = old.zp_uid;
	info->zfi_group = old.zp_gid;
	info->zfi_generation = old.zp_gen;
	return (0);
}

void
bh_accounting_prepare(void)
{
	dmu_objset_register_type(DMU_OST_ZFS, owner_of);
}

/*
 * An open of a file system with incomplete counts causes the library to count the rest in the background, with a hold
 * on the dataset. The library in user space cannot cancel that (its taskq_cancel_id() does nothing): a dataset of a
 * pool that is exported right after that would be evicted while it is held, and the library would abort the process.
 */
void
bh_accounting_disown(objset_t *os, const void *tag)
{
	/* The counts of a snapshot never change. */
	if (!dmu_objset_is_snapshot(os))
		taskq_wait(os->os_spa->spa_upgrade_taskq);
	dmu_objset_disown(os, B_TRUE, tag);
}
