//! The words of a pool's layout: `mirror A B mirror C D log mirror E F cache G spare H`.

use std::path::PathBuf;

use super::{DeviceGroup, GroupKind, GroupRole};
use crate::Failure;

/// Parses the words. Each device without a kind is a group of its own.
///
/// # Errors
///
/// The words are no valid layout, or a device's path cannot be used.
pub fn parse(words: &[String]) -> Result<Vec<DeviceGroup>, Failure> {
    parse_by(words, device_path)
}

/// The same for devices that join a pool, which may be legs.
///
/// # Errors
///
/// As [`parse`].
pub(super) fn parse_joining(words: &[String]) -> Result<Vec<DeviceGroup>, Failure> {
    parse_by(words, joining_path)
}

fn parse_by(
    words: &[String],
    path_of: fn(&str) -> Result<PathBuf, Failure>,
) -> Result<Vec<DeviceGroup>, Failure> {
    let mut groups: Vec<DeviceGroup> = Vec::new();
    let mut role = GroupRole::Data;
    let mut open = false;
    // A keyword of a role without devices after it so far.
    let mut bare: Option<&str> = None;
    for word in words {
        let new_role = match word.as_str() {
            "log" | "logs" => Some(GroupRole::Log),
            "cache" => Some(GroupRole::Cache),
            "spare" | "spares" => Some(GroupRole::Spare),
            _ => None,
        };
        if let Some(new_role) = new_role {
            refuse_bare(bare.replace(word))?;
            role = new_role;
            open = false;
            continue;
        }
        bare = None;
        if let Some(kind) = group_kind(word) {
            groups.push(DeviceGroup {
                kind,
                role,
                devices: Vec::new(),
            });
            open = true;
        } else {
            if !open {
                groups.push(DeviceGroup {
                    kind: GroupKind::Stripe,
                    role,
                    devices: Vec::new(),
                });
                open = true;
            }
            refuse_misspelled(word)?;
            let group = groups.last_mut().expect("one was just opened");
            group.devices.push(path_of(word)?);
        }
    }
    refuse_bare(bare)?;
    check(&groups)?;
    Ok(groups)
}

/// Refuses a role without devices, which would silently have no effect.
fn refuse_bare(keyword: Option<&str>) -> Result<(), Failure> {
    match keyword {
        None => Ok(()),
        Some(word) => Err(Failure::usage(format!("there is no device after {word}"))
            .advise(format!("name the devices after {word}, or omit it"))),
    }
}

fn group_kind(word: &str) -> Option<GroupKind> {
    match word {
        "mirror" => Some(GroupKind::Mirror),
        "raidz" | "raidz1" => Some(GroupKind::Raidz { parity: 1 }),
        "raidz2" => Some(GroupKind::Raidz { parity: 2 }),
        "raidz3" => Some(GroupKind::Raidz { parity: 3 }),
        _ => None,
    }
}

/// Words that are no devices.
const WORDS: [&str; 9] = [
    "mirror", "raidz", "raidz1", "raidz2", "raidz3", "log", "cache", "spare", "spares",
];

/// Refuses a misspelled keyword of the layout, which would otherwise pass for a device.
fn refuse_misspelled(word: &str) -> Result<(), Failure> {
    let is_device = word.contains('/') || PathBuf::from(word).exists();
    if is_device || PathBuf::from("/dev").join(word).exists() {
        return Ok(());
    }
    let meant = WORDS.iter().find(|meant| differs_by_one(word, meant));
    match meant {
        None => Ok(()),
        Some(meant) => {
            let message = format!("{word:?} is no device; did you mean {meant}?");
            Err(Failure::usage(message).advise("write ./NAME for a file with such a name"))
        }
    }
}

/// Returns whether one insertion, deletion, substitution or swap turns one text into the other.
fn differs_by_one(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (
        one.to_lowercase().chars().collect(),
        other.chars().collect(),
    );
    let same = |a: &[char], b: &[char]| a == b;
    let begin = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let (a, b) = (&one[begin..], &other[begin..]);
    match (a, b) {
        ([], []) => true,
        ([_, a @ ..], b) if same(a, b) => true,
        (a, [_, b @ ..]) if same(a, b) => true,
        ([_, a @ ..], [_, b @ ..]) if same(a, b) => true,
        ([x, y, a @ ..], [v, w, b @ ..]) => x == w && y == v && same(a, b),
        _ => false,
    }
}

/// A device of an existing pool: a path, or the name or number that `pool status` shows.
///
/// # Errors
///
/// The path cannot be used.
pub fn member_path(word: &str) -> Result<PathBuf, Failure> {
    if is_leg(word) {
        return Ok(PathBuf::from(word));
    }
    let plain = !word.contains('/') && !PathBuf::from(word).exists();
    match plain && !PathBuf::from("/dev").join(word).exists() {
        true => Ok(PathBuf::from(word)),
        false => device_path(word),
    }
}

/// A device that joins a pool: a path, or a leg as its configuration names it.
///
/// # Errors
///
/// The path cannot be used.
pub(super) fn joining_path(word: &str) -> Result<PathBuf, Failure> {
    match is_leg(word) {
        true => Ok(PathBuf::from(word)),
        false => device_path(word),
    }
}

/// Returns the device that joins a pool, if it is a local one. The location of a leg is in its configuration.
pub(super) fn joining_here(path: Option<&PathBuf>) -> Vec<PathBuf> {
    let here = path.filter(|path| !is_leg(&path.to_string_lossy()));
    here.into_iter().cloned().collect()
}

