/*
 * Opens a pool of a thousand volumes about as fast as one of a single volume.
 *
 * While it opens a pool, the library visits every dataset four times: to check its name and its intent log, to claim
 * that log's blocks, and to destroy it if a receive left it incomplete. Each visit opens the dataset completely, some
 * hundred property lookups (0.7 ms of CPU a volume and visit). The walks are replaced here by one that reads only the
 * few bytes that decide whether there is work, and calls the library's own functions only where there is.
 */
#include "directory.h"

#include <sys/blkptr.h>
#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_destroy.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/zap.h>
#include <sys/zap_impl.h>
#include <sys/zil.h>

#include <pthread.h>

#include "shim_volume.h"

/* Prefetch size for the dnodes of a pool's own objects: enough for some ten thousand volumes. */
#define	BH_DNODES_BYTES_MAX	(64ULL << 20)
/* Logs that are read at the same time. */
#define	BH_LOG_WALKERS_MAX	8

/* Set before the first pool is opened. */
boolean_t bh_library_walks = B_FALSE;

/* The deciding fields of a dataset. */
typedef struct head {
	uint64_t h_object;
	uint64_t h_flags;
	uint64_t h_identity;
	/* After the pool's name; NULL unless names are requested. */
	char *h_name;
	blkptr_t h_pointer;
	/* DMU_OST_NONE until its header was read. */
	dmu_objset_type_t h_type;
	boolean_t h_has_no_log;
} head_t;

typedef struct heads {
	head_t *hs_list;
	uint64_t hs_count;
	uint64_t hs_capacity;
	/* Of the longest name, excluding the pool's. */
	uint64_t hs_name_bytes;
	boolean_t hs_headers_known;
	boolean_t hs_with_names;
	/* The name of the current dataset, as far as it fits. */
	char hs_name[ZFS_MAX_DATASET_NAME_LEN];
} heads_t;

/* The result of a load's first walk, so that the later walks can be skipped. One load at a time. */
static struct {
	pthread_mutex_t lk_mutex;
	dsl_pool_t *lk_pool;
	/* Another pool may get the same memory, and start with the same group. */
	uint64_t lk_guid;
	uint64_t lk_first_txg;
	heads_t lk_heads;
} load_known = { .lk_mutex = PTHREAD_MUTEX_INITIALIZER };

/*
 * The result of this process's last import, for the first query after it. No log appears later that must be replayed,
 * so the set of datasets that may have one does not grow.
 */
static struct {
	pthread_mutex_t af_mutex;
	/* Of which pool; 0: nothing is known. */
	uint64_t af_guid;
	uint64_t *af_suspects;
	uint64_t af_suspect_count;
	/* Of volumes; UINT64_MAX: the type of some dataset is unknown. */
	uint64_t af_volume_count;
} at_import = { .af_mutex = PTHREAD_MUTEX_INITIALIZER };

/* The visitor that receives names. */
typedef struct name_visit {
	bh_name_visitor_t *nv_visit;
	void *nv_arg;
} name_visit_t;

typedef int find_dp_t(dsl_pool_t *, uint64_t, int (*)(dsl_pool_t *,
    dsl_dataset_t *, void *), void *, int);
typedef int find_t(const char *, int (*)(const char *, void *), void *, int);

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
 * Nearly all lists are those of volumes: empty, and so short that the block pointer embeds the block. Read in place,
 * because the way through the caches is ten times slower.
 */
boolean_t
bh_may_have_children(bh_dnodes_t *dnodes, uint64_t children)
{
	dnode_phys_t dnode;

	if (children == 0)
		return (B_FALSE);
	return (bh_dnode_read(dnodes, children, &dnode) != 0 ||
	    dnode.dn_nlevels != 1 || dnode.dn_maxblkid != 0 ||
	    !is_empty_list(&dnode.dn_blkptr[0]));
}

