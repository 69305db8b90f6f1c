//! The words of `bulkhead lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use units::{ByteCount, HeadName, NetworkName};

use crate::{DEFAULT_BASE, Node, Power};

/// `lab`
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Start an appliance on this host, as described by its file
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),
    /// Show power, unplugged cables, and the heads that serve the pools
    #[command(after_help = "Example:\n  bulkhead lab status --json")]
    Status(WhichLab),
    /// Run a command on a head, the client or the witness
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecArgs),
    /// Pass the consoles of the heads on to this machine's loopback, for its browser
    #[command(after_help = CONSOLE_EXAMPLES)]
    Console(ConsoleArgs),
    /// Switch the power of a head, as hard as its plug
    #[command(after_help = "Example:\n  bulkhead lab power left off")]
    Power(PowerArgs),
    /// Switch an outlet of a power distribution unit
    #[command(after_help = "Example:\n  bulkhead lab outlet a 1 off")]
    Outlet(OutletArgs),
    /// Pull the cables of a head
    #[command(after_help = "Examples:\n  bulkhead lab cut left storage-a\n  bulkhead lab cut left")]
    Cut(CableArgs),
    /// Plug the cables of a head in again
    #[command(after_help = "Example:\n  bulkhead lab mend left")]
    Mend(CableArgs),
    /// Make the cables of a head slow or lossy, or good again
    #[command(after_help = IMPAIR_EXAMPLES)]
    Impair(ImpairArgs),
    /// Stop every process of a head, as when a virtual machine is paused
    #[command(after_help = "Example:\n  bulkhead lab freeze left")]
    Freeze(HeadArgs),
    /// Resume a frozen head
    #[command(after_help = "Example:\n  bulkhead lab thaw left")]
    Thaw(HeadArgs),
    /// Make the BMC of a head slow, or take it off its network
    #[command(after_help = "Examples:\n  bulkhead lab bmc left --dead true\n  \
                            bulkhead lab bmc left --dead false --delay-ms 3000")]
    Bmc(BmcArgs),
    /// End a lab; nothing of it is left
    #[command(after_help = "Example:\n  bulkhead lab down")]
    Down(WhichLab),
}

const UP_EXAMPLES: &str = "Examples:
  bulkhead lab up appliance.toml
  bulkhead lab up examples/pair.toml --name rehearsal --disk-size 4G
  bulkhead lab up examples/pair.toml --bare

Each head runs the real Corosync, Pacemaker and fence agents in namespaces of its own; each BMC speaks
IPMI. Disks are files, and the pools on them are created. Needs root and the packages that
docs/guide/lab.md names; whatever is missing is listed.

Exit codes, besides the common ones:
  12  the check finds errors in the file, which are printed
  15  this host cannot run a lab; what it lacks is printed";

const EXEC_EXAMPLES: &str = "Examples:
  bulkhead lab exec left -- crm_mon -1
  bulkhead lab exec left -- bulkhead volume create tank/vm0 --size 100M
  bulkhead lab exec client -- ping -c 1 10.77.1.100
  bulkhead lab exec right -- bash

Ends with the exit code of the command.";

const CONSOLE_EXAMPLES: &str = "Examples:
  bulkhead lab console
  bulkhead lab console --port 17443 left right

Prints an address for each head, and ends with the lab or when it is interrupted. The certificates are
signed by themselves, so a browser warns.";

const IMPAIR_EXAMPLES: &str = "Examples:
  bulkhead lab impair left legs-a --delay-us 500
  bulkhead lab impair left legs-a --loss-percent 2
  bulkhead lab impair left

What comes to the head comes later, or is lost; what it sends is not touched. Without options the cables are
good again. Needs a kernel with netem.";

/// Which lab is meant.
#[derive(Clone, Debug, Args)]
pub struct WhichLab {
    /// The lab [default: the only one]
    #[arg(long)]
    pub name: Option<String>,
    /// Where labs are.
    #[command(flatten)]
    pub labs: LabsDirectory,
}

