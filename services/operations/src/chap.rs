//! Changes of users and secrets, those of a target and those of discovery alike.

use control::answer::ChapView;
use control::exports::{ChapUser, ChapUsers, KeptSecret};
use control::{Failure, FailureKind, Secret};
use units::IscsiName;

use super::secrets::{Direction, Secrets};

/// Adds an initiator's user, or changes its secret.
pub fn set(
    users: &mut ChapUsers,
    known: &Secrets,
    user: &str,
    secret: &Secret,
    initiators: &[IscsiName],
) -> Result<(), Failure> {
    let mutual = users.mutual.as_ref();
    if mutual.is_some_and(|mutual| known.is(Direction::Target, mutual, secret)) {
        return Err(same_secret());
    }
    let added = ChapUser {
        initiators: initiators.to_vec(),
        ..new(user, secret)?
    };
    match users.chap.iter_mut().find(|chap| chap.user == user) {
        Some(old) if known.is(Direction::Initiator, old, secret) => {
            old.initiators = added.initiators;
        }
        Some(old) => *old = added,
        None => users.chap.push(added),
    }
    Ok(())
}

/// Sets the credentials that the target authenticates itself with (mutual CHAP).
pub fn set_mutual(
    users: &mut ChapUsers,
    known: &Secrets,
    user: &str,
    secret: &Secret,
) -> Result<(), Failure> {
    if users.chap.is_empty() {
        return Err(Failure::usage(
            "the server proves itself only to initiators that prove themselves",
        )
        .advise("give the initiators their secret first: `set` instead of `mutual`"));
    }
    let is_it = |direction, chap: &ChapUser| known.is(direction, chap, secret);
    let mut initiators = users.chap.iter();
    if initiators.any(|chap| is_it(Direction::Initiator, chap)) {
        return Err(same_secret());
    }
    let old = users.mutual.as_ref();
    if !old.is_some_and(|old| old.user == user && is_it(Direction::Target, old)) {
        users.mutual = Some(new(user, secret)?);
    }
    Ok(())
}

/// As they are shown: without secrets.
pub fn view(target: IscsiName, users: &ChapUsers) -> ChapView {
    let bound = users.chap.iter().filter(|chap| !chap.initiators.is_empty());
    ChapView {
        target,
        initiators: bound
            .map(|chap| (chap.user.clone(), chap.initiators.clone()))
            .collect(),
        chap_users: users.chap.iter().map(|chap| chap.user.clone()).collect(),
        mutual_user: users.mutual.as_ref().map(|chap| chap.user.clone()),
    }
}

/// Removes one user, or all. Returns a message that describes the change.
pub fn clear(users: &mut ChapUsers, user: Option<&str>) -> String {
    let Some(user) = user else {
        *users = ChapUsers::default();
        return "no secret is required".to_owned();
    };
    let count = users.chap.len();
    users.chap.retain(|chap| chap.user != user);
    if users.chap.len() == count {
        return format!("there was no user {user}; nothing changed");
    }
    let is_last = users.chap.is_empty();
    match is_last && users.mutual.take().is_some() {
        true => format!("forgot user {user}, and our own secret: no secret is required"),
        false if is_last => format!("forgot user {user}: no secret is required"),
        false => format!("forgot user {user}"),
    }
}

/// Refuses a change after which no secret is required although one was before. `what` is a message that describes the
/// consequence.
pub fn refuse_opening(
    before: &ChapUsers,
    after: &ChapUsers,
    what: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if before.chap.is_empty() || !after.chap.is_empty() {
        return Ok(());
    }
    Err(Failure::new(FailureKind::NeedsConfirmation, what())
        .advise("add --no-secret (with --all it is understood) if you intend that, or set another user first"))
}

/// Checked again here: not every client of the control socket and the API has checked it.
fn new(user: &str, secret: &Secret) -> Result<ChapUser, Failure> {
    let secret = Secret::new(secret.reveal().to_owned());
    let secret = secret.map_err(|error| Failure::usage(error.to_string()))?;
    if user.is_empty() || user.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let message = format!("a user name without spaces is wanted, not {user:?}");
        return Err(Failure::usage(message));
    }
    Ok(ChapUser {
        user: user.to_owned(),
        secret: KeptSecret::Plain(secret),
        initiators: Vec::new(),
    })
}

/// RFC 7143, section 9.2.1: the secrets of the two directions must differ.
fn same_secret() -> Failure {
    Failure::usage("our secret and an initiator's must differ (RFC 7143, 9.2.1)")
}

#[cfg(test)]
mod tests {
    use super::super::documents::fake::FakeDocuments;
    use super::*;

    /// It would be sealed, and open nothing.
    #[test]
    fn unusable_chap_secret_is_refused() {
        let documents = FakeDocuments::with_volumes(&[]);
        let known = Secrets::of(&documents, "bulkhead:target:t").expect("keys");
        let mut users = ChapUsers::default();
        let short: Secret = serde_json::from_str("\"short\"").expect("a text");
        assert!(set(&mut users, &known, "ann", &short, &[]).is_err());
        let long = Secret::new("long enough for it".to_owned()).expect("long enough");
        set(&mut users, &known, "ann", &long, &[]).expect("set");
        assert!(set_mutual(&mut users, &known, "t", &short).is_err());
    }

    #[test]
    fn chap_user_with_a_space_or_missing_is_refused() {
        let documents = FakeDocuments::with_volumes(&[]);
        let known = Secrets::of(&documents, "bulkhead:target:t").expect("keys");
        let mut users = ChapUsers::default();
        let secret = Secret::new("long enough for it".to_owned()).expect("long enough");
        for name in ["ann smith", "", "ann\n"] {
            assert!(
                set(&mut users, &known, name, &secret, &[]).is_err(),
                "{name:?}"
            );
        }
        set(&mut users, &known, "ann", &secret, &[]).expect("set");
        let before = users.clone();
        let said = clear(&mut users, Some("bob"));
        assert!(said.contains("no user bob"), "{said}");
        assert_eq!(users, before);
    }

    #[test]
    fn latest_initiator_list_of_a_user_applies() {
        let documents = FakeDocuments::with_volumes(&[]);
        let known = Secrets::of(&documents, "bulkhead:target:t").expect("keys");
        let mut users = ChapUsers::default();
        let secret = Secret::new("long enough for it".to_owned()).expect("long enough");
        let host: IscsiName = "iqn.2026-01.org.example:ann".parse().expect("a name");
        for initiators in [vec![host], Vec::new()] {
            set(&mut users, &known, "ann", &secret, &initiators).expect("set");
            assert_eq!(users.chap[0].initiators, initiators);
        }
    }

    #[test]
    fn the_two_directions_never_share_a_secret() {
        let secret = |text: &str| Secret::new(text.to_owned()).expect("long enough");
        let mut users = ChapUsers::default();
        let documents = FakeDocuments::with_volumes(&[]);
        let known = Secrets::of(&documents, "bulkhead:target:t").expect("keys");
        let shared = secret("the same secret");
        assert!(set_mutual(&mut users, &known, "t", &shared).is_err());
        set(&mut users, &known, "ann", &shared, &[]).expect("set");
        assert!(set_mutual(&mut users, &known, "t", &shared).is_err());
        set_mutual(&mut users, &known, "t", &secret("another secret")).expect("set");
        assert!(set(&mut users, &known, "bob", &secret("another secret"), &[]).is_err());
        clear(&mut users, Some("ann"));
        assert_eq!(
            users,
            ChapUsers::default(),
            "a mutual user needs an initiator"
        );
    }
}
