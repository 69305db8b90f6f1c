//! `bulkhead volume …`

use clap::Subcommand;
use control::operations::{Verb, snapshot, volume};
use control::{Failure, Request};
use pool_access::rescue::{self, RescueArgs};

use super::key::KeyCommand;
use super::{Plan, ask};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// A request to a pool.
    #[command(flatten)]
    Request(volume::VolumeCommand),
    /// Inspect a volume while its virtual machine is off, or a snapshot: a local NBD socket
    ///
    /// A volume itself has no other clients during a rescue: the rescue is refused while a client is connected, and
    /// initiators that log in find the unit not ready. A snapshot is read-only; with --writable, a clone of it that is
    /// discarded at the end. Nothing is left behind: identities, properties and exports are unchanged.
    #[command(after_help = rescue::EXAMPLES)]
    Rescue(RescueArgs),
    /// Create a volume from a snapshot; the same as `snapshot clone`
    #[command(after_help = "Example:\n  bulkhead volume clone tank/vm0@monday tank/copy")]
    Clone(snapshot::clone::Arguments),
    /// Keys of encrypted volumes: load, unload, change
    #[command(subcommand)]
    Key(KeyCommand),
}

impl VolumeCommand {
    /// Returns the plan.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Request(command) => {
                let table = command.table();
                Ok(ask(command.request(), Request::Volume)?.with(table))
            }
            Self::Rescue(args) => Ok(Plan::Rescue(args)),
            Self::Clone(args) => {
                let asked = snapshot::clone::Clone::from_arguments(args);
                ask(asked, |clone| Request::Snapshot(clone.into()))
            }
            Self::Key(command) => command.plan(),
        }
    }
}
