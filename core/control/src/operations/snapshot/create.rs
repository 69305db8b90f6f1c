//! `snapshot create`

use std::str::FromStr;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, one_pool, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead snapshot create tank/db/data@noon tank/db/log@noon"),
    Example::of("bulkhead snapshot create --recursive tank/db@noon"),
    Example::of("bulkhead snapshot create -r tank@noon"),
]);

/// Create snapshots of volumes; several have the same point in time
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "SnapshotCreate")]
#[command(after_help = EXAMPLES)]
pub struct Create {
    /// Snapshots, as POOL/NAME@SNAPSHOT; with --recursive also as POOL@SNAPSHOT
    #[arg(id = "snapshots", value_name = "SNAPSHOTS", required = true)]
    pub names: Vec<NewSnapshot>,
    /// Of every volume below the named ones, too, all or none
    #[arg(long, short)]
    #[serde(default)]
    pub recursive: bool,
}

/// A new snapshot, `POOL/NAME@SNAPSHOT`; or `POOL@SNAPSHOT`, which covers the whole pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct NewSnapshot {
    of: String,
    tag: String,
}

impl NewSnapshot {
    /// The volume, a dataset with volumes below, or the pool.
    pub fn of(&self) -> &str {
        &self.of
    }

    /// The snapshot's own name.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The pool that it is in.
    pub fn pool(&self) -> PoolName {
        crate::operations::pool_named(&self.of)
    }
}

impl FromStr for NewSnapshot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let checked = match text.split_once('@') {
            Some((pool, tag)) if !pool.contains('/') => {
                let pool: PoolName = pool.parse().map_err(|error| format!("{error}"))?;
                // The rule for the part after the @ is the same everywhere.
                format!("{pool}/-@{tag}")
                    .parse::<SnapshotName>()
                    .map(|_| (pool.into(), tag.to_owned()))
            }
            _ => text
                .parse::<SnapshotName>()
                .map(|name| (name.volume().into(), name.tag().to_owned())),
        };
        let (of, tag) = checked.map_err(|error| error.to_string().replace("/-@", "@"))?;
        Ok(Self { of, tag })
    }
}

impl TryFrom<String> for NewSnapshot {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<NewSnapshot> for String {
    fn from(name: NewSnapshot) -> Self {
        format!("{}@{}", name.of, name.tag)
    }
}

impl Operation for Create {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            names: _,
            recursive: _,
        } = self;
        Effect::Change
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

impl Verb for Create {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/snapshots",
        "Create snapshots of one point in time",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"names": ["tank/db/data@noon", "tank/db/log@noon"]}"#)
    .with_lists()];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        let pool = one_pool(arguments.names.iter().map(NewSnapshot::pool))?;
        Ok((pool, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_is_not_recursive_by_default() {
        for (body, recursive) in [
            (r#"{"names": ["tank/v@noon"]}"#, false),
            (r#"{"names": ["tank@noon"], "recursive": true}"#, true),
        ] {
            let create: Create = serde_json::from_str(body).expect(body);
            assert_eq!(create.recursive, recursive, "{body}");
        }
    }

    #[test]
    fn a_pool_can_be_named_and_bad_names_are_refused_with_their_rule() {
        for (text, of, tag) in [
            ("tank@noon", "tank", "noon"),
            ("tank/db@noon", "tank/db", "noon"),
            ("tank/db/a b@x", "tank/db/a b", "x"),
        ] {
            let name: NewSnapshot = text.parse().expect(text);
            assert_eq!((name.of(), name.tag()), (of, tag));
            assert_eq!(String::from(name), text);
        }
        for (text, rule) in [
            ("tank/db", "POOL/NAME@SNAPSHOT"),
            ("tank", "POOL/NAME@SNAPSHOT"),
            (
                "tank@no/on",
                "\"tank@no/on\" is not a snapshot name: after @",
            ),
            ("tank@", "after @"),
            ("mirror0@noon", "ZFS's own"),
        ] {
            let refused = text.parse::<NewSnapshot>().expect_err(text);
            assert!(refused.contains(rule), "{refused}");
        }
    }
}
