/*
 * The part of keys.c that the creation of datasets needs.
 */
#ifndef BH_KEYS_H
#define	BH_KEYS_H

#include "internal.h"

#include <sys/dsl_crypt.h>

#include "shim_keys.h"

/* The library's form of `key`, or NULL for no key. Freed with dsl_crypto_params_free(). */
int bh_key_params(const bh_new_key_t *key, dsl_crypto_params_t **out);

/* The directory of the dataset that owns the key of this one; 0 if it is not encrypted. */
uint64_t bh_key_owner(dsl_dir_t *dd);

/*
 * key_changes.c: spa_keystore_change_key(). EKEYREJECTED: the key of a dataset in the tree does not open with the
 * loaded key; ELOOP: clones are descendants or ancestors of their origins. Neither changed any key.
 */
int bh_change_key(const char *name, dsl_crypto_params_t *params);

#endif /* BH_KEYS_H */
