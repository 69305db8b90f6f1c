/*
 * Quotas of users, groups and projects: each kind has a list, to which the master node refers once it has an entry.
 * As in a kernel, they are not in the intent log: a change is in one transaction group, or lost.
 */
#include "files_impl.h"

/* More than one request has. */
#define	BH_QUOTAS_MAX	64

/* The list that an entry belongs to; 0: there is none yet. */
static int
find_list(objset_t *os, const char *name, uint64_t *list)
{
	dmu_object_info_t info;

	*list = 0;
	int error = zap_lookup(os, MASTER_NODE_OBJ, name, 8, 1, list);
	if (error == ENOENT)
		return (0);
	if (error == 0 && (*list == 0 || *list >= DN_MAX_OBJECT))
		error = EIO;
	if (error == 0)
		error = dmu_object_info(os, *list, &info);
	/* The library would abort for an object that is no list. */
	if (error == 0 && info.doi_type != DMU_OT_USERGROUP_QUOTA)
		error = EIO;
	return (error == ENOENT ? EIO : error);
}

/* Whether the entry is there. A damaged list is found here, before the transaction. */
static int
find_entry(objset_t *os, uint64_t list, const char *key, boolean_t *is_there)
{
	uint64_t limit;
	int error = zap_lookup(os, list, key, 8, 1, &limit);

	*is_there = error == 0;
	return (error == ENOENT ? 0 : error);
}

static int
hold_quota(objset_t *os, const struct bh_quota *quota, dmu_tx_t *tx)
{
	boolean_t is_there;
	uint64_t list;

	int error = find_list(os, quota->list, &list);
	if (error != 0)
		return (error);
	if (list == 0) {
		dmu_tx_hold_zap(tx, DMU_NEW_OBJECT, B_TRUE, NULL);
		dmu_tx_hold_zap(tx, MASTER_NODE_OBJ, B_TRUE, quota->list);
		return (0);
	}
	error = find_entry(os, list, quota->key, &is_there);
	if (error == 0)
		dmu_tx_hold_zap(tx, list, B_TRUE, quota->key);
	return (error);
}

/* All reads have succeeded before, in hold_quota(). */
static void
set_quota(objset_t *os, const struct bh_quota *quota, dmu_tx_t *tx)
{
	uint64_t list = 0;

	int error = zap_lookup(os, MASTER_NODE_OBJ, quota->list, 8, 1, &list);
	VERIFY(error == 0 || error == ENOENT);
	if (quota->limit == 0) {
		error = list == 0 ? ENOENT : zap_remove(os, list, quota->key, tx);
		VERIFY(error == 0 || error == ENOENT);
		return;
	}
	if (list == 0) {
		list = zap_create(os, DMU_OT_USERGROUP_QUOTA, DMU_OT_NONE, 0, tx);
		VERIFY0(zap_add(os, MASTER_NODE_OBJ, quota->list, 8, 1, &list, tx));
	}
	VERIFY0(zap_update(os, list, quota->key, 8, 1, &quota->limit, tx));
}

int
bh_files_set_quotas(bh_files_t *files, const struct bh_quota *quotas,
    uint32_t count)
{
	objset_t *os = files->bf_os;
	int error = 0;

	if (files->bf_read_only)
		return (EROFS);
	if (count == 0 || count > BH_QUOTAS_MAX)
		return (EINVAL);
	dmu_tx_t *tx = dmu_tx_create(os);
	for (uint32_t i = 0; i < count && error == 0; i++)
		error = hold_quota(os, &quotas[i], tx);
	if (error == 0)
		error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	for (uint32_t i = 0; i < count; i++)
		set_quota(os, &quotas[i], tx);
	dmu_tx_commit(tx);
	return (0);
}

uint32_t
bh_files_counted(bh_files_t *files)
{
	objset_t *os = files->bf_os;
	uint32_t counted = 0;

	if (dmu_objset_userspace_present(os))
		counted |= BH_COUNTED_BYTES;
	if (dmu_objset_userobjspace_present(os))
		counted |= BH_COUNTED_OBJECTS;
	if (dmu_objset_projectquota_present(os))
		counted |= BH_COUNTED_PROJECTS;
	return (counted);
}
