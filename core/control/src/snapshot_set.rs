//! Snapshots by a name, a pattern or a range, as the last argument of `zfs destroy`.
//!
//! | form | snapshots |
//! |---|---|
//! | `tank/vm0@monday` | this one |
//! | `tank/vm0@auto-*` | with such a name; `?` is one character |
//! | `tank/vm0@first%last` | from `first` to `last` by creation; without one of them, from the oldest or to the newest |

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName, VolumeName};

/// Which snapshots of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with this name.
    One(String),
    /// Those with names of this pattern.
    Like(String),
    /// Those from a first name to a last one, by creation.
    Range {
        /// The oldest one, if it is not the first one of the dataset.
        first: Option<String>,
        /// The newest one, if it is not the last one of the dataset.
        last: Option<String>,
    },
}

/// Snapshots of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct SnapshotSet {
    dataset: String,
    which: Which,
}

/// The text names no snapshots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` does not name snapshots: {advice}")]
pub struct SnapshotSetError {
    text: String,
    advice: &'static str,
}

const FORMS: &str =
    "write POOL/NAME@SNAPSHOT, POOL/NAME@PATTERN such as @auto-*, or POOL/NAME@FIRST%LAST";
const CHARACTERS: &str =
    "after @ use letters, digits and - _ . : only, * and ? in a pattern, 255 in all";
const BYTES_MAX: usize = 255;

impl SnapshotSet {
    /// The pool.
    pub fn pool(&self) -> PoolName {
        let pool = self.dataset.split('/').next().unwrap_or_default();
        pool.parse().expect("checked when made")
    }

    /// The dataset, without the snapshots.
    pub fn dataset(&self) -> &str {
        &self.dataset
    }

    /// Which of its snapshots.
    pub fn which(&self) -> &Which {
        &self.which
    }

    /// The names of `snapshots`, which are those of one dataset in the order of their creation, that it selects.
    /// `None`: a name that it contains does not exist.
    pub fn select<'s>(&self, snapshots: &[&'s str]) -> Option<Vec<&'s str>> {
        let place = |name: &str| snapshots.iter().position(|one| *one == name);
        match &self.which {
            Which::One(name) => Some(vec![snapshots[place(name)?]]),
            Which::Like(pattern) => {
                let found = snapshots.iter().filter(|name| is_like(pattern, name));
                Some(found.copied().collect())
            }
            Which::Range { first, last } => {
                let first = first.as_deref().map_or(Some(0), place)?;
                let last = match last {
                    Some(name) => place(name)? + 1,
                    None => snapshots.len(),
                };
                Some(snapshots.get(first..last).unwrap_or_default().to_vec())
            }
        }
    }
}

/// Whether `name` has this pattern.
pub fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut here) = (0, 0);
    // The last star, and the part of the name that it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while here < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, here));
                at += 1;
            }
            Some(one) if *one == b'?' || *one == name[here] => {
                at += 1;
                here += 1;
            }
            _ => match &mut star {
                None => return false,
                Some((place, to)) => {
                    *to += 1;
                    (at, here) = (*place + 1, *to);
                }
            },
        }
    }
    pattern[at..].iter().all(|one| *one == b'*')
}

impl FromStr for SnapshotSet {
    type Err = SnapshotSetError;

    fn from_str(text: &str) -> Result<Self, SnapshotSetError> {
        let refuse = |advice| {
            let text = text.to_owned();
            Err(SnapshotSetError { text, advice })
        };
        let Some((dataset, tag)) = text.split_once('@') else {
            return refuse(FORMS);
        };
        let is_dataset = match dataset.contains('/') {
            true => dataset.parse::<VolumeName>().is_ok(),
            false => dataset.parse::<PoolName>().is_ok(),
        };
        if !is_dataset || tag.is_empty() {
            return refuse(FORMS);
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        let is_allowed = |byte: u8| is_plain(byte) || b"*?%".contains(&byte);
        if text.len() > BYTES_MAX || !tag.bytes().all(is_allowed) {
            return refuse(CHARACTERS);
        }
        let has_pattern = tag.contains(['*', '?']);
        let which = match tag.split_once('%') {
            None if has_pattern => Which::Like(tag.to_owned()),
            None => Which::One(tag.to_owned()),
            Some((_, last)) if has_pattern || last.contains('%') => return refuse(FORMS),
            Some((first, last)) => {
                let end = |name: &str| (!name.is_empty()).then(|| name.to_owned());
                let (first, last) = (end(first), end(last));
                Which::Range { first, last }
            }
        };
        let dataset = dataset.to_owned();
        Ok(Self { dataset, which })
    }
}

impl TryFrom<String> for SnapshotSet {
    type Error = SnapshotSetError;

