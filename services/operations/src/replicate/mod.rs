//! Replication: volumes and file systems of this pool are sent to another appliance's, from time to time, over TLS.
//!
//! What is replicated, and who may replicate into the pool, stands in the pool's properties, so
//! that it goes on with whichever head serves the pool. `documents` reads and writes those;
//! `key` keeps the pool's key, `identity` uses it and checks the peer's; `wire` is what the two sides say to
//! each other; `sender` and `receiver` are the two sides, `retention` is what the receiver keeps,
//! `places` are its connections; `service` runs both in a pool server;
//! `bases` are the snapshots and bookmarks that the next run begins at; `under_way` is the run of the moment; `health` says whether all of it goes as it should; `copies` are the volumes that came from elsewhere,
//! `originals` is what the sender has of them still, `choice` decides which of them a promotion is about, and `promote` makes them take
//! the place of their originals.

mod bases;
mod choice;
mod copies;
mod documents;
pub mod health;
mod identity;
mod key;
mod originals;
mod places;
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

/// Whether a snapshot is called as those are that replication makes, finds again and destroys.
pub fn is_own(name: &SnapshotName) -> bool {
    name.tag().starts_with(sender::TAG_PREFIX)
}

/// Refuses a name that replication would take for that of its own snapshots.
pub fn refuse_own_name(name: &SnapshotName) -> Result<(), Failure> {
    if !is_own(name) {
        return Ok(());
    }
    let message = format!("replication finds its snapshots by names such as {name}");
    Err(Failure::new(FailureKind::Busy, message).advise("choose another name"))
}

/// The volumes that another pool's replication fills: after a snapshot of this side's own it could not go on.
pub fn copies(context: &Context<'_>) -> Result<BTreeSet<VolumeName>, Failure> {
    let mut filled = BTreeSet::new();
    for replica in promote::replicas(context, &context.root())? {
        // Others were received once, by hand, and are volumes like any.
        if bases::newest_arrived(context, &replica.name)?.is_some() {
            filled.insert(replica.name);
        }
    }
    Ok(filled)
}

/// Seconds since 1970, for what is kept in the pool.
fn now_unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