static int
add_head(bh_dnodes_t *dnodes, uint64_t object, heads_t *heads)
{
	dnode_phys_t dnode;
	int error = bh_dnode_read(dnodes, object, &dnode);

	if (error != 0)
		return (error);
	const dsl_dataset_phys_t *phys = bh_dnode_bonus(&dnode,
	    DMU_OT_DSL_DATASET, sizeof (*phys));
	if (phys == NULL)
		return (EINVAL);
	if (heads->hs_count == heads->hs_capacity) {
		heads->hs_capacity = MAX(64, heads->hs_capacity * 2);
		head_t *more = realloc(heads->hs_list,
		    heads->hs_capacity * sizeof (head_t));
		if (more == NULL)
			return (ENOMEM);
		heads->hs_list = more;
	}
	head_t *head = &heads->hs_list[heads->hs_count];
	*head = (head_t){ .h_object = object, .h_flags = phys->ds_flags,
	    .h_identity = phys->ds_fsid_guid, .h_pointer = phys->ds_bp };
	if (heads->hs_with_names && (head->h_name = strdup(heads->hs_name)) == NULL)
		return (ENOMEM);
	heads->hs_count++;
	return (0);
}

int
bh_directory_read(bh_dnodes_t *dnodes, uint64_t object, dsl_dir_phys_t *out)
{
	dnode_phys_t dnode;
	int error = bh_dnode_read(dnodes, object, &dnode);

	if (error != 0)
		return (error);
	const dsl_dir_phys_t *phys = bh_dnode_bonus(&dnode, DMU_OT_DSL_DIR,
	    sizeof (*phys));
	if (phys == NULL)
		return (EINVAL);
	*out = *phys;
	return (0);
}

/* Collects the datasets below and including one directory; no snapshots. */
static int
collect(bh_dnodes_t *dnodes, uint64_t directory, uint64_t name_bytes,
    heads_t *heads, int depth)
{
	dsl_dir_phys_t phys;
	zap_cursor_t cursor;

	if (depth > BH_DEPTH_MAX)
		return (ELOOP);
	int error = bh_directory_read(dnodes, directory, &phys);
	if (error != 0)
		return (error);
	uint64_t head = phys.dd_head_dataset_obj;
	uint64_t children = phys.dd_child_dir_zapobj;

	heads->hs_name_bytes = MAX(heads->hs_name_bytes, name_bytes);
	if (head != 0)
		error = add_head(dnodes, head, heads);
	if (error != 0 || !bh_may_have_children(dnodes, children))
		return (error);
	zap_attribute_t *entry = zap_attribute_alloc();
	for (zap_cursor_init(&cursor, dnodes->d_mos, children);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor)) {
		/* The pool's own datasets have no logs and are never incomplete. */
		if (entry->za_name[0] == '$')
			continue;
		if (name_bytes < sizeof (heads->hs_name))
			(void) snprintf(heads->hs_name + name_bytes,
			    sizeof (heads->hs_name) - name_bytes, "/%s", entry->za_name);
		error = collect(dnodes, entry->za_first_integer,
		    name_bytes + 1 + strlen(entry->za_name), heads, depth + 1);
		/* A dataset that is being created is entered before it is written. */
		if (error != 0 && error != ENOENT)
			break;
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	return (error == ENOENT ? 0 : error);
}

/* Collects the datasets of a pool; the caller holds its configuration. */
static int
collect_all(dsl_pool_t *dp, heads_t *heads)
{
	bh_dnodes_t dnodes = { .d_mos = dp->dp_meta_objset };
	int error = collect(&dnodes, dp->dp_root_dir_obj, 0, heads, 0);

	bh_dnodes_end(&dnodes);
	return (error);
}

/* Requested headers, and their datasets. */
typedef struct headers {
	head_t **hd_heads;
	bh_block_t *hd_blocks;
	uint64_t hd_count;
} headers_t;

static void
read_header(void *arg, uint64_t index, const void *data)
{
	const headers_t *headers = arg;
	const objset_phys_t *header = data;

	if (header == NULL)
		return;
	headers->hd_heads[index]->h_type = header->os_type;
	headers->hd_heads[index]->h_has_no_log =
	    BP_IS_HOLE(&header->os_zil_header.zh_log);
}

/*
 * Determines the types of the datasets, and which of them certainly have no log. The unknown ones may be of any type
 * and have one.
 */
