//! The contents of the file of accounts, and how the files of two heads are merged. Heads that are partitioned may both
//! change theirs: an entry removed on one does not return from the other, and of two changes of one entry the later one
//! wins. Pure; the merge is commutative.
//!
//! Every 30 seconds a head merges the other's file. An earlier design chose the file with the greater revision, and
//! restored a removed user, with password and tokens. Therefore each removal is recorded and wins (the newest 10,000; a
//! head that was off during more removals could restore a user). A user added again is a new one, identified by name
//! and creation time. Role and password each have the revision of their last change, one more than the highest that the
//! head has seen: the greater one wins, at a tie the role with fewer rights.
//!
//! Files of older versions have no record of removals: if one of two files is in the older form, the one with the
//! greater revision wins as a whole. So both heads should be updated before accounts are changed. Two partitioned heads
//! may each remove the last admin of the other; `bulkhead user add` on a head creates one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::accounts::{TokenView, UserView};
use crate::role::Role;

/// Of files in an older form the newer one wins as a whole.
pub(crate) const FORMAT: u32 = 2;
/// Number of recorded removals, the newest.
const REMOVED_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    #[serde(flatten)]
    pub(crate) view: UserView,
    /// PHC string.
    pub(crate) password: String,
    /// Revision of the last change of the role.
    #[serde(default)]
    pub(crate) role_at: u64,
    /// Revision of the last change of the password.
    #[serde(default)]
    pub(crate) password_at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    #[serde(flatten)]
    pub(crate) view: TokenView,
    pub(crate) sha256: String,
    /// Creation time of its user: another user of that name has no right to it.
    #[serde(default)]
    pub(crate) owner_created_at_ms: Option<u64>,
}

/// A removed entry, for ever: a user added again is a new one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Removed {
    User { name: String, created_at_ms: u64 },
    Token { id: String },
}

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccountData {
    /// [`FORMAT`]; 0 in files of older versions.
    #[serde(default)]
    format: u32,
    /// Grows with each change; after a merge both heads use the greater one.
    pub(crate) revision: u64,
    pub(crate) users: Vec<User>,
    pub(crate) tokens: Vec<Token>,
    /// With the revision of the removal.
    #[serde(default)]
    removed: BTreeMap<u64, BTreeSet<Removed>>,
}

/// The result of a merge.
pub(crate) struct Merged {
    pub(crate) book: AccountData,
    /// The user with a restored role, because no admin was left.
    pub(crate) restored: Option<String>,
}

impl AccountData {
    /// Whether it was never written.
    pub(crate) fn is_new(&self) -> bool {
        self.revision == 0
    }

    /// Must be called before each change.
    pub(crate) fn begin_change(&mut self) {
        self.revision += 1;
        self.format = FORMAT;
    }

