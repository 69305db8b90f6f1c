/*
 * Opens a pool of a thousand volumes about as fast as one of a single volume.
 *
 * While it opens a pool, the library visits every dataset four times: to check its name and its
 * intent log, to claim that log's blocks, and to destroy it if a receive left it half-made. Each visit opens
 * the dataset completely, some hundred property lookups (0.7 ms of CPU a volume and visit). The
 * walks are replaced here by one that looks only at the few bytes that decide whether there is
 * anything to do, and goes on to the library's own functions only where there is.
 */
#include "directory.h"

#include <sys/arc.h>
#include <sys/blkptr.h>
#include <sys/dbuf.h>
#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_destroy.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/zap.h>
#include <sys/zap_impl.h>
#include <sys/zil.h>

#include <dlfcn.h>
#include <pthread.h>

/* Read ahead of all dnodes of a pool's own objects: enough for some ten thousand volumes. */
#define	BH_DNODES_BYTES_MAX	(64ULL << 20)

/* What decides about a dataset. */
typedef struct head {
	uint64_t h_object;
	uint64_t h_flags;
	blkptr_t h_pointer;
	boolean_t h_has_no_log;
} head_t;

typedef struct heads {
	head_t *hs_list;
	uint64_t hs_count;
	uint64_t hs_capacity;
	/* Of the longest name, without the pool's. */
	uint64_t hs_name_bytes;
} heads_t;

/* What the first walk of a load found; the others need not walk. One load at a time. */
static struct {
	pthread_mutex_t lk_mutex;
	dsl_pool_t *lk_pool;
	uint64_t lk_first_txg;
	heads_t lk_heads;
} load_known = { .lk_mutex = PTHREAD_MUTEX_INITIALIZER };

typedef int find_dp_t(dsl_pool_t *, uint64_t, int (*)(dsl_pool_t *,
    dsl_dataset_t *, void *), void *, int);
typedef int find_t(const char *, int (*)(const char *, void *), void *, int);

/* The definition that ours comes before. */
static void *
library_function(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	VERIFY3P(function, !=, NULL);
	return (function);
}

static boolean_t
is_empty_list(const blkptr_t *pointer)
{
	union {
		uint64_t words[SPA_MINBLOCKSIZE / sizeof (uint64_t)];
		mzap_phys_t list;
	} block;
	const uint64_t count = (sizeof (block) -
	    offsetof(mzap_phys_t, mz_chunk)) / sizeof (mzap_ent_phys_t);

	if (!BP_IS_EMBEDDED(pointer) || BP_SHOULD_BYTESWAP(pointer) ||
	    BPE_GET_ETYPE(pointer) != BP_EMBEDDED_TYPE_DATA ||
	    BPE_GET_LSIZE(pointer) != sizeof (block) ||
	    decode_embedded_bp(pointer, &block, sizeof (block)) != 0 ||
	    block.list.mz_block_type != ZBT_MICRO)
		return (B_FALSE);
	const mzap_ent_phys_t *entry = block.list.mz_chunk;
	for (uint64_t i = 0; i < count; i++) {
		if (entry[i].mze_name[0] != '\0')
			return (B_FALSE);
	}
	return (B_TRUE);
}

/*
 * Nearly all lists are those of volumes: empty, and so short that the pointer to the block holds
 * the block. Looked at in place, because the way through the caches takes ten times as long.
 */
boolean_t
bh_may_have_children(objset_t *mos, uint64_t children)
{
	dnode_t *dn;

	if (children == 0)
		return (B_FALSE);
	if (dnode_hold(mos, children, FTAG, &dn) != 0)
		return (B_TRUE);
	/* Held by whoever writes the pointer. */
	rw_enter(&dn->dn_dbuf->db_rwlock, RW_READER);
	boolean_t one_block = dn->dn_phys->dn_nlevels == 1 &&
	    dn->dn_phys->dn_maxblkid == 0;
	blkptr_t pointer = dn->dn_phys->dn_blkptr[0];
	rw_exit(&dn->dn_dbuf->db_rwlock);
	dnode_rele(dn, FTAG);
	return (!one_block || !is_empty_list(&pointer));
}

static boolean_t has_no_log(spa_t *spa, const head_t *head,
    boolean_t only_ask);

