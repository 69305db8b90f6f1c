//! What the file of accounts holds, and how the files of two heads become one. Heads that do not reach each
//! other may both change theirs: what one removed does not come back from the other, and of two changes of one
//! thing the later one holds. Pure; the order in which files are put together makes no difference.
//!
//! Every 30 seconds a head takes what the other's file has and its own lacks. Choosing the file with the greater revision
//! instead brought a removed user back, with password and tokens. So each removal is remembered and wins (the newest 10,000;
//! a head that was off while more were made could bring somebody back). A user who is added again is another one,
//! known by name and moment. Role and password each have the revision in which they were given, one more than all that the head
//! has seen: the greater one holds, at a tie the role that may do less.
//!
//! Files of older versions have no record of removals: of two files of which one is in the older form the one with the
//! greater revision holds as a whole. So both heads should be updated before accounts are changed. The last admin of two parted heads
//! may be removed on each, another one each time; `bulkhead user add` on a head makes one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::accounts::{TokenView, UserView};

/// Of files in an older form the newer one holds as a whole.
pub(crate) const FORMAT: u32 = 2;
/// Removals that are remembered, the newest.
const REMOVED_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    #[serde(flatten)]
    pub(crate) view: UserView,
    /// PHC string.
    pub(crate) password: String,
    /// Revision of the book in which the role was given.
    #[serde(default)]
    pub(crate) role_at: u64,
    /// The same of the password.
    #[serde(default)]
    pub(crate) password_at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    #[serde(flatten)]
    pub(crate) view: TokenView,
    pub(crate) sha256: String,
    /// When its user was made: another user of that name has no right to it.
    #[serde(default)]
    pub(crate) owner_created_at_ms: Option<u64>,
}

/// What was removed, for ever: a user who is added again is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Removed {
    User { name: String, created_at_ms: u64 },
    Token { id: String },
}

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Book {
    /// [`FORMAT`]; 0 in files of older versions.
    #[serde(default)]
    format: u32,
    /// Grows with each change; of two heads' books the greater one holds for both from then on.
    pub(crate) revision: u64,
    pub(crate) users: Vec<User>,
    pub(crate) tokens: Vec<Token>,
    /// With the revision in which it went.
    #[serde(default)]
    removed: BTreeMap<u64, BTreeSet<Removed>>,
}

impl Book {
    /// Whether nothing was ever written.
    pub(crate) fn is_new(&self) -> bool {
        self.revision == 0
    }

    /// To be called before each change.
    pub(crate) fn begin_change(&mut self) {
        self.revision += 1;
        self.format = FORMAT;
    }

