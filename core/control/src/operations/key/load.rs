//! `volume key load`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use super::KeyRequest;
use crate::effect::{change_unless, is_of_the_head};
use crate::key::{KeyBytes, KeyLocation};
use crate::operations::{
    Example, Examples, Operation, PoolSelector, WireOnly, dataset, pool_or_volume, secret_input,
};
use crate::{Effect, Failure};

/// Load the key of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KeyLoad")]
pub struct Load {
    /// Which.
    pub name: VolumeName,
    /// Use this location once.
    #[serde(default)]
    pub location: Option<KeyLocation>,
    /// The key; none reads it at its configured location.
    #[serde(default)]
    pub key: Option<KeyBytes>,
}

impl Operation for Load {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            location,
            key: _,
        } = self;
        change_unless(location.as_ref().is_some_and(is_of_the_head))
    }
}

impl WireOnly for Load {
    const EXAMPLES: Examples = EXAMPLES;
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume key load tank").elsewhere("needs keys: tests/head/encryption.rs"),
    Example::of("bulkhead volume key load tank/vm0 --prompt")
        .elsewhere("needs keys: tests/head/encryption.rs"),
    Example::of("bulkhead volume key load tank/vm0 --key-location file:///mnt/stick/vm0.key")
        .elsewhere("needs keys: tests/head/encryption.rs"),
]);

/// Load keys, so that their volumes and file systems can be served
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The volume, or the pool for all missing keys that can be found
    #[arg(value_name = "VOLUME|POOL", value_parser = dataset)]
    of: String,
    /// Use this location once: file:///PATH or 'command:PROGRAM ARGUMENT...'
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["prompt", "key_stdin"])]
    key_location: Option<KeyLocation>,
    /// Prompt for it on this terminal
    #[arg(long)]
    prompt: bool,
    /// Read it from the standard input
    #[arg(long, conflicts_with = "prompt")]
    key_stdin: bool,
}

impl Arguments {
    /// Returns the request to load the key of a volume, which it may prompt for; or that to load
    /// all keys of a pool.
    ///
    /// # Errors
    ///
    /// The arguments contradict each other, or the key cannot be read.
    pub fn request(self) -> Result<(PoolSelector, KeyRequest), Failure> {
        let Self {
            of,
            key_location: location,
            prompt,
            key_stdin,
        } = self;
        let (pool, name) = pool_or_volume(&of)?;
        let pool = PoolSelector::Pool(pool);
        let Some(name) = name else {
            if location.is_some() || prompt || key_stdin {
                return Err(Failure::usage("name the volume that the key belongs to"));
            }
            return Ok((pool, KeyRequest::LoadAll));
        };
        let key = match (prompt || location == Some(KeyLocation::Prompt), key_stdin) {
            (true, _) => Some(secret_input::key_from_prompt(&format!("key of {name}: "))?),
            (false, true) => Some(secret_input::key_from_stdin()?),
            (false, false) => None,
        };
        let load = Load {
            name,
            location,
            key: key.map(KeyBytes::new),
        };
        Ok((pool, load.into()))
    }
}
