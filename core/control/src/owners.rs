//! Quotas of users, groups and projects as properties of a file system, such as `userquota@1000`: their names and
//! values.

use std::fmt;

use nix::unistd::{Group, User};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::ByteCount;

use crate::Failure;

/// A kind of owner that space is charged to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OwnerKind")]
pub enum OwnerKind {
    /// Users.
    #[default]
    User,
    /// Groups.
    Group,
    /// Projects.
    Project,
}

impl fmt::Display for OwnerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Project => "project",
        })
    }
}

/// The beginnings of the names, each with its kind, whether it is about objects, and whether it is a quota.
const PREFIXES: [(&str, OwnerKind, bool, bool); 12] = [
    ("userused@", OwnerKind::User, false, false),
    ("userquota@", OwnerKind::User, false, true),
    ("userobjused@", OwnerKind::User, true, false),
    ("userobjquota@", OwnerKind::User, true, true),
    ("groupused@", OwnerKind::Group, false, false),
    ("groupquota@", OwnerKind::Group, false, true),
    ("groupobjused@", OwnerKind::Group, true, false),
    ("groupobjquota@", OwnerKind::Group, true, true),
    ("projectused@", OwnerKind::Project, false, false),
    ("projectquota@", OwnerKind::Project, false, true),
    ("projectobjused@", OwnerKind::Project, true, false),
    ("projectobjquota@", OwnerKind::Project, true, true),
];

/// The beginnings of the names, up to the `@`.
pub fn prefixes() -> impl Iterator<Item = &'static str> {
    PREFIXES.iter().map(|(prefix, ..)| *prefix)
}

/// The name of a property of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerProperty<'a> {
    /// The whole name.
    pub name: &'a str,
    /// The kind of its owner.
    pub kind: OwnerKind,
    /// Whether it is about objects, and not about bytes.
    pub of_objects: bool,
    /// Whether it is a quota, and not the space in use.
    pub is_quota: bool,
    /// The text after the `@`.
    owner: &'a str,
}

impl<'a> OwnerProperty<'a> {
    /// Parses a name; `None` for that of another property.
    pub fn parse(name: &'a str) -> Option<Self> {
        PREFIXES
            .iter()
            .find_map(|(prefix, kind, of_objects, is_quota)| {
                Some(Self {
                    name,
                    kind: *kind,
                    of_objects: *of_objects,
                    is_quota: *is_quota,
                    owner: name.strip_prefix(prefix)?,
                })
            })
    }

    /// The number of its owner.
    ///
    /// # Errors
    ///
    /// It has a name, or a number that no owner has.
    pub fn id(&self) -> Result<u32, Failure> {
        let (name, kind) = (self.name, self.kind);
        let has_digits = !self.owner.is_empty() && self.owner.bytes().all(|b| b.is_ascii_digit());
        match self.owner.parse::<u32>() {
            Ok(id) if has_digits && id != u32::MAX => Ok(id),
            _ if has_digits || self.owner.is_empty() => {
                let message = format!("{name} names no {kind}");
                Err(Failure::usage(message)
                    .advise(format!("write the number of a {kind}, such as 1000")))
            }
            _ => Err(
                Failure::usage(format!("{name}: the number of the {kind} is needed"))
                    .advise(self.how_to_get_a_number()),
            ),
        }
    }

    fn how_to_get_a_number(&self) -> &'static str {
        match self.kind {
            OwnerKind::User => "`id -u NAME` prints the number on a host that has the user",
            OwnerKind::Group => {
                "`getent group NAME` prints the number on a host that has the group"
            }
            OwnerKind::Project => "projects have numbers only, such as 7",
        }
    }

    /// The limit that a value of a quota sets; `None` for none.
    ///
    /// # Errors
    ///
    /// It is no size, or no number of objects.
    pub fn limit(&self, value: &str) -> Result<Option<u64>, Failure> {
        let name = self.name;
        if !self.is_quota {
            let quota = name.replacen("used@", "quota@", 1);
            return Err(
                Failure::usage(format!("{name} is counted, and cannot be set"))
                    .advise(format!("{quota} limits it")),
            );
        }
        if value == "none" {
            return Ok(None);
        }
        let limit = match self.of_objects {
            false => value
                .parse::<ByteCount>()
                .map(ByteCount::get)
                .map_err(|error| {
                    Failure::usage(format!("{name}={value}: {error}"))
                        .advise("write a size such as 10G, or none")
                }),
            true => value.parse::<u64>().map_err(|_| {
                Failure::usage(format!("{name}={value}: this is no number of files"))
                    .advise("write a number such as 50000, or none")
            }),
        };
        Ok(Some(limit?).filter(|limit| *limit > 0))
    }
}

