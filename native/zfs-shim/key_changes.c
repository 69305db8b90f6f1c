/*
 * Changes of keys, and promotions of encrypted clones, at which the library would abort the process.
 *
 * The library changes the key of a whole tree in one task: of a dataset, of its children that share the key, and of the
 * children of their clones. It assumes that each of their keys opens, and that the walk terminates. A key does not open
 * when a copy received it again, wrapped by a key other than the loaded one; the walk does not terminate when a clone
 * is a descendant of its origin; it does not reach a dataset that was moved below a clone of itself, which would stay
 * wrapped by the old key. Here the walk runs once in advance, within the task's check, and must reach each dataset that
 * has the key.
 *
 * A promotion transfers the ownership of a key to the clone. The library records that in the pool, and leaves the
 * loaded key with the previous owner: the clone's datasets count as locked from then on, and the old key is active
 * again, changed or not, when the other one is promoted in turn. Here the loaded key moves along.
 *
 * Before this, `python3 -m proof.requests --seconds 20 --workers N`, N from 4 to 6, aborted a server in 3 of some 130
 * runs. The check must run in the transaction group of the change: a separate check would see the pool before other
 * requests intervene. Leaving a key with its former owner would stop the clients of both volumes until it is loaded
 * again. `cargo test -p zpool --test key_changes` has each of the cases, and random requests (ROUNDS=n SEED=s) after
 * which every key must open the datasets that report it.
 */
#include "internal.h"
#include "keys.h"

#include <sys/dmu_objset.h>
#include <sys/dsl_crypt.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_synctask.h>
#include <sys/zap.h>

/* Maximum nesting of children and clones of children: the library's walk has one frame for each. */
#define	DEPTH_MAX	256

/* The calling thread's task, and its additional parameters. */
typedef struct change {
	const char *c_name;
	dsl_checkfunc_t *c_check;
	dsl_syncfunc_t *c_sync;
	void *c_arg;
} change_t;

static __thread change_t *asked;

typedef struct seen {
	avl_node_t s_node;
	uint64_t s_directory;
} seen_t;

typedef struct key_tree {
	dsl_pool_t *kt_pool;
	/* The dataset of the changed key. */
	uint64_t kt_owner;
	/* The keys must open. */
	boolean_t kt_opens;
	avl_tree_t kt_seen;
} key_tree_t;

static int
compare_seen(const void *left, const void *right)
{
	const seen_t *a = left, *b = right;

	return (TREE_CMP(a->s_directory, b->s_directory));
}

/* ELOOP if the walk reaches this directory a second time. */
static int
note_seen(key_tree_t *tree, uint64_t directory)
{
	seen_t *seen = kmem_zalloc(sizeof (*seen), KM_SLEEP);
	avl_index_t where;

	seen->s_directory = directory;
	if (avl_find(&tree->kt_seen, seen, &where) != NULL) {
		kmem_free(seen, sizeof (*seen));
		return (ELOOP);
	}
	avl_insert(&tree->kt_seen, seen, where);
	return (0);
}

/* Whether the dataset's key opens with its loaded key; EKEYREJECTED if it does not. */
static int
check_opens(dsl_dir_t *dd)
{
	dsl_pool_t *dp = dd->dd_pool;
	dsl_dataset_t *ds;
	int error = dsl_dataset_hold_obj(dp,
	    dsl_dir_phys(dd)->dd_head_dataset_obj, FTAG, &ds);

	if (error != 0)
		return (error);
	error = spa_keystore_create_mapping(dp->dp_spa, ds, FTAG, NULL);
	if (error == 0)
		VERIFY0(spa_keystore_remove_mapping(dp->dp_spa, ds->ds_object,
		    FTAG));
	else if (error == EACCES)
		error = EKEYREJECTED;
	dsl_dataset_rele(ds, FTAG);
	return (error);
}

typedef int visit_t(key_tree_t *tree, uint64_t directory, boolean_t is_clone, int depth);

