//! The words of `bulkhead drill`.

use std::path::PathBuf;

use clap::Args;
use lab::arguments::LabsDirectory;
use units::PoolName;

use drill_verdict::{Clients, Drill};

use crate::extra_volumes::MORE_VOLUMES_MAX;

/// `drill`
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DrillArgs {
    /// Which drills [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<Drill>,
    /// How often each drill is done
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// The seed of all random choices; to replay a round, pass the seed of the round and one round
    /// [default: any]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Keep all processors busy
    #[arg(long)]
    pub load: bool,
    /// Whether clients ping a silent server (pinging), or wait for TCP as stock ones do (patient)
    #[arg(long, value_name = "KIND", default_value = "pinging")]
    pub clients: Clients,
    /// Additional volumes in the pool, each exported over iSCSI and NBD
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(MORE_VOLUMES_MAX)))]
    pub more_volumes: u32,
    /// The appliance [default: two heads with shared disks]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Drill with the time-outs of another profile than the file's
    #[arg(long, value_name = "PROFILE", value_parser = ["fast", "default", "conservative"])]
    pub profile: Option<String>,
    /// Judge pauses by this bound in seconds instead of the published bounds, on a host that is not
    /// measured
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub budget: Option<u32>,
    /// The pool that the clients use [default: the first one]
    #[arg(long)]
    pub pool: Option<PoolName>,
    /// Where labs are.
    #[command(flatten)]
    pub labs: LabsDirectory,
    /// Also write the output of --json to a file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// List the drills with the expectation of each
    #[arg(long)]
    pub list: bool,
}

const EXAMPLES: &str = "Examples:
  bulkhead drill --list
  bulkhead drill active-power all-links-cut --rounds 20 --profile fast
  bulkhead drill active-power move --clients patient --profile fast
  bulkhead drill active-power move --rounds 5 --more-volumes 1000 --profile fast
  bulkhead drill --file appliance.toml --load --json";
