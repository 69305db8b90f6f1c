//! Who a pool is to other pools: a certificate that it made itself, known by its fingerprint. Both
//! sides of a connection show theirs, and each lets in only those that it was told of.

use std::sync::Arc;

use certificates::Purpose;
use control::replication::Fingerprint;
use control::{Failure, FailureKind};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerMisbehaved, ServerConfig, SignatureScheme,
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// A certificate (DER) and its private key (PKCS #8).
pub struct NewKey {
    /// What others see.
    pub certificate: Vec<u8>,
    /// What nobody else sees.
    pub key: Zeroizing<Vec<u8>>,
}

/// A pool's key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// What others know it by.
    pub fingerprint: Fingerprint,
}

impl Identity {
    /// A new key, for the pool of this name.
    pub fn make(pool: &str) -> Result<NewKey, Failure> {
        let name = format!("{pool}.bulkhead");
        let made = certificates::make(&[name], Purpose::Any).map_err(|error| {
            let message = format!("make a key for replication: {error}");
            Failure::new(FailureKind::Failed, message)
        })?;
        Ok(NewKey {
            certificate: made.certificate,
            key: Zeroizing::new(made.key),
        })
    }

    /// What was made, or kept.
    pub fn of(made: NewKey) -> Self {
        let certificate = CertificateDer::from(made.certificate);
        Self {
            fingerprint: fingerprint(&certificate),
            key: PrivatePkcs8KeyDer::from(made.key.to_vec()).into(),
            certificate,
        }
    }

    /// TLS towards the pool with this certificate.
    pub fn client(&self, peer: &Fingerprint) -> Result<Arc<ClientConfig>, Error> {
        let pinned = Pinned::new(vec![peer.clone()]);
        let config = ClientConfig::builder_with_provider(Arc::clone(&pinned.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        Ok(Arc::new(config))
    }

    /// TLS for pools with these certificates, and nobody else.
    pub fn server(&self, peers: Vec<Fingerprint>) -> Result<Arc<ServerConfig>, Error> {
        let pinned = Pinned::new(peers);
        let config = ServerConfig::builder_with_provider(Arc::clone(&pinned.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(pinned))
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        Ok(Arc::new(config))
    }
}

/// What a certificate is known by.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    let digest = units::hex::encode(&Sha256::digest(certificate));
    digest.try_into().expect("64 hex digits")
}

/// Lets in the certificates that were named, whoever signed them. That the peer has the key is
/// proved by the handshake's signature, as always.
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
        match self.accepted.contains(&fingerprint(certificate)) {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
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

/// The version is not offered, so that a peer that uses it breaks the protocol.
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

    #[test]
    fn a_pool_is_known_by_the_fingerprint_of_its_key() {
        let one = Identity::of(Identity::make("tank").expect("made"));
        let other = Identity::of(Identity::make("tank").expect("made"));
        assert_ne!(one.fingerprint, other.fingerprint);
        let pinned = Pinned::new(vec![one.fingerprint.clone()]);
        assert!(pinned.check(&one.certificate).is_ok());
        assert!(pinned.check(&other.certificate).is_err());
        one.client(&other.fingerprint).expect("a client");
        one.server(vec![other.fingerprint]).expect("a server");
    }
}
