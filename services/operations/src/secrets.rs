//! The secrets in a pool's documents: sealed when they are written, opened when they are used, and
//! sealed again after a change of the key.

use control::exports::{
    ChapUser, ChapUsers, DISCOVERY, DISCOVERY_PROPERTY, DesiredState, DocumentError, KeptSecret,
    Problem, TARGET_PROPERTY_PREFIX, TargetDocument, target_property,
};
use control::{Failure, Secret};

use super::documents::{Documents, encoded};
use crate::seals::{Ring, SealError};

/// The side that authenticates itself with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// An initiator, to us.
    Initiator,
    /// We, to an initiator.
    Target,
}

/// Returns the binding of a sealed secret: document `property`, direction and user.
fn place(property: &str, direction: Direction, user: &str) -> String {
    match direction {
        Direction::Initiator => format!("{property} chap {user}"),
        Direction::Target => format!("{property} mutual {user}"),
    }
}

/// The keys of one document's secrets.
pub struct Secrets {
    ring: Ring,
    property: String,
}

impl Secrets {
    /// Those of the document `property`.
    pub fn of(documents: &dyn Documents, property: &str) -> Result<Self, Failure> {
        Ok(Self {
            ring: documents.ring()?,
            property: property.to_owned(),
        })
    }

    /// Returns whether `chap` has this secret. A secret that cannot be opened is different.
    pub fn is(&self, direction: Direction, chap: &ChapUser, secret: &Secret) -> bool {
        open(&self.ring, &self.property, direction, chap).is_ok_and(|known| known == *secret)
    }
}

/// The secret of a user in the document `property`.
pub fn open(
    ring: &Ring,
    property: &str,
    direction: Direction,
    chap: &ChapUser,
) -> Result<Secret, SealError> {
    let sealed = match &chap.secret {
        KeptSecret::Plain(secret) => return Ok(secret.clone()),
        KeptSecret::Sealed(sealed) => sealed,
    };
    let bytes = ring.open(&place(property, direction, &chap.user), sealed)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| SealError::Broken)?;
    Secret::new(text.to_owned()).map_err(|_| SealError::Broken)
}

/// Seals secrets in the clear and, if they can be opened, those sealed with another key. Returns
/// how many were in the clear, and whether anything changed.
pub fn seal(ring: &Ring, property: &str, users: &mut ChapUsers) -> Result<(usize, bool), Failure> {
    let initiators = users.chap.iter_mut();
    let initiators = initiators.map(|chap| (Direction::Initiator, chap));
    let ours = users.mutual.iter_mut();
    let ours = ours.map(|chap| (Direction::Target, chap));
    let (mut plain, mut changed) = (0, false);
    for (direction, chap) in initiators.chain(ours) {
        match &chap.secret {
            KeptSecret::Sealed(sealed) if ring.is_current(sealed) => continue,
            KeptSecret::Sealed(_) => {}
            KeptSecret::Plain(_) => plain += 1,
        }
        if let Ok(secret) = open(ring, property, direction, chap) {
            let place = place(property, direction, &chap.user);
            let sealed = ring.seal(&place, secret.reveal().as_bytes())?;
            chap.secret = KeptSecret::Sealed(sealed);
            changed = true;
        }
    }
    Ok((plain, changed))
}

/// Returns a problem, with advice, for each target, and for discovery, with secrets that cannot be opened here.
pub fn problems(desired: &DesiredState, ring: &Ring) -> Vec<Problem> {
    let mut found = Vec::new();
    for (name, target) in &desired.targets {
        let (users, property) = (&target.document.users, target_property(name));
        let command = |verb: &str| format!("bulkhead target chap {verb} {name}");
        found.extend(unreadable(users, ring, &property, name.as_str(), &command));
    }
    if let Some(users) = &desired.discovery {
        let command = |verb: &str| format!("bulkhead target discovery {verb}");
        found.extend(unreadable(
            users,
            ring,
            DISCOVERY_PROPERTY,
            DISCOVERY,
            &command,
        ));
    }
    found
}

