//! Replication: volumes and file systems of this pool are sent to another appliance's, from time to time, over TLS.
//!
//! Replication rules and accepted peers are stored in the pool's properties, so that they move with the pool to the
//! head that serves it. `documents` reads and writes those; `key` stores the pool's key, `identity` uses it and checks
//! the peer's; `wire` is the protocol; `sender` and `receiver` are the two sides, `retention` decides which snapshots
//! the receiver retains, `connection_slots` limits its connections; `service` runs both in a pool server; `bases` are the
//! snapshots and bookmarks of incremental runs; `under_way` is the active run; `health` evaluates the state of all
//! rules.

mod bases;
mod choice;
mod connection_slots;
mod copies;
mod documents;
pub mod health;
mod identity;
mod key;
mod originals;
mod promote;
mod receiver;
mod retention;
mod sender;
mod service;
mod under_way;
mod wire;

pub use bases::loses;
pub use documents::perform;
pub use key::seal_key;
pub use originals::late as late_copies;
pub use service::{Access, Service};

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use control::{Failure, FailureKind};
use units::{SnapshotName, VolumeName};

use crate::Context;
use crate::documents::Documents;

/// How a file system's original is shared: the rule of `sharenfs` that holds for it. Never a property of the original itself.
const SHARE_PROPERTY: &str = "bulkhead:share";

/// Returns whether the name follows the pattern of snapshots that replication creates and destroys.
pub fn is_own(name: &SnapshotName) -> bool {
    name.tag().starts_with(sender::TAG_PREFIX)
}

/// Refuses a name that replication would treat as one of its own snapshots.
pub fn refuse_own_name(name: &SnapshotName) -> Result<(), Failure> {
    if !is_own(name) {
        return Ok(());
    }
    let message = format!("replication finds its snapshots by names such as {name}");
    Err(Failure::new(FailureKind::Busy, message).advise("choose another name"))
}

/// Returns the volumes that another pool replicates into this one. A local snapshot of one would break its next
/// incremental stream.
pub fn copies(context: &Context<'_>) -> Result<BTreeSet<VolumeName>, Failure> {
    let mut filled = BTreeSet::new();
    for replica in promote::replicas(context, &context.root())? {
        // Volumes that were received once, by hand, are ordinary volumes.
        if bases::newest_arrived(context, &replica.name)?.is_some() {
            filled.insert(replica.name);
        }
    }
    Ok(filled)
}

/// Seconds since 1970, for timestamps that are stored in the pool.
fn now_unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