/// Returns whether it is the name of a leg in `pool status`: the name of a head, and a path there.
pub fn is_leg(word: &str) -> bool {
    let parts = word.split_once(":/");
    parts.is_some_and(|(head, _)| !head.is_empty() && !head.contains('/'))
}

/// Returns the path for a device's label: absolute. A name without a slash is a disk in /dev,
/// unless there is such a file here.
///
/// # Errors
///
/// The path cannot be used.
pub fn device_path(word: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(word);
    let disk = PathBuf::from("/dev").join(word);
    if !word.contains('/') && !path.exists() && disk.exists() {
        return Ok(disk);
    }
    std::path::absolute(&path)
        .map_err(|error| Failure::usage(format!("the path {word:?} cannot be used: {error}")))
}

fn check(groups: &[DeviceGroup]) -> Result<(), Failure> {
    let mut seen = std::collections::BTreeSet::new();
    for group in groups {
        let count = group.devices.len();
        let (what, least) = match group.kind {
            GroupKind::Stripe => ("a group", 1),
            GroupKind::Mirror => ("a mirror", 2),
            GroupKind::Raidz { parity: 1 } => ("raidz1", 2),
            GroupKind::Raidz { parity: 2 } => ("raidz2", 3),
            GroupKind::Raidz { .. } => ("raidz3", 4),
        };
        if count < least {
            let message =
                format!("{what} of {count} devices is not possible: name at least {least}");
            return Err(Failure::usage(message));
        }
        let plain = group.kind == GroupKind::Stripe;
        let mirrored_log = group.role == GroupRole::Log && group.kind == GroupKind::Mirror;
        if group.role != GroupRole::Data && !plain && !mirrored_log {
            return Err(Failure::usage(
                "only data and log devices can be mirrored, and only data can be raidz",
            ));
        }
        for device in &group.devices {
            if !seen.insert(device) {
                let message = format!("{} is named twice", device.display());
                return Err(Failure::usage(message));
            }
        }
    }
    Ok(())
}

/// Checks that a new pool has a group for data.
///
/// # Errors
///
/// No group is one of data.
pub fn has_data(groups: &[DeviceGroup]) -> Result<(), Failure> {
    if groups.iter().any(|group| group.role == GroupRole::Data) {
        return Ok(());
    }
    Err(Failure::usage(
        "a pool needs at least one device for data: name at least one data device before log, \
         cache or spare",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(words: &str) -> Vec<(GroupKind, GroupRole, usize)> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let groups = parse(&words).expect("a layout");
        let shape = |g: &DeviceGroup| (g.kind, g.role, g.devices.len());
        groups.iter().map(shape).collect()
    }

    #[test]
    fn mistyped_keyword_suggests_the_correct_one() {
        for (word, meant) in [
            ("mirrr", Some("mirror")),
            ("mirorr", Some("mirror")),
            ("Mirror", Some("mirror")),
            ("raid", Some("raidz")),
            ("raidz4", Some("raidz")),
            ("cahce", Some("cache")),
            ("a", None),
            ("disk0.img", None),
            ("./mirrr", None),
        ] {
            let refused = refuse_misspelled(word).err();
            let reported = refused.map(|failure| failure.message);
            assert_eq!(reported.is_some(), meant.is_some(), "{word}: {reported:?}");
            let meant = meant.unwrap_or_default();
            assert!(
                reported.is_none_or(|reported| reported.contains(meant)),
                "{word}"
            );
        }
    }

    #[test]
    fn layouts_parse_in_zpool_syntax() {
        use GroupKind::{Mirror, Raidz, Stripe};
        use GroupRole::{Cache, Data, Log, Spare};
        assert_eq!(shape("/a /b"), [(Stripe, Data, 2)]);
        assert_eq!(
            shape("mirror /a /b mirror /c /d log mirror /e /f cache /g spare /h /i"),
            [
                (Mirror, Data, 2),
                (Mirror, Data, 2),
                (Mirror, Log, 2),
                (Stripe, Cache, 1),
                (Stripe, Spare, 2)
            ]
        );
        assert_eq!(
            shape("raidz2 /a /b /c /d log /e"),
            [(Raidz { parity: 2 }, Data, 4), (Stripe, Log, 1)]
        );
    }

    #[test]
    fn role_without_devices_is_refused_by_its_name() {
        for (bad, word) in [
            ("mirror /a /b spare", "spare"),
            ("/a log", "log"),
            ("/a logs", "logs"),
            ("/a cache spare /b", "cache"),
            ("/a spares log /b", "spares"),
            ("spare", "spare"),
        ] {
            let words: Vec<String> = bad.split(' ').map(str::to_owned).collect();
            let refused = parse(&words).expect_err(bad);
            let expected = format!("there is no device after {word}");
            assert_eq!(refused.message, expected, "{bad}");
        }
        assert!(parse(&["/a".into(), "log".into(), "/b".into()]).is_ok());
    }

    #[test]
    fn impossible_layouts_are_refused() {
        for bad in [
            "mirror /a",
            "/a /a",
            "/a cache mirror /b /c",
            "raidz3 /a /b /c",
        ] {
            let words: Vec<String> = bad.split(' ').map(str::to_owned).collect();
            assert!(parse(&words).is_err(), "{bad}");
        }
    }
}
