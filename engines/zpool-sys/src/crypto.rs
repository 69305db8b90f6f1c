//! `native/zfs-shim/shim_crypto.h`, declaration for declaration. Units, ownership and errors are
//! documented there.

/// Bytes of a tag.
pub const BH_TAG_BYTES: u32 = 16;
/// Bytes of an initialisation vector.
pub const BH_IV_BYTES: u32 = 12;
/// Value of `mode`.
pub const BH_CIPHER_GCM: u32 = 1;
/// Value of `mode`.
pub const BH_CIPHER_CCM: u32 = 2;
/// Value of `mode`.
pub const BH_CIPHER_ECB: u32 = 3;

/// AES-GCM in place of the engine's own; see the header.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct bh_gcm {
    pub bg_seal: unsafe extern "C" fn(
        key: *const u8,
        key_bytes: u64,
        iv: *const u8,
        aad: *const u8,
        aad_bytes: u64,
        data: *mut u8,
        data_bytes: u64,
        tag: *mut u8,
    ) -> i32,
    pub bg_open: unsafe extern "C" fn(
        key: *const u8,
        key_bytes: u64,
        iv: *const u8,
        aad: *const u8,
        aad_bytes: u64,
        data: *mut u8,
        data_bytes: u64,
        tag: *const u8,
    ) -> i32,
}

/// A key that is ready for use.
#[repr(C)]
pub struct bh_cipher {
    _opaque: [u8; 0],
}

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn bh_gcm_install(gcm: *const bh_gcm);
    pub fn bh_cipher_open(
        mode: u32,
        own: u32,
        key: *const u8,
        key_bytes: u64,
        out: *mut *mut bh_cipher,
    ) -> i32;
    pub fn bh_cipher_close(cipher: *mut bh_cipher);
    pub fn bh_cipher_encrypt(
        cipher: *mut bh_cipher,
        iv: *const u8,
        aad: *const u8,
        aad_bytes: u64,
        input: *const u8,
        out: *mut u8,
        bytes: u64,
        tag: *mut u8,
    ) -> i32;
    pub fn bh_cipher_decrypt(
        cipher: *mut bh_cipher,
        iv: *const u8,
        aad: *const u8,
        aad_bytes: u64,
        input: *const u8,
        out: *mut u8,
        bytes: u64,
        tag: *const u8,
    ) -> i32;
}
