//! Requests about discovery: the credentials that initiators must present before they receive the
//! list of targets.

use control::answer::{DiscoveryView, Done};
use control::exports::{ChapUsers, DISCOVERY_PROPERTY, DesiredState};
use control::operations::target::discovery::DiscoveryRequest;
use control::operations::target::discovery::chap_clear::ChapClear;
use control::operations::target::discovery::chap_set::ChapSet;
use control::operations::target::discovery::mutual_set::MutualSet;
use control::{Answer, Failure, FailureKind};

use super::chap;
use super::documents::{All, Documents, document_failure, encoded};
use super::secrets::{Secrets, seal};

/// Performs one request.
pub fn perform(documents: &dyn Documents, request: DiscoveryRequest) -> Result<Answer, Failure> {
    let pool = documents.root();
    match request {
        DiscoveryRequest::Show => {
            let users = kept(&pool, &*documents.all()?)?.unwrap_or_default();
            Ok(Answer::Discovery(view(pool, &users)))
        }
        DiscoveryRequest::ChapSet(ChapSet { user, secret }) => {
            let known = Secrets::of(documents, DISCOVERY_PROPERTY)?;
            change(documents, |users| {
                chap::set(users, &known, &user, &secret, &[])?;
                Ok(format!(
                    "discovery of the targets of {pool} requires the secret of user {user}"
                ))
            })
        }
        DiscoveryRequest::MutualSet(MutualSet { user, secret }) => {
            let known = Secrets::of(documents, DISCOVERY_PROPERTY)?;
            change(documents, |users| {
                chap::set_mutual(users, &known, &user, &secret)?;
                Ok(format!(
                    "pool {pool} authenticates itself as user {user} in discovery"
                ))
            })
        }
        DiscoveryRequest::ChapClear(ChapClear {
            user: Some(user),
            no_secret,
        }) => change(documents, |users| {
            let before = users.clone();
            let message = chap::clear(users, Some(&user));
            if !no_secret {
                chap::refuse_opening(&before, users, || opening(&pool))?;
            }
            Ok(message)
        }),
        DiscoveryRequest::ChapClear(ChapClear {
            user: None,
            no_secret,
        }) => clear(documents, no_secret),
    }
}

/// Returns the summary for the status view. Returns none if the document cannot be read, which is
/// reported as a problem.
pub fn glance(pool: &str, desired: &DesiredState) -> Option<DiscoveryView> {
    match &desired.discovery {
        Some(users) if users.chap.is_empty() => None,
        users => Some(view(pool.to_owned(), &users.clone().unwrap_or_default())),
    }
}

/// As it is shown: without secrets.
fn view(pool: String, users: &ChapUsers) -> DiscoveryView {
    DiscoveryView {
        pool,
        chap_users: users.chap.iter().map(|chap| chap.user.clone()).collect(),
        mutual_user: users.mutual.as_ref().map(|chap| chap.user.clone()),
    }
}

fn value<'a>(root: &str, all: &'a All) -> Option<&'a String> {
    all.own(root)?.get(DISCOVERY_PROPERTY)
}

/// Returns the discovery users of the pool with the root dataset `root`.
fn kept(root: &str, all: &All) -> Result<Option<ChapUsers>, Failure> {
    let users = value(root, all).map(|value| ChapUsers::decode(DISCOVERY_PROPERTY, value));
    users.transpose().map_err(|error| {
        document_failure(&error).advise(
            "discovery is refused to all initiators: `bulkhead target discovery clear --all`, then `set` again",
        )
    })
}

/// Describes the consequence of discovery without a secret.
fn opening(pool: &str) -> String {
    format!("everybody could ask for the targets of {pool} without a secret")
}

/// Permits discovery for everybody again, even if the document cannot be read.
fn clear(documents: &dyn Documents, no_secret: bool) -> Result<Answer, Failure> {
    let message = "no secret is required";
    let root = documents.root();
    if value(&root, &*documents.all()?).is_none() {
        return Ok(Done::already(message));
    }
    if !no_secret {
        return Err(Failure::new(FailureKind::NeedsConfirmation, opening(&root))
            .advise("add --all if you intend that"));
    }
    documents.edit(&root, vec![(DISCOVERY_PROPERTY.to_owned(), None)])?;
    Ok(Done::changed(message))
}

