//! The secrets among a pool's documents: sealed when they are written, opened where they are used,
//! and sealed anew after the key became another one.

use control::exports::{
    ChapUser, KeptSecret, Problem, TARGET_PROPERTY_PREFIX, TargetDocument, Wish, target_property,
};
use control::{Failure, Secret};
use units::IscsiName;

use super::documents::{Documents, encoded};
use crate::seals::{Ring, SealError};

/// Who proves itself with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// An initiator, to the target.
    Initiator,
    /// The target, to an initiator.
    Target,
}

/// What a secret of a target is sealed for.
fn place(property: &str, direction: Direction, user: &str) -> String {
    match direction {
        Direction::Initiator => format!("{property} chap {user}"),
        Direction::Target => format!("{property} mutual {user}"),
    }
}

/// The keys of one target's secrets.
pub struct Secrets {
    ring: Ring,
    property: String,
}

impl Secrets {
    /// Those of `target`.
    pub fn of(documents: &dyn Documents, target: &IscsiName) -> Result<Self, Failure> {
        Ok(Self {
            ring: documents.ring()?,
            property: target_property(target),
        })
    }

    /// Whether the secret of `chap` is this one. One that cannot be opened is another.
    pub fn is(&self, direction: Direction, chap: &ChapUser, secret: &Secret) -> bool {
        open(&self.ring, &self.property, direction, chap).is_ok_and(|known| known == *secret)
    }
}

/// The secret of a user of the target that `property` describes.
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

/// Seals what is in the clear, and what another key has sealed, as far as it can be opened. How
/// many secrets were in the clear, and whether anything changed.
pub fn seal_target(
    ring: &Ring,
    property: &str,
    document: &mut TargetDocument,
) -> Result<(usize, bool), Failure> {
    let initiators = document
        .chap
        .iter_mut()
        .map(|chap| (Direction::Initiator, chap));
    let target = document
        .mutual
        .iter_mut()
        .map(|chap| (Direction::Target, chap));
    let (mut plain, mut changed) = (0, false);
    for (direction, chap) in initiators.chain(target) {
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

/// The targets whose secrets cannot be opened here, in words that say what to do.
pub fn problems(wish: &Wish, ring: &Ring) -> Vec<Problem> {
    let mut found = Vec::new();
    for (name, target) in &wish.targets {
        let property = target_property(name);
        let mut tell = |direction, chap: &ChapUser, harm: String, verb: &str| {
            if let Err(error) = open(ring, &property, direction, chap) {
                let sentence = format!(
                    "the CHAP secret of user {user} cannot be read: {error}. {harm}. Bring the key \
                     from the machine that has it (see \"Keys of secrets\" in the guide about \
                     recovery), or set the secret again: `bulkhead target chap {verb} {name} --user {user}`",
                    user = chap.user
                );
                let subject = name.to_string();
                found.push(Problem { subject, sentence });
            }
        };
        for chap in &target.document.chap {
            let harm = format!("Nobody can log in as {}", chap.user);
            tell(Direction::Initiator, chap, harm, "set");
        }
        if let Some(chap) = &target.document.mutual {
            let harm = "The target proves itself to nobody".to_owned();
            tell(Direction::Target, chap, harm, "mutual");
        }
    }
    found
}

/// What became of the secrets of a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Secrets that stood in the clear, and are sealed now.
    pub plain: usize,
    /// Properties that were written anew.
    pub written: usize,
    /// What could not be sealed, in words.
    pub failed: Vec<String>,
}

/// Seals what stands in the clear in the pool, and what another key has sealed.
pub fn seal_all(documents: &dyn Documents) -> Result<Outcome, Failure> {
    let (root, all) = (documents.root(), documents.all()?);
    let own = all.own(&root).into_iter().flatten();
    let mut outcome = Outcome::default();
    let mut edits = Vec::new();
    let mut ring = None;
    for (property, value) in own.filter(|(name, _)| name.starts_with(TARGET_PROPERTY_PREFIX)) {
        // One that cannot be read is told of elsewhere.
        let Ok(mut document) = TargetDocument::decode(property, value) else {
            continue;
        };
        if document.secrets().next().is_none() {
            continue;
        }
        let ring = match &ring {
            Some(ring) => ring,
            None => ring.insert(documents.ring_to_seal()?),
        };
        let (plain, changed) = seal_target(ring, property, &mut document)?;
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
    use super::super::documents::{target_document, wish};
    use super::*;

    const TARGET: &str = "iqn.2026-01.org.example:tank";
    const OLD: &str = r#"{"version":1,"chap":[{"user":"ann","secret":"an old secret"}],"mutual":{"user":"tank","secret":"its own secret"}}"#;

    /// A pool of an older program, with secrets in the clear.
    fn old_pool() -> FakeDocuments {
        let documents = FakeDocuments::with_volumes(&[]);
        let property = target_property(&TARGET.parse().expect("name"));
        let edit = vec![(property, Some(OLD.to_owned()))];
        documents.edit("tank", edit).expect("kept");
        documents
    }

    #[test]
    fn what_an_older_program_wrote_in_the_clear_is_sealed_once() {
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
        let secrets = Secrets::of(&documents, &name).expect("keys");
        let old = Secret::new("an old secret".to_owned()).expect("long enough");
        assert!(secrets.is(Direction::Initiator, &document.chap[0], &old));
        let (wish, _) = wish("tank", &all);
        assert!(problems(&wish, &secrets.ring).is_empty());
    }

    #[test]
    fn without_the_key_each_user_is_a_problem_that_says_what_to_do() {
        let documents = old_pool();
        seal_all(&documents).expect("sealed");
        let (wish, _) = wish("tank", &documents.all().expect("read"));
        let found = problems(&wish, &Ring::none());
        let sentences: Vec<&str> = found.iter().map(|one| one.sentence.as_str()).collect();
        assert_eq!(found.len(), 2);
        assert!(sentences[0].contains("Nobody can log in as ann"));
        assert!(
            sentences[0]
                .contains("bulkhead target chap set iqn.2026-01.org.example:tank --user ann")
        );
        assert!(sentences[1].contains("chap mutual"));
    }

    /// A sealed secret that somebody moves to another user or direction opens nothing.
    #[test]
    fn a_sealed_secret_belongs_to_its_user_and_direction() {
        let ring = crate::seals::fake::ring();
        let property = target_property(&TARGET.parse().expect("name"));
        let mut document = TargetDocument::decode(&property, OLD).expect("read");
        seal_target(&ring, &property, &mut document).expect("sealed");
        let mut moved = document.chap[0].clone();
        assert!(open(&ring, &property, Direction::Initiator, &moved).is_ok());
        assert!(open(&ring, &property, Direction::Target, &moved).is_err());
        assert!(open(&ring, "bulkhead:target:other", Direction::Initiator, &moved).is_err());
        moved.user = "bob".to_owned();
        assert!(open(&ring, &property, Direction::Initiator, &moved).is_err());
    }
}
