/*
 * Shared by the walks of the dataset tree in user_properties.c and quick_import.c.
 */
#ifndef BH_DIRECTORY_H
#define	BH_DIRECTORY_H

#include "uncached_read.h"

#include <sys/dsl_dir.h>

/* Deepest tree of datasets that is walked; ZFS itself allows 50 (zfs_max_dataset_nesting). */
#define	BH_DEPTH_MAX	64

/* Reads the header of a directory of the dataset tree. */
int bh_directory_read(bh_dnodes_t *dnodes, uint64_t object, dsl_dir_phys_t *out);

/* Whether a list of children has entries. TRUE if in doubt. */
boolean_t bh_may_have_children(bh_dnodes_t *dnodes, uint64_t children);

#endif /* BH_DIRECTORY_H */
