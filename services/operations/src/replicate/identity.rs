//! The identity of a pool towards other pools: a self-signed certificate, known by its fingerprint.
//! Both sides of a connection present theirs, and each accepts only configured peers.

use std::sync::Arc;

use certificates::Purpose;
use control::Failure;
use control::replication::Fingerprint;
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, ClientConfig, Error, ServerConfig};
use zeroize::Zeroizing;

/// A certificate (DER) and its private key (PKCS #8).
pub struct NewKey {
    /// The public part.
    pub certificate: Vec<u8>,
    /// The private part.
    pub key: Zeroizing<Vec<u8>>,
}

/// A pool's key.
pub struct Identity {
    own: certificates::Identity,
    /// The fingerprint that peers are configured with.
    pub fingerprint: Fingerprint,
}

impl Identity {
    /// A new key, for the pool of this name.
    pub fn make(pool: &str) -> Result<NewKey, Failure> {
        let name = format!("{pool}.bulkhead");
        let made = certificates::make(&[name], Purpose::Any)
            .map_err(Failure::of("make a key for replication"))?;
        Ok(NewKey {
            certificate: made.certificate,
            key: Zeroizing::new(made.key),
        })
    }

    /// Creates the identity from a new or a stored key.
    pub fn of(made: NewKey) -> Self {
        let own = certificates::Identity::new(made.certificate, made.key.to_vec());
        Self {
            fingerprint: named(own.fingerprint()),
            own,
        }
    }

    /// TLS towards the pool with this certificate.
    pub fn client(&self, peer: &Fingerprint) -> Result<Arc<ClientConfig>, Error> {
        self.own.client(pinned(peer)?)
    }

    /// Returns the TLS configuration of a server that accepts only these certificates.
    pub fn server(&self, peers: Vec<Fingerprint>) -> Result<Arc<ServerConfig>, Error> {
        self.own
            .server(peers.iter().map(pinned).collect::<Result<_, _>>()?)
    }
}

/// Returns the fingerprint of a certificate.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    named(certificates::Fingerprint::of(certificate))
}

fn named(fingerprint: certificates::Fingerprint) -> Fingerprint {
    let digits = fingerprint.to_string();
    digits.try_into().expect("64 hex digits")
}

fn pinned(fingerprint: &Fingerprint) -> Result<certificates::Fingerprint, Error> {
    let parsed = fingerprint.as_str().parse();
    parsed.map_err(|_| CertificateError::BadEncoding.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_is_identified_by_its_key_fingerprint() {
        let one = Identity::of(Identity::make("tank").expect("made"));
        let other = Identity::of(Identity::make("tank").expect("made"));
        assert_ne!(one.fingerprint, other.fingerprint);
        one.client(&other.fingerprint).expect("a client");
        one.server(vec![other.fingerprint]).expect("a server");
    }
}
