//! `volume key change`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use super::inherit::Inherit;
use super::{KeyRequest, NewKeyOptions};
use crate::key::KeySettings;
use crate::operations::{Example, Examples, Operation, PoolSelector, WireOnly};
use crate::{Effect, Failure};

/// Change the key of an encrypted dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KeyChange")]
pub struct Change {
    /// Which.
    pub name: VolumeName,
    /// The new key.
    pub key: KeySettings,
}

impl Operation for Change {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _, key: _ } = self;
        Effect::Govern
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

impl WireOnly for Change {
    const EXAMPLES: Examples = EXAMPLES;
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume key change tank/vm0")
        .elsewhere("needs keys: tests/head/encryption.rs"),
    Example::of(
        "bulkhead volume key change tank/vm0 --key-format hex --key-location command:vault",
    )
    .elsewhere("needs keys: tests/head/encryption.rs"),
    Example::of("bulkhead volume key change tank/vms/vm0 --inherit")
        .elsewhere("needs keys: tests/head/encryption.rs"),
]);

/// Change the key of an encrypted volume, even while it is in use; no data is rewritten
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The volume, or an encrypted parent
    volume: VolumeName,
    /// Share the key of the parent again
    #[arg(long, conflicts_with_all = ["key_location", "key_format", "key_stdin", "key_iterations"])]
    inherit: bool,
    /// The new key
    #[command(flatten)]
    key: NewKeyOptions,
}

impl Arguments {
    /// Returns the request to change the key, which it may prompt for; or the one to share the
    /// parent's again.
    ///
    /// # Errors
    ///
    /// The arguments contradict each other, or the key cannot be read.
    pub fn request(self) -> Result<(PoolSelector, KeyRequest), Failure> {
        let Self {
            volume: name,
            inherit,
            key,
        } = self;
        let pool = PoolSelector::Pool(name.pool());
        let request = match inherit {
            true => Inherit { name }.into(),
            false => {
                let key = key.settings()?;
                Change { name, key }.into()
            }
        };
        Ok((pool, request))
    }
}
