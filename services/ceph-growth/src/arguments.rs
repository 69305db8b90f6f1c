//! The arguments of `bulkhead growth`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use growth::GrowthError;
use growth::request::{Addition, Removal};
use growth::stages::Staging;
use units::ByteCount;

/// `growth`
#[derive(Debug, Subcommand)]
pub enum GrowthCommand {
    /// Plan a growth: the bytes that move, the hours, the fill of each disk, the stages with their commands
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<PlanArgs>),
    /// Show the fill of each disk while a cluster grows, next to the plan
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(Box<WatchArgs>),
}

const PLAN_EXAMPLES: &str = "Examples:
  bulkhead growth plan --osdmap osdmap --pg-dump pg.json --add ceph18=10x3.638T
  bulkhead growth plan --osdmap osdmap --pool-bytes rbd=120T --add ceph18=10x3.638T --add ceph19=10x3.638T
  bulkhead growth plan --cluster ceph --add rack2/ceph18=10x3.638T:hdd --stages hosts --save plan.json
  bulkhead growth plan --cluster ceph --remove ceph03 --reweight --json

Nothing is changed: the plan reads, and prints the commands to type. A saved map is written by `ceph osd getmap -o osdmap`,
a dump by `ceph pg dump --format json > pg.json`. Needs Ceph's tools (Debian: ceph-base; a live cluster: ceph-common).";

const WATCH_EXAMPLES: &str = "Examples:
  bulkhead growth watch plan.json --stage 1 --cluster ceph --samples samples.jsonl --svg fill.svg
  bulkhead growth watch plan.json --stage 1 --samples samples.jsonl --all";

/// A cluster that is reached.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// The live cluster of this name, configured by /etc/ceph/NAME.conf
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// The configuration file of the live cluster
    #[arg(long, value_name = "FILE")]
    pub conf: Option<PathBuf>,
    /// The file with the key of the user
    #[arg(long, value_name = "FILE")]
    pub keyring: Option<PathBuf>,
    /// The user of the cluster; it needs to read only
    #[arg(long, value_name = "NAME", default_value = "client.admin")]
    pub user: String,
}

impl ClusterArgs {
    /// Whether a cluster is named.
    pub const fn is_given(&self) -> bool {
        self.cluster.is_some() || self.conf.is_some()
    }
}

/// `growth plan`
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// A saved map, instead of a live cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cluster", "conf", "keyring"])]
    pub osdmap: Option<PathBuf>,
    /// The live cluster.
    #[command(flatten)]
    pub live: ClusterArgs,
    /// Add disks: HOST=COUNTxSIZE, BUCKET/HOST=… for a new host of a rack, …:CLASS for a device class; may be repeated
    #[arg(long, value_name = "HOST=NxSIZE", value_parser = parsed::<Addition>)]
    pub add: Vec<Addition>,
    /// Remove a disk (osd.N) or all disks of a host; may be repeated
    #[arg(long, value_name = "osd.N|HOST", value_parser = parsed::<Removal>)]
    pub remove: Vec<Removal>,
    /// The number of the first disk that does not exist yet [default: the lowest that is free]
    #[arg(long, value_name = "NUMBER")]
    pub first_osd: Option<u32>,
    /// The output of `ceph pg dump --format json`, with a saved map
    #[arg(long, value_name = "FILE", conflicts_with = "pool_bytes")]
    pub pg_dump: Option<PathBuf>,
    /// The bytes that clients stored in a pool, evenly over its groups; may be repeated
    #[arg(long, value_name = "POOL=SIZE", value_parser = pool_bytes)]
    pub pool_bytes: Vec<(String, u64)>,
    /// The stages: careful (one disk, the rest of its host, the remaining disks), once, hosts, or a number of disks
    #[arg(long, value_name = "STAGES", default_value = "careful", value_parser = parsed::<Staging>)]
    pub stages: Staging,
    /// Bytes per second that one disk receives while clients use the cluster, as measured
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<ByteCount>,
    /// Bytes per second of one disk, for the lower bound by disk
    #[arg(long, value_name = "SIZE")]
    pub disk_rate: Option<ByteCount>,
    /// Bytes per second of the network of one host, for the lower bound by network
    #[arg(long, value_name = "SIZE")]
    pub network_rate: Option<ByteCount>,
    /// Bytes per second of one journal (or WAL) device, for the lower bound by journal
    #[arg(long, value_name = "SIZE")]
    pub journal_rate: Option<ByteCount>,
    /// Journal devices of each host
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub journals: u32,
    /// Bytes written to the journal for each byte that arrives: 1 for FileStore
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub journal_factor: f64,
    /// A disk is over-full above this percentage of the mean fill
    #[arg(long, value_name = "PERCENT", default_value_t = 115, value_parser = clap::value_parser!(u32).range(101..=1000))]
    pub over: u32,
    /// Propose reweights for over-full disks, and compute their effect
    #[arg(long)]
    pub reweight: bool,
    /// Show every disk, not only the fullest
    #[arg(long)]
    pub all: bool,
    /// Write the picture of each disk's fill
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the plan as JSON, for `growth watch`
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// `growth watch`
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The plan, as `growth plan --save` wrote it
    pub plan: PathBuf,
    /// The stage that runs
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub stage: usize,
    /// The live cluster.
    #[command(flatten)]
    pub live: ClusterArgs,
    /// The file of samples: read first, and continued with a live cluster
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// Write the picture of each disk's fill, after each sample
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub interval: u64,
    /// End after this number of samples [default: when the data is moved]
    #[arg(long, value_name = "NUMBER")]
    pub count: Option<u64>,
    /// Show every disk, not only those farthest from the plan
    #[arg(long)]
    pub all: bool,
}

/// The message of an option has no second line for the remedy.
fn parsed<T: FromStr<Err = GrowthError>>(text: &str) -> Result<T, String> {
    let with_advice = |error: GrowthError| match &error.advice {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    };
    text.parse().map_err(with_advice)
}

fn pool_bytes(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text
        .split_once('=')
        .ok_or("write POOL=SIZE, such as rbd=120T")?;
    let size: ByteCount = size.parse().map_err(|error| format!("{error}"))?;
    match name.is_empty() {
        true => {
            Err("the name of the pool is missing: write POOL=SIZE, such as rbd=120T".to_owned())
        }
        false => Ok((name.to_owned(), size.get())),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    match (0.001..=1000.0).contains(&number) {
        true => Ok(number),
        false => Err("it must be 0.001 to 1000".to_owned()),
    }
}