    fn try_from(text: String) -> Result<Self, SnapshotSetError> {
        text.parse()
    }
}

impl From<SnapshotSet> for String {
    fn from(set: SnapshotSet) -> Self {
        set.to_string()
    }
}

impl From<SnapshotName> for SnapshotSet {
    fn from(name: SnapshotName) -> Self {
        Self {
            dataset: name.volume().to_string(),
            which: Which::One(name.tag().to_owned()),
        }
    }
}

impl fmt::Display for SnapshotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.dataset)?;
        match &self.which {
            Which::One(name) | Which::Like(name) => f.write_str(name),
            Which::Range { first, last } => {
                let end = |name: &Option<String>| name.clone().unwrap_or_default();
                write!(f, "{}%{}", end(first), end(last))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(set: &str) -> Option<Vec<&'static str>> {
        let set: SnapshotSet = set.parse().expect(set);
        set.select(&["new-1", "auto-1", "auto-2", "auto-10", "last"])
    }

    #[test]
    fn a_set_selects_by_name_pattern_and_range() {
        for (set, expected) in [
            ("tank/v@auto-2", Some(vec!["auto-2"])),
            ("tank/v@none", None),
            ("tank/v@auto-*", Some(vec!["auto-1", "auto-2", "auto-10"])),
            ("tank/v@auto-?", Some(vec!["auto-1", "auto-2"])),
            ("tank/v@*-1*", Some(vec!["new-1", "auto-1", "auto-10"])),
            ("tank/v@x*", Some(vec![])),
            (
                "tank/v@auto-1%auto-10",
                Some(vec!["auto-1", "auto-2", "auto-10"]),
            ),
            ("tank/v@auto-10%", Some(vec!["auto-10", "last"])),
            ("tank/v@%auto-1", Some(vec!["new-1", "auto-1"])),
            ("tank/v@auto-2%auto-1", Some(vec![])),
            ("tank/v@none%last", None),
        ] {
            assert_eq!(selected(set), expected, "{set}");
        }
        assert_eq!(selected("tank@%").map(|all| all.len()), Some(5));
    }

    #[test]
    fn patterns_with_several_stars_end() {
        assert!(is_like("*a*b*", "xxaxxbxx") && !is_like("*a*b*", "xxbxxaxx"));
        assert!(is_like("**", "") && is_like("a**", "a") && !is_like("a?", "a"));
        let long = "a".repeat(200);
        assert!(!is_like(&format!("{}b", "a*".repeat(40)), &long));
    }

    #[test]
    fn texts_are_read_and_written_back() {
        for text in [
            "tank/v@one",
            "tank@auto-*",
            "tank/a/b@x%y",
            "tank/v@%y",
            "tank/v@x%",
            "tank/v@%",
        ] {
            let set: SnapshotSet = text.parse().expect(text);
            assert_eq!(set.to_string(), text);
            assert_eq!(set.pool().as_str(), "tank");
        }
        for text in [
            "tank/v",
            "tank/v@",
            "@x",
            "tank/@x",
            "tank/v@a%b%c",
            "tank/v@a*%b",
            "tank/v@a b",
            "tank/v@a@b",
            "tank/v@a/b",
            "",
        ] {
            let refused = text.parse::<SnapshotSet>().expect_err(text);
            assert!(refused.to_string().contains("@"), "{refused}");
        }
    }
}
