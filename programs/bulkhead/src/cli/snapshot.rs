//! `bulkhead snapshot …`

use clap::Subcommand;
use control::operations::volume::rollback::Rollback;
use control::operations::{Verb, snapshot};
use control::{Failure, Request};
use units::SnapshotName;

use super::transfer::{self, RECEIVE_EXAMPLES, ReceiveArgs, SEND_EXAMPLES, SendArgs};
use super::{Plan, ask};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// A request to a pool.
    #[command(flatten)]
    Request(snapshot::SnapshotCommand),
    /// Roll a volume back to a snapshot; the same as `volume rollback`
    #[command(after_help = "Example:\n  bulkhead snapshot rollback tank/vm0@monday")]
    Rollback(Rollback),
    /// Write a snapshot to the standard output, as a stream that any ZFS receives
    #[command(after_help = SEND_EXAMPLES)]
    Send(SendArgs),
    /// Receive a stream from the standard input as a snapshot of a volume
    #[command(after_help = RECEIVE_EXAMPLES)]
    Receive(ReceiveArgs),
    /// Create a bookmark of a snapshot: it uses no space, and sends can start from it
    #[command(after_help = "Example:\n  bulkhead snapshot bookmark tank/vm0@monday sent")]
    Bookmark {
        /// The snapshot, as POOL/NAME@SNAPSHOT
        snapshot: SnapshotName,
        /// The bookmark's name
        mark: String,
    },
}

impl SnapshotCommand {
    /// Returns the plan.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Request(command) => {
                let table = command.table();
                Ok(ask(command.request(), Request::Snapshot)?.with(table))
            }
            Self::Rollback(args) => ask(Rollback::from_arguments(args), |rollback| {
                Request::Volume(rollback.into())
            }),
            Self::Send(args) => args.plan(),
            Self::Receive(args) => args.plan(),
            Self::Bookmark { snapshot, mark } => Ok(transfer::bookmark(snapshot, mark)),
        }
    }
}