    /// The user of that name.
    pub(crate) fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.view.name == name)
    }

    /// Whose a token is.
    pub(crate) fn owner_of(&self, token: &Token) -> Option<&User> {
        let owner = self.user(&token.view.user)?;
        let made = token.owner_created_at_ms;
        made.is_none_or(|made| made == owner.view.created_at_ms)
            .then_some(owner)
    }

    /// Takes these out for good.
    pub(crate) fn remove(&mut self, removed: Removed) {
        self.removed
            .entry(self.revision)
            .or_default()
            .insert(removed);
        self.forget_what_is_removed();
    }

    fn forget_what_is_removed(&mut self) {
        let mut count: usize = self.removed.values().map(BTreeSet::len).sum();
        while count > REMOVED_MAX {
            let oldest = self.removed.pop_first();
            count -= oldest.map_or(count, |(_, removed)| removed.len());
        }
        let gone: BTreeSet<&Removed> = self.removed.values().flatten().collect();
        self.users.retain(|user| {
            !gone.contains(&Removed::User {
                name: user.view.name.clone(),
                created_at_ms: user.view.created_at_ms,
            })
        });
        self.tokens.retain(|token| {
            !gone.contains(&Removed::Token {
                id: token.view.id.clone(),
            })
        });
        let tokens = std::mem::take(&mut self.tokens);
        self.tokens = tokens
            .into_iter()
            .filter(|token| self.owner_of(token).is_some())
            .collect();
    }

    /// What holds for both.
    pub(crate) fn merged(&self, other: &Self) -> Self {
        if self.format < FORMAT || other.format < FORMAT {
            let newer = if other.revision > self.revision {
                other
            } else {
                self
            };
            return newer.clone();
        }
        let mut users: BTreeMap<(String, u64), User> = BTreeMap::new();
        for user in self.users.iter().chain(&other.users) {
            let key = (user.view.name.clone(), user.view.created_at_ms);
            let held = users.entry(key).or_insert_with(|| user.clone());
            // Where neither is later, the one that may do less.
            let role = |user: &User| (user.role_at, std::cmp::Reverse(user.view.role));
            if role(user) > role(held) {
                (held.view.role, held.role_at) = (user.view.role, user.role_at);
            }
            let password = |user: &User| (user.password_at, user.password.clone());
            if password(user) > password(held) {
                (held.password, held.password_at) = password_of(user);
            }
        }
        let tokens = self.tokens.iter().chain(&other.tokens);
        let tokens: BTreeMap<&str, &Token> = tokens
            .map(|token| (token.view.id.as_str(), token))
            .collect();
        let mut merged = Self {
            format: FORMAT,
            revision: self.revision.max(other.revision),
            users: users.into_values().collect(),
            tokens: tokens.into_values().cloned().collect(),
            removed: self.removed.clone(),
        };
        for (revision, removed) in &other.removed {
            let held = merged.removed.entry(*revision).or_default();
            held.extend(removed.iter().cloned());
        }
        // A name that was removed is free for the one who was added with it.
        merged.forget_what_is_removed();
        merged.keep_the_last_of_each_name();
        merged.forget_what_is_removed();
        merged
            .users
            .sort_by(|a, b| order(&a.view).cmp(&order(&b.view)));
        merged.tokens.sort_by(|a, b| {
            (a.view.created_at_ms, &a.view.id).cmp(&(b.view.created_at_ms, &b.view.id))
        });
        merged
    }

    /// Both heads may have added somebody of the same name.
    fn keep_the_last_of_each_name(&mut self) {
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for UserView {
            name,
            created_at_ms,
            ..
        } in self.users.iter().map(|user| &user.view)
        {
            let held = last.entry(name.clone()).or_default();
            *held = (*held).max(*created_at_ms);
        }
        self.users
            .retain(|user| last.get(&user.view.name) == Some(&user.view.created_at_ms));
    }
}

fn password_of(user: &User) -> (String, u64) {
    (user.password.clone(), user.password_at)
}