/// The labs on this host.
#[derive(Clone, Debug, Args)]
pub struct LabsDirectory {
    /// The directory of labs, with a subdirectory for each
    #[arg(
        long,
        value_name = "DIR",
        env = "BULKHEAD_LAB_DIR",
        default_value = DEFAULT_BASE
    )]
    pub dir: PathBuf,
}

/// `lab up`
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The appliance file
    #[arg(default_value = appliance::plan::APPLIANCE_PATH)]
    pub file: PathBuf,
    /// Its name [default: that of the appliance], and where it is
    #[command(flatten)]
    pub which: WhichLab,
    /// The apparent size of each disk; only written data uses space
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub disk_size: ByteCount,
    /// The maximum cache of each pool, regardless of the file
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub arc_max: ByteCount,
    /// Do not create the pools
    #[arg(long)]
    pub no_pools: bool,
    /// Do not serve the API and the console on the heads
    #[arg(long)]
    pub no_console: bool,
    /// Leave the heads as they were installed, with consoles and ssh: to set the appliance up in the console
    #[arg(long, conflicts_with = "no_console")]
    pub bare: bool,
    /// Seconds until all pools must be served
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    pub timeout: u64,
    /// If it does not start, leave its state for an analysis
    #[arg(long)]
    pub keep_failed: bool,
}

/// `lab exec`
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// A head, or client, witness, switch
    pub who: Node,
    /// The command
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Which lab.
    #[command(flatten)]
    pub which: WhichLab,
}

/// `lab console`
#[derive(Debug, Args)]
pub struct ConsoleArgs {
    /// The head [default: all heads]
    pub heads: Vec<HeadName>,
    /// Port of the first head, that of the second is one more [default: ports that are free]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Which lab.
    #[command(flatten)]
    pub which: WhichLab,
}

/// `lab power`
#[derive(Debug, Args)]
pub struct PowerArgs {
    /// The head
    pub head: HeadName,
    /// off, on or cycle
    pub to: Power,
    /// Which lab.
    #[command(flatten)]
    pub which: WhichLab,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// It gets power
    On,
    /// It has none
    Off,
}

/// `lab outlet`
#[derive(Debug, Args)]
pub struct OutletArgs {
    /// The unit
    pub pdu: String,
    /// The outlet
    pub outlet: String,
    /// on or off
    pub to: OnOff,
    /// Which lab.
    #[command(flatten)]
    pub which: WhichLab,
}

/// `lab cut` and `lab mend`
#[derive(Debug, Args)]
pub struct CableArgs {
    /// The head
    pub head: HeadName,
    /// In these networks [default: in all]
    pub networks: Vec<NetworkName>,
    /// Which lab.
    #[command(flatten)]
    pub which: WhichLab,
}

/// `lab impair`
#[derive(Debug, Args)]
pub struct ImpairArgs {
    /// The head
    pub head: HeadName,
    /// In these networks [default: in all]
    pub networks: Vec<NetworkName>,
    /// Microseconds by which packets come later
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub delay_us: u32,
    /// How many of a hundred packets are lost
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100))]
    pub loss_percent: u8,
    /// Which lab.
    #[command(flatten)]
    pub which: WhichLab,
}

/// `lab freeze` and `lab thaw`
#[derive(Debug, Args)]
pub struct HeadArgs {
    /// The head
    pub head: HeadName,
    /// Which lab.
    #[command(flatten)]
    pub which: WhichLab,
}

/// `lab bmc`
#[derive(Debug, Args)]
pub struct BmcArgs {
    /// The head
    pub head: HeadName,
    /// Whether the BMC is off its network
    #[arg(long, value_name = "true|false", required_unless_present = "delay_ms")]
    pub dead: Option<bool>,
    /// Milliseconds of delay for switching the power
    #[arg(long, value_name = "NUMBER")]
    pub delay_ms: Option<u64>,
    /// Which lab.
    #[command(flatten)]
    pub which: WhichLab,
}