/// Reads the document, changes it and, if it differs, stores it sealed. A document without users is removed.
fn change(
    documents: &dyn Documents,
    change: impl FnOnce(&mut ChapUsers) -> Result<String, Failure>,
) -> Result<Answer, Failure> {
    let root = documents.root();
    let before = kept(&root, &*documents.all()?)?.unwrap_or_default();
    let mut after = before.clone();
    let message = change(&mut after)?;
    if before == after {
        return Ok(Done::already(message));
    }
    let value = match after.chap.is_empty() {
        true => None,
        false => {
            seal(&documents.ring_to_seal()?, DISCOVERY_PROPERTY, &mut after)?;
            Some(encoded(after.encode(DISCOVERY_PROPERTY))?)
        }
    };
    documents.edit(&root, vec![(DISCOVERY_PROPERTY.to_owned(), value)])?;
    Ok(Done::changed(message))
}

#[cfg(test)]
mod tests {
    use control::Secret;

    use super::super::documents::desired_state;
    use super::super::documents::fake::FakeDocuments;
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned()).expect("long enough")
    }

    fn set(user: &str, text: &str) -> DiscoveryRequest {
        let (user, secret) = (user.to_owned(), secret(text));
        DiscoveryRequest::ChapSet(ChapSet { user, secret })
    }

    fn clear_of(user: Option<&str>) -> DiscoveryRequest {
        let user = user.map(str::to_owned);
        DiscoveryRequest::ChapClear(ChapClear {
            user,
            no_secret: true,
        })
    }

    #[test]
    fn last_discovery_secret_is_cleared_with_flag_only() {
        let documents = FakeDocuments::with_volumes(&[]);
        assert!(changed(&documents, set("ann", "the first secret")));
        for user in [Some("ann".to_owned()), None] {
            let clear = DiscoveryRequest::ChapClear(ChapClear {
                user,
                no_secret: false,
            });
            let failure = perform(&documents, clear).expect_err("it asks");
            assert_eq!(failure.kind, FailureKind::NeedsConfirmation);
        }
        assert_eq!(shown(&documents).chap_users, ["ann"]);
    }

    fn changed(documents: &FakeDocuments, request: DiscoveryRequest) -> bool {
        match perform(documents, request).expect("done") {
            Answer::Done(done) => done.changed,
            other => panic!("{other:?}"),
        }
    }

    fn shown(documents: &FakeDocuments) -> DiscoveryView {
        match perform(documents, DiscoveryRequest::Show).expect("shown") {
            Answer::Discovery(view) => view,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn discovery_secret_is_sealed_shown_changed_and_cleared() {
        let documents = FakeDocuments::with_volumes(&[]);
        assert!(shown(&documents).chap_users.is_empty());
        assert!(!changed(&documents, clear_of(None)));
        assert!(changed(&documents, set("ann", "the first secret")));
        assert!(!changed(&documents, set("ann", "the first secret")));
        assert!(changed(&documents, set("ann", "a newer secret")));
        assert!(changed(&documents, set("bob", "bob's own secret")));
        let mutual = DiscoveryRequest::MutualSet(MutualSet {
            user: "tank".to_owned(),
            secret: secret("our own secret"),
        });
        assert!(changed(&documents, mutual.clone()));
        assert!(!changed(&documents, mutual));
        let view = shown(&documents);
        assert_eq!(view.chap_users, ["ann", "bob"]);
        assert_eq!(view.mutual_user.as_deref(), Some("tank"));
        let kept = format!("{:?}", documents.datasets.borrow());
        assert!(kept.contains("ann") && kept.contains("sealed"), "{kept}");
        assert!(!kept.contains("secret"), "{kept}");
        assert!(changed(&documents, clear_of(Some("ann"))));
        assert!(changed(&documents, clear_of(Some("bob"))));
        assert_eq!(shown(&documents).mutual_user, None);
        let (desired, problems) = desired_state("tank", &documents.all().expect("read"));
        assert!(desired.discovery.is_none() && problems.is_empty());
    }

    /// An unreadable document refuses discovery to all initiators. The view must not report it as
    /// open to all.
    #[test]
    fn unreadable_discovery_document_is_reported_and_cleared() {
        let documents = FakeDocuments::with_volumes(&[]);
        let broken = (DISCOVERY_PROPERTY.to_owned(), Some("garbage".to_owned()));
        documents.edit("tank", vec![broken]).expect("kept");
        for request in [
            DiscoveryRequest::Show,
            set("ann", "the first secret"),
            clear_of(Some("ann")),
        ] {
            let failure = perform(&documents, request).expect_err("unreadable");
            let advice = failure.advice.expect("some");
            assert!(advice.contains("target discovery clear"), "{advice}");
        }
        assert!(changed(&documents, clear_of(None)));
        assert!(shown(&documents).chap_users.is_empty());
    }
}
