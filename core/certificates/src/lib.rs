//! Self-signed certificates (X.509, RFC 5280) and their validity periods. Trust is decided elsewhere: by a fingerprint,
//! or by an administrator.

#![forbid(unsafe_code)]

mod pinned;

pub use pinned::{
    Fingerprint, Identity, InvalidFingerprint, ReadError, UnpinnedCertificate, is_rejected_by_peer,
    sha256,
};

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256,
};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

/// Longest common name, in characters (RFC 5280, upper bounds).
const COMMON_NAME_MAX: usize = 64;

/// The purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Any purpose that the holders of its fingerprint agree on.
    Any,
    /// A server.
    Server,
    /// To act as its own authority.
    Authority,
}

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// A certificate must name its owner.
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
pub struct Generated {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// The private key, PKCS #8.
    pub key: Vec<u8>,
}

impl Generated {
    /// The certificate, PEM (RFC 7468).
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The private key, PEM.
    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.key)
    }
}

fn pem(label: &str, bytes: &[u8]) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, bytes), lines)
}

/// Creates a self-signed certificate for `names` (hosts and addresses), with a new key on the curve P-256. It
/// never expires (RFC 5280, 4.1.2.5).
///
/// # Errors
///
/// A name is not valid, or no random bytes are available.
pub fn make(names: &[String], purpose: Purpose) -> Result<Generated, CertificateError> {
    let first = names.first().ok_or(CertificateError::NoName)?;
    if let Some(bad) = names.iter().find(|name| !is_name(name)) {
        return Err(CertificateError::Name(bad.clone()));
    }
    let no_key = |_| CertificateError::Key;
    let mut params = CertificateParams::new(names).map_err(no_key)?;
    let common: String = first.chars().take(COMMON_NAME_MAX).collect();
    params.distinguished_name.push(DnType::CommonName, common);
    params.not_before = rcgen::date_time_ymd(1975, 1, 1);
    let last_second = Duration::from_secs(24 * 60 * 60 - 1);
    params.not_after = rcgen::date_time_ymd(9999, 12, 31) + last_second;
    match purpose {
        Purpose::Any => {}
        Purpose::Server => params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth],
        Purpose::Authority => params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(no_key)?;
    let certificate = params.self_signed(&key).map_err(no_key)?;
    Ok(Generated {
        certificate: certificate.der().to_vec(),
        key: key.serialize_der(),
    })
}

/// Returns whether a name is allowed in a certificate: letters, digits and `-._*`, or an address.
fn is_name(name: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
    name.parse::<std::net::IpAddr>().is_ok() || !name.is_empty() && name.bytes().all(may_be)
}

/// The first and the last second in which a certificate (DER) is valid (RFC 5280, section 4.1.2.5): digits of year,
/// month, day, hour, minute and second, and `Z`. `None` if `certificate` cannot be parsed.
pub fn validity(certificate: &[u8]) -> Option<(String, String)> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let validity = certificate.validity();
    Some((digits(validity.not_before), digits(validity.not_after)))
}

fn digits(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = time.to_hms();
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn validity_is_parsed_and_truncated_input_is_refused() {
        let made = make(&names(&["a.example"]), Purpose::Any).expect("made");
        let found = validity(&made.certificate).expect("a certificate");
        assert_eq!(found, ("19750101000000Z".into(), "99991231235959Z".into()));
        for length in 0..made.certificate.len() {
            let _ = validity(&made.certificate[..length]);
        }
        assert_eq!(validity(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn invalid_names_are_refused() {
        for bad in ["", "a b", "\u{e9}.example", "a/b"] {
            let refused = make(&names(&[bad]), Purpose::Server).err();
            assert_eq!(refused, Some(CertificateError::Name(bad.to_owned())));
        }
        assert_eq!(
            make(&[], Purpose::Any).err(),
            Some(CertificateError::NoName)
        );
    }

    /// An independent implementation reads it: OpenSSL, where it is installed.
    #[test]
    fn openssl_accepts_generated_certificates() {
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
