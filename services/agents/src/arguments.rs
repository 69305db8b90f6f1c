//! The command line of `bulkhead agent` and of `bulkhead-agent`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use leg_door::LegFiles;
use units::ByteCount;
use units::HostId;

use crate::{run, run_address, run_fence};

/// Run the agents of Pacemaker
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// ocf:bulkhead:pool: start, stop, monitor, meta-data or validate-all
    #[command(after_help = EXAMPLES)]
    Pool(PoolAgentArgs),
    /// ocf:bulkhead:address: start, stop, monitor, meta-data or validate-all
    #[command(after_help = "Example:\n  bulkhead agent address meta-data")]
    Address {
        /// Action that Pacemaker requests
        action: String,
    },
    /// fence_bulkhead: reads its action and parameters from standard input, as fence agents do
    #[command(after_help = FENCE_EXAMPLES)]
    Fence {
        /// Refused with a usage message, as fence_bulkhead has no arguments
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

const FENCE_EXAMPLES: &str = "Example:
  printf 'action=off\\nhead=left\\nnumber=1\\n' | bulkhead agent fence

It powers nothing off, and has no arguments. Pacemaker runs it through /usr/sbin/fence_bulkhead before each fence device of a head with legs.
It fails if the witness receives heartbeats of that head, and this head cannot open the pools of that one.";

const EXAMPLES: &str = "Examples:
  bulkhead agent pool meta-data
  bulkhead agent pool monitor

Pacemaker runs it through /usr/lib/ocf/resource.d/bulkhead/pool, which `bulkhead appliance apply`
writes. It names the pool in OCF_RESKEY_pool, and the time limit in OCF_RESKEY_CRM_meta_timeout,
in milliseconds. The server's log is POOL.log in the state directory.
`bulkhead-agent pool` is the same in a smaller binary, and used if it is in the same directory.

Exit codes are those of OCF 1.1:
  0   success; the pool is served
  1   it failed, or the server is neither well nor gone: see ocf-exit-reason on the standard error
  2   this head is not set up for the pool, or the command line is wrong
  3   there is no such action
  6   the parameter pool is missing or is no name of a pool
  7   no process of this head has the pool";

/// Default directory of the servers' control sockets.
const RUN_DIR: &str = "/run/bulkhead";
/// Default directory of a host's persistent state.
const STATE_DIR: &str = "/var/lib/bulkhead";
/// Path of Corosync's cluster key.
const CLUSTER_KEY: &str = "/etc/corosync/authkey";

/// Path of the appliance file, for commands that find it by themselves.
#[derive(Clone, Debug, Args)]
pub struct ApplianceFile {
    /// The appliance file
    #[arg(
        long,
        value_name = "FILE",
        env = "BULKHEAD_APPLIANCE",
        default_value = appliance::plan::APPLIANCE_PATH
    )]
    pub file: PathBuf,
}

/// The arguments of the agent of a pool
#[derive(Debug, Args)]
pub struct PoolAgentArgs {
    /// Action that Pacemaker requests
    pub action: String,
    /// The appliance file
    #[command(flatten)]
    pub appliance: ApplianceFile,
    /// Upper limit of a pool's cache, regardless of the file: for rehearsals on smaller
    /// hosts
    #[arg(long, value_name = "SIZE", env = "BULKHEAD_ARC_SIZE_MAX")]
    pub arc_size_max: Option<ByteCount>,
    /// For tests only: directory with POOL.faults, which describes the failing devices of a pool
    #[arg(long, value_name = "DIR", env = "BULKHEAD_LEG_FAULTS", hide = true)]
    pub leg_faults: Option<PathBuf>,
    /// For tests only: other heads run on this kernel, and their locks are visible here
    #[arg(long, env = "BULKHEAD_HEADS_SHARE_KERNEL", hide = true)]
    pub heads_share_kernel: bool,
}

/// Paths of this host
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Directory of the servers' control sockets
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "BULKHEAD_RUN_DIR",
        default_value = RUN_DIR
    )]
    pub run_dir: PathBuf,
    /// Directory of logs, and of hints where the devices of pools were found last; their labels decide
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "BULKHEAD_STATE_DIR",
        default_value = STATE_DIR
    )]
    pub state_dir: PathBuf,
    /// The key that the heads of an appliance share: secrets in a pool are sealed with it. Without
    /// such a file they are sealed with a key of this host, in the state directory
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "BULKHEAD_CLUSTER_KEY",
        default_value = CLUSTER_KEY
    )]
    pub cluster_key: PathBuf,
    /// This host's identity in pool labels, in hex [default: from /etc/machine-id
    /// and the pool's name]
    #[arg(long, global = true, value_name = "HEX", env = "BULKHEAD_HOST_ID")]
    pub host_id: Option<HostId>,
}

impl AgentCommand {
    /// Runs the agent, and returns its exit code. `legs`: of this host.
    pub fn run(&self, settings: &Settings, legs: &dyn LegFiles) -> ExitCode {
        match self {
            Self::Pool(args) => run(args, settings, legs),
            Self::Address { action } => run_address(action, settings),
            Self::Fence { arguments } => run_fence(arguments, settings, legs),
        }
    }
}
