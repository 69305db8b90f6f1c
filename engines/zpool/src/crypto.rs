//! The engine's ciphers: the implementation that encrypts the blocks of datasets, and a way to benchmark and verify it.
//!
//! Speeds up AES-GCM: the implementation in OpenZFS does not use all instructions of the processor. At the start it is
//! benchmarked against that of `ring`, and the faster one is used from then on. Both produce the same output.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use ring::aead;
use rustix::io::Errno;
use zpool_sys as sys;

use crate::runtime::Engine;

/// Bytes of an initialisation vector.
pub const IV_BYTES: usize = sys::BH_IV_BYTES as usize;
/// Bytes of a tag.
pub const TAG_BYTES: usize = sys::BH_TAG_BYTES as usize;
/// Length of the runs that select the implementation: a block of a volume.
const SAMPLE_BYTES: usize = 16 << 10;
/// Runs of each; the fastest counts, since other processes can only slow one down.
const SAMPLES: usize = 5;

/// The mode of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Counter mode with an authentication code: the mode of encrypted datasets.
    Gcm,
    /// CCM.
    Ccm,
    /// ECB, which no dataset uses.
    Ecb,
}

/// The implementation to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The one that encrypts datasets in this process.
    InUse,
    /// The implementation in OpenZFS.
    OpenZfs,
}

/// A key schedule, in the form that the engine holds for a dataset. Wiped when dropped.
pub struct Cipher(NonNull<sys::bh_cipher>);

/// Why a block could not be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// The tag does not match: a different key, or changed bytes.
    #[error("the authentication tag does not fit")]
    Tag,
    /// The engine does not support it, or the lengths are wrong.
    #[error("the engine refused")]
    Refused,
}

fn result(code: c_int) -> Result<(), CipherError> {
    match code {
        0 => Ok(()),
        code if Errno::from_raw_os_error(code) == Errno::BADMSG => Err(CipherError::Tag),
        _ => Err(CipherError::Refused),
    }
}

impl Cipher {
    /// Prepares a key of 16, 24 or 32 bytes.
    pub fn new(_engine: &Engine, mode: Mode, code: Code, key: &[u8]) -> Result<Self, CipherError> {
        Self::prepare(mode, code, key)
    }

    /// The library must run.
    fn prepare(mode: Mode, code: Code, key: &[u8]) -> Result<Self, CipherError> {
        let mode = match mode {
            Mode::Gcm => sys::BH_CIPHER_GCM,
            Mode::Ccm => sys::BH_CIPHER_CCM,
            Mode::Ecb => sys::BH_CIPHER_ECB,
        };
        let own = u32::from(code == Code::OpenZfs);
        let mut raw = std::ptr::null_mut();
        // SAFETY: the library runs; the key is copied, `raw` ours.
        let code =
            unsafe { sys::bh_cipher_open(mode, own, key.as_ptr(), key.len() as u64, &mut raw) };
        result(code)?;
        NonNull::new(raw).map(Self).ok_or(CipherError::Refused)
    }

    /// Encrypts `input` to `out`, which has the same length, and returns the tag.
    pub fn encrypt(
        &mut self,
        iv: &[u8; IV_BYTES],
        aad: &[u8],
        input: &[u8],
        out: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], CipherError> {
        let mut tag = [0; TAG_BYTES];
        if input.len() != out.len() {
            return Err(CipherError::Refused);
        }
        // SAFETY: live until dropped and not shared; all buffers have the stated lengths.
        result(unsafe {
            sys::bh_cipher_encrypt(
                self.0.as_ptr(),
                iv.as_ptr(),
                aad.as_ptr(),
                aad.len() as u64,
                input.as_ptr(),
                out.as_mut_ptr(),
                input.len() as u64,
                tag.as_mut_ptr(),
            )
        })?;
        Ok(tag)
    }

    /// Decrypts `input` to `out`, which has the same length, if the tag matches.
    pub fn decrypt(
        &mut self,
        iv: &[u8; IV_BYTES],
        aad: &[u8],
        input: &[u8],
        out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), CipherError> {
        if input.len() != out.len() {
            return Err(CipherError::Refused);
        }
        // SAFETY: as above.
        result(unsafe {
            sys::bh_cipher_decrypt(
                self.0.as_ptr(),
                iv.as_ptr(),
                aad.as_ptr(),
                aad.len() as u64,
                input.as_ptr(),
                out.as_mut_ptr(),
                input.len() as u64,
                tag.as_ptr(),
            )
        })
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        // SAFETY: live, and not used afterwards.
        unsafe { sys::bh_cipher_close(self.0.as_ptr()) };
    }
}

/// Memory that the engine lends for one call; `None` where it has none.
///
/// # Safety
/// `data` points to `bytes` readable bytes without writers while the slice exists, or `bytes` is
/// zero.
unsafe fn lent<'a>(data: *const u8, bytes: u64) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(data, bytes as usize) }
}

