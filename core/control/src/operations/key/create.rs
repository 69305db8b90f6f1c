//! `volume key create`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use super::KeyOptions;
use crate::key::KeySettings;
use crate::operations::{Example, Examples, Operation, PoolSelector, Verb};
use crate::{Effect, Failure};

/// Create an encrypted parent: volumes that are created below it share its key
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KeyCreate")]
pub struct Create {
    /// Its name.
    pub name: VolumeName,
    /// Its key.
    pub key: KeySettings,
}

impl Operation for Create {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _, key: _ } = self;
        Effect::Govern
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume key create tank/secret")
        .elsewhere("needs keys: tests/head/encryption.rs"),
    Example::of("bulkhead volume key create tank/vms --key-format raw --key-location file:///etc/bulkhead/keys/vms")
        .elsewhere("needs keys: tests/head/encryption.rs"),
    Example::of("bulkhead volume create tank/vms/vm0 --size 10G --sparse")
        .elsewhere("needs keys: tests/head/encryption.rs"),
]);

/// Create an encrypted parent: volumes that are created below it share its key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The parent, as POOL/NAME
    parent: VolumeName,
    /// Options of its encryption
    #[command(flatten)]
    key: KeyOptions,
}

impl Verb for Create {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    /// Prompts for the key.
    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { parent: name, key } = arguments;
        let key = key.settings()?;
        Ok((PoolSelector::Pool(name.pool()), Self { name, key }))
    }
}
