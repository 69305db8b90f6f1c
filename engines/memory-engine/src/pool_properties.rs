//! Properties of the pool itself.

use engine::pool::{PoolErrorKind, PoolProperty};

/// Longest comment, in bytes.
const COMMENT_BYTES_MAX: usize = 32;
/// Permitted block sizes of devices, as powers of two.
const ASHIFTS: std::ops::RangeInclusive<u64> = 9..=16;

/// The type of a property.
enum Takes {
    Word(&'static [&'static str]),
    Text,
    Shift,
    /// It is only read.
    Nothing,
}

/// Names with their types; the first value is the default.
const ALL: &[(&str, Takes)] = &[
    ("ashift", Takes::Shift),
    ("autoexpand", Takes::Word(&["off", "on"])),
    ("autoreplace", Takes::Word(&["off", "on"])),
    ("autotrim", Takes::Word(&["off", "on"])),
    ("comment", Takes::Text),
    ("compatibility", Takes::Word(&["off", "legacy"])),
    ("delegation", Takes::Word(&["on", "off"])),
    ("failmode", Takes::Word(&["wait", "continue", "panic"])),
    ("guid", Takes::Nothing),
    ("health", Takes::Nothing),
    ("listsnapshots", Takes::Word(&["off", "on"])),
    ("multihost", Takes::Word(&["off", "on"])),
    ("readonly", Takes::Nothing),
    ("size", Takes::Nothing),
];

/// Features by their short names.
const FEATURES: [&str; 8] = [
    "async_destroy",
    "block_cloning",
    "bookmarks",
    "device_removal",
    "encryption",
    "large_blocks",
    "lz4_compress",
    "zstd_compress",
];

fn refused(name: &str, why: &str) -> PoolErrorKind {
    PoolErrorKind::Property {
        property: name.to_owned(),
        why: why.to_owned(),
    }
}

/// Checks that a property accepts a value.
pub(crate) fn check(name: &str, value: &str, is_new: bool) -> Result<(), PoolErrorKind> {
    if let Some(feature) = name.strip_prefix("feature@") {
        return match (FEATURES.contains(&feature), value) {
            (false, _) => Err(refused(name, "no such property")),
            (true, "enabled") => Ok(()),
            (true, "disabled") if is_new => Ok(()),
            (true, _) => Err(refused(name, "it does not take this value")),
        };
    }
    let Some((_, takes)) = ALL.iter().find(|(one, _)| *one == name) else {
        return Err(refused(name, "no such property"));
    };
    let is_taken = match takes {
        Takes::Word(words) => words.contains(&value),
        Takes::Text => {
            let is_plain = value.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
            is_plain && value.len() <= COMMENT_BYTES_MAX
        }
        Takes::Shift => value
            .parse()
            .is_ok_and(|shift: u64| shift == 0 || ASHIFTS.contains(&shift)),
        Takes::Nothing => return Err(refused(name, "it cannot be set")),
    };
    match is_taken {
        true => Ok(()),
        false => Err(refused(name, "it does not take this value")),
    }
}

/// Describes the values that a property accepts.
pub(crate) fn values(name: &str) -> Option<String> {
    let (_, takes) = ALL.iter().find(|(one, _)| *one == name)?;
    Some(match takes {
        Takes::Word(words) => words.join(" | "),
        Takes::Text => "<text>".to_owned(),
        Takes::Shift => "<number>".to_owned(),
        Takes::Nothing => "<read-only>".to_owned(),
    })
}

/// Stores a validated value.
pub(crate) fn set(own: &mut Vec<(String, String)>, name: &str, value: &str) {
    own.retain(|(one, _)| one != name);
    own.push((name.to_owned(), value.to_owned()));
}

/// Enables every feature.
pub(crate) fn enable_all(own: &mut Vec<(String, String)>) {
    for feature in FEATURES {
        set(own, &format!("feature@{feature}"), "enabled");
    }
}

/// The value of a property that is set.
pub(crate) fn get<'a>(own: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = own.iter().find(|(one, _)| one == name);
    found.map(|(_, value)| value.as_str())
}

/// Returns all properties with their values, local or default.
pub(crate) fn all(own: &[(String, String)]) -> Vec<PoolProperty> {
    let known = ALL.iter().filter_map(|(name, takes)| {
        let default = match takes {
            Takes::Word(words) => words[0],
            Takes::Text => "",
            Takes::Shift => "0",
            Takes::Nothing => return None,
        };
        let value = get(own, name);
        Some(PoolProperty {
            name: (*name).to_owned(),
            value: value.unwrap_or(default).to_owned(),
            is_set: value.is_some(),
        })
    });
    let features = FEATURES.iter().map(|feature| {
        let name = format!("feature@{feature}");
        let value = get(own, &name).unwrap_or("disabled").to_owned();
        PoolProperty {
            name,
            value,
            is_set: true,
        }
    });
    known.chain(features).collect()
}
