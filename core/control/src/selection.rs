//! The objects of a list: those in a dataset, or with a name of a pattern.
//!
//! | form | volumes and file systems | targets and exports |
//! |---|---|---|
//! | `tank/vms` | this one and all below it | of such volumes |
//! | `tank/vms/web-*` | with such a full name; `*` also matches `/` | of such volumes |
//! | `web-*` | with such a last component | with such a name |

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::snapshot_set::is_like;

/// A part of the objects of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Selection {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A dataset and all below it.
    Below(VolumeName),
    /// A pattern of full names, with a plain name of the pool.
    Path(PoolName),
    /// A pattern of names.
    Name,
}

/// The text selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no dataset and no pattern: {advice}")]
pub struct SelectionError {
    text: String,
    advice: &'static str,
}

const FORMS: &str = "write POOL/NAME, POOL/PATTERN such as tank/web-*, or PATTERN such as web-*";
const NO_SNAPSHOT: &str = "`bulkhead snapshot list` lists snapshots";
const BYTES_MAX: usize = 255;

impl Selection {
    /// The pool, if it names one.
    pub fn pool(&self) -> Option<PoolName> {
        match &self.kind {
            Kind::Below(dataset) => Some(dataset.pool()),
            Kind::Path(pool) => Some(pool.clone()),
            Kind::Name => None,
        }
    }

    /// The dataset that must exist.
    pub fn dataset(&self) -> Option<&VolumeName> {
        match &self.kind {
            Kind::Below(dataset) => Some(dataset),
            Kind::Path(_) | Kind::Name => None,
        }
    }

    /// Whether it selects the dataset `name`.
    pub fn has_dataset(&self, name: &str) -> bool {
        match &self.kind {
            Kind::Below(dataset) => {
                let below = name.strip_prefix(dataset.as_str());
                below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Kind::Path(_) => is_like(&self.text, name),
            Kind::Name => self.has_name(name),
        }
    }

    /// Whether it selects an export named `name` of `volumes`.
    pub fn has_export<'v>(&self, name: &str, mut volumes: impl Iterator<Item = &'v str>) -> bool {
        match &self.kind {
            Kind::Below(_) | Kind::Path(_) => volumes.any(|volume| self.has_dataset(volume)),
            Kind::Name => is_like(&self.text, name) || self.has_name(name),
        }
    }

    /// Whether the last component of `name` is like it.
    fn has_name(&self, name: &str) -> bool {
        let last = name.rsplit('/').next().unwrap_or_default();
        is_like(&self.text, last)
    }
}

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        let refuse = |advice| {
            let text = text.to_owned();
            SelectionError { text, advice }
        };
        if text.contains('@') {
            return Err(refuse(NO_SNAPSHOT));
        }
        if text.is_empty() || text.len() > BYTES_MAX || text.chars().any(char::is_control) {
            return Err(refuse(FORMS));
        }
        let kind = match text.split_once('/') {
            None => Kind::Name,
            Some(_) if !text.contains(WILDCARDS) => {
                Kind::Below(text.parse().map_err(|_| refuse(FORMS))?)
            }
            Some((pool, _)) => Kind::Path(pool.parse().map_err(|_| refuse(FORMS))?),
        };
        let text = text.to_owned();
        Ok(Self { text, kind })
    }
}

/// The characters that make a name a pattern.
pub(crate) const WILDCARDS: [char; 2] = ['*', '?'];

impl TryFrom<String> for Selection {
    type Error = SelectionError;

    fn try_from(text: String) -> Result<Self, SelectionError> {
        text.parse()
    }
}

impl From<Selection> for String {
    fn from(selection: Selection) -> Self {
        selection.text
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_has_a_subtree_or_names_like_its_pattern() {
        for (selection, name, expected) in [
            ("tank/vms", "tank/vms", true),
            ("tank/vms", "tank/vms/web-1", true),
            ("tank/vms", "tank/vms2", false),
            ("tank/vms", "tank", false),
            ("tank/vms/*", "tank/vms/a/b", true),
            ("tank/vms/*", "tank/vms", false),
            ("tank/web-?", "tank/web-1", true),
            ("tank/web-?", "tank/web-10", false),
            ("web-*", "tank/vms/web-1", true),
            ("web-*", "tank/web-1/disk", false),
            ("*", "tank/a", true),
        ] {
            let parsed: Selection = selection.parse().expect(selection);
            assert_eq!(parsed.has_dataset(name), expected, "{selection} {name}");
            assert_eq!(parsed.to_string(), selection);
        }
    }

    #[test]
    fn exports_are_selected_by_volume_or_by_their_own_name() {
        let volumes = ["tank/vms/a", "tank/b"];
        let target = "iqn.2026-01.org.example:web";
        for (selection, expected) in [
            ("tank/vms", true),
            ("tank/?", true),
            ("tank/c*", false),
            ("iqn.*:web", true),
            ("iqn.2026-01.org.example:web", true),
            ("web", false),
        ] {
            let parsed: Selection = selection.parse().expect(selection);
            let found = parsed.has_export(target, volumes.into_iter());
            assert_eq!(found, expected, "{selection}");
        }
        let last: Selection = "a*".parse().expect("a pattern");
        assert!(last.has_export("tank/vms/a", volumes.into_iter()));
    }

    #[test]
    fn a_wrong_selection_is_refused_with_the_forms() {
        for text in ["", "ta*/x", "tank/a%b", "/x", "tank/a@b", "*@b"] {
            let refused = text.parse::<Selection>().expect_err(text);
            let said = refused.to_string();
            assert!(
                said.contains("POOL/PATTERN") || said.contains("snapshot list"),
                "{said}"
            );
        }
    }
}
