//! The report of each head about itself, for the other heads: the members that respond to it, and its appliance file. A
//! takeover depends on the other head, whose connections and files this head does not see.

use std::collections::{BTreeMap, BTreeSet};

use appliance::Appliance;
use control::legs::reports::MemberReport;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Longest reason of another head that is shown, in characters.
const REASON_CHARS_MAX: usize = 300;
/// Most names of a list that are shown.
const NAMES_MAX: usize = 16;

/// The report of a head about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    /// The connections of its leg-server; none if it publishes none.
    #[serde(default)]
    pub members: Option<MemberReport>,
    /// Its appliance file; none if it has none.
    #[serde(default)]
    pub file: Option<FileReport>,
}

/// The appliance file of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// Why it cannot be used. The other members are empty then.
    #[serde(default)]
    pub problem: Option<String>,
    /// The release of Bulkhead that has read it.
    #[serde(default)]
    pub release: String,
    /// The names in it, by their kind.
    #[serde(default)]
    pub names: BTreeMap<String, BTreeSet<String>>,
    /// SHA-256 of its contents without comments, in hexadecimal digits. Comparable within a release.
    #[serde(default)]
    pub digest: String,
}

impl FileReport {
    /// The report of a file that was read, or of one that cannot be used.
    pub fn of(file: &Result<Appliance, String>) -> Self {
        let release = env!("CARGO_PKG_VERSION").to_owned();
        let appliance = match file {
            Ok(appliance) => appliance,
            Err(problem) => {
                return Self {
                    problem: Some(problem.clone()),
                    release,
                    ..Self::default()
                };
            }
        };
        let names = [
            ("name", BTreeSet::from([appliance.name.clone()])),
            (
                "heads",
                appliance.heads.keys().map(ToString::to_string).collect(),
            ),
            (
                "pools",
                appliance.pools.keys().map(ToString::to_string).collect(),
            ),
            (
                "networks",
                appliance.networks.keys().map(ToString::to_string).collect(),
            ),
        ];
        let names = names.map(|(kind, names)| (kind.to_owned(), names));
        let contents = serde_json::to_value(appliance).unwrap_or_default();
        let digest = Sha256::digest(contents.to_string());
        Self {
            problem: None,
            release,
            names: names.into(),
            digest: units::hex::encode(&digest),
        }
    }
}

/// The differences between the file of `own` and that of `other`, in a sentence; none if they are the same.
pub(crate) fn difference(own: (&str, &FileReport), other: (&str, &FileReport)) -> Option<String> {
    let ((own, own_file), (other, other_file)) = (own, other);
    if own_file.problem.is_some() {
        // This head reports that itself.
        return None;
    }
    if let Some(problem) = &other_file.problem {
        let problem: String = problem.chars().take(REASON_CHARS_MAX).collect();
        return Some(format!(
            "the appliance file of {other} cannot be used: {problem}. Correct it there, or run `bulkhead appliance apply` with the file of {own}"
        ));
    }
    let list = |names: Option<&BTreeSet<String>>| {
        let names: Vec<&str> = names
            .into_iter()
            .flatten()
            .map(String::as_str)
            .take(NAMES_MAX)
            .collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    };
    let differing = own_file.names.iter().filter_map(|(kind, names)| {
        let theirs = other_file.names.get(kind);
        (theirs != Some(names)).then(|| {
            format!(
                "{kind} on {own}: {}; on {other}: {}",
                list(Some(names)),
                list(theirs)
            )
        })
    });
    let differing: Vec<String> = differing.collect();
    let is_same_release = own_file.release == other_file.release;
    if differing.is_empty() && (!is_same_release || own_file.digest == other_file.digest) {
        return None;
    }
    let details = match differing.is_empty() {
        true => String::new(),
        false => format!(" ({})", differing.join("; ")),
    };
    Some(format!(
        "the appliance files of {own} and {other} differ{details}: compare them, and run `bulkhead appliance apply` with the right one, which \
         copies it to all heads"
    ))
}