/// Replaces the name of a user or group of this host by its number, in the name of a property. Other names are unchanged.
/// May query a directory service.
///
/// # Errors
///
/// There is no such user or group, or the look-up failed.
pub fn with_number(name: &str) -> Result<String, Failure> {
    let Some(property) = OwnerProperty::parse(name) else {
        return Ok(name.to_owned());
    };
    let (kind, owner) = (property.kind, property.owner);
    let is_name = !owner.is_empty() && !owner.bytes().all(|byte| byte.is_ascii_digit());
    let found = match kind {
        OwnerKind::User if is_name => {
            User::from_name(owner).map(|user| user.map(|user| user.uid.as_raw()))
        }
        OwnerKind::Group if is_name => {
            Group::from_name(owner).map(|group| group.map(|group| group.gid.as_raw()))
        }
        _ => return property.id().map(|_| name.to_owned()),
    };
    let prefix = &name[..name.len() - owner.len()];
    match found {
        Ok(Some(id)) => Ok(format!("{prefix}{id}")),
        Ok(None) => Err(
            Failure::usage(format!("this host has no {kind} {owner}")).advise(format!(
                "give the number: {}",
                property.how_to_get_a_number()
            )),
        ),
        Err(error) => Err(
            Failure::usage(format!("look up the {kind} {owner}: {error}"))
                .advise("give the number instead"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_owner_properties_are_those_of_zfs() {
        for (name, kind, of_objects, is_quota, id) in [
            ("userquota@1000", OwnerKind::User, false, true, 1000),
            ("userused@0", OwnerKind::User, false, false, 0),
            ("userobjquota@1000", OwnerKind::User, true, true, 1000),
            ("groupobjused@100", OwnerKind::Group, true, false, 100),
            ("projectquota@7", OwnerKind::Project, false, true, 7),
            (
                "groupquota@4294967294",
                OwnerKind::Group,
                false,
                true,
                u32::MAX - 1,
            ),
        ] {
            let property = OwnerProperty::parse(name).expect(name);
            let found = (property.kind, property.of_objects, property.is_quota);
            assert_eq!(found, (kind, of_objects, is_quota), "{name}");
            assert_eq!(property.id().expect(name), id, "{name}");
        }
        for name in [
            "quota",
            "userquota",
            "feature@async_destroy",
            "usrquota@1",
            "a:b",
            "",
        ] {
            assert_eq!(OwnerProperty::parse(name), None, "{name}");
        }
        assert_eq!(prefixes().count(), 12);
    }

    #[test]
    fn wrong_owner_is_refused_with_the_way_to_a_number() {
        for (name, part) in [
            ("userquota@", "such as 1000"),
            ("userquota@4294967295", "such as 1000"),
            ("userquota@99999999999999999999", "such as 1000"),
            ("userquota@anna", "id -u"),
            ("userquota@-1", "id -u"),
            ("userquota@+1", "id -u"),
            ("groupquota@staff", "getent group"),
            ("projectquota@web", "numbers only"),
        ] {
            let failure = OwnerProperty::parse(name).expect(name).id();
            let advice = failure.expect_err(name).advice.expect("advice");
            assert!(advice.contains(part), "{name}: {advice}");
        }
    }

    #[test]
    fn limits_are_sizes_or_counts() {
        for (name, value, limit) in [
            ("userquota@1", "10G", Some(10 << 30)),
            ("userquota@1", "512", Some(512)),
            ("userquota@1", "none", None),
            ("userquota@1", "0", None),
            ("projectobjquota@1", "50000", Some(50_000)),
            ("projectobjquota@1", "none", None),
        ] {
            let property = OwnerProperty::parse(name).expect(name);
            assert_eq!(property.limit(value).expect(value), limit, "{name}={value}");
        }
        for (name, value, part) in [
            ("userquota@1", "much", "10G, or none"),
            ("userquota@1", "-1", "10G, or none"),
            ("userquota@1", "", "10G, or none"),
            ("userobjquota@1", "50000x", "50000, or none"),
            ("userobjquota@1", "-1", "50000, or none"),
            ("userused@1", "1G", "userquota@1 limits it"),
            ("projectobjused@1", "1", "projectobjquota@1 limits it"),
        ] {
            let property = OwnerProperty::parse(name).expect(name);
            let failure = property.limit(value).expect_err(name);
            let advice = failure.advice.expect("advice");
            assert!(advice.contains(part), "{name}={value}: {advice}");
        }
    }

    #[test]
    fn names_of_this_host_become_numbers() {
        for (name, expected) in [
            ("userquota@root", "userquota@0"),
            ("groupobjquota@root", "groupobjquota@0"),
            ("userquota@1000", "userquota@1000"),
            ("quota", "quota"),
            ("a:userquota@root", "a:userquota@root"),
        ] {
            assert_eq!(with_number(name).expect(name), expected);
        }
        for name in [
            "userquota@no-such-user-here",
            "groupquota@no-such-group-here",
            "projectquota@root",
            "userquota@",
            "userquota@a\0b",
        ] {
            let failure = with_number(name).expect_err(name);
            assert!(failure.advice.is_some(), "{name}");
        }
    }
}