/// Adds the users with secrets that cannot be opened. `command` sets them again.
fn unreadable(
    users: &ChapUsers,
    ring: &Ring,
    property: &str,
    subject: &str,
    command: &dyn Fn(&str) -> String,
) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut tell = |direction, chap: &ChapUser, harm: &str, verb: &str| {
        if let Err(error) = open(ring, property, direction, chap) {
            let sentence = format!(
                "the CHAP secret of user {user} cannot be read: {error}. {harm}. Copy the key \
                 from the host that has it (see \"Keys of secrets\" in the guide about \
                 recovery), or set the secret again: `{command} --user {user}`",
                user = chap.user,
                command = command(verb),
            );
            let subject = subject.to_owned();
            found.push(Problem { subject, sentence });
        }
    };
    for chap in &users.chap {
        let harm = format!("No initiator can log in as {}", chap.user);
        tell(Direction::Initiator, chap, &harm, "set");
    }
    if let Some(chap) = &users.mutual {
        let harm = "Mutual authentication fails for all initiators";
        tell(Direction::Target, chap, harm, "mutual");
    }
    found
}

/// A document with users in it.
enum Document {
    Target(TargetDocument),
    Discovery(ChapUsers),
}

impl Document {
    /// Returns none for a document that has no users or cannot be read, which is reported
    /// elsewhere.
    fn read(property: &str, value: &str) -> Option<Self> {
        if property == DISCOVERY_PROPERTY {
            let users = ChapUsers::decode(property, value).ok()?;
            return Some(Self::Discovery(users));
        }
        property.strip_prefix(TARGET_PROPERTY_PREFIX)?;
        let target = TargetDocument::decode(property, value).ok()?;
        Some(Self::Target(target))
    }

    const fn users(&mut self) -> &mut ChapUsers {
        match self {
            Self::Target(target) => &mut target.users,
            Self::Discovery(users) => users,
        }
    }

    fn encode(&self, property: &str) -> Result<String, DocumentError> {
        match self {
            Self::Target(target) => target.encode(property),
            Self::Discovery(users) => users.encode(property),
        }
    }
}

/// The result of sealing a pool's secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Secrets that stood in the clear, and are sealed now.
    pub plain: usize,
    /// Properties that were rewritten.
    pub written: usize,
    /// Descriptions of the secrets that could not be sealed.
    pub failed: Vec<String>,
}

