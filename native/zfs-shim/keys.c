/*
 * Keys of encrypted datasets: loading, unloading and changing them, and their state.
 *
 * The library stores a copy of the wrapping key for each encryption root; the caller erases the
 * original.
 */
#include "directory.h"
#include "keys.h"

#include <sys/dsl_crypt.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/zap.h>
#include <sys/zfeature.h>
#include <sys/zio_crypt.h>
#include <zfs_prop.h>

#include "shim_dataset.h"

_Static_assert(BH_KEY_BYTES == WRAPPING_KEY_LEN, "ZFS\'s own number");
_Static_assert(BH_KEYFORMAT_RAW == ZFS_KEYFORMAT_RAW, "ZFS\'s own number");
_Static_assert(BH_KEYFORMAT_HEX == ZFS_KEYFORMAT_HEX, "ZFS\'s own number");
_Static_assert(BH_KEYFORMAT_PASSPHRASE == ZFS_KEYFORMAT_PASSPHRASE, "ZFS\'s own number");

/* The library's copy of a key, with its parameters. */
static int
make_params(dcp_cmd_t command, const bh_new_key_t *key,
    dsl_crypto_params_t **out)
{
	nvlist_t *properties = fnvlist_alloc();
	nvlist_t *secret = fnvlist_alloc();
	uint64_t suite = ZIO_CRYPT_ON;
	int error = 0;

	if (command == DCP_CMD_NONE && key->bn_suite[0] != '\0' &&
	    zfs_prop_string_to_index(ZFS_PROP_ENCRYPTION, key->bn_suite,
	    &suite) != 0)
		error = EINVAL;
	if (error == 0 && suite == ZIO_CRYPT_OFF)
		error = EINVAL;
	/* A changed key opens data that is encrypted with an unchanged data key. */
	if (command == DCP_CMD_NONE)
		fnvlist_add_uint64(properties,
		    zfs_prop_to_name(ZFS_PROP_ENCRYPTION), suite);
	fnvlist_add_uint64(properties, zfs_prop_to_name(ZFS_PROP_KEYFORMAT),
	    key->bn_format);
	fnvlist_add_string(properties, zfs_prop_to_name(ZFS_PROP_KEYLOCATION),
	    key->bn_location);
	if (key->bn_format == BH_KEYFORMAT_PASSPHRASE) {
		fnvlist_add_uint64(properties,
		    zfs_prop_to_name(ZFS_PROP_PBKDF2_SALT), key->bn_salt);
		fnvlist_add_uint64(properties,
		    zfs_prop_to_name(ZFS_PROP_PBKDF2_ITERS),
		    key->bn_iterations);
	}
	if (error == 0) {
		fnvlist_add_uint8_array(secret, "wkeydata", key->bn_key,
		    BH_KEY_BYTES);
		error = dsl_crypto_params_create_nvlist(command, properties,
		    secret, out);
		/* The list has its own copy. */
		uint8_t *copy = NULL;
		uint_t length = 0;
		if (nvlist_lookup_uint8_array(secret, "wkeydata", &copy,
		    &length) == 0)
			explicit_bzero(copy, length);
	}
	nvlist_free(secret);
	nvlist_free(properties);
	return (error);
}

int
bh_key_params(const bh_new_key_t *key, dsl_crypto_params_t **out)
{
	*out = NULL;
	return (key == NULL ? 0 : make_params(DCP_CMD_NONE, key, out));
}

/* A number that is stored with a dataset's keys; 0 if it is missing. */
static uint64_t
kept(dsl_dir_t *dd, const char *name)
{
	uint64_t value = 0;

	(void) zap_lookup(dd->dd_pool->dp_meta_objset, dd->dd_crypto_obj, name,
	    8, 1, &value);
	return (value);
}

uint64_t
bh_key_owner(dsl_dir_t *dd)
{
	return (dd->dd_crypto_obj == 0 ? 0 :
	    kept(dd, DSL_CRYPTO_KEY_ROOT_DDOBJ));
}

/* Visits the key state of one dataset. The pool's configuration is held. */
static void
visit_one(dsl_dir_t *dd, bh_key_visitor_t *visit, void *arg)
{
	char name[ZFS_MAX_DATASET_NAME_LEN], root[ZFS_MAX_DATASET_NAME_LEN];
	char location[ZAP_MAXVALUELEN] = "";
	bh_key_info_t info = {
		.bk_name = name,
		.bk_root = root,
		.bk_suite = "off",
		.bk_location = location,
	};
	dsl_dir_t *root_dd;

	root[0] = '\0';
	dsl_dir_name(dd, name);
	if (dd->dd_crypto_obj == 0) {
		visit(arg, &info);
		return;
	}
	if (zfs_prop_index_to_string(ZFS_PROP_ENCRYPTION,
	    kept(dd, DSL_CRYPTO_KEY_CRYPTO_SUITE), &info.bk_suite) != 0)
		info.bk_suite = "unknown";
	info.bk_format = kept(dd, zfs_prop_to_name(ZFS_PROP_KEYFORMAT));
	info.bk_salt = kept(dd, zfs_prop_to_name(ZFS_PROP_PBKDF2_SALT));
	info.bk_iterations = kept(dd, zfs_prop_to_name(ZFS_PROP_PBKDF2_ITERS));
	info.bk_is_loaded = dsl_dataset_get_keystatus(dd) ==
	    ZFS_KEYSTATUS_AVAILABLE;
	if (dsl_dir_hold_obj(dd->dd_pool, bh_key_owner(dd), NULL, FTAG,
	    &root_dd) == 0) {
		dsl_dir_name(root_dd, root);
		(void) dsl_prop_get_dd(root_dd,
		    zfs_prop_to_name(ZFS_PROP_KEYLOCATION), 1,
		    sizeof (location), location, NULL, B_FALSE);
		dsl_dir_rele(root_dd, FTAG);
	}
	visit(arg, &info);
}

