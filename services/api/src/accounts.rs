//! Users and tokens: one file with mode 0600, reread whenever it has changed, and replaced atomically. Passwords are
//! stored as Argon2id, tokens as SHA-256 (they are random, so a fast hash suffices).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use control::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::account_merge::{AccountData, Removed, Token, User};
use crate::role::Role;

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Most users, and most tokens.
const ACCOUNTS_MAX: usize = 1000;
/// Shortest password, in characters.
const PASSWORD_CHARS_MIN: usize = 10;
/// Longest password, in bytes: longer ones add no security.
const PASSWORD_BYTES_MAX: usize = 1024;
/// Random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// A user as returned by the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserView {
    /// The name.
    pub name: String,
    /// Their role.
    pub role: Role,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: u64,
}

/// A token as returned by the API; the token itself only once, in the response that creates it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    /// Identifies the token in requests.
    pub id: String,
    /// Its purpose.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Its role: never above that of its user.
    pub role: Role,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// When it expires, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// The token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Identifies the version of the file that was read.
type Stamp = (u64, i64, i64, u64);

/// The accounts in a directory.
pub struct Accounts {
    folder: PathBuf,
    read: Mutex<Option<(Stamp, Arc<AccountData>)>>,
}

/// The user of a token or a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: String,
    /// Their current role.
    pub role: Role,
    /// Changes with the password, and with the user of that name: a session is valid for one of these only.
    pub credential: String,
}

impl Identity {
    fn of(user: &User) -> Self {
        Self {
            user: user.view.name.clone(),
            role: user.view.role,
            credential: fingerprint(&user.password),
        }
    }
}

/// The result of a merge with another head's accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// Whether it changed our accounts.
    pub has_changed: bool,
    /// The user with a restored role, because the heads removed each other's last admins.
    pub restored: Option<String>,
}

