//! Mutual TLS 1.3 between peers that pin each other's certificates by fingerprint. No authority, no dates.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName,
    Error, OtherError, PeerMisbehaved, ServerConfig, SignatureScheme,
};

/// The identity of a certificate: SHA-256 of its DER form, as 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of this certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(sha256(certificate))
    }
}

/// SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let sum = digest(&SHA256, bytes);
    sum.as_ref().try_into().expect("32 bytes")
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&units::hex::encode(&self.0))
    }
}

/// Text that is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 64 hex digits")]
pub struct InvalidFingerprint;

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;
    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        let bytes = units::hex::decode(text).ok_or(InvalidFingerprint)?;
        bytes.try_into().map(Self).map_err(|_| InvalidFingerprint)
    }
}

/// The peer's certificate is not one of the pinned ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the certificate there has the fingerprint {0}, which is not the one that is known here")]
pub struct UnpinnedCertificate(pub Fingerprint);

impl UnpinnedCertificate {
    /// Returns whether a handshake failed for that reason.
    pub fn of(error: &std::io::Error) -> Option<Self> {
        match error.get_ref()?.downcast_ref()? {
            Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
                cause.downcast_ref().copied()
            }
            _ => None,
        }
    }
}

/// Returns whether the peer ended a handshake because it does not accept our certificate.
pub fn is_rejected_by_peer(error: &std::io::Error) -> bool {
    let found = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(
        found,
        Some(Error::AlertReceived(AlertDescription::CertificateUnknown))
    )
}

/// Why a certificate or its key cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read {}", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    #[source]
    cause: pem::Error,
}

/// A certificate with its private key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Creates one from a certificate (DER) and its private key (PKCS #8).
    pub fn new(certificate: Vec<u8>, key: Vec<u8>) -> Self {
        Self {
            certificate: certificate.into(),
            key: PrivatePkcs8KeyDer::from(key).into(),
        }
    }

    /// Of PEM files.
    ///
    /// # Errors
    ///
    /// One cannot be read, or is none.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, ReadError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| ReadError { path, cause }
        };
        Ok(Self {
            certificate: CertificateDer::from_pem_file(certificate).map_err(failed(certificate))?,
            key: PrivateKeyDer::from_pem_file(key).map_err(failed(key))?,
        })
    }

    /// Returns the fingerprint that peers pin.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// Returns a TLS configuration for connections to the owner of this certificate.
    pub fn client(&self, peer: Fingerprint) -> Result<Arc<ClientConfig>, Error> {
        let pinned = Pinned::new(vec![peer]);
        let config = ClientConfig::builder_with_provider(Arc::clone(&pinned.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        Ok(Arc::new(config))
    }

    /// Returns a TLS configuration that accepts the owners of these certificates only.
    pub fn server(&self, peers: Vec<Fingerprint>) -> Result<Arc<ServerConfig>, Error> {
        let pinned = Pinned::new(peers);
        let config = ServerConfig::builder_with_provider(Arc::clone(&pinned.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(pinned))
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        Ok(Arc::new(config))
    }
}

/// Accepts the pinned certificates, regardless of the signer. The handshake's signature proves that
/// the peer has the key, as always.
#[derive(Debug)]
struct Pinned {
    accepted: Vec<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn new(accepted: Vec<Fingerprint>) -> Self {
        Self {
            accepted,
            provider: Arc::new(rustls::crypto::ring::default_provider()),
        }
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let shown = Fingerprint::of(certificate);
        match self.accepted.contains(&shown) {
            true => Ok(()),
            false => {
                let error = OtherError(Arc::new(UnpinnedCertificate(shown)));
                Err(CertificateError::Other(error).into())
            }
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// The version is not offered, so that a peer that uses it violates the protocol.
fn no_older_version() -> Error {
    PeerMisbehaved::SelectedUnofferedCipherSuite.into()
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(certificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_older_version())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(certificate)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_older_version())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, make};

    fn identity() -> Identity {
        let made = make(&["tank.bulkhead".into()], Purpose::Any).expect("made");
        Identity::new(made.certificate, made.key)
    }

    #[test]
    fn only_a_pinned_certificate_is_accepted() {
        let (one, other) = (identity(), identity());
        assert_ne!(one.fingerprint(), other.fingerprint());
        let pinned = Pinned::new(vec![one.fingerprint()]);
        assert!(pinned.check(&one.certificate).is_ok());
        let refused = pinned.check(&other.certificate).expect_err("a stranger");
        let refused = std::io::Error::other(refused);
        let seen = UnpinnedCertificate(other.fingerprint());
        assert_eq!(UnpinnedCertificate::of(&refused), Some(seen));
        one.client(other.fingerprint()).expect("a client");
        one.server(vec![other.fingerprint()]).expect("a server");
    }

    #[test]
    fn fingerprint_text_round_trips() {
        let one = identity().fingerprint();
        assert_eq!(one.to_string().parse(), Ok(one));
        for bad in ["", "00", &"0".repeat(63), &"0".repeat(66)] {
            assert_eq!(bad.parse::<Fingerprint>(), Err(InvalidFingerprint), "{bad}");
        }
    }
}
