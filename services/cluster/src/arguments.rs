//! The options of `bulkhead appliance`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use units::{HeadName, PoolName};

/// `appliance`
#[derive(Debug, Subcommand)]
pub enum ApplianceCommand {
    /// Find mistakes in an appliance file, and differences to the heads that would prevent it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Print the difference between an appliance file and the state of the heads
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(ChangeArgs),
    /// Make the heads match an appliance file
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(ApplyArgs),
    /// Remove a pool for good: from the cluster, from its disks, from all heads and from the file
    ///
    /// Lists all that is lost. Nothing is changed without --yes. Pacemaker stops the pool, its disks are erased, its
    /// records of legs are removed, its lines are removed from the file, and the file is applied.
    #[command(after_help = RETIRE_EXAMPLES)]
    Retire(RetireArgs),
    /// Give the running cluster another secret without an interruption
    ///
    /// Corosync, the heads' consoles and the sealed values in pools use it. The former secret stays on every head until
    /// it is removed by hand, so that pools that are not served now can be read later.
    #[command(after_help = ROTATE_EXAMPLES)]
    RotateKey(CheckArgs),
    /// Move all pools away from a head and exclude it, or let it serve pools again
    ///
    /// The head stays excluded until `off`, also after a boot. Its disks remain in use by pools with legs on it.
    #[command(after_help = MAINTENANCE_EXAMPLES)]
    Maintenance(MaintenanceArgs),
    /// Stop all pools in order, then the cluster on all heads
    ///
    /// No head is fenced. When the heads boot next, they serve the pools again without a command.
    #[command(after_help = SHUTDOWN_EXAMPLES)]
    Shutdown(ShutdownArgs),
    /// Start the cluster on all heads after `shutdown`, and wait until all pools are served
    #[command(after_help = START_EXAMPLES)]
    Start(CheckArgs),
    /// Upgrade Bulkhead on all heads, one after the other, while clients work
    ///
    /// Idle heads are first. Each head is upgraded in maintenance: its pools move away, its services stop, the version
    /// is installed, and the head serves again when it runs that version and all pools are complete. The upgrade stops
    /// at the first state that is not the expected one. At the end each pool moves to its home.
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade(Box<UpgradeArgs>),
    /// Print the JSON schema of the file, for editors
    Schema,
    /// The formats of this version, and the features of its library, as JSON
    #[command(hide = true)]
    Formats,
    /// The facts of a head for `check`, as lines of words separated by tabs; reads a list of disks
    #[command(hide = true)]
    Facts {
        /// Also measure the stalls of this host
        #[arg(long)]
        stalls: bool,
    },
}

impl ApplianceCommand {
    /// The verb and the object of a command that changes the appliance, for the audit log.
    pub fn change(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Apply(args) => Some(("appliance.apply", args.change.file.display().to_string())),
            Self::Retire(args) if !args.dry_run && args.yes => {
                Some(("appliance.retire", args.pool.to_string()))
            }
            Self::RotateKey(args) => {
                Some(("appliance.rotate-key", args.file.display().to_string()))
            }
            Self::Maintenance(args) => Some((
                match args.state {
                    Switch::On => "appliance.maintenance-on",
                    Switch::Off => "appliance.maintenance-off",
                },
                args.head.to_string(),
            )),
            Self::Shutdown(args) if args.yes => {
                Some(("appliance.shutdown", args.of.file.display().to_string()))
            }
            Self::Start(args) => Some(("appliance.start", args.file.display().to_string())),
            Self::Upgrade(args) if !args.dry_run => {
                Some(("appliance.upgrade", args.of.file.display().to_string()))
            }
            _ => None,
        }
    }
}

const CHECK_EXAMPLES: &str = "Examples:
  bulkhead appliance check appliance.toml
  bulkhead appliance check appliance.toml --json
  bulkhead appliance check appliance.toml --ssh

Needs no cluster and no privileges. This machine is asked if it is one of the heads, the others with
--ssh or --reach; whatever could not be asked is listed.

Exit codes, besides the common ones:
  0   nothing worse than a hint
  11  warnings: it will work, and disappoint when something fails
  12  errors: it will not work, or it endangers data; also a file that is not understood";

const PLAN_EXAMPLES: &str = "Examples:
  bulkhead appliance plan appliance.toml --ssh
  bulkhead appliance plan appliance.toml --reach right=ssh:root@10.77.9.12

Changes nothing. Every head must be reachable.

