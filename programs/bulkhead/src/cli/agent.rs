//! `bulkhead agent`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use units::ByteCount;

use super::appliance::ApplianceFile;

/// `agent`
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// ocf:bulkhead:pool: start, stop, monitor, meta-data or validate-all
    #[command(after_help = EXAMPLES)]
    Pool(PoolAgentArgs),
    /// ocf:bulkhead:address: start, stop, monitor, meta-data or validate-all
    #[command(after_help = "Example:\n  bulkhead agent address meta-data")]
    Address {
        /// What Pacemaker asks for
        action: String,
    },
}

const EXAMPLES: &str = "Examples:
  bulkhead agent pool meta-data
  bulkhead agent pool monitor

Pacemaker runs it through /usr/lib/ocf/resource.d/bulkhead/pool, which `bulkhead appliance apply`
writes. It names the pool in OCF_RESKEY_pool, and the time limit in OCF_RESKEY_CRM_meta_timeout,
in milliseconds. The server's log is POOL.log in the state directory.

Exit codes are those of OCF 1.1:
  0   it is as asked; the pool is served
  1   it failed, or the server is neither well nor gone: see ocf-exit-reason on the standard error
  2   this head is not set up for the pool, or the command line is wrong
  3   there is no such action
  6   the parameter pool is missing or is no name of a pool
  7   no process of this head has the pool";

/// `agent pool`
#[derive(Debug, Args)]
pub struct PoolAgentArgs {
    /// What Pacemaker asks for
    pub action: String,
    #[command(flatten)]
    pub appliance: ApplianceFile,
    /// Never let a pool cache more than this, whatever the file says: for rehearsals on smaller
    /// machines
    #[arg(long, value_name = "SIZE", env = "BULKHEAD_ARC_SIZE_MAX")]
    pub arc_size_max: Option<ByteCount>,
    /// For tests only: where POOL.faults says which devices of a pool fail
    #[arg(long, value_name = "DIR", env = "BULKHEAD_LEG_FAULTS", hide = true)]
    pub leg_faults: Option<PathBuf>,
}

impl AgentCommand {
    /// What to do.
    pub fn plan(self) -> super::Plan {
        match self {
            Self::Pool(args) => super::Plan::PoolAgent(args),
            Self::Address { action } => super::Plan::AddressAgent(action),
        }
    }
}