static void
read_headers(spa_t *spa, heads_t *heads)
{
	headers_t headers = {
		.hd_heads = malloc(heads->hs_count * sizeof (head_t *)),
		.hd_blocks = malloc(heads->hs_count * sizeof (bh_block_t)),
	};
	boolean_t enough = headers.hd_heads != NULL &&
	    headers.hd_blocks != NULL;

	for (uint64_t i = 0; enough && i < heads->hs_count; i++) {
		head_t *head = &heads->hs_list[i];
		if (!bh_block_is_plain(&head->h_pointer) ||
		    BP_GET_LSIZE(&head->h_pointer) < OBJSET_PHYS_SIZE_V1)
			continue;
		bh_block_t *block = &headers.hd_blocks[headers.hd_count];
		block->b_pointer = head->h_pointer;
		SET_BOOKMARK(&block->b_bookmark, head->h_object,
		    ZB_ROOT_OBJECT, ZB_ROOT_LEVEL, ZB_ROOT_BLKID);
		headers.hd_heads[headers.hd_count++] = head;
	}
	bh_blocks_read(spa, headers.hd_blocks, headers.hd_count,
	    read_header, &headers);
	free(headers.hd_heads);
	free(headers.hd_blocks);
}

typedef int visit_log_t(dsl_pool_t *, dsl_dataset_t *, void *);

/* A walk over the logs of a pool, shared by several threads. */
typedef struct log_walk {
	dsl_pool_t *lw_pool;
	const heads_t *lw_heads;
	visit_log_t *lw_visit;
	void *lw_arg;
	uint64_t lw_next;
	int lw_first_error;
} log_walk_t;

static int
visit_log(const log_walk_t *walk, uint64_t object)
{
	dsl_pool_t *dp = walk->lw_pool;
	dsl_dataset_t *ds;
	int error = dsl_dataset_hold_obj(dp, object, FTAG, &ds);

	/* Destroyed since the import that listed it. */
	if (error == ENOENT && dp->dp_spa->spa_load_state == SPA_LOAD_NONE)
		return (0);
	if (error == 0) {
		bh_in_place_walk_begin();
		error = walk->lw_visit(dp, ds, walk->lw_arg);
		bh_in_place_walk_end();
		dsl_dataset_rele(ds, FTAG);
	}
	return (error);
}

