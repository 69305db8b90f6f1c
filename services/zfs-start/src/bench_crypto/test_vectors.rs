//! Test vectors: blocks of NIST SP 800-38A for the bare cipher and the modes of OpenSSL, and
//! for GCM vectors of NIST's validation suite (CAVP, gcmEncryptExtIV) and of the mode's proposal to
//! NIST. Speed without correct results would be meaningless.

use control::{Failure, FailureKind};
use zpool::Engine;
use zpool::crypto::{Cipher, CipherError, Code, IV_BYTES, Mode, TAG_BYTES};

/// The plaintext of SP 800-38A, appendix F.
pub const BLOCKS: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                          30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
const KEY_128: &str = "2b7e151628aed2a6abf7158809cf4f3c";
const KEY_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
const CBC_IV: &str = "000102030405060708090a0b0c0d0e0f";
const CTR_IV: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

/// The result of a mode for [`BLOCKS`].
pub struct Vector {
    /// OpenSSL's name of it.
    pub cipher: &'static str,
    /// The key.
    pub key: &'static str,
    /// The initialisation vector, or the first counter.
    pub iv: &'static str,
    /// The ciphertext.
    pub answer: &'static str,
}

const fn vector(
    cipher: &'static str,
    key: &'static str,
    iv: &'static str,
    answer: &'static str,
) -> Vector {
    Vector {
        cipher,
        key,
        iv,
        answer,
    }
}

/// SP 800-38A, F.1.1, F.1.5, F.2.1, F.2.5, F.5.1 and F.5.5.
pub const VECTORS: [Vector; 6] = [
    vector(
        "aes-128-ecb",
        KEY_128,
        "",
        "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf\
         43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4",
    ),
    vector(
        "aes-256-ecb",
        KEY_256,
        "",
        "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870\
         b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
    ),
    vector(
        "aes-128-cbc",
        KEY_128,
        CBC_IV,
        "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
         73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
    ),
    vector(
        "aes-256-cbc",
        KEY_256,
        CBC_IV,
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
         39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
    ),
    vector(
        "aes-128-ctr",
        KEY_128,
        CTR_IV,
        "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
         5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
    ),
    vector(
        "aes-256-ctr",
        KEY_256,
        CTR_IV,
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
         2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
    ),
];

/// One authenticated encryption.
struct GcmVector {
    key: &'static str,
    iv: &'static str,
    plain: &'static str,
    aad: &'static str,
    secret: &'static str,
    tag: &'static str,
}

const GCM_VECTORS: [GcmVector; 4] = [
    GcmVector {
        key: "7fddb57453c241d03efbed3ac44e371c",
        iv: "ee283a3fc75575e33efd4887",
        plain: "d5de42b461646c255c87bd2962d3b9a2",
        aad: "",
        secret: "2ccda4a5415cb91e135c2a0f78c9b2fd",
        tag: "b36d1df9b9d5e596f83e8b7f52971cb3",
    },
    GcmVector {
        key: "31bdadd96698c204aa9ce1448ea94ae1fb4a9a0b3c9d773b51bb1822666b8f22",
        iv: "0d18e06c7c725ac9e362e1ce",
        plain: "2db5168e932556f8089a0622981d017d",
        aad: "",
        secret: "fa4362189661d163fcd6a56d8bf0405a",
        tag: "d636ac1bbedd5cc3ee727dc2ab4a9489",
    },
    GcmVector {
        key: "feffe9928665731c6d6a8f9467308308",
        iv: "cafebabefacedbaddecaf888",
        plain: PROPOSAL_PLAIN,
        aad: PROPOSAL_AAD,
        secret: "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
                 21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        tag: "5bc94fbc3221a5db94fae95ae7121a47",
    },
    GcmVector {
        key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        iv: "cafebabefacedbaddecaf888",
        plain: PROPOSAL_PLAIN,
        aad: PROPOSAL_AAD,
        secret: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                 8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        tag: "76fc6ece0f4e1768cddf8853bb2d551b",
    },
];

const PROPOSAL_PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                              1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
const PROPOSAL_AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";

/// The bytes of a constant of this file.
pub fn hex(digits: &str) -> Vec<u8> {
    let digits = digits.as_bytes().chunks_exact(2);
    let value = |digit: u8| char::from(digit).to_digit(16).expect("a constant");
    digits
        .map(|pair| ((value(pair[0]) << 4) | value(pair[1])) as u8)
        .collect()
}

fn fixed<const N: usize>(digits: &str) -> [u8; N] {
    hex(digits).try_into().expect("a constant")
}

/// Runs the tests with the engine's own code and with the selected implementation. Returns the
/// number of tests.
pub fn check(engine: &Engine) -> Result<usize, Failure> {
    let wrong = |what: String| {
        let message = format!("the engine's {what}: a test vector failed");
        Failure::new(FailureKind::Failed, message)
            .advise("do not encrypt anything on this host until the cause is found")
    };
    let mut count = 0;
    for code in [Code::InUse, Code::OpenZfs] {
        for vector in VECTORS
            .iter()
            .filter(|vector| vector.cipher.ends_with("ecb"))
        {
            match ecb(engine, code, vector) {
                Ok(true) => count += 1,
                _ => return Err(wrong(format!("{} ({code:?})", vector.cipher))),
            }
        }
        for vector in &GCM_VECTORS {
            match gcm(engine, code, vector) {
                Ok(true) => count += 1,
                _ => {
                    return Err(wrong(format!(
                        "AES-{}-GCM ({code:?})",
                        vector.key.len() * 4
                    )));
                }
            }
        }
    }
    Ok(count)
}

fn ecb(engine: &Engine, code: Code, vector: &Vector) -> Result<bool, CipherError> {
    let mut cipher = Cipher::new(engine, Mode::Ecb, code, &hex(vector.key))?;
    let (plain, secret) = (hex(BLOCKS), hex(vector.answer));
    let mut out = vec![0; plain.len()];
    let no_iv = [0; IV_BYTES];
    cipher.encrypt(&no_iv, &[], &plain, &mut out)?;
    let mut back = vec![0; plain.len()];
    cipher.decrypt(&no_iv, &[], &secret, &mut back, &[0; TAG_BYTES])?;
    Ok(out == secret && back == plain)
}

fn gcm(engine: &Engine, code: Code, vector: &GcmVector) -> Result<bool, CipherError> {
    let mut cipher = Cipher::new(engine, Mode::Gcm, code, &hex(vector.key))?;
    let (plain, secret, aad) = (hex(vector.plain), hex(vector.secret), hex(vector.aad));
    let (iv, tag) = (fixed(vector.iv), fixed::<TAG_BYTES>(vector.tag));
    let mut out = vec![0; plain.len()];
    let made = cipher.encrypt(&iv, &aad, &plain, &mut out)?;
    let mut back = vec![0; plain.len()];
    cipher.decrypt(&iv, &aad, &secret, &mut back, &tag)?;
    let mut other = tag;
    other[0] ^= 1;
    let forged = cipher.decrypt(&iv, &aad, &secret, &mut vec![0; plain.len()], &other);
    Ok(out == secret && made == tag && back == plain && forged == Err(CipherError::Tag))
}
