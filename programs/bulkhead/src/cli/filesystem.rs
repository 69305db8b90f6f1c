//! `bulkhead filesystem …`

use clap::Subcommand;
use control::operations::{Verb, filesystem, snapshot};
use control::{Failure, Request};

use super::key::KeyCommand;
use super::{Plan, ask};

/// The verbs.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "a command line is one value")]
pub enum FilesystemCommand {
    /// What is asked of a pool.
    #[command(flatten)]
    Request(filesystem::FilesystemCommand),
    /// Make a file system of a snapshot; the same as `snapshot clone`
    #[command(after_help = "Example:\n  bulkhead filesystem clone tank/home@monday tank/copy")]
    Clone(snapshot::clone::Arguments),
    /// Keys of encrypted file systems; the same as `volume key`
    #[command(subcommand)]
    Key(KeyCommand),
}

impl FilesystemCommand {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Request(command) => ask(command.request(), Request::Filesystem),
            Self::Clone(args) => {
                let asked = snapshot::clone::Clone::from_arguments(args);
                ask(asked, |clone| Request::Snapshot(clone.into()))
            }
            Self::Key(command) => command.plan(),
        }
    }
}
