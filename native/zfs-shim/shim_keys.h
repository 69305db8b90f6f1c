/*
 * Keys of encrypted datasets, as Rust sees them. Functions return 0 or a positive errno; strings
 * and keys are copied before a function returns, and those given to a visitor live as long as its
 * call.
 *
 * A dataset with its own key is an encryption root; descendants created without one share it. A key
 * here is always the 32 bytes that wrap the dataset's own random keys, independent of the owner's
 * key format.
 */
#ifndef BH_SHIM_KEYS_H
#define	BH_SHIM_KEYS_H

#include <stdint.h>

struct nvlist;

#define	BH_KEY_BYTES	32U

/* Formats of keys, with ZFS's own numbers. */
#define	BH_KEYFORMAT_NONE	0U
#define	BH_KEYFORMAT_RAW	1U
#define	BH_KEYFORMAT_HEX	2U
#define	BH_KEYFORMAT_PASSPHRASE	3U

/* A dataset and its key. */
typedef struct bh_key_info {
	const char *bk_name;
	const char *bk_root;		/* the encryption root, or "" if it is not encrypted */
	const char *bk_suite;		/* such as "aes-256-gcm", or "off" */
	const char *bk_location;	/* of a root: where ZFS is told to look for the key */
	uint64_t bk_salt;		/* of a passphrase */
	uint64_t bk_iterations;
	uint32_t bk_format;
	uint32_t bk_is_loaded;
} bh_key_info_t;

typedef void bh_key_visitor_t(void *arg, const bh_key_info_t *info);

/* A key for a new encryption root. */
typedef struct bh_new_key {
	const char *bn_suite;		/* "on" and "" leave the choice to ZFS */
	const char *bn_location;	/* what ZFS shall be told: "prompt" or a file URL */
	const uint8_t *bn_key;
	uint64_t bn_salt;
	uint64_t bn_iterations;
	uint32_t bn_format;
	uint32_t bn_reserved;
} bh_new_key_t;

int bh_key_stat(const char *name, bh_key_visitor_t *visit, void *arg);
/* Visits all encrypted datasets of a pool. Costs nothing in a pool without any. */
int bh_key_walk(const char *pool, bh_key_visitor_t *visit, void *arg);

/*
 * Loads the key of an encryption root, or only checks it. EACCES: the key is wrong; EEXIST: it is
 * loaded; EINVAL: no encryption root.
 */
int bh_key_load(const char *name, const uint8_t *key, uint32_t only_check);
/* EBUSY while a dataset that it opens is in use; EACCES if it is not loaded. */
int bh_key_unload(const char *name);
/*
 * Assigns a new key of its own to an encrypted dataset with a loaded key; or, with NULL,
 * its parent's key. The new key and the new location are stored in one transaction group.
 */
int bh_key_change(const char *name, const bh_new_key_t *key);

#endif /* BH_SHIM_KEYS_H */
