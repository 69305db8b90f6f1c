/*
 * AES-GCM by the faster of two implementations.
 *
 * The engine's own code does not use the instructions of newer processors, and on some has no assembly at all. Its two
 * entry points are interposed: a block of data that is contiguous on either side is encrypted by the installed code;
 * the rest (partially encrypted blocks, other suites) is passed to the engine's own code. The output is identical.
 *
 * `bulkhead bench crypto --seconds 0.4` compares them; on one virtual CPU with VAES, AES-256-GCM of 16 KiB: the engine
 * 3246 MB/s, OpenSSL 3.0 3531, the processor's best 5403. Where the engine has no assembly, for example on ARM, its
 * generic code is hundreds of times slower. The installed code is `ring`, which TLS links anyway: no further package,
 * no further licence. At the start both encrypt the same 16 KiB: if the results differ, or ring is not quicker, the
 * engine's code stays. The key schedule is computed for each block, because the engine hides its own; the figures
 * include that.
 */
#include "internal.h"

#include <sys/crypto/api.h>
#include <sys/crypto/common.h>

#include <dlfcn.h>

#include "shim_crypto.h"

/* Declared in none of the installed headers: the block cipher that both modes use. */
extern void *aes_alloc_keysched(size_t *size, int kmflag);
extern void aes_init_keysched(const uint8_t *key, uint_t key_bits, void *schedule);
extern int aes_encrypt_block(const void *schedule, const uint8_t *in, uint8_t *out);
extern int aes_decrypt_block(const void *schedule, const uint8_t *in, uint8_t *out);

#define	BH_AES_BLOCK_BYTES	16U

typedef int crypt_t(crypto_mechanism_t *, crypto_data_t *, crypto_key_t *,
    crypto_ctx_template_t, crypto_data_t *);

static const bh_gcm_t *installed;

void
bh_gcm_install(const bh_gcm_t *gcm)
{
	__atomic_store_n(&installed, gcm, __ATOMIC_RELEASE);
}

static crypt_t *
library_function(crypt_t **known, const char *name)
{
	crypt_t *function = __atomic_load_n(known, __ATOMIC_RELAXED);

	if (function == NULL) {
		function = (crypt_t *)dlsym(RTLD_NEXT, name);
		VERIFY3P(function, !=, NULL);
		__atomic_store_n(known, function, __ATOMIC_RELAXED);
	}
	return (function);
}

static int
library_encrypt(crypto_mechanism_t *mech, crypto_data_t *plain, crypto_key_t *key,
    crypto_ctx_template_t template, crypto_data_t *cipher)
{
	static crypt_t *known;

	return (library_function(&known, "crypto_encrypt")(mech, plain, key,
	    template, cipher));
}

static int
library_decrypt(crypto_mechanism_t *mech, crypto_data_t *cipher, crypto_key_t *key,
    crypto_ctx_template_t template, crypto_data_t *plain)
{
	static crypt_t *known;

	return (library_function(&known, "crypto_decrypt")(mech, cipher, key,
	    template, plain));
}

/* A block of data to be encrypted: contiguous memory on either side, and the tag. */
typedef struct block {
	const CK_AES_GCM_PARAMS *b_params;
	uint8_t *b_plain;
	uint8_t *b_cipher;
	uint8_t *b_tag;
	size_t b_bytes;
} block_t;

static boolean_t
is_block(const crypto_mechanism_t *mech, const crypto_key_t *key,
    const crypto_data_t *plain, const crypto_data_t *cipher, block_t *block)
{
	static crypto_mech_type_t gcm = CRYPTO_MECH_INVALID;
	const CK_AES_GCM_PARAMS *params = (const void *)mech->cm_param;

	if (__atomic_load_n(&gcm, __ATOMIC_RELAXED) == CRYPTO_MECH_INVALID)
		__atomic_store_n(&gcm, crypto_mech2id(SUN_CKM_AES_GCM),
		    __ATOMIC_RELAXED);
	if (mech->cm_type != gcm || params == NULL ||
	    mech->cm_param_len != sizeof (*params) ||
	    params->ulIvLen != BH_IV_BYTES ||
	    params->ulTagBits != BH_TAG_BYTES * NBBY ||
	    (key->ck_length != 128 && key->ck_length != 256) ||
	    plain->cd_format != CRYPTO_DATA_UIO || plain->cd_offset != 0 ||
	    cipher->cd_format != CRYPTO_DATA_UIO || cipher->cd_offset != 0)
		return (B_FALSE);
	const zfs_uio_t *from = plain->cd_uio, *to = cipher->cd_uio;
	if (from->uio_iovcnt != 1 || to->uio_iovcnt != 2 ||
	    to->uio_iov[1].iov_len != BH_TAG_BYTES ||
	    cipher->cd_length != to->uio_iov[0].iov_len + BH_TAG_BYTES ||
	    from->uio_iov[0].iov_len != to->uio_iov[0].iov_len)
		return (B_FALSE);
	*block = (block_t){
		.b_params = params,
		.b_plain = from->uio_iov[0].iov_base,
		.b_cipher = to->uio_iov[0].iov_base,
		.b_tag = to->uio_iov[1].iov_base,
		.b_bytes = to->uio_iov[0].iov_len,
	};
	return (B_TRUE);
}

