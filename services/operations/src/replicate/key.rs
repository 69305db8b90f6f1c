//! The pool's replication key, stored in its root dataset: the certificate in the clear, the
//! private key sealed.

use control::answer::Done;
use control::replication::{Fingerprint, KeyDocument, REPLICATION_KEY_PROPERTY};
use control::{Answer, Failure, FailureKind};
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::documents::{load, peers, replicated};
use super::identity::{Identity, NewKey, fingerprint};
use crate::Context;
use crate::documents::Documents;
use crate::seals::Ring;

/// Version of the document with a sealed key.
const SEALED: u32 = 2;

type Edit = (String, Option<String>);

fn broken() -> Failure {
    let message = "the pool's key for replication cannot be read";
    Failure::new(FailureKind::Failed, message)
        .advise("`bulkhead replicate rotate-key` creates a new key")
}

fn document(documents: &dyn Documents) -> Result<Option<KeyDocument>, Failure> {
    let root = documents.root();
    let found: Option<KeyDocument> = load(&*documents.all()?, &root, REPLICATION_KEY_PROPERTY)?;
    match &found {
        Some(document) if document.version > SEALED => Err(broken()),
        _ => Ok(found),
    }
}

fn opened(document: &KeyDocument, ring: &Ring) -> Result<NewKey, Failure> {
    let certificate = units::hex::decode(&document.certificate).ok_or_else(broken)?;
    let key = match (&document.sealed, &document.key) {
        (Some(sealed), None) => ring
            .open(REPLICATION_KEY_PROPERTY, sealed)
            .map_err(|error| {
                let message = format!("the pool's key for replication cannot be read: {error}");
                Failure::new(FailureKind::Unavailable, message).advise(
                    "copy the key from the host that has it (see \"Keys of secrets\" in the guide \
                 about recovery), or create a new key: `bulkhead replicate rotate-key`",
                )
            })?,
        (None, Some(plain)) => Zeroizing::new(units::hex::decode(plain).ok_or_else(broken)?),
        _ => return Err(broken()),
    };
    Ok(NewKey { certificate, key })
}

fn sealed(documents: &dyn Documents, made: &NewKey) -> Result<Edit, Failure> {
    let ring = documents.ring_to_seal()?;
    let document = KeyDocument {
        version: SEALED,
        certificate: units::hex::encode(&made.certificate),
        key: None,
        sealed: Some(ring.seal(REPLICATION_KEY_PROPERTY, &made.key)?),
    };
    let text = serde_json::to_string(&document).expect("documents are JSON");
    Ok((REPLICATION_KEY_PROPERTY.to_owned(), Some(text)))
}

/// Returns the identity of the pool. Creates it on first use.
pub fn identity(context: &Context<'_>) -> Result<Identity, Failure> {
    match document(context)? {
        Some(document) => Ok(Identity::of(opened(&document, &context.ring()?)?)),
        None => renew(context),
    }
}

fn renew(context: &Context<'_>) -> Result<Identity, Failure> {
    let root = context.root();
    let made = Identity::make(&root)?;
    context.edit(&root, vec![sealed(context, &made)?])?;
    Ok(Identity::of(made))
}

/// Returns the fingerprint of the pool, or none if it has no key.
pub fn fingerprint_of(context: &Context<'_>) -> Result<Option<Fingerprint>, Failure> {
    let Some(document) = document(context)? else {
        return Ok(None);
    };
    let certificate = units::hex::decode(&document.certificate).ok_or_else(broken)?;
    Ok(Some(fingerprint(&CertificateDer::from(certificate))))
}

/// Replaces the key. Peers know the old fingerprint until they are configured with the new one.
pub fn rotate(context: &Context<'_>) -> Result<Answer, Failure> {
    let fingerprint = renew(context)?.fingerprint;
    let pool = context.pool.name();
    let mut message = format!("pool {pool} is known by {fingerprint} now");
    for (dataset, document) in replicated(context)? {
        message.push_str(&format!(
            "; at {}, accept it for {} and revoke the old one, or {dataset} is not replicated any more",
            document.to, document.into
        ));
    }
    if !peers(context)?.peers.is_empty() {
        message.push_str(
            "; on each appliance that replicates into this pool, `bulkhead replicate set` with --peer \
             and this fingerprint",
        );
    }
    Ok(Done::changed(message))
}

/// Returns the edit that seals the pool's key, if it is in the clear or was sealed with another
/// key, and whether it was in the clear.
pub fn seal_key(documents: &dyn Documents) -> Result<Option<(Edit, bool)>, Failure> {
    let Ok(Some(document)) = document(documents) else {
        return Ok(None);
    };
    let was_plain = document.key.is_some();
    let is_current = |ring: &Ring| {
        let sealed = document.sealed.as_deref();
        sealed.is_some_and(|sealed| ring.is_current(sealed))
    };
    let ring = documents.ring()?;
    if !was_plain && is_current(&ring) {
        return Ok(None);
    }
    // A key that cannot be opened stays unchanged.
    let Ok(key) = opened(&document, &ring) else {
        return Ok(None);
    };
    Ok(Some((sealed(documents, &key)?, was_plain)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fake::FakeDocuments;

    #[test]
    fn plaintext_key_is_sealed_unchanged() {
        let made = Identity::make("tank").expect("made");
        let plain = units::hex::encode(&made.key);
        let old = KeyDocument {
            version: 1,
            certificate: units::hex::encode(&made.certificate),
            key: Some(plain.clone()),
            sealed: None,
        };
        let documents = FakeDocuments::with_volumes(&[]);
        let text = serde_json::to_string(&old).expect("JSON");
        let keep = |edit: Edit| documents.edit("tank", vec![edit]).expect("kept");
        keep((REPLICATION_KEY_PROPERTY.to_owned(), Some(text)));
        let (edit, was_plain) = seal_key(&documents).expect("read").expect("to be sealed");
        assert!(was_plain);
        let text = edit.1.clone().expect("a value");
        assert!(text.starts_with(r#"{"version":2,"certificate""#) && !text.contains(&plain));
        assert!(text.len() < 4096, "it has to fit into a property");
        keep(edit);
        assert!(seal_key(&documents).expect("read").is_none());
        let document = document(&documents).expect("read").expect("there");
        let key = opened(&document, &crate::seals::fake::ring()).expect("opened");
        assert_eq!(
            Identity::of(key).fingerprint,
            Identity::of(made).fingerprint
        );
        let failure = opened(&document, &Ring::none()).err().expect("no key");
        assert!(failure.message.contains("cannot be read"));
    }
}
