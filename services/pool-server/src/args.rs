//! `bulkhead pool-server`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use engine::pool::Claims;
use pool_access::legs::{AwaitedDevices, Late};
use pool_access::open::{Access, OpenOptions, PreviousOwner};
use units::{ByteCount, PoolName};

use super::listen::Listen;

/// Examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead pool-server tank
  bulkhead pool-server tank --search /srv/disks --iscsi 10.0.0.1:3260,1 --iscsi 10.1.0.1:3260,2
  bulkhead pool-server tank --nbd unix:/run/tank.nbd --nbd 10.0.0.1:10809 \\
      --nbd-tls-cert /etc/bulkhead/cert.pem --nbd-tls-key /etc/bulkhead/key.pem

Signals: TERM or INT drains the sessions, exports the pool and ends; HUP reads the exports again.
Under systemd it reports readiness, status and liveness (Type=notify, WatchdogSec=).";

/// Own a pool and serve its volumes.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The pool
    pub pool: PoolName,
    /// Listening addresses.
    #[command(flatten)]
    pub listen: Listen,
    /// Listen here for pools that replicate into this one, as ADDRESS:PORT; they need to be
    /// accepted first (`bulkhead replicate accept`)
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub replication: Option<SocketAddr>,
    /// Memory for cached data [default: a quarter of the host's, at most 8G]
    #[arg(long, value_name = "SIZE")]
    pub arc_size: Option<ByteCount>,
    /// Memory for data that is not on disk yet [default: a sixteenth of the host's, at most 1G]
    #[arg(long, value_name = "SIZE")]
    pub dirty_max: Option<ByteCount>,
    /// Seconds between two regular commits of the pool [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=60))]
    pub txg_timeout: Option<u32>,
    /// Seconds that a disk may take for one read or write; then it counts as failed and the pool continues without it
    /// [default: 20]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub disk_timeout: Option<u32>,
    /// For a pool with multihost=on: milliseconds without a successful activity (MMP) write after which this server
    /// suspends the pool. A host without proof that this server has stopped checks for activity for twice to two and a
    /// half times as long before it imports the pool [default: 10000]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(800..=60_000))]
    pub multihost_silence: Option<u64>,
    /// Threads for requests that block on disks
    #[arg(long, value_name = "NUMBER", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=512))]
    pub workers: u16,
    /// Seconds that sessions have to disconnect when the server stops
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub drain_timeout: u64,
    /// Open a pool with legs on several heads, by this configuration
    #[arg(long, value_name = "FILE", conflicts_with = "watch_for_owner")]
    pub legs: Option<PathBuf>,
    /// The host that used the pool last is switched off or will never access it again. With --legs: no process of
    /// Bulkhead runs on the other head, not even its leg-server. Ignored while that head responds
    #[arg(long, group = "owner")]
    pub previous_owner_is_stopped: bool,
    /// The same, but only if the host that used the pool last has this name. With --legs: no pool server has the pool
    /// on that head, and its leg-server may run
    #[arg(long, value_name = "HOST", group = "owner")]
    pub stopped_owner: Option<String>,
    /// The host that used the pool last was powered off, if it has this name: the multihost activity check is skipped
    #[arg(long, value_name = "HOST", group = "owner")]
    pub fenced_owner: Option<String>,
    /// If the pool has multihost=on, check for activity of its owner, and continue if there is none
    #[arg(long, group = "owner")]
    pub watch_for_owner: bool,
    /// Seconds that a missing device has to appear, where it may hold newer data than those that are present; then the
    /// pool is not opened without a confirmation (`bulkhead pool confirm`)
    #[arg(long, value_name = "SECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub wait_for_devices: u32,
    /// A device that could not be read shortly before; the server retries it in the background
    #[arg(long, value_name = "PATH", hide = true)]
    pub late_device: Vec<PathBuf>,
    /// How other hosts are excluded from the disks
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub claims: ClaimsOption,
    /// For tests only: devices named in this file fail; it is read again when it changes
    #[arg(long, value_name = "FILE", hide = true)]
    pub leg_faults: Option<PathBuf>,
    /// Write a line to this descriptor when the server listens, then close it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    pub ready_fd: Option<i32>,
    /// Write another line to that descriptor as soon as the pool is claimed and clients may connect
    #[arg(long, hide = true, requires = "ready_fd")]
    pub say_claimed: bool,
    /// Open nothing before the agent that started this process has registered it in the file
    #[arg(long, value_name = "FILE", hide = true)]
    pub noted_in: Option<PathBuf>,
    /// Stop, as after SIGTERM, when the standard input is closed
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
    /// Log as JSON, one document per line
    #[arg(long)]
    pub log_json: bool,
}

/// `--claims`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ClaimsOption {
    /// By reservations if every disk of the pool supports them, else by locks
    #[default]
    Auto,
    /// By persistent reservations, which the disks enforce
    Reservations,
    /// By locks, which processes of this host respect
    Locks,
}

impl From<ClaimsOption> for Claims {
    fn from(word: ClaimsOption) -> Self {
        match word {
            ClaimsOption::Auto => Self::Auto,
            ClaimsOption::Reservations => Self::Reservations,
            ClaimsOption::Locks => Self::Locks,
        }
    }
}

impl ServeArgs {
    /// The option about the previous owner.
    pub(crate) fn owner(&self) -> PreviousOwner {
        match (&self.stopped_owner, &self.fenced_owner) {
            (Some(name), _) => PreviousOwner::HostIsStopped(name.clone()),
            (_, Some(name)) => PreviousOwner::HostIsOff(name.clone()),
            _ if self.previous_owner_is_stopped => PreviousOwner::IsStopped,
            _ if self.watch_for_owner => PreviousOwner::IsWatched,
            _ => PreviousOwner::Unknown,
        }
    }

    /// How to open the pool.
    pub fn options(&self, awaited: AwaitedDevices) -> OpenOptions {
        OpenOptions {
            claims: self.claims.into(),
            late: Late {
                wait: Duration::from_secs(self.wait_for_devices.into()),
                devices: self.late_device.clone(),
                awaited,
            },
            ..OpenOptions::new(self.owner(), Access::Change)
        }
    }
}