Exit codes, besides the common ones:
  0   everything is as the file says
  12  the check finds errors, which are printed instead
  13  there is a difference
  14  something is in the way, which only a person can remove";

const APPLY_EXAMPLES: &str = "Examples:
  bulkhead appliance apply appliance.toml --ssh

Performs what `plan` prints, one change after the other; it may be repeated, also after it was cut
off. Works on a running cluster. Before it restarts a leg-server it waits until the legs of the pools
are current. If the server of a pool refuses a change of its record, what does not need that is done
nevertheless.

Exit codes, besides the common ones:
  0   everything is as the file says
  12  the check finds errors, which are printed; nothing was changed
  14  something is in the way; nothing was changed";

const RETIRE_EXAMPLES: &str = "Examples:
  bulkhead appliance retire tank --ssh --dry-run
  bulkhead appliance retire tank --ssh --yes

Every head must be reachable. A command that was interrupted is repeated. If the pool is missing in the file
then, `bulkhead appliance apply` completes it.

Exit codes, besides the common ones:
  6   nothing was changed: the answer lists what would be lost, and --yes is missing
  12  without the pool the check finds errors in the file, which are printed; nothing was changed
  14  something is in the way; nothing was changed";

const ROTATE_EXAMPLES: &str = "Examples:
  bulkhead appliance rotate-key appliance.toml --ssh

Every head must be reachable. It may be repeated, also after it was cut off.";

const MAINTENANCE_EXAMPLES: &str = "Examples:
  bulkhead appliance maintenance right on
  bulkhead appliance maintenance right off

Run it on a head of the cluster. Each pool of the head is moved to a head that can serve it; clients
see the pause of a move. It is refused if there is no such head.";

const SHUTDOWN_EXAMPLES: &str = "Examples:
  bulkhead appliance shutdown --ssh
  bulkhead appliance shutdown --ssh --yes --power-off

Every member of the cluster must be reachable. Clients lose their volumes and files until the heads
serve again: with connected clients it requires --yes. It may be repeated, also after it was cut
off; `start` takes it back.";

const START_EXAMPLES: &str = "Examples:
  bulkhead appliance start --ssh

Not needed after a boot: enabled heads serve their pools by themselves.";

const UPGRADE_EXAMPLES: &str = "Examples:
  bulkhead appliance upgrade --ssh --package bulkhead_0.2.0~deb12_amd64.deb --dry-run
  bulkhead appliance upgrade --ssh --package bulkhead_0.2.0~deb12_amd64.deb
  bulkhead appliance upgrade --ssh --from-repository
  bulkhead appliance upgrade --ssh --package bulkhead_0.1.0~deb12_amd64.deb --downgrade

Every head must be reachable. A command that stopped, or was interrupted, is repeated: it continues with
the same head. The older package with --downgrade is the way back.

Exit codes, besides the common ones:
  0   all heads run the version already, or do now
  12  the check finds errors, which are printed; nothing was changed
  13  with --dry-run: there is something to do
  14  it stopped: the output contains the reason, the state of each head, and the next command";

/// `appliance upgrade`
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["package", "from_repository", "install_command"])))]
pub struct UpgradeArgs {
    /// As for a check.
    #[command(flatten)]
    pub of: CheckArgs,
    /// Install this package, which is copied to each head; may be repeated, such as for bulkhead-libzpool
    #[arg(long, value_name = "DEB")]
    pub package: Vec<PathBuf>,
    /// Install from the apt repository that each head uses
    #[arg(long)]
    pub from_repository: bool,
    /// Install by this command for sh(1), which runs on each head; `$1` in it is the version
    #[arg(long, value_name = "COMMAND", requires = "to")]
    pub install_command: Option<String>,
    /// The version [default: the newest one of the repository]
    #[arg(long, value_name = "VERSION", conflicts_with = "package")]
    pub to: Option<String>,
    /// The version is older than the installed one
    #[arg(long)]
    pub downgrade: bool,
    /// Downgrade even if the older version refuses formats, or does not describe them: no pool uses these
    #[arg(long, requires = "downgrade")]
    pub yes: bool,
    /// Print the steps, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Seconds until all legs must be current again after each head
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub legs_within: u64,
    /// The bulkhead binary on every head [default: the path of this one]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
}