impl Accounts {
    /// The accounts in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            read: Mutex::new(None),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("accounts.json")
    }

    /// The current contents of the file; empty if there is none.
    fn book(&self) -> Result<Arc<AccountData>, Failure> {
        let path = self.path();
        let mut cached = self.read.lock().expect("no holder panics");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *cached = None;
                return Ok(Arc::default());
            }
            Err(error) => return Err(trouble("read", &path, &error)),
        };
        let data = file.metadata().map_err(|e| trouble("read", &path, &e))?;
        let stamp = (data.ino(), data.mtime(), data.mtime_nsec(), data.len());
        if let Some((same, book)) = cached.as_ref() {
            if *same == stamp {
                return Ok(Arc::clone(book));
            }
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|e| trouble("read", &path, &e))?;
        let book: AccountData = serde_json::from_str(&text).map_err(|error| {
            let message = format!("{} cannot be parsed: {error}", path.display());
            Failure::new(FailureKind::Failed, message)
                .advise("restore it from the other head, or remove it and add the users again")
        })?;
        let book = Arc::new(book);
        *cached = Some((stamp, Arc::clone(&book)));
        Ok(book)
    }

    /// Changes the accounts.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut AccountData) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.edit(|book| {
            book.begin_change();
            change(book)
        })
    }

    /// Edits the file under a lock against other processes.
    fn edit<T>(
        &self,
        edit: impl FnOnce(&mut AccountData) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        create_private_directory(&self.folder).map_err(|e| trouble("make", &self.folder, &e))?;
        let lock_path = self.folder.join("accounts.lock");
        let lock = private_file(&lock_path, false).map_err(|e| trouble("lock", &lock_path, &e))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|e| trouble("lock", &lock_path, &e.into()))?;
        let mut book = AccountData::clone(&*self.book()?);
        let outcome = edit(&mut book)?;
        self.store(&book)?;
        Ok(outcome)
    }

    fn store(&self, book: &AccountData) -> Result<(), Failure> {
        let path = self.path();
        let mut text = serde_json::to_vec_pretty(book).expect("accounts are JSON");
        text.push(b'\n');
        replace_private(&path, &text).map_err(|e| trouble("write", &path, &e))
    }

    /// Whether there is any user.
    pub fn has_users(&self) -> bool {
        self.book().is_ok_and(|book| !book.users.is_empty())
    }

    /// All users.
    pub fn users(&self) -> Result<Vec<UserView>, Failure> {
        Ok(self
            .book()?
            .users
            .iter()
            .map(|user| user.view.clone())
            .collect())
    }

    /// Adds a user.
    pub fn add_user(&self, name: &str, role: Role, password: &str) -> Result<UserView, Failure> {
        check_name(name)?;
        let password = hash(password)?;
        self.change(|book| {
            if book.users.iter().any(|user| user.view.name == name) {
                let message = format!("there is a user {name} already");
                return Err(Failure::new(FailureKind::Exists, message)
                    .advise("`bulkhead user passwd` sets another password"));
            }
            if book.users.len() >= ACCOUNTS_MAX {
                return Err(Failure::usage(format!(
                    "there are {ACCOUNTS_MAX} users already"
                )));
            }
            let view = UserView {
                name: name.to_owned(),
                role,
                created_at_ms: crate::now_ms(),
            };
            book.users.push(User {
                view: view.clone(),
                password,
                role_at: book.revision,
                password_at: book.revision,
            });
            Ok(view)
        })
    }

    /// Changes a user's role or password. A new password revokes their tokens, which may have been created with a
    /// stolen one.
    pub fn change_user(
        &self,
        name: &str,
        role: Option<Role>,
        password: Option<&str>,
    ) -> Result<UserView, Failure> {
        let password = password.map(hash).transpose()?;
        self.change(|book| {
            let index = place(book, name)?;
            if role.is_some_and(|role| role != Role::Admin) {
                ensure_an_admin(book, name)?;
            }
            let (user, at) = (&mut book.users[index], book.revision);
            if let Some(role) = role {
                (user.view.role, user.role_at) = (role, at);
            }
            if let Some(password) = password {
                (user.password, user.password_at) = (password, at);
                let view = user.view.clone();
                let tokens = book.tokens.iter().filter(|token| token.view.user == name);
                let ids: Vec<String> = tokens.map(|token| token.view.id.clone()).collect();
                for id in ids {
                    book.remove(Removed::Token { id });
                }
                return Ok(view);
            }
            Ok(user.view.clone())
        })
    }

    /// Removes a user with their tokens.
    pub fn remove_user(&self, name: &str) -> Result<(), Failure> {
        self.change(|book| {
            let index = place(book, name)?;
            // The very last user may be removed: that locks the API, and the command line can add one.
            if book.users.len() > 1 {
                ensure_an_admin(book, name)?;
            }
            let created_at_ms = book.users[index].view.created_at_ms;
            let name = name.to_owned();
            book.remove(Removed::User {
                name,
                created_at_ms,
            });
            Ok(())
        })
    }

    /// Identifies a user by name and password. Equally slow for a name that does not exist.
    pub fn log_in(&self, name: &str, password: &str) -> Result<Option<Identity>, Failure> {
        // The hash of a random value, for names that do not exist.
        const NO_USER: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$\
                              RdescudvJCsgt3ub+b6dWRWJTmaaJObGAAAAAAAAAAA";
        let book = self.book()?;
        let user = book.user(name);
        let text = user.map_or(NO_USER, |user| &user.password);
        let too_long = password.len() > PASSWORD_BYTES_MAX;
        let is_right = PasswordHash::new(text).is_ok_and(|hash| {
            Argon2::default()
                .verify_password(password.as_bytes(), &hash)
                .is_ok()
        });
        Ok(user.filter(|_| is_right && !too_long).map(Identity::of))
    }

    /// The current state of a user.
    pub fn user(&self, name: &str) -> Option<Identity> {
        self.book().ok()?.user(name).map(Identity::of)
    }

    /// Creates a token of `user`; only this response contains it.
    pub fn add_token(
        &self,
        user: &str,
        name: &str,
        role: Option<Role>,
        expires_in_s: Option<u64>,
    ) -> Result<TokenView, Failure> {
        let secret = random_text(TOKEN_BYTES)?;
        self.change(|book| {
            let owner = book.users[place(book, user)?].view.clone();
            let role = role.unwrap_or(owner.role);
            if role > owner.role {
                let message = format!("{user} is {}, so no token of theirs is {role}", owner.role);
                return Err(Failure::new(FailureKind::Denied, message));
            }
            if book.tokens.len() >= ACCOUNTS_MAX {
                let message = format!("there are {ACCOUNTS_MAX} tokens already");
                return Err(Failure::usage(message).advise("revoke some"));
            }
            if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) {
                return Err(Failure::usage(
                    "describe its purpose in 1 to 100 characters",
                ));
            }
            let now_ms = crate::now_ms();
            let view = TokenView {
                id: random_text(6)?,
                name: name.to_owned(),
                user: user.to_owned(),
                role,
                created_at_ms: now_ms,
                expires_at_ms: expires_in_s.map(|s| now_ms.saturating_add(s.saturating_mul(1000))),
                token: None,
            };
            book.tokens.push(Token {
                view: view.clone(),
                sha256: fingerprint(&secret),
                owner_created_at_ms: Some(owner.created_at_ms),
            });
            Ok(TokenView {
                token: Some(secret),
                ..view
            })
        })
    }

    /// All tokens, or those of one user.
    pub fn tokens(&self, of: Option<&str>) -> Result<Vec<TokenView>, Failure> {
        let book = self.book()?;
        let tokens = book.tokens.iter().map(|token| &token.view);
        Ok(tokens
            .filter(|token| of.is_none_or(|user| token.user == user))
            .cloned()
            .collect())
    }

    /// Revokes a token, of one user or of any.
    pub fn revoke(&self, id: &str, of: Option<&str>) -> Result<(), Failure> {
        self.change(|book| {
            let is_meant = |token: &Token| {
                token.view.id == id && of.is_none_or(|user| token.view.user == user)
            };
            if !book.tokens.iter().any(is_meant) {
                return Err(Failure::not_found(format!("there is no token {id}")));
            }
            book.remove(Removed::Token { id: id.to_owned() });
            Ok(())
        })
    }

    /// Returns the user of a token, and the token's number.
    pub fn bearer(&self, secret: &str) -> Option<(Identity, String)> {
        use subtle::ConstantTimeEq;
        let book = self.book().ok()?;
        let presented = fingerprint(secret);
        let is_same =
            |token: &&Token| bool::from(token.sha256.as_bytes().ct_eq(presented.as_bytes()));
        let token = book.tokens.iter().find(is_same)?;
        let owner = Identity::of(living_owner(&book, token)?);
        let role = owner.role.min(token.view.role);
        Some((Identity { role, ..owner }, token.view.id.clone()))
    }

    /// Whether the token of this number is still valid.
    pub fn is_token_valid(&self, id: &str) -> bool {
        self.book().is_ok_and(|book| {
            let found = book.tokens.iter().find(|token| token.view.id == id);
            found.is_some_and(|token| living_owner(&book, token).is_some())
        })
    }

    /// The file as sent to another head; `None` if there is none.
    pub fn exported(&self) -> Result<Option<serde_json::Value>, Failure> {
        let book = self.book()?;
        Ok((!book.is_new()).then(|| serde_json::to_value(&*book).expect("accounts are JSON")))
    }

    /// Merges another head's file into this one.
    pub fn merge(&self, theirs: serde_json::Value) -> Result<Merge, Failure> {
        let theirs: AccountData = serde_json::from_value(theirs)
            .map_err(|error| Failure::usage(format!("accounts of a head: {error}")))?;
        let own = self.book()?;
        if own.merged(&theirs).book == *own {
            return Ok(Merge::default());
        }
        self.edit(|book| {
            let merged = book.merged(&theirs);
            *book = merged.book;
            Ok(Merge {
                has_changed: true,
                restored: merged.restored,
            })
        })
    }
}