/* Interposes the library's function. */
int
crypto_encrypt(crypto_mechanism_t *mech, crypto_data_t *plain, crypto_key_t *key,
    crypto_ctx_template_t template, crypto_data_t *cipher)
{
	const bh_gcm_t *gcm = __atomic_load_n(&installed, __ATOMIC_ACQUIRE);
	block_t block;

	if (gcm == NULL || !is_block(mech, key, plain, cipher, &block))
		return (library_encrypt(mech, plain, key, template, cipher));
	if (block.b_cipher != block.b_plain)
		memmove(block.b_cipher, block.b_plain, block.b_bytes);
	return (gcm->bg_seal(key->ck_data, key->ck_length / NBBY,
	    block.b_params->pIv, block.b_params->pAAD, block.b_params->ulAADLen,
	    block.b_cipher, block.b_bytes, block.b_tag) == 0 ?
	    CRYPTO_SUCCESS : CRYPTO_FAILED);
}

/* Interposes the library's function. */
int
crypto_decrypt(crypto_mechanism_t *mech, crypto_data_t *cipher, crypto_key_t *key,
    crypto_ctx_template_t template, crypto_data_t *plain)
{
	const bh_gcm_t *gcm = __atomic_load_n(&installed, __ATOMIC_ACQUIRE);
	block_t block;

	if (gcm == NULL || !is_block(mech, key, plain, cipher, &block))
		return (library_decrypt(mech, cipher, key, template, plain));
	if (block.b_cipher != block.b_plain)
		memmove(block.b_plain, block.b_cipher, block.b_bytes);
	return (gcm->bg_open(key->ck_data, key->ck_length / NBBY,
	    block.b_params->pIv, block.b_params->pAAD, block.b_params->ulAADLen,
	    block.b_plain, block.b_bytes, block.b_tag) == 0 ?
	    CRYPTO_SUCCESS : CRYPTO_INVALID_MAC);
}

struct bh_cipher {
	uint32_t ci_mode;
	boolean_t ci_own;
	crypto_key_t ci_key;
	crypto_mechanism_t ci_mech;
	crypto_ctx_template_t ci_template;
	/* Of the raw block cipher. */
	void *ci_schedule;
	size_t ci_schedule_bytes;
	uint8_t ci_bytes[32];
};

int
bh_cipher_open(uint32_t mode, uint32_t own, const uint8_t *key, uint64_t key_bytes,
    bh_cipher_t **out)
{
	if (key_bytes != 16 && key_bytes != 24 && key_bytes != 32)
		return (EINVAL);
	bh_cipher_t *cipher = kmem_zalloc(sizeof (*cipher), KM_SLEEP);

	cipher->ci_mode = mode;
	cipher->ci_own = own != 0;
	memcpy(cipher->ci_bytes, key, key_bytes);
	cipher->ci_key.ck_data = cipher->ci_bytes;
	cipher->ci_key.ck_length = key_bytes * NBBY;
	if (mode == BH_CIPHER_ECB) {
		cipher->ci_schedule = aes_alloc_keysched(
		    &cipher->ci_schedule_bytes, KM_SLEEP);
		aes_init_keysched(key, key_bytes * NBBY, cipher->ci_schedule);
	} else {
		cipher->ci_mech.cm_type = crypto_mech2id(mode == BH_CIPHER_GCM ?
		    SUN_CKM_AES_GCM : SUN_CKM_AES_CCM);
		if (crypto_create_ctx_template(&cipher->ci_mech, &cipher->ci_key,
		    &cipher->ci_template) != CRYPTO_SUCCESS) {
			bh_cipher_close(cipher);
			return (ENOTSUP);
		}
	}
	*out = cipher;
	return (0);
}

void
bh_cipher_close(bh_cipher_t *cipher)
{
	if (cipher->ci_template != NULL)
		crypto_destroy_ctx_template(cipher->ci_template);
	if (cipher->ci_schedule != NULL) {
		explicit_bzero(cipher->ci_schedule, cipher->ci_schedule_bytes);
		kmem_free(cipher->ci_schedule, cipher->ci_schedule_bytes);
	}
	explicit_bzero(cipher, sizeof (*cipher));
	kmem_free(cipher, sizeof (*cipher));
}

