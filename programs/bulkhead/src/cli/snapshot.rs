//! `bulkhead snapshot …`

use clap::Subcommand;
use control::Failure;
use control::request::{Request, SnapshotRequest};
use units::{PoolName, SnapshotName, VolumeName};

use super::schedule::ScheduleCommand;
use super::transfer::{self, RECEIVE_EXAMPLES, ReceiveArgs, SEND_EXAMPLES, SendArgs};
use super::volume::{CloneArgs, RollbackArgs};
use super::which::PoolOption;
use super::{Plan, Whose, confirmed};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Keep the present contents of volumes; several are taken at one moment
    #[command(
        after_help = "Example:\n  bulkhead snapshot create tank/db/data@noon tank/db/log@noon"
    )]
    Create {
        /// Snapshots, as POOL/NAME@SNAPSHOT
        #[arg(required = true)]
        snapshots: Vec<SnapshotName>,
    },
    /// List the snapshots of a pool or a volume
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead snapshot list tank/vm0"
    )]
    List {
        /// The pool or the volume [default: all pools that are served here, or the only one]
        of: Option<String>,
        /// The pool
        #[command(flatten)]
        pool: PoolOption,
    },
    /// Take a volume back to a snapshot; the same as `volume rollback`
    #[command(after_help = "Example:\n  bulkhead snapshot rollback tank/vm0@monday")]
    Rollback(RollbackArgs),
    /// Give a snapshot another name; its clones, and clients of the volume, notice nothing
    #[command(after_help = "Example:\n  bulkhead snapshot rename tank/vm0@monday before-upgrade")]
    Rename {
        /// The snapshot, as POOL/NAME@SNAPSHOT
        snapshot: SnapshotName,
        /// Its new name, the part after the @
        new_name: String,
    },
    /// Destroy snapshots
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  bulkhead snapshot destroy tank/vm0@monday --yes-destroy-data"
    )]
    Destroy {
        /// Snapshots, as POOL/NAME@SNAPSHOT
        #[arg(required = true)]
        snapshots: Vec<SnapshotName>,
        /// Yes, what only they hold shall be lost
        #[arg(long)]
        yes_destroy_data: bool,
    },
    /// Make a volume of a snapshot
    #[command(after_help = "Example:\n  bulkhead snapshot clone tank/vm0@monday tank/copy")]
    Clone(CloneArgs),
    /// Snapshots that the server takes by itself, and how many it keeps
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Write a snapshot to the standard output, as a stream that any ZFS receives
    #[command(after_help = SEND_EXAMPLES)]
    Send(SendArgs),
    /// Receive a stream from the standard input as a snapshot of a volume
    #[command(after_help = RECEIVE_EXAMPLES)]
    Receive(ReceiveArgs),
    /// Keep a bookmark of a snapshot: it takes no space, and sends can begin at it
    #[command(after_help = "Example:\n  bulkhead snapshot bookmark tank/vm0@monday sent")]
    Bookmark {
        /// The snapshot, as POOL/NAME@SNAPSHOT
        snapshot: SnapshotName,
        /// The bookmark's name
        mark: String,
    },
}

impl SnapshotCommand {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Create { snapshots: names } => {
                let pool = common_pool(&names)?;
                Ok(ask(Whose::Pool(pool), SnapshotRequest::Create { names }))
            }
            Self::List { of, pool } => list(pool.or(of)),
            Self::Rollback(args) => args.plan(),
            Self::Rename { snapshot, new_name } => rename(snapshot, &new_name),
            Self::Destroy {
                snapshots: names,
                yes_destroy_data,
            } => {
                let what = format!("what only {} snapshot(s) hold would be lost", names.len());
                confirmed(yes_destroy_data, "yes-destroy-data", &what)?;
                let pool = common_pool(&names)?;
                Ok(ask(Whose::Pool(pool), SnapshotRequest::Destroy { names }))
            }
            Self::Clone(args) => args.plan(),
            Self::Schedule(command) => command.plan(),
            Self::Send(args) => args.plan(),
            Self::Receive(args) => args.plan(),
            Self::Bookmark { snapshot, mark } => Ok(transfer::bookmark(snapshot, mark)),
        }
    }
}

fn ask(pool: Whose, request: SnapshotRequest) -> Plan {
    Plan::Ask {
        pool,
        request: Request::Snapshot(request),
    }
}

/// The new name may be written as stock ZFS wants it, too, with the volume in front.
fn rename(from: SnapshotName, new_name: &str) -> Result<Plan, Failure> {
    let whole = match new_name.contains('@') {
        true => new_name.to_owned(),
        false => format!("{}@{new_name}", from.volume()),
    };
    let to = whole.parse::<SnapshotName>();
    let to = to.map_err(|error| Failure::usage(error.to_string()))?;
    let pool = Whose::Pool(from.volume().pool());
    Ok(ask(pool, SnapshotRequest::Rename { from, to }))
}

fn list(of: Option<String>) -> Result<Plan, Failure> {
    let usage = |error: units::NameError| Failure::usage(error.to_string());
    let (pool, volume) = match of {
        None => (Whose::TheOnlyOne, None),
        Some(text) if text.contains('/') => {
            let volume: VolumeName = text.parse().map_err(usage)?;
            (Whose::Pool(volume.pool()), Some(volume))
        }
        Some(text) => (Whose::Pool(text.parse().map_err(usage)?), None),
    };
    Ok(ask(pool, SnapshotRequest::List { volume }))
}

/// The pool that all the names are in.
fn common_pool(names: &[SnapshotName]) -> Result<PoolName, Failure> {
    let pool = names[0].volume().pool();
    if names.iter().all(|name| name.volume().pool() == pool) {
        return Ok(pool);
    }
    Err(Failure::usage(
        "the snapshots are in several pools: use one command for each pool",
    ))
}