/// Returns the owner of a token that is still valid.
fn living_owner<'a>(book: &'a AccountData, token: &Token) -> Option<&'a User> {
    let end = token.view.expires_at_ms;
    let has_ended = end.is_some_and(|end| end <= crate::now_ms());
    book.owner_of(token).filter(|_| !has_ended)
}

fn place(book: &AccountData, name: &str) -> Result<usize, Failure> {
    let found = book.users.iter().position(|user| user.view.name == name);
    found.ok_or_else(|| Failure::not_found(format!("there is no user {name}")))
}

fn ensure_an_admin(book: &AccountData, without: &str) -> Result<(), Failure> {
    let mut others = book.users.iter().filter(|user| user.view.name != without);
    match others.any(|user| user.view.role == Role::Admin) {
        true => Ok(()),
        false => Err(
            Failure::new(FailureKind::Exists, format!("{without} is the only admin"))
                .advise("make another user an admin first"),
        ),
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let is_fine = (1..=64).contains(&name.len()) && name.chars().all(plain);
    match is_fine {
        true => Ok(()),
        false => Err(Failure::usage(format!("{name:?} is no name for a user"))
            .advise("use 1 to 64 letters, digits and - _ . @")),
    }
}

fn hash(password: &str) -> Result<String, Failure> {
    let chars = password.chars().count();
    if chars < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        let message = format!("the password has {chars} characters");
        let advice =
            format!("use {PASSWORD_CHARS_MIN} to {PASSWORD_BYTES_MAX}; three words are fine");
        return Err(Failure::usage(message).advise(advice));
    }
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(FailureKind::Failed, format!("hash the password: {error}"))
    };
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| failed(&error))?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| failed(&error))?;
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    hash.map(|hash| hash.to_string())
        .map_err(|error| failed(&error))
}