fn order(view: &UserView) -> (u64, &str) {
    (view.created_at_ms, &view.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    /// A head, as far as its accounts go.
    #[derive(Clone, Default)]
    struct Head(Book);

    impl Head {
        fn add(&mut self, name: &str, created_at_ms: u64, role: Role) {
            self.0.begin_change();
            let at = self.0.revision;
            self.0.users.push(User {
                view: UserView {
                    name: name.into(),
                    role,
                    created_at_ms,
                },
                password: format!("first of {name}"),
                role_at: at,
                password_at: at,
            });
        }

        fn change(&mut self, name: &str, change: impl FnOnce(&mut User, u64)) {
            self.0.begin_change();
            let at = self.0.revision;
            let found = self.0.users.iter_mut().find(|user| user.view.name == name);
            change(found.expect("there"), at);
        }

        fn give_role(&mut self, name: &str, role: Role) {
            self.change(name, |user, at| (user.view.role, user.role_at) = (role, at));
        }

        fn give_password(&mut self, name: &str, password: &str) {
            self.change(name, |user, at| {
                (user.password, user.password_at) = (password.into(), at);
            });
        }

        fn remove(&mut self, name: &str) {
            self.0.begin_change();
            let found = self.0.user(name).expect("there").view.clone();
            self.0.remove(Removed::User {
                name: found.name,
                created_at_ms: found.created_at_ms,
            });
        }

        fn names(&self) -> Vec<&str> {
            self.0
                .users
                .iter()
                .map(|user| user.view.name.as_str())
                .collect()
        }
    }

    /// Two heads with the same accounts that do not reach each other any more.
    fn parted() -> (Head, Head) {
        let mut head = Head::default();
        head.add("anna", 1, Role::Admin);
        head.add("bert", 2, Role::Operator);
        (head.clone(), head)
    }

    /// They reach each other again; whoever asks first makes no difference.
    fn joined(left: &Head, right: &Head) -> Head {
        let one = left.0.merged(&right.0);
        assert_eq!(one, right.0.merged(&left.0));
        assert_eq!(one, one.merged(&left.0));
        assert_eq!(one, one.merged(&right.0));
        Head(one)
    }

    /// The other head changes so much that its file counts as newer.
    #[test]
    fn who_was_removed_does_not_come_back_from_the_other_head() {
        let (mut left, mut right) = parted();
        left.remove("bert");
        for name in ["carl", "dora", "emil"] {
            right.add(name, 10, Role::ReadOnly);
        }
        right.give_password("bert", "another");
        assert_eq!(
            joined(&left, &right).names(),
            ["anna", "carl", "dora", "emil"]
        );
    }

    #[test]
    fn who_is_added_again_is_another_one() {
        let (mut left, mut right) = parted();
        left.remove("bert");
        left.add("bert", 20, Role::ReadOnly);
        right.give_role("bert", Role::Admin);
        right.give_role("bert", Role::Admin);
        let joined = joined(&left, &right);
        assert_eq!(joined.names(), ["anna", "bert"]);
        assert_eq!(
            joined.0.user("bert").expect("there").view.role,
            Role::ReadOnly
        );
    }

    #[test]
    fn changes_of_different_things_both_hold_and_of_one_thing_the_later() {
        let (mut left, mut right) = parted();
        left.give_role("bert", Role::ReadOnly);
        right.give_password("anna", "another");
        right.give_password("bert", "another");
        let both = joined(&left, &right);
        let bert = both.0.user("bert").expect("there");
        assert_eq!(
            (bert.view.role, bert.password.as_str()),
            (Role::ReadOnly, "another")
        );
        let (mut left, mut right) = parted();
        left.give_role("bert", Role::Admin);
        right.give_role("bert", Role::ReadOnly);
        let at_once = joined(&left, &right);
        assert_eq!(
            at_once.0.user("bert").expect("there").view.role,
            Role::ReadOnly
        );
        left.give_role("bert", Role::Admin);
        let later = joined(&left, &right);
        assert_eq!(later.0.user("bert").expect("there").view.role, Role::Admin);
    }

    #[test]
    fn a_token_that_was_revoked_or_whose_user_went_stays_away() {
        let (mut left, _) = parted();
        let token = |id: &str, user: &str, owner| Token {
            view: TokenView {
                id: id.into(),
                user: user.into(),
                name: id.into(),
                role: Role::Admin,
                created_at_ms: 5,
                expires_at_ms: None,
                token: None,
            },
            sha256: id.into(),
            owner_created_at_ms: owner,
        };
        left.0.tokens = vec![
            token("a", "anna", Some(1)),
            token("b", "bert", Some(2)),
            token("c", "anna", None),
        ];
        let mut right = left.clone();
        left.0.begin_change();
        left.0.remove(Removed::Token { id: "a".into() });
        left.remove("bert");
        left.add("bert", 30, Role::Admin);
        right.add("carl", 3, Role::ReadOnly);
        right.0.tokens.push(token("d", "bert", Some(2)));
        let both = joined(&left, &right);
        let ids: Vec<&str> = both
            .0
            .tokens
            .iter()
            .map(|token| token.view.id.as_str())
            .collect();
        assert_eq!(ids, ["c"]);
    }

    #[test]
    fn of_files_in_an_older_form_the_newer_one_holds() {
        let (left, _) = parted();
        let old: Book = serde_json::from_str(
            r#"{"revision": 9, "users": [{"name": "anna", "role": "admin", "created_at_ms": 1,
                "password": "p"}], "tokens": []}"#,
        )
        .expect("a file of an older version");
        assert_eq!(joined(&left, &Head(old.clone())).0, old);
        assert_eq!(Book::default().merged(&left.0), left.0);
    }

    #[test]
    fn removals_that_are_remembered_have_a_bound() {
        let mut book = Book::default();
        let token = |number: u64| Removed::Token {
            id: number.to_string(),
        };
        let last = REMOVED_MAX as u64 + 10;
        book.removed = (1..last)
            .map(|number| (number, BTreeSet::from([token(number)])))
            .collect();
        book.revision = last - 1;
        book.begin_change();
        book.remove(token(last));
        assert_eq!(book.removed.len(), REMOVED_MAX);
        assert_eq!(book.removed.keys().next(), Some(&11));
    }
}