/// Seals secrets in the clear and secrets sealed with another key.
pub fn seal_all(documents: &dyn Documents) -> Result<Outcome, Failure> {
    let (root, all) = (documents.root(), documents.all()?);
    let own = all.own(&root).into_iter().flatten();
    let mut outcome = Outcome::default();
    let mut edits = Vec::new();
    let mut ring = None;
    for (property, value) in own {
        let Some(mut document) = Document::read(property, value) else {
            continue;
        };
        if document.users().all().next().is_none() {
            continue;
        }
        let ring = match &ring {
            Some(ring) => ring,
            None => ring.insert(documents.ring_to_seal()?),
        };
        let (plain, changed) = seal(ring, property, document.users())?;
        match encoded(document.encode(property)) {
            _ if !changed => {}
            Ok(value) => {
                outcome.plain += plain;
                edits.push((property.clone(), Some(value)));
            }
            Err(failure) => outcome.failed.push(failure.message),
        }
    }
    if let Some((edit, was_plain)) = crate::replicate::seal_key(documents)? {
        outcome.plain += usize::from(was_plain);
        edits.push(edit);
    }
    outcome.written = edits.len();
    if !edits.is_empty() {
        documents.edit(&root, edits)?;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::documents::fake::FakeDocuments;
    use super::super::documents::{desired_state, target_document};
    use super::*;

    const TARGET: &str = "iqn.2026-01.org.example:tank";
    const OLD: &str = r#"{"version":1,"chap":[{"user":"ann","secret":"an old secret"}],"mutual":{"user":"tank","secret":"its own secret"}}"#;

    /// A pool of an older version, with secrets in the clear.
    fn old_pool() -> FakeDocuments {
        let documents = FakeDocuments::with_volumes(&[]);
        let property = target_property(&TARGET.parse().expect("name"));
        let edit = vec![(property, Some(OLD.to_owned()))];
        documents.edit("tank", edit).expect("kept");
        documents
    }

    #[test]
    fn plaintext_secret_of_an_older_version_is_sealed_once() {
        let documents = old_pool();
        let outcome = seal_all(&documents).expect("sealed");
        assert_eq!((outcome.plain, outcome.written), (2, 1));
        let kept = format!("{:?}", documents.datasets.borrow());
        assert!(kept.contains("ann") && !kept.contains("secret"), "{kept}");
        assert_eq!(seal_all(&documents).expect("again"), Outcome::default());
        let name = TARGET.parse().expect("name");
        let all = documents.all().expect("read");
        let document = target_document("tank", &all, &name).expect("read");
        let document = document.expect("there");
        let secrets = Secrets::of(&documents, &target_property(&name)).expect("keys");
        let old = Secret::new("an old secret".to_owned()).expect("long enough");
        assert!(secrets.is(Direction::Initiator, &document.users.chap[0], &old));
        let (desired, _) = desired_state("tank", &all);
        assert!(problems(&desired, &secrets.ring).is_empty());
    }

    /// As after a change of the cluster's key, which [`crate::seals`] tests with real keys.
    #[test]
    fn discovery_secrets_are_sealed_like_target_secrets() {
        let documents = FakeDocuments::with_volumes(&[]);
        let old = OLD.replace("tank", "us");
        let edit = vec![(DISCOVERY_PROPERTY.to_owned(), Some(old))];
        documents.edit("tank", edit).expect("kept");
        let outcome = seal_all(&documents).expect("sealed");
        assert_eq!((outcome.plain, outcome.written), (2, 1));
        let (desired, told) = desired_state("tank", &documents.all().expect("read"));
        assert!(told.is_empty());
        let ring = crate::seals::fake::ring();
        assert!(problems(&desired, &ring).is_empty());
        let found = problems(&desired, &Ring::none());
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|one| one.subject == DISCOVERY));
        assert!(
            found[0]
                .sentence
                .contains("bulkhead target discovery set --user ann")
        );
    }

    #[test]
    fn missing_key_reports_each_user_with_advice() {
        let documents = old_pool();
        seal_all(&documents).expect("sealed");
        let (desired, _) = desired_state("tank", &documents.all().expect("read"));
        let found = problems(&desired, &Ring::none());
        let sentences: Vec<&str> = found.iter().map(|one| one.sentence.as_str()).collect();
        assert_eq!(found.len(), 2);
        assert!(sentences[0].contains("No initiator can log in as ann"));
        assert!(
            sentences[0]
                .contains("bulkhead target chap set iqn.2026-01.org.example:tank --user ann")
        );
        assert!(sentences[1].contains("chap mutual"));
    }

    /// A sealed secret that was copied to another user or direction cannot be opened.
    #[test]
    fn sealed_secret_is_bound_to_user_and_direction() {
        let ring = crate::seals::fake::ring();
        let property = target_property(&TARGET.parse().expect("name"));
        let mut document = TargetDocument::decode(&property, OLD).expect("read");
        seal(&ring, &property, &mut document.users).expect("sealed");
        let mut moved = document.users.chap[0].clone();
        assert!(open(&ring, &property, Direction::Initiator, &moved).is_ok());
        assert!(open(&ring, &property, Direction::Target, &moved).is_err());
        assert!(open(&ring, "bulkhead:target:other", Direction::Initiator, &moved).is_err());
        moved.user = "bob".to_owned();
        assert!(open(&ring, &property, Direction::Initiator, &moved).is_err());
    }
}
