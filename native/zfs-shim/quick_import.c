/*
 * Opens a pool of a thousand volumes about as fast as one of a single volume.
 *
 * While it opens a pool, the library visits every dataset three times: to check its intent log,
 * to claim that log's blocks, and to destroy it if a receive left it half-made. Each visit opens
 * the dataset completely, some hundred property lookups (0.7 ms of CPU a volume and visit). Here
 * the visits first look at the few bytes that decide whether there is anything to do, and go on
 * to the library's own functions only if there is.
 */
#include "internal.h"

#include <sys/arc.h>
#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_destroy.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/zil.h>

#include <dlfcn.h>

/* The definition that ours comes before. */
static void *
library_function(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	VERIFY3P(function, !=, NULL);
	return (function);
}

/*
 * Whether a dataset's header names no log block. FALSE also where only the library itself can
 * tell: encrypted, of the other byte order, unreadable, or open.
 */
static boolean_t
has_no_log(dsl_dataset_t *ds)
{
	arc_flags_t flags = ARC_FLAG_WAIT;
	zbookmark_phys_t bookmark;
	arc_buf_t *buffer;

	if (ds->ds_objset != NULL)
		return (B_FALSE);
	rrw_enter(&ds->ds_bp_rwlock, RW_READER, FTAG);
	blkptr_t pointer = *dsl_dataset_get_blkptr(ds);
	rrw_exit(&ds->ds_bp_rwlock, FTAG);
	if (BP_IS_HOLE(&pointer) || BP_IS_PROTECTED(&pointer) ||
	    BP_SHOULD_BYTESWAP(&pointer) ||
	    BP_GET_LSIZE(&pointer) < OBJSET_PHYS_SIZE_V1)
		return (B_FALSE);

	SET_BOOKMARK(&bookmark, ds->ds_object, ZB_ROOT_OBJECT, ZB_ROOT_LEVEL,
	    ZB_ROOT_BLKID);
	if (arc_read(NULL, ds->ds_dir->dd_pool->dp_spa, &pointer,
	    arc_getbuf_func, &buffer, ZIO_PRIORITY_SYNC_READ, ZIO_FLAG_CANFAIL,
	    &flags, &bookmark) != 0)
		return (B_FALSE);
	const objset_phys_t *header = buffer->b_data;
	boolean_t none = BP_IS_HOLE(&header->os_zil_header.zh_log);
	arc_buf_destroy(buffer, &buffer);
	return (none);
}

int
zil_check_log_chain(dsl_pool_t *dp, dsl_dataset_t *ds, void *tx)
{
	static int (*library)(dsl_pool_t *, dsl_dataset_t *, void *);

	if (has_no_log(ds))
		return (0);
	if (library == NULL)
		library = library_function("zil_check_log_chain");
	return (library(dp, ds, tx));
}

int
zil_claim(dsl_pool_t *dp, dsl_dataset_t *ds, void *tx)
{
	static int (*library)(dsl_pool_t *, dsl_dataset_t *, void *);

	if (has_no_log(ds))
		return (0);
	if (library == NULL)
		library = library_function("zil_claim");
	return (library(dp, ds, tx));
}

int
dsl_destroy_inconsistent(const char *name, void *arg)
{
	static int (*library)(const char *, void *);
	boolean_t consistent = B_FALSE;
	dsl_dataset_t *ds;
	dsl_pool_t *dp;

	if (dsl_pool_hold(name, FTAG, &dp) == 0) {
		if (dsl_dataset_hold(dp, name, FTAG, &ds) == 0) {
			consistent = !DS_IS_INCONSISTENT(ds);
			dsl_dataset_rele(ds, FTAG);
		}
		dsl_pool_rele(dp, FTAG);
	}
	if (consistent)
		return (0);
	if (library == NULL)
		library = library_function("dsl_destroy_inconsistent");
	return (library(name, arg));
}