static int
add_head(objset_t *mos, uint64_t object, heads_t *heads)
{
	dmu_buf_t *bonus;
	int error = dmu_bonus_hold(mos, object, FTAG, &bonus);

	if (error != 0)
		return (error);
	if (heads->hs_count == heads->hs_capacity) {
		heads->hs_capacity = MAX(64, heads->hs_capacity * 2);
		head_t *more = realloc(heads->hs_list,
		    heads->hs_capacity * sizeof (head_t));
		if (more == NULL) {
			dmu_buf_rele(bonus, FTAG);
			return (ENOMEM);
		}
		heads->hs_list = more;
	}
	const dsl_dataset_phys_t *phys = bonus->db_data;
	head_t *head = &heads->hs_list[heads->hs_count++];
	*head = (head_t){ object, phys->ds_flags, phys->ds_bp, B_FALSE };
	dmu_buf_rele(bonus, FTAG);
	(void) has_no_log(dmu_objset_spa(mos), head, B_TRUE);
	return (0);
}

/* Collects the datasets below and including one directory; no snapshots. */
static int
collect(objset_t *mos, uint64_t directory, uint64_t name_bytes,
    heads_t *heads, int depth)
{
	dmu_buf_t *bonus;
	zap_cursor_t cursor;

	if (depth > BH_DEPTH_MAX)
		return (ELOOP);
	int error = dmu_bonus_hold(mos, directory, FTAG, &bonus);
	if (error != 0)
		return (error);
	const dsl_dir_phys_t *phys = bonus->db_data;
	uint64_t head = phys->dd_head_dataset_obj;
	uint64_t children = phys->dd_child_dir_zapobj;
	dmu_buf_rele(bonus, FTAG);

	heads->hs_name_bytes = MAX(heads->hs_name_bytes, name_bytes);
	if (head != 0)
		error = add_head(mos, head, heads);
	if (error != 0 || !bh_may_have_children(mos, children))
		return (error);
	zap_attribute_t *entry = zap_attribute_alloc();
	for (zap_cursor_init(&cursor, mos, children);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor)) {
		/* The pool's own have no logs and are never half-made. */
		if (entry->za_name[0] == '$')
			continue;
		error = collect(mos, entry->za_first_integer,
		    name_bytes + 1 + strlen(entry->za_name), heads, depth + 1);
		if (error != 0)
			break;
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	return (error == ENOENT ? 0 : error);
}

/* Headers that can be read without the library's help: neither encrypted nor byte-swapped. */
static boolean_t
is_plain(const blkptr_t *pointer)
{
	return (!BP_IS_HOLE(pointer) && !BP_IS_PROTECTED(pointer) &&
	    !BP_SHOULD_BYTESWAP(pointer) &&
	    BP_GET_LSIZE(pointer) >= OBJSET_PHYS_SIZE_V1);
}

/* Reads a dataset's header, or only asks for it. Whether it is sure that there is no log. */
static boolean_t
has_no_log(spa_t *spa, const head_t *head, boolean_t only_ask)
{
	arc_flags_t flags = only_ask ?
	    ARC_FLAG_NOWAIT | ARC_FLAG_PREFETCH : ARC_FLAG_WAIT;
	zbookmark_phys_t bookmark;
	arc_buf_t *buffer = NULL;

	if (!is_plain(&head->h_pointer))
		return (B_FALSE);
	SET_BOOKMARK(&bookmark, head->h_object, ZB_ROOT_OBJECT, ZB_ROOT_LEVEL,
	    ZB_ROOT_BLKID);
	int error = arc_read(NULL, spa, &head->h_pointer,
	    only_ask ? NULL : arc_getbuf_func, &buffer, ZIO_PRIORITY_SYNC_READ,
	    ZIO_FLAG_CANFAIL, &flags, &bookmark);
	if (error != 0 || only_ask)
		return (B_FALSE);
	const objset_phys_t *header = buffer->b_data;
	boolean_t none = BP_IS_HOLE(&header->os_zil_header.zh_log);
	arc_buf_destroy(buffer, &buffer);
	return (none);
}

/* Calls `visit` for the datasets that have, or may have, an intent log. */
static int
visit_logs(dsl_pool_t *dp, heads_t *heads, int visit(dsl_pool_t *,
    dsl_dataset_t *, void *), void *arg)
{
	int first_error = 0;

	for (uint64_t i = 0; i < heads->hs_count; i++) {
		head_t *head = &heads->hs_list[i];
		dsl_dataset_t *ds;
		/* Checked first and claimed later, with no write between. */
		if (!head->h_has_no_log)
			head->h_has_no_log = has_no_log(dp->dp_spa, head,
			    B_FALSE);
		if (head->h_has_no_log)
			continue;
		int error = dsl_dataset_hold_obj(dp, head->h_object, FTAG, &ds);
		if (error == 0) {
			error = visit(dp, ds, arg);
			dsl_dataset_rele(ds, FTAG);
		}
		if (first_error == 0)
			first_error = error;
	}
	return (first_error);
}

