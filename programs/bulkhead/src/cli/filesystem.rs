//! `bulkhead filesystem …`

use clap::Subcommand;
use control::operations::{Verb, filesystem, snapshot};
use control::{Failure, Request};
use pool_access::mount::{self, MountArgs};

use super::key::KeyCommand;
use super::{Plan, ask};

/// The verbs.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "a command line is one value")]
pub enum FilesystemCommand {
    /// A request to a pool.
    #[command(flatten)]
    Request(filesystem::FilesystemCommand),
    /// Mount a file system, or a snapshot, on this host: to inspect and repair it, without NFS
    ///
    /// The command opens the pool, which no server may have open then, and runs until the file system is unmounted.
    /// Then it exports the pool again. Rights are those of the file system, with its access control lists. Set-user-id
    /// bits and devices in it are ignored.
    #[command(after_help = mount::EXAMPLES)]
    Mount(MountArgs),
    /// Create a file system from a snapshot; the same as `snapshot clone`
    #[command(after_help = "Example:\n  bulkhead filesystem clone tank/home@monday tank/copy")]
    Clone(snapshot::clone::Arguments),
    /// Keys of encrypted file systems; the same as `volume key`
    #[command(subcommand)]
    Key(KeyCommand),
}

impl FilesystemCommand {
    /// Returns the plan.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Request(command) => {
                let table = command.table();
                Ok(ask(command.request(), Request::Filesystem)?.with(table))
            }
            Self::Mount(args) => Ok(Plan::Mount(args)),
            Self::Clone(args) => {
                let asked = snapshot::clone::Clone::from_arguments(args);
                ask(asked, |clone| Request::Snapshot(clone.into()))
            }
            Self::Key(command) => command.plan(),
        }
    }
}
