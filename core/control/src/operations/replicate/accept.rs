//! `replicate accept`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, schema_of,
};
use crate::replication::{Fingerprint, Peer, Retention};
use crate::{Effect, Failure};

/// Let a pool replicate into this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReplicateAccept")]
#[serde(transparent)]
pub struct Accept(pub Peer);

impl Operation for Accept {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self(Peer {
            fingerprint: _,
            below: _,
            retention: _,
            files: _,
        }) = self;
        Effect::Govern
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of(
        "bulkhead replicate accept \\
      5f0c1b6ad2e98a7c3b4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3 --below vault/from-tank",
    )
    .elsewhere("needs two servers: tests/head/replication.rs"),
    Example::of(
        "bulkhead replicate accept \\
      5f0c1b6ad2e98a7c3b4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3 --below vault/home --files",
    )
    .elsewhere("needs two servers: tests/head/replication.rs"),
]);

/// Let another pool replicate into this one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The other pool's fingerprint
    fingerprint: Fingerprint,
    /// The dataset below which it may write, or the one volume
    #[arg(long, value_name = "POOL/NAME")]
    below: VolumeName,
    /// Number of replicated snapshots to retain of each volume, even if the other pool requests
    /// fewer
    #[arg(long, value_name = "NUMBER", default_value_t = Retention::default().newest)]
    keep: u32,
    /// Also retain the first snapshot of each of this number of last days with a replication
    #[arg(long, value_name = "NUMBER", default_value_t = Retention::default().days)]
    keep_days: u32,
    /// Also file systems, not only volumes. For a sender that is trusted with this host: ZFS validates little of the
    /// stream of a file system, so that a hostile one may take over the server of the pool
    #[arg(long)]
    files: bool,
}

impl Verb for Accept {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/accept",
        "Let another pool replicate into this one",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"fingerprint": "5f0c1b6ad2e98a7c3b4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3", "below": "vault/from-tank"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let peer = Peer {
            fingerprint: arguments.fingerprint,
            below: arguments.below,
            retention: Retention {
                newest: arguments.keep,
                days: arguments.keep_days,
            },
            files: arguments.files,
        };
        Ok((PoolSelector::Pool(peer.below.pool()), Self(peer)))
    }
}
