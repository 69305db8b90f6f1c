//! Certificates (X.509, RFC 5280) that sign themselves, and for how long one is valid. What they are believed
//! for is decided elsewhere: by a fingerprint, or by a person.

#![forbid(unsafe_code)]

mod der;
mod pinned;

pub use pinned::{
    Fingerprint, Identity, NoFingerprint, OtherCertificate, ReadError, is_unknown_there, sha256,
};

use std::net::IpAddr;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use self::der::{
    BIT_STRING, BOOLEAN, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, UTC_TIME,
    UTF8_STRING, element, put, read,
};

/// Object identifiers, encoded.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];

/// Tags that mean something in one place only.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// A date before which nothing was signed, and the one that stands for no end (RFC 5280, 4.1.2.5).
const NOT_BEFORE: &[u8] = b"19750101000000Z";
const NOT_AFTER: &[u8] = b"99991231235959Z";
/// Bytes of a serial number; RFC 5280 allows 20.
const SERIAL_BYTES: usize = 16;
/// Characters of a common name (RFC 5280, upper bounds).
const COMMON_NAME_MAX: usize = 64;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Whatever those agree on who know its fingerprint.
    Any,
    /// A server.
    Server,
    /// To be its own authority.
    Authority,
}

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// A certificate is for somebody.
    #[error("no name was given")]
    NoName,
    /// Not the name of a host.
    #[error("{0:?} is no name of a host and no address")]
    Name(String),
    /// No random bytes, or no key from them.
    #[error("make a key")]
    Key,
}

/// A certificate and its private key.
pub struct Made {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// The private key, PKCS #8.
    pub key: Vec<u8>,
}

impl Made {
    /// The certificate as text.
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The private key as text.
    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.key)
    }
}

/// A certificate for `names` (hosts and addresses), with a new key on the curve P-256.
///
/// # Errors
///
/// A name is none, or there are no random bytes.
pub fn make(names: &[String], purpose: Purpose) -> Result<Made, CertificateError> {
    let first = names.first().ok_or(CertificateError::NoName)?;
    let random = SystemRandom::new();
    let no_key = |_| CertificateError::Key;
    let key =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).map_err(no_key)?;
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random)
        .map_err(|_| CertificateError::Key)?;
    let mut serial = [0; SERIAL_BYTES];
    random.fill(&mut serial).map_err(no_key)?;
    // Neither negative nor with a needless zero in front.
    serial[0] = serial[0] & 0x7f | 0x40;

    let algorithm = put(SEQUENCE, &[put(OID, &[ECDSA_WITH_SHA256.to_vec()])]);
    let common: String = first.chars().take(COMMON_NAME_MAX).collect();
    let name = [
        put(OID, &[COMMON_NAME.to_vec()]),
        put(UTF8_STRING, &[common.into_bytes()]),
    ];
    let name = put(SEQUENCE, &[put(SET, &[put(SEQUENCE, &name)])]);
    let validity = [
        // Until 2049 years have two digits.
        put(UTC_TIME, &[NOT_BEFORE[2..].to_vec()]),
        put(GENERALIZED_TIME, &[NOT_AFTER.to_vec()]),
    ];
    let curve = [
        put(OID, &[EC_PUBLIC_KEY.to_vec()]),
        put(OID, &[PRIME256V1.to_vec()]),
    ];
    let public = [put(SEQUENCE, &curve), bits(pair.public_key().as_ref())];
    let to_sign = put(
        SEQUENCE,
        &[
            put(VERSION, &[put(INTEGER, &[vec![2]])]),
            put(INTEGER, &[serial.to_vec()]),
            algorithm.clone(),
            name.clone(),
            put(SEQUENCE, &validity),
            name,
            put(SEQUENCE, &public),
            put(EXTENSIONS, &[put(SEQUENCE, &extensions(names, purpose)?)]),
        ],
    );
    let signature = pair.sign(&random, &to_sign).map_err(no_key)?;
    let certificate = put(SEQUENCE, &[to_sign, algorithm, bits(signature.as_ref())]);
    Ok(Made {
        certificate,
        key: key.as_ref().to_vec(),
    })
}

fn bits(bytes: &[u8]) -> Vec<u8> {
    // No bit of the last byte is unused.
    put(BIT_STRING, &[vec![0], bytes.to_vec()])
}

fn extensions(names: &[String], purpose: Purpose) -> Result<Vec<Vec<u8>>, CertificateError> {
    let extension = |id: &[u8], is_critical: bool, value: Vec<u8>| {
        let mut parts = vec![put(OID, &[id.to_vec()])];
        if is_critical {
            parts.push(put(BOOLEAN, &[vec![0xff]]));
        }
        parts.push(put(OCTET_STRING, &[value]));
        put(SEQUENCE, &parts)
    };
    let names: Vec<_> = names
        .iter()
        .map(|name| alternative(name))
        .collect::<Result<_, _>>()?;
    let mut all = vec![extension(SUBJECT_ALT_NAME, false, put(SEQUENCE, &names))];
    match purpose {
        Purpose::Any => {}
        Purpose::Server => {
            let server = put(SEQUENCE, &[put(OID, &[SERVER_AUTH.to_vec()])]);
            all.push(extension(EXTENDED_KEY_USAGE, false, server));
        }
        Purpose::Authority => {
            let authority = put(SEQUENCE, &[put(BOOLEAN, &[vec![0xff]])]);
            all.push(extension(BASIC_CONSTRAINTS, true, authority));
        }
    }
    Ok(all)
}