/* Visits logs until none is left unclaimed by a thread. */
static void
walk_logs(log_walk_t *walk)
{
	const heads_t *heads = walk->lw_heads;
	uint64_t i;

	while ((i = __atomic_fetch_add(&walk->lw_next, 1, __ATOMIC_RELAXED)) <
	    heads->hs_count) {
		const head_t *head = &heads->hs_list[i];
		int error = head->h_has_no_log ? 0 :
		    visit_log(walk, head->h_object);
		int none = 0;
		if (error != 0)
			(void) __atomic_compare_exchange_n(&walk->lw_first_error,
			    &none, error, B_FALSE, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

static void *
walk_in_thread(void *arg)
{
	log_walk_t *walk = arg;

	/* The thread that started the walk holds it already, and a queued writer must not stop us. */
	dsl_pool_config_enter_prio(walk->lw_pool, FTAG);
	walk_logs(walk);
	dsl_pool_config_exit(walk->lw_pool, FTAG);
	return (NULL);
}

/*
 * Calls `visit` for the datasets that have, or may have, an intent log; on up to `walkers` threads concurrently. The
 * location of the next block of a log is in the previous block, so a walk along one log blocks on a disk at each block,
 * and one along several for several disks.
 */
static int
visit_logs(dsl_pool_t *dp, heads_t *heads, visit_log_t *visit, void *arg,
    uint64_t walkers)
{
	log_walk_t walk = { .lw_pool = dp, .lw_heads = heads,
	    .lw_visit = visit, .lw_arg = arg };
	pthread_t others[BH_LOG_WALKERS_MAX];
	uint64_t logs = 0, started = 0;

	/* Checked first and claimed later, with no write between. */
	if (!heads->hs_headers_known)
		read_headers(dp->dp_spa, heads);
	heads->hs_headers_known = B_TRUE;
	for (uint64_t i = 0; i < heads->hs_count; i++)
		logs += !heads->hs_list[i].h_has_no_log;
	/* Fewer threads only slow it down. */
	while (started + 1 < MIN(logs, walkers) &&
	    pthread_create(&others[started], NULL, walk_in_thread, &walk) == 0)
		started++;
	walk_logs(&walk);
	while (started > 0)
		VERIFY0(pthread_join(others[--started], NULL));
	return (walk.lw_first_error);
}

static void
forget_load(void)
{
	free(load_known.lk_heads.hs_list);
	load_known.lk_heads = (heads_t){ 0 };
	load_known.lk_pool = NULL;
}

/* Stores the result of a finished load. The caller has the mutex of the load. */
static void
store_load(const dsl_pool_t *dp)
{
	const heads_t *heads = &load_known.lk_heads;
	uint64_t *suspects = malloc(MAX(heads->hs_count, 1) * sizeof (uint64_t));
	uint64_t suspect_count = 0, volumes = 0, unknown = 0;

	for (uint64_t i = 0; suspects != NULL && i < heads->hs_count; i++) {
		const head_t *head = &heads->hs_list[i];
		if (!head->h_has_no_log)
			suspects[suspect_count++] = head->h_object;
		unknown += head->h_type == DMU_OST_NONE;
		volumes += head->h_type == DMU_OST_ZVOL;
	}
	VERIFY0(pthread_mutex_lock(&at_import.af_mutex));
	free(at_import.af_suspects);
	at_import.af_suspects = suspects;
	at_import.af_suspect_count = suspect_count;
	at_import.af_volume_count = unknown == 0 ? volumes : UINT64_MAX;
	at_import.af_guid = suspects != NULL && heads->hs_headers_known ?
	    spa_guid(dp->dp_spa) : 0;
	VERIFY0(pthread_mutex_unlock(&at_import.af_mutex));
}

/*
 * The datasets of a pool that is being or was just opened. The caller has the mutex, and the pool's configuration.
 */
static int
get_load(dsl_pool_t *dp)
{
	dnode_t *meta = DMU_META_DNODE(dp->dp_meta_objset);
	uint64_t first_txg = spa_first_txg(dp->dp_spa);
	uint64_t guid = dp->dp_spa->spa_root_vdev->vdev_guid;

	if (load_known.lk_pool == dp && load_known.lk_guid == guid &&
	    load_known.lk_first_txg == first_txg)
		return (0);
	forget_load();
	uint64_t bytes = (meta->dn_maxblkid + 1) * meta->dn_datablksz;
	dmu_prefetch_by_dnode(meta, 0, 0, MIN(bytes, BH_DNODES_BYTES_MAX),
	    ZIO_PRIORITY_SYNC_READ);
	int error = collect_all(dp, &load_known.lk_heads);
	if (error != 0) {
		forget_load();
		return (error);
	}
	load_known.lk_pool = dp;
	load_known.lk_guid = guid;
	load_known.lk_first_txg = first_txg;
	return (0);
}

/*
 * While a pool is opened there is one walk of all of it with a private visitor: it checks that no dataset's name is too
 * long. (Scans walk a pool, too, but on the sync thread.)
 */
static boolean_t
checks_names(dsl_pool_t *dp, uint64_t directory, const void *arg)
{
	return (dp->dp_spa->spa_load_state != SPA_LOAD_NONE && arg == NULL &&
	    directory == dp->dp_root_dir_obj && !dsl_pool_sync_context(dp));
}

/* Interposes the library's function. */
int
dmu_objset_find_dp(dsl_pool_t *dp, uint64_t directory,
    int visit(dsl_pool_t *, dsl_dataset_t *, void *), void *arg, int flags)
{
	boolean_t logs = visit == zil_claim || visit == zil_check_log_chain;

	if (!bh_library_walks && flags == DS_FIND_CHILDREN &&
	    directory == dp->dp_root_dir_obj &&
	    (logs || checks_names(dp, directory, arg))) {
		heads_t *heads = &load_known.lk_heads;
		boolean_t enter = !dsl_pool_config_held(dp);
		if (enter)
			dsl_pool_config_enter(dp, FTAG);
		VERIFY0(pthread_mutex_lock(&load_known.lk_mutex));
		int error = get_load(dp);
		boolean_t known = error == 0;
		if (known && logs)
			error = visit_logs(dp, heads, visit, arg, BH_LOG_WALKERS_MAX);
		else if (known && strlen(spa_name(dp->dp_spa)) +
		    heads->hs_name_bytes >= ZFS_MAX_DATASET_NAME_LEN)
			error = ENAMETOOLONG;
		VERIFY0(pthread_mutex_unlock(&load_known.lk_mutex));
		if (enter)
			dsl_pool_config_exit(dp, FTAG);
		if (known)
			return (error);
	}
	find_dp_t *library = bh_library_function("dmu_objset_find_dp");
	return (library(dp, directory, visit, arg, flags));
}

/* Whether no dataset of the pool is incomplete. FALSE if in doubt. Completes a load. */
static boolean_t
all_consistent(const char *pool)
{
	const heads_t *heads = &load_known.lk_heads;
	dsl_pool_t *dp;

	if (dsl_pool_hold(pool, FTAG, &dp) != 0)
		return (B_FALSE);
	VERIFY0(pthread_mutex_lock(&load_known.lk_mutex));
	boolean_t consistent = get_load(dp) == 0;
	for (uint64_t i = 0; i < heads->hs_count; i++) {
		if ((heads->hs_list[i].h_flags & DS_FLAG_INCONSISTENT) != 0)
			consistent = B_FALSE;
	}
	store_load(dp);
	forget_load();
	VERIFY0(pthread_mutex_unlock(&load_known.lk_mutex));
	dsl_pool_rele(dp, FTAG);
	return (consistent);
}

/* Interposes the library's function. */
int
dmu_objset_find(const char *name, int visit(const char *, void *), void *arg,
    int flags)
{
	/* Only for a whole pool: a subtree of a dataset may include incomplete ones. */
	if (!bh_library_walks && visit == dsl_destroy_inconsistent &&
	    flags == DS_FIND_CHILDREN && strchr(name, '/') == NULL &&
	    all_consistent(name))
		return (0);
	find_t *library = bh_library_function("dmu_objset_find");
	return (library(name, visit, arg, flags));
}

/* Visits a volume if it has a log that must be replayed. */
static int
visit_unreplayed(dsl_pool_t *dp, dsl_dataset_t *ds, void *arg)
{
	const name_visit_t *to = arg;
	char name[ZFS_MAX_DATASET_NAME_LEN];
	objset_t *os;
	int error = dmu_objset_from_ds(ds, &os);

	if (error != 0)
		return (error);
	if (dmu_objset_type(os) != DMU_OST_ZVOL ||
	    (os->os_zil_header.zh_flags & ZIL_REPLAY_NEEDED) == 0)
		return (0);
	dsl_dataset_name(ds, name);
	to->nv_visit(to->nv_arg, name);
	return (0);
}

/* Consumes the list of datasets that may have had a log when the pool was imported. FALSE if unknown. */
static boolean_t
take_suspects(const dsl_pool_t *dp, heads_t *out)
{
	VERIFY0(pthread_mutex_lock(&at_import.af_mutex));
	uint64_t count = at_import.af_suspect_count;
	boolean_t known = at_import.af_guid == spa_guid(dp->dp_spa) &&
	    at_import.af_suspects != NULL;
	out->hs_list = known ? calloc(MAX(count, 1), sizeof (head_t)) : NULL;
	known = out->hs_list != NULL;
	for (uint64_t i = 0; known && i < count; i++)
		out->hs_list[i].h_object = at_import.af_suspects[i];
	if (known) {
		out->hs_count = count;
		out->hs_headers_known = B_TRUE;
		free(at_import.af_suspects);
		at_import.af_suspects = NULL;
	}
	VERIFY0(pthread_mutex_unlock(&at_import.af_mutex));
	return (known);
}

int
bh_unreplayed_volumes(const char *pool, bh_name_visitor_t *visit, void *arg)
{
	name_visit_t to = { visit, arg };
	heads_t heads = { 0 };
	dsl_pool_t *dp;
	int error = dsl_pool_hold(pool, FTAG, &dp);

	if (error != 0)
		return (error);
	if (!take_suspects(dp, &heads)) {
		error = collect_all(dp, &heads);
	}
	if (error == 0)
		error = visit_logs(dp, &heads, visit_unreplayed, &to, 1);
	free(heads.hs_list);
	dsl_pool_rele(dp, FTAG);
	return (error);
}

/* The type of a dataset, by the library's functions. */
static int
find_type(dsl_pool_t *dp, uint64_t object, dmu_objset_type_t *out)
{
	dsl_dataset_t *ds;
	objset_t *os;
	int error = dsl_dataset_hold_obj(dp, object, FTAG, &ds);

	if (error != 0)
		return (error);
	error = dmu_objset_from_ds(ds, &os);
	if (error == 0)
		*out = dmu_objset_type(os);
	dsl_dataset_rele(ds, FTAG);
	return (error);
}

int
bh_volume_count(const char *pool, uint64_t *out)
{
	heads_t heads = { 0 };
	dsl_pool_t *dp;
	int error = dsl_pool_hold(pool, FTAG, &dp);

	if (error != 0)
		return (error);
	error = collect_all(dp, &heads);
	if (error == 0)
		read_headers(dp->dp_spa, &heads);
	*out = 0;
	for (uint64_t i = 0; i < heads.hs_count && error == 0; i++) {
		head_t *head = &heads.hs_list[i];
		/* A partly received one is not a volume yet. */
		if ((head->h_flags & DS_FLAG_INCONSISTENT) != 0)
			continue;
		if (head->h_type == DMU_OST_NONE)
			error = find_type(dp, head->h_object, &head->h_type);
		*out += head->h_type == DMU_OST_ZVOL;
	}
	free(heads.hs_list);
	dsl_pool_rele(dp, FTAG);
	return (error);
}

/* Visits the complete file systems. */
static void
visit_file_systems(dsl_pool_t *dp, heads_t *heads, bh_identity_visitor_t *visit, void *arg)
{
	char name[2 * ZFS_MAX_DATASET_NAME_LEN];

	read_headers(dp->dp_spa, heads);
	for (uint64_t i = 0; i < heads->hs_count; i++) {
		head_t *head = &heads->hs_list[i];
		if ((head->h_flags & DS_FLAG_INCONSISTENT) != 0)
			continue;
		int error = head->h_type == DMU_OST_NONE ?
		    find_type(dp, head->h_object, &head->h_type) : 0;
		/* The open of an unreadable one reports the reason. */
		boolean_t is_unreadable = error != 0 && error != ENOENT;
		if (!is_unreadable && head->h_type != DMU_OST_ZFS)
			continue;
		(void) snprintf(name, sizeof (name), "%s%s", spa_name(dp->dp_spa), head->h_name);
		visit(arg, name, head->h_identity);
	}
}

int
bh_file_systems(const char *pool, bh_identity_visitor_t *visit, void *arg)
{
	heads_t *heads = calloc(1, sizeof (*heads));
	dsl_pool_t *dp;

	if (heads == NULL)
		return (ENOMEM);
	heads->hs_with_names = B_TRUE;
	int error = dsl_pool_hold(pool, FTAG, &dp);
	if (error == 0) {
		error = collect_all(dp, heads);
		if (error == 0)
			visit_file_systems(dp, heads, visit, arg);
		dsl_pool_rele(dp, FTAG);
	}
	for (uint64_t i = 0; i < heads->hs_count; i++)
		free(heads->hs_list[i].h_name);
	free(heads->hs_list);
	free(heads);
	return (error);
}

int
bh_volume_count_at_import(const char *pool, uint64_t *out)
{
	dsl_pool_t *dp;
	int error = dsl_pool_hold(pool, FTAG, &dp);

	if (error != 0)
		return (error);
	VERIFY0(pthread_mutex_lock(&at_import.af_mutex));
	*out = at_import.af_volume_count;
	if (at_import.af_guid != spa_guid(dp->dp_spa) || *out == UINT64_MAX)
		error = ENOENT;
	VERIFY0(pthread_mutex_unlock(&at_import.af_mutex));
	dsl_pool_rele(dp, FTAG);
	return (error);
}

int
bh_volume_is_unreplayed(const char *name, uint32_t *out)
{
	objset_t *os;
	int error = dmu_objset_hold(name, FTAG, &os);

	if (error != 0)
		return (error);
	dmu_objset_type_t type = dmu_objset_type(os);
	*out = (type == DMU_OST_ZVOL || type == DMU_OST_ZFS) &&
	    (os->os_zil_header.zh_flags & ZIL_REPLAY_NEEDED) != 0;
	dmu_objset_rele(os, FTAG);
	return (0);
}
