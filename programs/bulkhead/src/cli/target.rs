//! `bulkhead target …`

use clap::Subcommand;
use control::operations::target;
use control::{Failure, Request};
use pool_access::client_export::{EXAMPLES, ExportArgs};

use super::{Plan, ask};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum TargetCommand {
    /// A request to a pool.
    #[command(flatten)]
    Request(target::TargetCommand),
    /// Export a volume to a client in one step: volume, target, LUN and access
    #[command(after_help = EXAMPLES)]
    Export(ExportArgs),
}

impl TargetCommand {
    /// Returns the plan.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Request(command) => {
                let table = command.table();
                Ok(ask(command.request(), Request::Target)?.with(table))
            }
            Self::Export(args) => Ok(Plan::Export(args)),
        }
    }
}