    /// The user of that name.
    pub(crate) fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.view.name == name)
    }

    /// Returns the owner of a token.
    pub(crate) fn owner_of(&self, token: &Token) -> Option<&User> {
        let owner = self.user(&token.view.user)?;
        let made = token.owner_created_at_ms;
        made.is_none_or(|made| made == owner.view.created_at_ms)
            .then_some(owner)
    }

    /// Removes an entry for good.
    pub(crate) fn remove(&mut self, removed: Removed) {
        self.removed
            .entry(self.revision)
            .or_default()
            .insert(removed);
        self.drop_removed_entries();
    }

    fn drop_removed_entries(&mut self) {
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

    /// Merges two books.
    pub(crate) fn merged(&self, other: &Self) -> Merged {
        if self.format < FORMAT || other.format < FORMAT {
            let newer = if other.revision > self.revision {
                other
            } else {
                self
            };
            return Merged {
                book: newer.clone(),
                restored: None,
            };
        }
        let mut users: BTreeMap<(String, u64), User> = BTreeMap::new();
        for user in self.users.iter().chain(&other.users) {
            let key = (user.view.name.clone(), user.view.created_at_ms);
            let held = users.entry(key).or_insert_with(|| user.clone());
            // At a tie the role with fewer rights wins.
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
        // A removed name is free for a user of that name that was added later.
        merged.drop_removed_entries();
        merged.keep_last_of_each_name();
        merged.drop_removed_entries();
        let restored = merged.restore_admin(self, other);
        merged
            .users
            .sort_by(|a, b| order(&a.view).cmp(&order(&b.view)));
        merged.tokens.sort_by(|a, b| {
            (a.view.created_at_ms, &a.view.id).cmp(&(b.view.created_at_ms, &b.view.id))
        });
        Merged {
            book: merged,
            restored,
        }
    }

    fn admins(&self) -> impl Iterator<Item = &User> {
        let users = self.users.iter();
        users.filter(|user| user.view.role == Role::Admin)
    }

    /// Restores an admin if none is left although both heads had one: each removed or demoted the other's. If one head
    /// had none, its last user was removed on purpose. It is a regular change, so that it is valid on both heads. The
    /// restored admin is the one that was created first. A removed user is chosen only if no other is left, and becomes
    /// a new user, because a removal is permanent.
    fn restore_admin(&mut self, one: &Self, other: &Self) -> Option<String> {
        let has_admin = |book: &Self| book.admins().next().is_some();
        if has_admin(self) || !has_admin(one) || !has_admin(other) {
            return None;
        }
        let order = |user: &&User| {
            let here = self.user(&user.view.name);
            let is_removed =
                here.is_none_or(|here| here.view.created_at_ms != user.view.created_at_ms);
            let is_name_taken = is_removed && here.is_some();
            let view = &user.view;
            (
                is_removed,
                is_name_taken,
                view.created_at_ms,
                view.name.clone(),
            )
        };
        let admins = one.admins().chain(other.admins());
        let mut admin = admins.min_by_key(order)?.clone();
        let (is_removed, ..) = order(&&admin);
        let name = admin.view.name.clone();
        self.begin_change();
        if is_removed {
            admin.view.created_at_ms = self.last_made(&name) + 1;
            admin.password_at = self.revision;
        } else {
            admin = self.user(&name)?.clone();
        }
        (admin.view.role, admin.role_at) = (Role::Admin, self.revision);
        self.users.retain(|user| user.view.name != name);
        self.users.push(admin);
        self.drop_removed_entries();
        Some(name)
    }

    /// The latest creation time of a user of that name, including removed ones.
    fn last_made(&self, wanted: &str) -> u64 {
        let removed = self.removed.values().flatten();
        let removed = removed.filter_map(|removed| match removed {
            Removed::User {
                name,
                created_at_ms,
            } if name == wanted => Some(*created_at_ms),
            _ => None,
        });
        let present = self.user(wanted).map(|user| user.view.created_at_ms);
        removed.chain(present).max().unwrap_or(0)
    }

    /// Both heads may have added a user of the same name.
    fn keep_last_of_each_name(&mut self) {
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

    /// A head, reduced to its accounts.
    #[derive(Clone, Debug, Default)]
    struct Head(AccountData);

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

        fn has_admin(&self) -> bool {
            self.0.admins().next().is_some()
        }

        fn role(&self, name: &str) -> Option<Role> {
            self.0.user(name).map(|user| user.view.role)
        }

        fn names(&self) -> Vec<&str> {
            self.0
                .users
                .iter()
                .map(|user| user.view.name.as_str())
                .collect()
        }
    }

    /// Two partitioned heads with the same accounts.
    fn parted() -> (Head, Head) {
        let mut head = Head::default();
        head.add("anna", 1, Role::Admin);
        head.add("bert", 2, Role::Operator);
        (head.clone(), head)
    }

    /// The same with two admins.
    fn parted_admins() -> (Head, Head) {
        let (mut head, _) = parted();
        head.give_role("bert", Role::Admin);
        (head.clone(), head)
    }

    /// They are connected again; the merge is the same in both directions.
    fn joined(left: &Head, right: &Head) -> Head {
        let one = left.0.merged(&right.0).book;
        assert_eq!(one, right.0.merged(&left.0).book);
        for seen in [&left.0, &right.0] {
            let again = one.merged(seen);
            assert_eq!((&again.book, again.restored), (&one, None));
        }
        Head(one)
    }

    /// The other head has so many changes that its file counts as newer.
    #[test]
    fn removed_user_is_not_restored_by_peer() {
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
    fn readded_user_is_a_new_user() {
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
    fn independent_changes_merge_and_later_conflict_wins() {
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

    /// Each head removed the other's admin.
    #[test]
    fn partitioned_heads_keep_an_admin_after_merge() {
        let mut head = Head::default();
        for (name, at, role) in [
            ("anna", 1, Role::Admin),
            ("bert", 2, Role::Admin),
            ("carl", 3, Role::Operator),
        ] {
            head.add(name, at, role);
        }
        let ways = ways(&head);
        let mut restored = 0;
        for left in &ways {
            for right in &ways {
                let both = joined(left, right);
                let is_wanted = left.has_admin() && right.has_admin();
                assert!(both.has_admin() || !is_wanted, "{left:?} {right:?}");
                restored += usize::from(left.0.merged(&right.0).restored.is_some());
            }
        }
        assert!(restored > 100, "{restored} of {}", ways.len().pow(2));
    }

    /// All results of two consecutive changes on a head.
    fn ways(head: &Head) -> Vec<Head> {
        let names = ["anna", "bert", "carl"];
        let mut ways = vec![head.clone()];
        for first in 0..2 {
            for way in ways.clone().into_iter().skip(first) {
                for name in names {
                    for change in 0..4 {
                        let mut changed = way.clone();
                        match (changed.0.user(name).is_some(), change) {
                            (true, 0) => changed.give_role(name, Role::Operator),
                            (true, 1) => changed.give_role(name, Role::Admin),
                            (true, 2) => changed.remove(name),
                            (false, 3) => changed.add(name, 10 + way.0.revision, Role::ReadOnly),
                            _ => continue,
                        }
                        // A head refuses this itself.
                        if changed.has_admin() || changed.0.users.is_empty() {
                            ways.push(changed);
                        }
                    }
                }
            }
        }
        ways
    }

    #[test]
    fn mutual_demotion_restores_the_oldest_admin() {
        let (mut left, mut right) = parted_admins();
        left.give_role("bert", Role::ReadOnly);
        right.give_role("anna", Role::Operator);
        let both = joined(&left, &right);
        assert_eq!(both.role("anna"), Some(Role::Admin));
        assert_eq!(both.role("bert"), Some(Role::ReadOnly));
        let merged = left.0.merged(&right.0);
        assert_eq!(merged.restored.as_deref(), Some("anna"));
    }

    #[test]
    fn removed_admin_is_restored_only_if_no_user_is_left() {
        let (mut left, mut right) = parted_admins();
        left.give_role("bert", Role::Operator);
        right.remove("anna");
        let both = joined(&left, &right);
        assert_eq!(both.names(), ["bert"]);
        assert_eq!(both.role("bert"), Some(Role::Admin));
        let (mut left, mut right) = parted_admins();
        left.remove("bert");
        right.remove("anna");
        let mut both = joined(&left, &right);
        assert_eq!(both.names(), ["anna"]);
        // It is a new user of that name: the removal stays valid, and tokens of the former user do not.
        assert!(both.0.user("anna").expect("there").view.created_at_ms > 1);
        both.add("dora", 50, Role::Admin);
        both.remove("anna");
        assert_eq!(joined(&both, &right).names(), ["dora"]);
    }

    /// The last user of a head may be removed, which locks the API.
    #[test]
    fn deliberate_removal_of_last_user_is_not_reverted() {
        let (mut left, mut right) = parted_admins();
        left.remove("bert");
        left.remove("anna");
        right.remove("anna");
        assert!(joined(&left, &right).names().is_empty());
    }

    #[test]
    fn revoked_token_or_token_of_removed_user_is_not_restored() {
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
    fn newer_of_files_in_old_format_wins() {
        let (left, _) = parted();
        let old: AccountData = serde_json::from_str(
            r#"{"revision": 9, "users": [{"name": "anna", "role": "admin", "created_at_ms": 1,
                "password": "p"}], "tokens": []}"#,
        )
        .expect("a file of an older version");
        assert_eq!(joined(&left, &Head(old.clone())).0, old);
        assert_eq!(AccountData::default().merged(&left.0).book, left.0);
    }

    #[test]
    fn recorded_removals_are_bounded() {
        let mut book = AccountData::default();
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
