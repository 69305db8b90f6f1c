//! The arguments of `bulkhead watch`.

use clap::{Args, Subcommand};

/// `watch`
#[derive(Debug, Subcommand)]
pub enum WatchCommand {
    /// Show lost packets: by interface, queue, reason and peer
    ///
    /// Each block lists the losses of one interval, the largest first, with their causes and remedies.
    #[command(after_help = EXAMPLES)]
    Drops(DropsArgs),
}

const EXAMPLES: &str = "Examples:
  bulkhead watch drops --count 1
  bulkhead watch drops --interface ens1f0 --interface ens1f1 --interval 10
  bulkhead watch drops --since-boot --json

Needs root. Of sockets, those of Bulkhead and Corosync are shown. The kernel reports reasons of single packets by tracefs
(`mount -t tracefs nodev /sys/kernel/tracing`), for the whole host; a firewall, a wrong port and a full buffer are
recognized by them. Counters of queues need ethtool (Debian: ethtool).";

/// `watch drops`
#[derive(Debug, Args)]
pub struct DropsArgs {
    /// Only this interface; may be repeated [default: all but the loopback]
    #[arg(long, value_name = "NAME")]
    pub interface: Vec<String>,
    /// Seconds of an interval
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
    /// End after this number of intervals [default: when interrupted]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Show the counters since they began, once
    #[arg(long, conflicts_with_all = ["interval", "count"])]
    pub since_boot: bool,
    /// Also sockets of other processes
    #[arg(long)]
    pub all_sockets: bool,
}
