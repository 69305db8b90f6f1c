/*
 * The engine's ciphers: a faster AES-GCM that replaces its own, and both for comparisons. Functions
 * return 0 or a positive errno.
 */
#ifndef BH_SHIM_CRYPTO_H
#define	BH_SHIM_CRYPTO_H

#include <stdint.h>

#define	BH_TAG_BYTES	16U
#define	BH_IV_BYTES	12U

/* AES-GCM in place: keys of 16 or 32 bytes, IVs of 12, tags of 16. */
typedef struct bh_gcm {
	int32_t (*bg_seal)(const uint8_t *key, uint64_t key_bytes, const uint8_t *iv,
	    const uint8_t *aad, uint64_t aad_bytes, uint8_t *data, uint64_t data_bytes,
	    uint8_t *tag);
	/* EBADMSG: the tag differs; the contents of `data` are then undefined. */
	int32_t (*bg_open)(const uint8_t *key, uint64_t key_bytes, const uint8_t *iv,
	    const uint8_t *aad, uint64_t aad_bytes, uint8_t *data, uint64_t data_bytes,
	    const uint8_t *tag);
} bh_gcm_t;

/* Has the engine use `gcm`, which must stay valid for ever, or with NULL its own code again. */
void bh_gcm_install(const bh_gcm_t *gcm);

#define	BH_CIPHER_GCM	1U
#define	BH_CIPHER_CCM	2U
#define	BH_CIPHER_ECB	3U	/* the bare block cipher, block by block; no IV, no tag */

/* A key schedule, in the form that the engine holds for a dataset. */
typedef struct bh_cipher bh_cipher_t;

/* `own`: by the engine's own code, whatever is installed. */
int bh_cipher_open(uint32_t mode, uint32_t own, const uint8_t *key,
    uint64_t key_bytes, bh_cipher_t **out);
void bh_cipher_close(bh_cipher_t *cipher);
/* From `in` to `out`, which do not overlap, by the path of a dataset's blocks. */
int bh_cipher_encrypt(bh_cipher_t *cipher, const uint8_t *iv, const uint8_t *aad,
    uint64_t aad_bytes, const uint8_t *in, uint8_t *out, uint64_t bytes,
    uint8_t *tag);
/* EBADMSG: the tag does not match. */
int bh_cipher_decrypt(bh_cipher_t *cipher, const uint8_t *iv, const uint8_t *aad,
    uint64_t aad_bytes, const uint8_t *in, uint8_t *out, uint64_t bytes,
    const uint8_t *tag);

#endif /* BH_SHIM_CRYPTO_H */
