/*
 * What makes datasets needs of keys.c.
 */
#ifndef BH_KEYS_H
#define	BH_KEYS_H

#include "internal.h"

#include <sys/dsl_crypt.h>

#include "shim_keys.h"

/* The library's form of `key`, or NULL for no key. Freed with dsl_crypto_params_free(). */
int bh_key_params(const bh_new_key_t *key, dsl_crypto_params_t **out);

#endif /* BH_KEYS_H */