/// `appliance maintenance`
#[derive(Debug, Args)]
pub struct MaintenanceArgs {
    /// The head
    pub head: HeadName,
    /// Begin or end it
    #[arg(value_enum)]
    pub state: Switch,
    /// The appliance file
    #[arg(long, value_name = "FILE", default_value = appliance::plan::APPLIANCE_PATH)]
    pub file: PathBuf,
    /// The connections to the heads.
    #[command(flatten)]
    pub ways: Transports,
    /// Stop the pools that no other head can serve now
    #[arg(long)]
    pub stop_pools: bool,
}

/// Begin or end of a maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Move all pools away, and exclude the head
    On,
    /// Let the head serve pools again
    Off,
}

/// `appliance shutdown`
#[derive(Debug, Args)]
pub struct ShutdownArgs {
    /// As for a check.
    #[command(flatten)]
    pub of: CheckArgs,
    /// Stop the pools while clients are connected
    #[arg(long)]
    pub yes: bool,
    /// Switch all heads off afterwards, this one last
    #[arg(long)]
    pub power_off: bool,
}

/// `appliance check`, `appliance rotate-key`, `appliance start`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The appliance file
    #[arg(default_value = appliance::plan::APPLIANCE_PATH)]
    pub file: PathBuf,
    /// The connections to the heads.
    #[command(flatten)]
    pub ways: Transports,
}

/// `appliance plan`
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The appliance file
    #[arg(default_value = appliance::plan::APPLIANCE_PATH)]
    pub file: PathBuf,
    /// The connections to the heads.
    #[command(flatten)]
    pub ways: Transports,
    /// The bulkhead binary on every head [default: the path of this one]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Corosync and Pacemaker are not started by systemd: plan nothing for their units
    #[arg(long)]
    pub without_systemd: bool,
}

/// `appliance retire`
#[derive(Debug, Args)]
pub struct RetireArgs {
    /// The pool
    pub pool: PoolName,
    /// As for a plan.
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Yes, all data of the pool shall be lost, and the sessions of its clients end
    #[arg(long)]
    pub yes: bool,
    /// Show what would be lost, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
}

/// `appliance apply`
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// As for a plan.
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Remove addresses from pools even while clients are connected by them: their sessions end
    #[arg(long)]
    pub in_use: bool,
    /// Restart a leg-server even if a leg that was current is not so again, as long as the pools can run without its
    /// disks
    #[arg(long)]
    pub stale_legs: bool,
    /// Print each change on standard error before it is made, also with --json
    #[arg(long)]
    pub progress: bool,
}

/// The connections to the heads.
#[derive(Clone, Debug, Default, Args)]
pub struct Transports {
    /// Reach the other heads by ssh, as root at their own addresses, with a key that needs no passphrase
    #[arg(long)]
    pub ssh: bool,
    /// Reach a head in another way: by ssh at another destination, or by a prefix for every command, such as
    /// nsenter(1); may be repeated
    #[arg(long, value_name = "HEAD=ssh:DESTINATION|HEAD=run:WORDS")]
    pub reach: Vec<Reach>,
}

/// The connection to one head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The head.
    pub head: HeadName,
    /// The way.
    pub way: Transport,
}

/// A way to a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// ssh to there.
    Ssh(String),
    /// Words before the command.
    Run(Vec<String>),
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write HEAD=ssh:DESTINATION or HEAD=run:WORDS";
        let (head, way) = text.split_once('=').ok_or(FORM)?;
        let head = head.parse().map_err(|error| format!("{error}"))?;
        let way = match way.split_once(':') {
            // ssh must not parse it as an option.
            Some(("ssh", place)) if !place.is_empty() && !place.starts_with('-') => {
                Transport::Ssh(place.to_owned())
            }
            Some(("run", words)) if !words.trim().is_empty() => {
                Transport::Run(words.split_whitespace().map(str::to_owned).collect())
            }
            _ => return Err(FORM.to_owned()),
        };
        Ok(Self { head, way })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_addresses_are_parsed() {
        let reach: Reach = "left=ssh:root@10.0.0.1".parse().expect("a way");
        assert_eq!(reach.way, Transport::Ssh("root@10.0.0.1".to_owned()));
        let reach: Reach = "left=run:nsenter -t 7 -a".parse().expect("a way");
        assert_eq!(
            reach.way,
            Transport::Run(["nsenter", "-t", "7", "-a"].map(str::to_owned).to_vec())
        );
        for bad in [
            "left",
            "left=",
            "left=run:",
            "Left=ssh:x",
            "left=ssh:-oProxyCommand=x",
        ] {
            assert!(bad.parse::<Reach>().is_err(), "{bad}");
        }
    }
}
