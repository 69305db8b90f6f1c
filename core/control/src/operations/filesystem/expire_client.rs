//! `filesystem expire-client`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::operations::{Example, Examples, Operation, PoolSelector, Scheduling, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead filesystem open-files tank/home")
        .elsewhere("needs a server: proof.nfs.older_locks"),
    Example::of("bulkhead filesystem expire-client tank/home 1f")
        .elsewhere("needs a client: proof.nfs.older_locks"),
]);

/// Revoke the opens and locks of an NFS client, as if its lease had expired
///
/// For a client that is permanently gone and holds locks that block other clients. It loses all its state in this pool,
/// in other file systems too. Blocked lock requests are granted at once. A client that is still running may reconnect:
/// its processes that had locks get errors. To exclude it, change `sharenfs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "FilesystemExpireClient")]
#[command(after_help = EXAMPLES)]
pub struct ExpireClient {
    /// A file system that it uses
    #[arg(id = "filesystem", value_name = "FILESYSTEM")]
    pub name: VolumeName,
    /// The client, as shown by `filesystem open-files`
    pub client: String,
    /// Although it was active within the last 20 seconds, and so may still be running
    #[serde(default)]
    #[arg(long)]
    pub in_use: bool,
}

impl Operation for ExpireClient {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            client: _,
            in_use: _,
        } = self;
        Effect::Change
    }

    fn details(&self) -> Option<String> {
        Some(format!("client {} of {}", self.client, self.name))
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }
}

impl Verb for ExpireClient {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
