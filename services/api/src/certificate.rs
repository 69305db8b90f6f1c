//! The certificate of a head: self-signed, or provided by the administrator.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use certificates::Purpose;
use control::{Failure, FailureKind};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// The certificate with its intermediate certificates, PEM.
pub const CERTIFICATE: &str = "certificate.pem";
/// Its private key, PEM.
pub const KEY: &str = "key.pem";
/// The key of a certificate that is about to replace the former.
const NEXT_KEY: &str = "key.next.pem";

/// A certificate in use.
pub struct Certificate {
    /// The TLS configuration with it.
    pub config: Arc<ServerConfig>,
    own: CertificateDer<'static>,
}

impl Certificate {
    /// Whether it is valid for the host `name`.
    pub fn is_for(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name.to_owned()) else {
            return false;
        };
        rustls::server::ParsedCertificate::try_from(&self.own)
            .is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, &name).is_ok())
    }
}

fn failed(path: &Path, what: &dyn std::fmt::Display) -> Failure {
    let message = format!("use {}: {what}", path.display());
    Failure::new(FailureKind::Failed, message)
        .advise("`bulkhead head certificate` creates a new one, or installs yours")
}

/// The certificate in `folder`; `None` if there is none.
pub fn load(folder: &Path) -> Result<Option<Certificate>, Failure> {
    let (certificate, key) = paths(folder);
    if !certificate.exists() {
        return Ok(None);
    }
    match read(&certificate, &key) {
        Ok(certificate) => Ok(Some(certificate)),
        // A replacement was interrupted between its two renames.
        Err(failure) => match read(&certificate, &folder.join(NEXT_KEY)) {
            Ok(certificate) => Ok(Some(certificate)),
            Err(_) => Err(failure),
        },
    }
}

fn paths(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join(CERTIFICATE), folder.join(KEY))
}

fn read(certificate: &Path, key: &Path) -> Result<Certificate, Failure> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| failed(certificate, &error))?;
    let own = chain.first().cloned();
    let own = own.ok_or_else(|| failed(certificate, &"it has no section BEGIN CERTIFICATE"))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(crate::tls_provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(certificate, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| failed(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Certificate {
        config: Arc::new(config),
        own,
    })
}

/// Creates a self-signed certificate for `names` (hosts and addresses).
pub fn make(folder: &Path, names: &[String]) -> Result<(), Failure> {
    let (certificate, key) = paths(folder);
    let made = certificates::make(names, Purpose::Server).map_err(|error| {
        let message = format!("make a certificate for {}: {error}", names.join(", "));
        Failure::usage(message).advise("write host names and addresses only")
    })?;
    store(
        &certificate,
        &key,
        made.certificate_pem().as_bytes(),
        made.key_pem().as_bytes(),
    )
}

/// Installs the administrator's files, if they match.
pub fn take(folder: &Path, certificate: &Path, key: &Path) -> Result<(), Failure> {
    read(certificate, key)?;
    let bytes = |path: &Path| std::fs::read(path).map_err(|error| failed(path, &error));
    let (to_certificate, to_key) = paths(folder);
    store(&to_certificate, &to_key, &bytes(certificate)?, &bytes(key)?)
}

fn store(certificate: &Path, key: &Path, public: &[u8], secret: &[u8]) -> Result<(), Failure> {
    let folder = certificate.parent().unwrap_or(Path::new("."));
    crate::accounts::create_private_directory(folder).map_err(|error| failed(folder, &error))?;
    let next = folder.join(NEXT_KEY);
    if read(certificate, &next).is_ok() {
        std::fs::rename(&next, key).map_err(|error| failed(key, &error))?;
    }
    // At any time a certificate exists, and one of the two keys belongs to it.
    for (path, bytes) in [(next.as_path(), secret), (certificate, public)] {
        crate::accounts::replace_private(path, bytes).map_err(|error| failed(path, &error))?;
    }
    std::fs::rename(&next, key).map_err(|error| failed(key, &error))
}

/// The names for the certificate of the host called `host`.
pub fn usual_names(host: String) -> Vec<String> {
    vec![host, "localhost".to_owned(), "127.0.0.1".to_owned()]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn generated_certificate_is_valid_for_its_names() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(load(folder.path()).expect("none").is_none());
        make(
            folder.path(),
            &["left.example.org".into(), "10.0.0.1".into()],
        )
        .expect("made");
        let certificate = load(folder.path()).expect("good").expect("there");
        assert!(certificate.is_for("left.example.org") && certificate.is_for("10.0.0.1"));
        assert!(!certificate.is_for("evil.example.org") && !certificate.is_for(""));
        let key = std::fs::metadata(folder.path().join(KEY)).expect("a key");
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
    }

    /// A read at any point of a replacement finds the former or the new certificate.
    #[test]
    fn certificate_is_readable_at_every_step_of_replacement() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        make(folder.path(), &["old.example".into()]).expect("made");
        let (old_key, old) = (path("old key"), path("old"));
        std::fs::copy(path(KEY), &old_key).expect("kept");
        std::fs::copy(path(CERTIFICATE), &old).expect("kept");
        make(folder.path(), &["new.example".into()]).expect("made");
        assert!(!path(NEXT_KEY).exists());
        let is_for = |name: &str| {
            let found = load(folder.path()).expect("good").expect("there");
            found.is_for(name)
        };
        assert!(is_for("new.example"));
        // Interrupted before the second rename, and before the first.
        std::fs::rename(path(KEY), path(NEXT_KEY)).expect("renamed");
        std::fs::copy(&old_key, path(KEY)).expect("the old key");
        assert!(is_for("new.example"));
        std::fs::copy(&old, path(CERTIFICATE)).expect("the old certificate");
        assert!(is_for("old.example"));
    }

    #[test]
    fn mismatched_certificate_files_are_refused_unchanged() {
        let (one, two) = (
            tempfile::tempdir().expect("one"),
            tempfile::tempdir().expect("two"),
        );
        for folder in [&one, &two] {
            make(folder.path(), &["localhost".into()]).expect("made");
        }
        let third = tempfile::tempdir().expect("three");
        let (certificate, _) = paths(one.path());
        let (_, wrong_key) = paths(two.path());
        take(third.path(), &certificate, &wrong_key).expect_err("another key");
        assert!(load(third.path()).expect("none").is_none());
        let (_, key) = paths(one.path());
        take(third.path(), &certificate, &key).expect("taken");
        assert!(load(third.path()).expect("good").is_some());
    }
}
