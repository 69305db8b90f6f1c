//! Names, checked once at construction, so that no later layer receives an invalid one.

use std::fmt;
use std::str::FromStr;

/// Longest dataset or snapshot name that ZFS accepts, in bytes (`ZFS_MAX_DATASET_NAME_LEN` - 1).
const DATASET_NAME_BYTES_MAX: usize = 255;
/// Longest iSCSI name, in bytes (RFC 7143, section 4.2.7.1).
const ISCSI_NAME_BYTES_MAX: usize = 223;

/// Why a name is refused. The sentence contains the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not {} {what}: {rule}", article(.what))]
pub struct NameError {
    name: String,
    what: &'static str,
    rule: &'static str,
}

fn article(noun: &str) -> &'static str {
    match noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    }
}

fn refuse<T>(name: &str, what: &'static str, rule: &'static str) -> Result<T, NameError> {
    Err(NameError {
        name: name.to_owned(),
        what,
        rule,
    })
}

fn is_component(text: &str) -> bool {
    !text.is_empty()
        && text != "."
        && text != ".."
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.: ".contains(&b))
        && !text.ends_with(' ')
}

macro_rules! checked_name {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The checked text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                $check(text).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked_name!(
    /// A pool, such as `tank`.
    PoolName,
    check_pool
);
checked_name!(
    /// A volume (or any dataset below a pool), such as `tank/vm/disk0`.
    VolumeName,
    check_volume
);
checked_name!(
    /// A snapshot, such as `tank/vm/disk0@monday`.
    SnapshotName,
    check_snapshot
);
checked_name!(
    /// An iSCSI qualified name, such as `iqn.2026-01.org.example:tank` (RFC 7143, section
    /// 4.2.7), normalised to lower case.
    IscsiName,
    check_iscsi
);
checked_name!(
    /// A head, by the name that `uname -n` prints there, such as `left`.
    HeadName,
    check_head
);
checked_name!(
    /// A network between heads and clients, such as `storage-a`.
    NetworkName,
    check_network
);

/// Longest label of a host name, in bytes (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

fn check_label(text: &str, what: &'static str) -> Result<String, NameError> {
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    if !plain || !starts_well || text.ends_with('-') || text.len() > LABEL_BYTES_MAX {
        return refuse(
            text,
            what,
            "start with a letter; use lower-case letters, digits and - only, 63 at most",
        );
    }
    Ok(text.to_owned())
}

fn check_head(text: &str) -> Result<String, NameError> {
    check_label(text, "head name")
}

fn check_network(text: &str) -> Result<String, NameError> {
    check_label(text, "network name")
}

fn check_pool(text: &str) -> Result<String, NameError> {
    const WHAT: &str = "pool name";
    const RESERVED: [&str; 4] = ["mirror", "raidz", "draid", "spare"];
    if text.len() > DATASET_NAME_BYTES_MAX {
        return refuse(text, WHAT, "use at most 255 characters");
    }
    if !is_component(text) || !text.as_bytes()[0].is_ascii_alphabetic() {
        return refuse(
            text,
            WHAT,
            "start with a letter; use letters, digits and - _ . : only",
        );
    }
    if RESERVED.iter().any(|word| text.starts_with(word)) || text == "log" {
        return refuse(
            text,
            WHAT,
            "names starting with mirror, raidz, draid, spare, and log are ZFS's own",
        );
    }
    Ok(text.to_owned())
}

fn check_dataset_path(text: &str, what: &'static str) -> Result<(), NameError> {
    let Some((pool, rest)) = text.split_once('/') else {
        return refuse(text, what, "write POOL/NAME");
    };
    check_pool(pool)?;
    if text.len() > DATASET_NAME_BYTES_MAX {
        return refuse(text, what, "use at most 255 characters");
    }
    if !rest.split('/').all(is_component) {
        return refuse(
            text,
            what,
            "between slashes use letters, digits and - _ . : only",
        );
    }
    Ok(())
}

fn check_volume(text: &str) -> Result<String, NameError> {
    check_dataset_path(text, "name of a volume or file system").map(|()| text.to_owned())
}

fn check_snapshot(text: &str) -> Result<String, NameError> {
    const WHAT: &str = "snapshot name";
    let Some((volume, snapshot)) = text.split_once('@') else {
        return refuse(text, WHAT, "write POOL/NAME@SNAPSHOT");
    };
    check_dataset_path(volume, WHAT)?;
    if !is_component(snapshot) || text.len() > DATASET_NAME_BYTES_MAX {
        return refuse(
            text,
            WHAT,
            "after @ use letters, digits and - _ . : only, 255 in all",
        );
    }
    Ok(text.to_owned())
}

fn check_iscsi(text: &str) -> Result<String, NameError> {
    const WHAT: &str = "iSCSI name";
    const RULE: &str = "write iqn.YYYY-MM.reversed.domain:anything, eui. and 16 or naa. and 16 or 32 hex digits; letters, digits, - . : only, 223 at most";
    let lower = text.to_ascii_lowercase();
    let plain = lower
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-.:".contains(&b));
    let hex = |digits: &str, lengths: &[usize]| {
        lengths.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let shaped = match lower.split_at_checked(4) {
        Some(("iqn.", rest)) => is_dated_authority(rest),
        Some(("eui.", rest)) => hex(rest, &[16]),
        Some(("naa.", rest)) => hex(rest, &[16, 32]),
        _ => false,
    };
    if !plain || !shaped || text.len() > ISCSI_NAME_BYTES_MAX {
        return refuse(text, WHAT, RULE);
    }
    Ok(lower)
}

/// `YYYY-MM.` and at least one more character.
fn is_dated_authority(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    bytes.len() > 8
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5..7].iter().all(u8::is_ascii_digit)
        && bytes[7] == b'.'
}

impl IscsiName {
    /// Returns whether it is dated with an impossible month. Such a name is accepted for existing objects, and refused
    /// for new ones.
    pub fn has_impossible_month(&self) -> bool {
        let month = self.0.strip_prefix("iqn.").and_then(|rest| rest.get(5..7));
        month.is_some_and(|month| !("01"..="12").contains(&month))
    }
}

impl VolumeName {
    /// The pool the volume is in.
    pub fn pool(&self) -> PoolName {
        let (pool, _) = self.0.split_once('/').expect("checked when made");
        PoolName(pool.to_owned())
    }

    /// Returns whether it is `at`, or below it.
    pub fn is_at_or_below(&self, at: &VolumeName) -> bool {
        let rest = self.as_str().strip_prefix(at.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns its name after `from` is renamed to `to`; none if it is not at or below `from`, or if the name would be
    /// too long.
    pub fn moved(&self, from: &VolumeName, to: &VolumeName) -> Option<VolumeName> {
        let is_moved = self.is_at_or_below(from);
        let rest = is_moved.then(|| &self.as_str()[from.as_str().len()..])?;
        format!("{to}{rest}").parse().ok()
    }
}

impl SnapshotName {
    /// The volume the snapshot is of.
    pub fn volume(&self) -> VolumeName {
        let (volume, _) = self.0.split_once('@').expect("checked when made");
        VolumeName(volume.to_owned())
    }

    /// Returns the part after the `@`.
    pub fn tag(&self) -> &str {
        self.0.split_once('@').expect("checked when made").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_a_common_prefix_is_not_a_child() {
        let name = |text: &str| text.parse::<VolumeName>().expect("a name");
        let at = name("tank/a");
        assert!(at.is_at_or_below(&at) && name("tank/a/b").is_at_or_below(&at));
        assert!(!name("tank/ab").is_at_or_below(&at) && !at.is_at_or_below(&name("tank/a/b")));
        let to = name("tank/c/d");
        assert_eq!(at.moved(&at, &to), Some(to.clone()));
        assert_eq!(name("tank/a/b").moved(&at, &to), Some(name("tank/c/d/b")));
        assert_eq!(name("tank/ab").moved(&at, &to), None);
    }

    #[test]
    fn names_that_zfs_forbids_are_refused_with_advice() {
        for bad in ["", "1tank", "mirror0", "a/b", "ta nk ", "log", "tank@x"] {
            assert!(bad.parse::<PoolName>().is_err(), "{bad}");
        }
        for bad in [
            "tank", "tank/", "tank//a", "tank/..", "tank/a@b", "tank/a%b",
        ] {
            assert!(bad.parse::<VolumeName>().is_err(), "{bad}");
        }
        assert!("tank/a@b@c".parse::<SnapshotName>().is_err());
        assert_eq!(
            "tank/vm/a".parse::<VolumeName>().unwrap().pool().as_str(),
            "tank"
        );
    }

    #[test]
    fn iscsi_names_follow_rfc_7143_and_are_lower_cased() {
        assert_eq!(
            "IQN.2026-01.org.Example:a"
                .parse::<IscsiName>()
                .unwrap()
                .as_str(),
            "iqn.2026-01.org.example:a"
        );
        assert!("eui.0123456789abcdef".parse::<IscsiName>().is_ok());
        for bad in [
            "iqn.2026.org",
            "eui.1",
            "naa.xyz",
            "disk",
            "iqn.2026-01.a b",
        ] {
            assert!(bad.parse::<IscsiName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn iscsi_name_with_month_13_is_refused() {
        for (name, expected) in [
            ("iqn.2026-00.org.example:a", true),
            ("iqn.2026-01.org.example:a", false),
            ("iqn.2026-12.org.example:a", false),
            ("iqn.2026-13.org.example:a", true),
            ("eui.0123456789abcdef", false),
        ] {
            let name: IscsiName = name.parse().unwrap();
            assert_eq!(name.has_impossible_month(), expected, "{name}");
        }
    }
}