/// Like [`lent`], writable.
///
/// # Safety
/// As for [`lent`], and without other readers.
unsafe fn lent_mut<'a>(data: *mut u8, bytes: u64) -> &'a mut [u8] {
    if bytes == 0 {
        return &mut [];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts_mut(data, bytes as usize) }
}

fn ready(key: &[u8]) -> Option<aead::LessSafeKey> {
    let algorithm = match key.len() {
        16 => &aead::AES_128_GCM,
        32 => &aead::AES_256_GCM,
        _ => return None,
    };
    let key = aead::UnboundKey::new(algorithm, key).ok()?;
    Some(aead::LessSafeKey::new(key))
}

/// # Safety
/// All pointers are to memory of the stated lengths, as `shim_crypto.h` specifies.
#[allow(clippy::too_many_arguments, reason = "the shim's arguments")]
unsafe extern "C" fn seal(
    key: *const u8,
    key_bytes: u64,
    iv: *const u8,
    aad: *const u8,
    aad_bytes: u64,
    data: *mut u8,
    data_bytes: u64,
    tag: *mut u8,
) -> i32 {
    // SAFETY: promised by the caller; the buffers do not overlap.
    let (key, iv, aad, data, tag) = unsafe {
        (
            lent(key, key_bytes),
            lent(iv, IV_BYTES as u64),
            lent(aad, aad_bytes),
            lent_mut(data, data_bytes),
            lent_mut(tag, TAG_BYTES as u64),
        )
    };
    let sealed = ready(key).and_then(|key| {
        // The engine never uses one twice with the same key.
        let nonce = aead::Nonce::try_assume_unique_for_key(iv).ok()?;
        key.seal_in_place_separate_tag(nonce, aead::Aad::from(aad), data)
            .ok()
    });
    match sealed {
        Some(made) => {
            tag.copy_from_slice(made.as_ref());
            0
        }
        None => Errno::INVAL.raw_os_error(),
    }
}

/// # Safety
/// As for [`seal`].
#[allow(clippy::too_many_arguments, reason = "the shim's arguments")]
unsafe extern "C" fn open(
    key: *const u8,
    key_bytes: u64,
    iv: *const u8,
    aad: *const u8,
    aad_bytes: u64,
    data: *mut u8,
    data_bytes: u64,
    tag: *const u8,
) -> i32 {
    // SAFETY: promised by the caller; the buffers do not overlap.
    let (key, iv, aad, data, tag) = unsafe {
        (
            lent(key, key_bytes),
            lent(iv, IV_BYTES as u64),
            lent(aad, aad_bytes),
            lent_mut(data, data_bytes),
            lent(tag, TAG_BYTES as u64),
        )
    };
    let opened = ready(key).and_then(|key| {
        let nonce = aead::Nonce::try_assume_unique_for_key(iv).ok()?;
        let tag = aead::Tag::try_from(tag).ok()?;
        key.open_in_place_separate_tag(nonce, aead::Aad::from(aad), tag, data, 0..)
            .ok()
            .map(|_| ())
    });
    match opened {
        Some(()) => 0,
        None => Errno::BADMSG.raw_os_error(),
    }
}

static RING: sys::bh_gcm = sys::bh_gcm {
    bg_seal: seal,
    bg_open: open,
};

/// Selects the faster implementation in the engine. Without a valid choice the engine's own one stays.
pub(crate) fn choose() {
    // SAFETY: the library runs; the installed table is static.
    unsafe { sys::bh_gcm_install(&RING) };
    let (ring, library) = (sample(Code::InUse), sample(Code::OpenZfs));
    let same = matches!((&ring, &library), (Ok(a), Ok(b)) if a.1 == b.1);
    if !same {
        tracing::error!("two implementations of AES-GCM differ: the engine's own is used");
    }
    let quicker = matches!((&ring, &library), (Ok(a), Ok(b)) if a.0 <= b.0);
    if !same || !quicker {
        // SAFETY: as above.
        unsafe { sys::bh_gcm_install(std::ptr::null()) };
    }
    let took = |sample: Result<(Duration, _), _>| sample.ok().map(|(took, _)| took);
    tracing::debug!(
        ring = ?took(ring),
        openzfs = ?took(library),
        "AES-256-GCM of {SAMPLE_BYTES} bytes"
    );
}

/// The output of an encryption.
type Sealed = (Vec<u8>, [u8; TAG_BYTES]);

/// The shortest time of a run, and its output.
fn sample(code: Code) -> Result<(Duration, Sealed), CipherError> {
    let input: Vec<u8> = (0..SAMPLE_BYTES).map(|at| at as u8).collect();
    let mut out = vec![0; SAMPLE_BYTES];
    let mut cipher = Cipher::prepare(Mode::Gcm, code, &[7; 32])?;
    let mut best = Duration::MAX;
    let mut tag = [0; TAG_BYTES];
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        tag = cipher.encrypt(&[9; IV_BYTES], &[], &input, &mut out)?;
        best = best.min(begun.elapsed());
    }
    Ok((best, (out, tag)))
}