int
bh_key_stat(const char *name, bh_key_visitor_t *visit, void *arg)
{
	const char *missing = NULL;
	dsl_pool_t *dp;
	dsl_dir_t *dd;
	int error = dsl_pool_hold(name, FTAG, &dp);

	if (error != 0)
		return (error);
	error = dsl_dir_hold(dp, name, FTAG, &dd, &missing);
	if (error == 0) {
		/* The library resolves a missing dataset to its parent. */
		if (missing != NULL)
			error = ENOENT;
		else
			visit_one(dd, visit, arg);
		dsl_dir_rele(dd, FTAG);
	}
	dsl_pool_rele(dp, FTAG);
	return (error);
}

typedef struct key_walk {
	dsl_pool_t *kw_pool;
	bh_dnodes_t kw_dnodes;
	bh_key_visitor_t *kw_visit;
	void *kw_arg;
} key_walk_t;

/* Visits a directory of the dataset tree, and all below it. */
static int
walk(key_walk_t *to, uint64_t directory, int depth)
{
	dnode_phys_t dnode;
	zap_cursor_t cursor;
	dsl_dir_t *dd;

	if (depth > BH_DEPTH_MAX)
		return (ELOOP);
	int error = bh_dnode_read(&to->kw_dnodes, directory, &dnode);
	if (error != 0)
		return (error);
	const dsl_dir_phys_t *phys = bh_dnode_bonus(&dnode, DMU_OT_DSL_DIR,
	    sizeof (*phys));
	if (phys == NULL)
		return (EINVAL);
	uint64_t children = phys->dd_child_dir_zapobj;

	/* For an unencrypted dataset only this is read. */
	if (dnode.dn_type == DMU_OTN_ZAP_METADATA &&
	    zap_contains(to->kw_pool->dp_meta_objset, directory,
	    DD_FIELD_CRYPTO_KEY_OBJ) == 0) {
		error = dsl_dir_hold_obj(to->kw_pool, directory, NULL, FTAG,
		    &dd);
		if (error != 0)
			return (error);
		visit_one(dd, to->kw_visit, to->kw_arg);
		dsl_dir_rele(dd, FTAG);
	}
	if (!bh_may_have_children(&to->kw_dnodes, children))
		return (0);
	zap_attribute_t *entry = zap_attribute_alloc();
	for (zap_cursor_init(&cursor, to->kw_dnodes.d_mos, children);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor)) {
		if (entry->za_name[0] == '$')
			continue;
		error = walk(to, entry->za_first_integer, depth + 1);
		if (error != 0)
			break;
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	return (error == ENOENT ? 0 : error);
}

int
bh_key_walk(const char *pool, bh_key_visitor_t *visit, void *arg)
{
	dsl_pool_t *dp;
	int error = dsl_pool_hold(pool, FTAG, &dp);

	if (error != 0)
		return (error);
	if (spa_feature_is_active(dp->dp_spa, SPA_FEATURE_ENCRYPTION)) {
		key_walk_t to = { dp, { .d_mos = dp->dp_meta_objset }, visit,
		    arg };
		error = walk(&to, dp->dp_root_dir_obj, 0);
		bh_dnodes_end(&to.kw_dnodes);
	}
	dsl_pool_rele(dp, FTAG);
	return (error);
}

int
bh_key_load(const char *name, const uint8_t *key, uint32_t only_check)
{
	nvlist_t *secret = fnvlist_alloc();
	dsl_crypto_params_t *params = NULL;
	uint8_t *copy = NULL;
	uint_t length = 0;

	fnvlist_add_uint8_array(secret, "wkeydata", key, BH_KEY_BYTES);
	int error = dsl_crypto_params_create_nvlist(DCP_CMD_NONE, NULL, secret,
	    &params);
	if (nvlist_lookup_uint8_array(secret, "wkeydata", &copy, &length) == 0)
		explicit_bzero(copy, length);
	nvlist_free(secret);
	if (error != 0)
		return (error);
	error = spa_keystore_load_wkey(name, params, only_check != 0);
	/* A key that was taken belongs to the library. */
	dsl_crypto_params_free(params, error != 0 || only_check != 0);
	return (error);
}

int
bh_key_unload(const char *name)
{
	return (spa_keystore_unload_wkey(name));
}

int
bh_key_change(const char *name, const bh_new_key_t *key)
{
	dsl_crypto_params_t *params = NULL;
	int error = key != NULL ? make_params(DCP_CMD_NEW_KEY, key, &params) :
	    dsl_crypto_params_create_nvlist(DCP_CMD_INHERIT, NULL, NULL,
	    &params);

	if (error != 0)
		return (error);
	error = bh_change_key(name, params);
	dsl_crypto_params_free(params, error != 0);
	return (error);
}
