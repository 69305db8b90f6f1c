/*
 * What the walks of the dataset tree in dataset.c and quick_import.c share.
 */
#ifndef BH_DIRECTORY_H
#define	BH_DIRECTORY_H

#include "internal.h"

#include <sys/dmu_objset.h>

/* Deepest tree of datasets that is walked; ZFS itself allows 50 (zfs_max_dataset_nesting). */
#define	BH_DEPTH_MAX	64

/* Whether a list of children has entries. TRUE if in doubt. */
boolean_t bh_may_have_children(objset_t *mos, uint64_t children);

#endif /* BH_DIRECTORY_H */