/* Each entry of a ZAP of the directory: its children, or the heads of its clones. */
static int
visit_each(key_tree_t *tree, uint64_t zap, boolean_t are_clones, int depth, visit_t *visit)
{
	objset_t *mos = tree->kt_pool->dp_meta_objset;
	zap_cursor_t cursor;
	dsl_dataset_t *clone;
	int error;

	/* It never had any. */
	if (zap == 0)
		return (0);
	zap_attribute_t *entry = zap_attribute_alloc();
	for (zap_cursor_init(&cursor, mos, zap);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor)) {
		uint64_t directory = entry->za_first_integer;

		if (are_clones) {
			error = dsl_dataset_hold_obj(tree->kt_pool, directory,
			    FTAG, &clone);
			if (error != 0)
				break;
			directory = clone->ds_dir->dd_object;
			dsl_dataset_rele(clone, FTAG);
		}
		error = visit(tree, directory, are_clones, depth + 1);
		if (error != 0)
			break;
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	return (error == ENOENT ? 0 : error);
}

/* Directories of the library's own, which have no keys to change. */
static boolean_t
is_internal(const dsl_dir_t *dd)
{
	return (dd->dd_myname[0] == '$' || dd->dd_myname[0] == '%');
}

/* Follows the library's walk. A clone has its origin's key: only its children are checked. */
static int
check_tree(key_tree_t *tree, uint64_t directory, boolean_t is_clone, int depth)
{
	dsl_dir_t *dd;

	if (depth > DEPTH_MAX)
		return (ELOOP);
	int error = dsl_dir_hold_obj(tree->kt_pool, directory, NULL, FTAG, &dd);
	if (error != 0)
		return (error);
	uint64_t children = dsl_dir_phys(dd)->dd_child_dir_zapobj;
	uint64_t clones = dsl_dir_phys(dd)->dd_clones;
	uint64_t owner = bh_key_owner(dd);
	boolean_t ends = is_internal(dd) || owner == 0 ||
	    (!is_clone && (owner != tree->kt_owner || dsl_dir_is_clone(dd)));
	if (!ends) {
		error = note_seen(tree, directory);
		if (error == 0 && !is_clone && tree->kt_opens)
			error = check_opens(dd);
	}
	dsl_dir_rele(dd, FTAG);
	if (ends || error != 0)
		return (error);
	error = visit_each(tree, children, B_FALSE, depth, check_tree);
	if (error == 0)
		error = visit_each(tree, clones, B_TRUE, depth, check_tree);
	return (error);
}

/* ELOOP if a dataset in or below the directory has the key, and the walk did not reach it. */
static int
check_reached(key_tree_t *tree, uint64_t directory, boolean_t is_clone, int depth)
{
	seen_t wanted = { .s_directory = directory };
	dsl_dir_t *dd;

	(void) is_clone;
	if (depth > DEPTH_MAX)
		return (ELOOP);
	int error = dsl_dir_hold_obj(tree->kt_pool, directory, NULL, FTAG, &dd);
	if (error != 0)
		return (error);
	uint64_t children = dsl_dir_phys(dd)->dd_child_dir_zapobj;
	if (is_internal(dd))
		children = 0;
	else if (bh_key_owner(dd) == tree->kt_owner &&
	    avl_find(&tree->kt_seen, &wanted, NULL) == NULL)
		error = ELOOP;
	dsl_dir_rele(dd, FTAG);
	if (error != 0)
		return (error);
	return (visit_each(tree, children, B_FALSE, depth, check_reached));
}

/* Whether a change of the key of this dataset would reach each dataset that has the key of its encryption root. */
static int
check_whole(dsl_pool_t *pool, uint64_t directory, uint64_t owner, boolean_t opens)
{
	key_tree_t tree = { .kt_pool = pool, .kt_owner = owner, .kt_opens = opens };
	void *cookie = NULL;
	seen_t *seen;

	avl_create(&tree.kt_seen, compare_seen, sizeof (seen_t),
	    offsetof(seen_t, s_node));
	int error = check_tree(&tree, directory, B_FALSE, 0);
	if (error == 0 && directory == owner)
		error = check_reached(&tree, pool->dp_root_dir_obj, B_FALSE, 0);
	while ((seen = avl_destroy_nodes(&tree.kt_seen, &cookie)) != NULL)
		kmem_free(seen, sizeof (*seen));
	avl_destroy(&tree.kt_seen);
	return (error);
}