/// SHA-256 in hex.
pub(crate) fn fingerprint(secret: &str) -> String {
    units::hex::encode(&Sha256::digest(secret.as_bytes()))
}

/// A random text of `bytes` bytes in hex.
pub(crate) fn random_text(bytes: usize) -> Result<String, Failure> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(Failure::of("obtain random bytes"))?;
    Ok(units::hex::encode(&random))
}

fn trouble(doing: &str, path: &Path, error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => FailureKind::Denied,
        _ => FailureKind::Failed,
    };
    Failure::new(kind, format!("{doing} {}: {error}", path.display()))
        .advise("run it as root, or choose another --head-dir")
}

pub(crate) fn create_private_directory(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

fn private_file(path: &Path, append: bool) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .append(append)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Opens `path` for appending, readable only by its owner.
pub(crate) fn append_private(path: &Path) -> io::Result<File> {
    private_file(path, true)
}

/// The steps of a replacement, before which a test stops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteStep {
    Create,
    FirstHalf,
    SecondHalf,
    Sync,
    Rename,
    SyncDirectory,
}

/// Replaces `path` atomically by a file that only its owner may read.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_private_by_steps(path, bytes, &mut |_| Ok(()))
}

/// The same; `before` can stop it before each step.
pub(crate) fn replace_private_by_steps(
    path: &Path,
    bytes: &[u8],
    before: &mut dyn FnMut(WriteStep) -> io::Result<()>,
) -> io::Result<()> {
    let new = path.with_extension("new");
    before(WriteStep::Create)?;
    let _ = std::fs::remove_file(&new);
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&new)?;
    let (first, second) = bytes.split_at(bytes.len() / 2);
    before(WriteStep::FirstHalf)?;
    file.write_all(first)?;
    before(WriteStep::SecondHalf)?;
    file.write_all(second)?;
    before(WriteStep::Sync)?;
    file.sync_all()?;
    before(WriteStep::Rename)?;
    std::fs::rename(&new, path)?;
    before(WriteStep::SyncDirectory)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const PASSWORD: &str = "three short words";

    fn accounts() -> (tempfile::TempDir, Accounts) {
        let folder = tempfile::tempdir().expect("a folder");
        let accounts = Accounts::new(&folder.path().join("head"));
        (folder, accounts)
    }

    #[test]
    fn a_user_logs_in_with_the_right_password_only() {
        let (_folder, accounts) = accounts();
        assert!(!accounts.has_users());
        accounts
            .add_user("anna", Role::Admin, PASSWORD)
            .expect("added");
        let anna = accounts.log_in("anna", PASSWORD).expect("asked");
        assert_eq!(anna.expect("in").role, Role::Admin);
        assert_eq!(
            accounts.log_in("anna", "three short word").expect("asked"),
            None
        );
        assert_eq!(accounts.log_in("bert", PASSWORD).expect("asked"), None);
        let again = accounts.add_user("anna", Role::Admin, PASSWORD);
        assert_eq!(again.expect_err("taken").kind, FailureKind::Exists);
        let short = accounts.add_user("bert", Role::Admin, "short");
        assert_eq!(short.expect_err("too short").kind, FailureKind::Usage);
    }

    #[test]
    fn the_file_is_private_and_holds_no_secret() {
        let (_folder, accounts) = accounts();
        accounts
            .add_user("anna", Role::Admin, PASSWORD)
            .expect("added");
        let token = accounts
            .add_token("anna", "backup", None, None)
            .expect("made");
        let mode = std::fs::metadata(accounts.path())
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(accounts.path()).expect("readable");
        assert!(!text.contains(PASSWORD) && !text.contains(&token.token.expect("shown")));
        assert!(text.contains("argon2id"));
    }

    #[test]
    fn token_is_invalid_after_expiry_user_removal_or_revocation() {
        let (_folder, accounts) = accounts();
        accounts
            .add_user("anna", Role::Admin, PASSWORD)
            .expect("added");
        accounts
            .add_user("bert", Role::Operator, PASSWORD)
            .expect("added");
        let made = |expires| {
            accounts
                .add_token("bert", "t", None, expires)
                .expect("made")
        };
        let secret = |token: &TokenView| token.token.clone().expect("shown");
        let (ended, revoked, good) = (made(Some(0)), made(None), made(Some(3600)));
        assert_eq!(accounts.bearer(&secret(&ended)), None);
        let (bert, id) = accounts.bearer(&secret(&good)).expect("valid");
        assert!(accounts.is_token_valid(&id) && !accounts.is_token_valid(&ended.id));
        assert_eq!((bert.user.as_str(), bert.role), ("bert", Role::Operator));
        accounts
            .revoke(&revoked.id, Some("anna"))
            .expect_err("not hers");
        accounts.revoke(&revoked.id, None).expect("revoked");
        assert_eq!(accounts.bearer(&secret(&revoked)), None);
        let more = accounts.add_token("bert", "t", Some(Role::Admin), None);
        assert_eq!(more.expect_err("more than bert").kind, FailureKind::Denied);
        accounts
            .change_user("bert", Some(Role::ReadOnly), None)
            .expect("changed");
        assert_eq!(
            accounts.bearer(&secret(&good)).expect("valid").0.role,
            Role::ReadOnly
        );
        accounts.remove_user("bert").expect("removed");
        assert_eq!(accounts.bearer(&secret(&good)), None);
        accounts
            .add_user("bert", Role::Admin, PASSWORD)
            .expect("another of that name");
        assert_eq!(accounts.bearer(&secret(&good)), None);
    }

    #[test]
    fn last_admin_cannot_be_removed() {
        let (_folder, accounts) = accounts();
        accounts
            .add_user("anna", Role::Admin, PASSWORD)
            .expect("added");
        accounts
            .add_user("bert", Role::Operator, PASSWORD)
            .expect("added");
        accounts.remove_user("anna").expect_err("the only one");
        accounts
            .change_user("anna", Some(Role::Operator), None)
            .expect_err("the only one");
    }

    #[test]
    fn head_merges_accounts_of_peer() {
        let (_one, left) = accounts();
        let (_two, right) = accounts();
        assert!(left.exported().expect("read").is_none());
        left.add_user("anna", Role::Admin, PASSWORD).expect("added");
        let file = left.exported().expect("read").expect("some");
        assert!(right.merge(file.clone()).expect("taken").has_changed);
        assert_eq!(
            right.merge(file.clone()).expect("the same"),
            Merge::default()
        );
        assert!(right.log_in("anna", PASSWORD).expect("asked").is_some());
        right
            .add_user("bert", Role::Admin, PASSWORD)
            .expect("added");
        left.merge(right.exported().expect("read").expect("some"))
            .expect("taken");
        left.remove_user("bert").expect("removed");
        for name in ["carl", "dora"] {
            right
                .add_user(name, Role::ReadOnly, PASSWORD)
                .expect("added");
        }
        left.merge(right.exported().expect("read").expect("some"))
            .expect("taken");
        right
            .merge(left.exported().expect("read").expect("some"))
            .expect("taken");
        for head in [left, right] {
            assert!(head.user("bert").is_none() && head.user("dora").is_some());
        }
    }

    /// Each of two partitioned heads removes the other's last admin.
    #[test]
    fn rejoined_heads_have_an_admin_in_either_merge_order() {
        let of = |accounts: &Accounts| accounts.exported().expect("read").expect("some");
        for left_asks_first in [true, false] {
            let (_one, left) = accounts();
            let (_two, right) = accounts();
            left.add_user("anna", Role::Admin, PASSWORD).expect("added");
            left.add_user("bert", Role::Admin, PASSWORD).expect("added");
            right.merge(of(&left)).expect("taken");
            left.remove_user("bert").expect("removed");
            let demoted = right.change_user("anna", Some(Role::Operator), None);
            demoted.expect("changed");
            let (first, second) = match left_asks_first {
                true => (&left, &right),
                false => (&right, &left),
            };
            let merge = first.merge(of(second)).expect("taken");
            assert_eq!(merge.restored.as_deref(), Some("anna"));
            let merge = second.merge(of(first)).expect("taken");
            assert_eq!((merge.has_changed, merge.restored), (true, None));
            assert_eq!(of(first), of(second));
            let anna = right.log_in("anna", PASSWORD).expect("asked");
            assert_eq!(anna.expect("in").role, Role::Admin);
            assert!(left.user("bert").is_none());
        }
    }
}