static void
forget_load(void)
{
	free(load_known.lk_heads.hs_list);
	load_known.lk_heads = (heads_t){ 0 };
	load_known.lk_pool = NULL;
}

/*
 * The datasets of a pool that is being opened, or was just now. The caller has the mutex, and the
 * pool's configuration.
 */
static int
know_load(dsl_pool_t *dp)
{
	dnode_t *dnodes = DMU_META_DNODE(dp->dp_meta_objset);
	uint64_t first_txg = spa_first_txg(dp->dp_spa);

	if (load_known.lk_pool == dp && load_known.lk_first_txg == first_txg)
		return (0);
	forget_load();
	uint64_t bytes = (dnodes->dn_maxblkid + 1) * dnodes->dn_datablksz;
	dmu_prefetch_by_dnode(dnodes, 0, 0, MIN(bytes, BH_DNODES_BYTES_MAX),
	    ZIO_PRIORITY_SYNC_READ);
	int error = collect(dp->dp_meta_objset, dp->dp_root_dir_obj, 0,
	    &load_known.lk_heads, 0);
	if (error != 0) {
		forget_load();
		return (error);
	}
	load_known.lk_pool = dp;
	load_known.lk_first_txg = first_txg;
	return (0);
}

/*
 * While a pool is opened there is one walk of all of it whose visitor has no public name: it
 * checks that no dataset's name is too long. (Scans walk a pool, too, but from the thread that
 * syncs.)
 */
static boolean_t
checks_names(dsl_pool_t *dp, uint64_t directory, const void *arg)
{
	return (dp->dp_spa->spa_load_state != SPA_LOAD_NONE && arg == NULL &&
	    directory == dp->dp_root_dir_obj && !dsl_pool_sync_context(dp));
}

/* Comes before the library's own. */
int
dmu_objset_find_dp(dsl_pool_t *dp, uint64_t directory,
    int visit(dsl_pool_t *, dsl_dataset_t *, void *), void *arg, int flags)
{
	boolean_t logs = visit == zil_claim || visit == zil_check_log_chain;

	if (flags == DS_FIND_CHILDREN && directory == dp->dp_root_dir_obj &&
	    (logs || checks_names(dp, directory, arg))) {
		heads_t *heads = &load_known.lk_heads;
		boolean_t enter = !dsl_pool_config_held(dp);
		if (enter)
			dsl_pool_config_enter(dp, FTAG);
		VERIFY0(pthread_mutex_lock(&load_known.lk_mutex));
		int error = know_load(dp);
		boolean_t known = error == 0;
		if (known && logs)
			error = visit_logs(dp, heads, visit, arg);
		else if (known && strlen(spa_name(dp->dp_spa)) +
		    heads->hs_name_bytes >= ZFS_MAX_DATASET_NAME_LEN)
			error = ENAMETOOLONG;
		VERIFY0(pthread_mutex_unlock(&load_known.lk_mutex));
		if (enter)
			dsl_pool_config_exit(dp, FTAG);
		if (known)
			return (error);
	}
	find_dp_t *library = library_function("dmu_objset_find_dp");
	return (library(dp, directory, visit, arg, flags));
}

/* Whether no dataset of the pool is half-made. FALSE if in doubt. Ends a load. */
static boolean_t
all_consistent(const char *pool)
{
	const heads_t *heads = &load_known.lk_heads;
	dsl_pool_t *dp;

	if (dsl_pool_hold(pool, FTAG, &dp) != 0)
		return (B_FALSE);
	VERIFY0(pthread_mutex_lock(&load_known.lk_mutex));
	boolean_t consistent = know_load(dp) == 0;
	for (uint64_t i = 0; i < heads->hs_count; i++) {
		if ((heads->hs_list[i].h_flags & DS_FLAG_INCONSISTENT) != 0)
			consistent = B_FALSE;
	}
	forget_load();
	VERIFY0(pthread_mutex_unlock(&load_known.lk_mutex));
	dsl_pool_rele(dp, FTAG);
	return (consistent);
}

/* Comes before the library's own. */
int
dmu_objset_find(const char *name, int visit(const char *, void *), void *arg,
    int flags)
{
	/* Only of a whole pool: below a dataset others might be half-made. */
	if (visit == dsl_destroy_inconsistent && flags == DS_FIND_CHILDREN &&
	    strchr(name, '/') == NULL && all_consistent(name))
		return (0);
	find_t *library = library_function("dmu_objset_find");
	return (library(name, visit, arg, flags));
}