/* ECB. */
static int
run_blocks(const bh_cipher_t *cipher, boolean_t encrypt, const uint8_t *in,
    uint8_t *out, uint64_t bytes)
{
	if (bytes % BH_AES_BLOCK_BYTES != 0)
		return (EINVAL);
	for (uint64_t at = 0; at < bytes; at += BH_AES_BLOCK_BYTES) {
		if (encrypt)
			(void) aes_encrypt_block(cipher->ci_schedule, in + at,
			    out + at);
		else
			(void) aes_decrypt_block(cipher->ci_schedule, in + at,
			    out + at);
	}
	return (0);
}

static int
run(bh_cipher_t *cipher, boolean_t encrypt, const uint8_t *iv, const uint8_t *aad,
    uint64_t aad_bytes, uint8_t *plain, uint8_t *secret, uint64_t bytes,
    uint8_t *tag)
{
	/* For decryption the library expects the length with the tag. */
	uint64_t plain_bytes = encrypt ? bytes : bytes + BH_TAG_BYTES;
	CK_AES_GCM_PARAMS gcm = {
		.pIv = (uint8_t *)(uintptr_t)iv,
		.ulIvLen = BH_IV_BYTES,
		.ulIvBits = BH_IV_BYTES * NBBY,
		.pAAD = (uint8_t *)(uintptr_t)aad,
		.ulAADLen = aad_bytes,
		.ulTagBits = BH_TAG_BYTES * NBBY,
	};
	CK_AES_CCM_PARAMS ccm = {
		.ulMACSize = BH_TAG_BYTES,
		.ulNonceSize = BH_IV_BYTES,
		.ulAuthDataSize = aad_bytes,
		.ulDataSize = plain_bytes,
		.nonce = (uint8_t *)(uintptr_t)iv,
		.authData = (uint8_t *)(uintptr_t)aad,
	};
	boolean_t is_gcm = cipher->ci_mode == BH_CIPHER_GCM;
	crypto_mechanism_t mech = {
		.cm_type = cipher->ci_mech.cm_type,
		.cm_param = is_gcm ? (char *)&gcm : (char *)&ccm,
		.cm_param_len = is_gcm ? sizeof (gcm) : sizeof (ccm),
	};
	iovec_t from = { plain, bytes };
	iovec_t to[2] = { { secret, bytes }, { tag, BH_TAG_BYTES } };
	zfs_uio_t from_uio = { .uio_iov = &from, .uio_iovcnt = 1,
	    .uio_segflg = UIO_SYSSPACE };
	zfs_uio_t to_uio = { .uio_iov = to, .uio_iovcnt = 2,
	    .uio_segflg = UIO_SYSSPACE };
	crypto_data_t from_data = { .cd_format = CRYPTO_DATA_UIO,
	    .cd_length = plain_bytes, .cd_uio = &from_uio };
	crypto_data_t to_data = { .cd_format = CRYPTO_DATA_UIO,
	    .cd_length = bytes + BH_TAG_BYTES, .cd_uio = &to_uio };
	int code;

	if (encrypt)
		code = (cipher->ci_own ? library_encrypt : crypto_encrypt)(&mech,
		    &from_data, &cipher->ci_key, cipher->ci_template, &to_data);
	else
		code = (cipher->ci_own ? library_decrypt : crypto_decrypt)(&mech,
		    &to_data, &cipher->ci_key, cipher->ci_template, &from_data);
	return (code == CRYPTO_SUCCESS ? 0 :
	    code == CRYPTO_INVALID_MAC ? EBADMSG : EINVAL);
}

int
bh_cipher_encrypt(bh_cipher_t *cipher, const uint8_t *iv, const uint8_t *aad,
    uint64_t aad_bytes, const uint8_t *in, uint8_t *out, uint64_t bytes,
    uint8_t *tag)
{
	if (cipher->ci_mode == BH_CIPHER_ECB)
		return (run_blocks(cipher, B_TRUE, in, out, bytes));
	return (run(cipher, B_TRUE, iv, aad, aad_bytes,
	    (uint8_t *)(uintptr_t)in, out, bytes, tag));
}

int
bh_cipher_decrypt(bh_cipher_t *cipher, const uint8_t *iv, const uint8_t *aad,
    uint64_t aad_bytes, const uint8_t *in, uint8_t *out, uint64_t bytes,
    const uint8_t *tag)
{
	if (cipher->ci_mode == BH_CIPHER_ECB)
		return (run_blocks(cipher, B_FALSE, in, out, bytes));
	return (run(cipher, B_FALSE, iv, aad, aad_bytes, out,
	    (uint8_t *)(uintptr_t)in, bytes, (uint8_t *)(uintptr_t)tag));
}