static int
check_change(void *arg, dmu_tx_t *tx)
{
	const change_t *change = arg;
	dsl_pool_t *pool = dmu_tx_pool(tx);
	dsl_dir_t *dd;
	int error = change->c_check(change->c_arg, tx);

	if (error == 0)
		error = dsl_dir_hold(pool, change->c_name, FTAG, &dd, NULL);
	if (error != 0)
		return (error);
	uint64_t directory = dd->dd_object;
	uint64_t owner = bh_key_owner(dd);
	dsl_dir_rele(dd, FTAG);
	if (owner == 0)
		return (ENOENT);
	return (check_whole(pool, directory, owner, B_TRUE));
}

static void
sync_change(void *arg, dmu_tx_t *tx)
{
	const change_t *change = arg;

	change->c_sync(change->c_arg, tx);
}

/* Interposes the library's function: a change of a key has more to be checked. */
int
dsl_sync_task(const char *pool, dsl_checkfunc_t *check, dsl_syncfunc_t *sync,
    void *arg, int blocks, zfs_space_check_t space)
{
	int (*library)(const char *, dsl_checkfunc_t *, dsl_syncfunc_t *, void *,
	    int, zfs_space_check_t) = bh_library_function(__func__);
	change_t *change = asked;

	if (change == NULL)
		return (library(pool, check, sync, arg, blocks, space));
	change->c_check = check;
	change->c_sync = sync;
	change->c_arg = arg;
	return (library(pool, check_change, sync_change, change, blocks,
	    space));
}

int
bh_change_key(const char *name, dsl_crypto_params_t *params)
{
	change_t change = { .c_name = name };

	asked = &change;
	int error = spa_keystore_change_key(name, params);
	asked = NULL;
	return (error);
}

/* Moves the loaded key of one encryption root to another; no lookup can run concurrently. */
static void
pass_key(spa_t *spa, uint64_t from, uint64_t to)
{
	spa_keystore_t *keys = &spa->spa_keystore;
	dsl_wrapping_key_t wanted = { .wk_ddobj = from };
	avl_index_t where;

	rw_enter(&keys->sk_wkeys_lock, RW_WRITER);
	dsl_wrapping_key_t *key = avl_find(&keys->sk_wkeys, &wanted, NULL);
	wanted.wk_ddobj = to;
	/* A clone is not an encryption root yet. */
	if (key != NULL && avl_find(&keys->sk_wkeys, &wanted, &where) == NULL) {
		avl_remove(&keys->sk_wkeys, key);
		key->wk_ddobj = to;
		avl_add(&keys->sk_wkeys, key);
	}
	rw_exit(&keys->sk_wkeys_lock);
}

/* Interposes the library's function: a promotion that transfers a key has more to be checked. */
int
dsl_dataset_promote_crypt_check(dsl_dir_t *target, dsl_dir_t *origin)
{
	int (*library)(dsl_dir_t *, dsl_dir_t *) = bh_library_function(__func__);
	int error = library(target, origin);

	if (error != 0 || dsl_dir_is_clone(origin) ||
	    bh_key_owner(origin) != origin->dd_object)
		return (error);
	return (check_whole(origin->dd_pool, origin->dd_object,
	    origin->dd_object, B_FALSE));
}

/* Interposes the library's function, and is called with the pool's configuration held alone. */
void
dsl_dataset_promote_crypt_sync(dsl_dir_t *target, dsl_dir_t *origin,
    dmu_tx_t *tx)
{
	void (*library)(dsl_dir_t *, dsl_dir_t *, dmu_tx_t *) = bh_library_function(__func__);
	uint64_t before = bh_key_owner(origin);

	library(target, origin, tx);
	uint64_t after = bh_key_owner(origin);
	if (before != 0 && after != 0 && before != after)
		pass_key(target->dd_pool->dp_spa, before, after);
}
