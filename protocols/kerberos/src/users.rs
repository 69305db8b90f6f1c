//! Maps principals to users of this host, with `auth_to_local` of `krb5.conf` and the system's user
//! database.

use std::ffi::CString;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::GSS_MECH_KRB5;
use nix::unistd;

/// Lifetime of an unknown user with a mapped name: a directory service that is starting may report
/// every user as unknown.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(60);

/// Characters of an unauthenticated name in messages.
const NAME_SHOWN_MAX: usize = 64;

/// A user of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User ID.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
}

/// A principal that the key distribution center authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Such as `alice@EXAMPLE.ORG`.
    pub name: String,
    /// The mapped user. Host principals and unknown users are mapped to `nobody`.
    pub user: Option<User>,
}

/// The identity of a principal does not depend on its groups.
impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The system could not look the name up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("look up the user or group {name}: {errno}")]
pub struct LookupFailed {
    name: String,
    errno: nix::Error,
}

/// The names that the library returns for a principal.
pub(crate) struct Names {
    shown: String,
    /// The local user name, if the principal is mapped to one.
    local: Option<String>,
}

impl Names {
    pub(crate) fn of(name: &Name) -> Result<Self, Error> {
        let shown = name.display_name()?;
        let local = name.local_name(Some(GSS_MECH_KRB5)).ok();
        Ok(Self {
            shown: String::from_utf8_lossy(&shown).into_owned(),
            local: local.and_then(|local| String::from_utf8(local.to_vec()).ok()),
        })
    }

    /// Returns the user, and the part of `lifetime` for which the result is valid. A failed look-up
    /// is an error: a user must not be mapped to `nobody` because a directory service is
    /// unavailable.
    pub(crate) fn look_up(self, lifetime: Duration) -> Result<(Principal, Duration), LookupFailed> {
        let (user, lifetime) = match self.local.as_deref().map(look_up).transpose()? {
            Some(Some(user)) => (Some(user), lifetime),
            Some(None) => (None, lifetime.min(UNKNOWN_LIFETIME)),
            None => (None, lifetime),
        };
        let name = self.shown;
        Ok((Principal { name, user }, lifetime))
    }
}

/// Returns the ID of a user of this host, if it exists. May query a directory service.
///
/// # Errors
///
/// The look-up failed.
pub fn number_of_user(name: &str) -> Result<Option<u32>, LookupFailed> {
    let user = unistd::User::from_name(name).map_err(|errno| LookupFailed::to(name, errno))?;
    Ok(user.map(|user| user.uid.as_raw()))
}

/// Returns the ID of a group of this host, if it exists. May query a directory service.
///
/// # Errors
///
/// The look-up failed.
pub fn number_of_group(name: &str) -> Result<Option<u32>, LookupFailed> {
    let group = unistd::Group::from_name(name).map_err(|errno| LookupFailed::to(name, errno))?;
    Ok(group.map(|group| group.gid.as_raw()))
}

impl LookupFailed {
    fn to(name: &str, errno: nix::Error) -> Self {
        // The name is untrusted and is logged.
        let shown = name.escape_debug().take(NAME_SHOWN_MAX);
        Self {
            name: shown.collect(),
            errno,
        }
    }

    /// Whether a retry would fail, too: the entry is too long, such as the members of a group.
    pub fn is_permanent(&self) -> bool {
        self.errno == nix::Error::ERANGE
    }
}

fn look_up(name: &str) -> Result<Option<User>, LookupFailed> {
    let failed = |errno| LookupFailed::to(name, errno);
    let Some(user) = unistd::User::from_name(name).map_err(failed)? else {
        return Ok(None);
    };
    let Ok(text) = CString::new(name) else {
        return Ok(None);
    };
    let groups = unistd::getgrouplist(&text, user.gid).map_err(failed)?;
    Ok(Some(User {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(|group| group.as_raw()).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_user_has_groups_and_unknown_user_is_none() {
        let root = look_up("root").expect("an answer").expect("a user");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(look_up("no-such-user-here").expect("an answer"), None);
        for number_of in [number_of_user, number_of_group] {
            assert_eq!(number_of("root"), Ok(Some(0)));
            assert_eq!(number_of("no-such-user-here"), Ok(None));
        }
    }

    /// Otherwise a user would be mapped to `nobody` for an hour because a directory service was not
    /// ready.
    #[test]
    fn unknown_user_is_retried_soon_and_host_principal_is_not() {
        let hour = Duration::from_secs(3600);
        let counts = |local: Option<&str>, lifetime| {
            let names = Names {
                shown: "somebody@REALM".to_owned(),
                local: local.map(str::to_owned),
            };
            let (principal, lifetime) = names.look_up(lifetime).expect("an answer");
            (principal.user.is_some(), lifetime)
        };
        assert_eq!(counts(Some("root"), hour), (true, hour));
        assert_eq!(counts(None, hour), (false, hour));
        let unknown = Some("no-such-user-here");
        assert_eq!(counts(unknown, hour), (false, UNKNOWN_LIFETIME));
        let second = Duration::from_secs(1);
        assert_eq!(counts(unknown, second), (false, second));
    }
}