fn alternative(name: &str) -> Result<Vec<u8>, CertificateError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        return Ok(put(IP_ADDRESS, &[bytes]));
    }
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
    match !name.is_empty() && name.bytes().all(may_be) {
        true => Ok(put(DNS_NAME, &[name.as_bytes().to_vec()])),
        false => Err(CertificateError::Name(name.to_owned())),
    }
}

/// When a certificate (DER) begins and ends to be valid, as it says (RFC 5280, section 4.1.2.5): digits of year,
/// month, day, hour, minute and second, and `Z`. None for what is no certificate.
pub fn validity(certificate: &[u8]) -> Option<(String, String)> {
    let (certificate, _) = read(SEQUENCE, certificate)?;
    let (mut signed, _) = read(SEQUENCE, certificate)?;
    if let Some((_, rest)) = read(VERSION, signed) {
        signed = rest;
    }
    // The serial number, the algorithm, the issuer.
    for _ in 0..3 {
        signed = element(signed)?.2;
    }
    let (validity, _) = read(SEQUENCE, signed)?;
    let (from_tag, from, rest) = element(validity)?;
    let (until_tag, until, _) = element(rest)?;
    Some((moment(from_tag, from)?, moment(until_tag, until)?))
}

fn moment(tag: u8, text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Years from 50 on are of the last century.
        UTC_TIME if text >= "50" => format!("19{text}"),
        UTC_TIME => format!("20{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let digits = text.strip_suffix('Z')?;
    let is_moment = digits.len() == 14 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_moment.then_some(text)
}

/// RFC 7468: lines of 64 characters between two marks.
fn pem(label: &str, bytes: &[u8]) -> String {
    const LINE: usize = 64;
    let text = base64(bytes);
    let mut lines = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        lines.push_str(line);
        lines.push('\n');
        rest = after;
    }
    lines + &format!("-----END {label}-----\n")
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn the_time_of_a_certificate_is_read_and_nothing_beyond_its_end() {
        let made = make(&names(&["a.example"]), Purpose::Any).expect("made");
        let found = validity(&made.certificate).expect("a certificate");
        assert_eq!(found, ("19750101000000Z".into(), "99991231235959Z".into()));
        for length in 0..made.certificate.len() {
            let _ = validity(&made.certificate[..length]);
        }
        assert_eq!(validity(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(
            moment(UTC_TIME, b"261121053609Z"),
            Some("20261121053609Z".into())
        );
        assert_eq!(moment(UTC_TIME, b"2611210536Z"), None);
        assert_eq!(
            moment(GENERALIZED_TIME, b"20510102000000Z"),
            Some("20510102000000Z".into())
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for bad in ["", "a b", "\u{e9}.example", "a/b"] {
            let refused = make(&names(&[bad]), Purpose::Server).err();
            assert_eq!(refused, Some(CertificateError::Name(bad.to_owned())));
        }
        assert_eq!(
            make(&[], Purpose::Any).err(),
            Some(CertificateError::NoName)
        );
    }

    /// A stranger reads it: OpenSSL, where it is installed.
    #[test]
    fn openssl_takes_what_is_made_and_sees_what_was_meant() {
        let folder = std::env::temp_dir().join(format!("certificates-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let openssl = |words: &[&str]| {
            let run = std::process::Command::new("openssl")
                .args(words)
                .output()
                .ok()?;
            let errors = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{words:?}: {errors}");
            Some(String::from_utf8_lossy(&run.stdout).into_owned())
        };
        let made = make(
            &names(&["left.example", "10.0.0.1", "fd00::1"]),
            Purpose::Authority,
        );
        let made = made.expect("made");
        std::fs::write(path("c"), made.certificate_pem()).expect("written");
        std::fs::write(path("k"), made.key_pem()).expect("written");
        let told = openssl(&["x509", "-in", &path("c"), "-noout", "-text"]);
        let verified = openssl(&["verify", "-CAfile", &path("c"), &path("c")]);
        let public = openssl(&["x509", "-in", &path("c"), "-noout", "-pubkey"]);
        let of_key = openssl(&["pkey", "-in", &path("k"), "-pubout"]);
        std::fs::remove_dir_all(&folder).expect("removed");
        let Some(told) = told else {
            return;
        };
        for part in [
            "Version: 3",
            "CN = left.example",
            "DNS:left.example, IP Address:10.0.0.1, IP Address:FD00:0:0:0:0:0:0:1",
            "CA:TRUE",
            "ecdsa-with-SHA256",
            "NIST CURVE: P-256",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(verified.is_some_and(|said| said.ends_with(": OK\n")));
        assert_eq!(public, of_key);
    }
}
