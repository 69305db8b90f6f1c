//! `bulkhead volume key …`

use clap::Subcommand;
use control::operations::key;
use control::{Failure, Request};

use super::{Plan, ask};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// A request to a pool.
    #[command(flatten)]
    Request(key::KeyCommand),
    Load(key::load::Arguments),
    Change(key::change::Arguments),
}

impl KeyCommand {
    /// Returns the plan. Reads the key, for the verbs with one.
    pub fn plan(self) -> Result<Plan, Failure> {
        let asked = match self {
            Self::Request(command) => command.request(),
            Self::Load(arguments) => arguments.request(),
            Self::Change(arguments) => arguments.request(),
        };
        ask(asked, Request::Key)
    }
}
