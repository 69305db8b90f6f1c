//! `bulkhead pool …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use control::Failure;
use control::operations::TableOptions;
use control::operations::pool::{self, create::PoolCreate, events, layout, scrub};
use control::request::{PoolRequest, Request};
use head::args::MoveArgs;
use head::pool_growth::GrowthArgs;
use pool_access::confirm::Confirmations;
use pool_server::inspect::InspectArgs;
use units::PoolName;

use super::{Plan, PoolSelector, ask};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Create a pool
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List the pools that are served or can be found, with those of the other heads of the appliance
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead pool list --search /srv/disks --json"
    )]
    List,
    /// Without a name, list pools that can be imported; with one, import a pool of another host
    /// into this one
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Turn copies of a pool's devices into a pool of their own: another GUID, another name, other identities of its
    /// volumes
    #[command(after_help = REIDENTIFY_EXAMPLES)]
    Reidentify(ReidentifyArgs),
    /// Confirm, once, that a pool may be opened although newer data may be lost
    #[command(after_help = CONFIRM_EXAMPLES)]
    Confirm {
        /// The pool
        pool: PoolName,
        /// The confirmation
        #[command(flatten)]
        said: Confirmations,
    },
    /// Remove a pool from the pools that this host knows, when all of its disks are gone
    #[command(after_help = "Example:\n  bulkhead pool forget old-tank")]
    Forget {
        /// The pool
        pool: PoolName,
    },
    /// Convert a pool of this head's disks into one with legs on several heads: its disks are put on record
    #[command(after_help = RECORD_LEGS_EXAMPLES)]
    RecordLegs(RecordLegsArgs),
    /// Show the contents of legs of a head as a pool of its own, read-only, concurrently with the served pool
    InspectLegs(InspectArgs),
    /// Hand a pool over to another head of the appliance; clients are paused briefly
    #[command(after_help = MOVE_EXAMPLES)]
    Move(MoveArgs),
    Events(events::Arguments),
    Scrub(scrub::Arguments),
    /// Show the fill of a pool by day, and when it will be full
    Growth(GrowthArgs),
    /// A request to a pool.
    #[command(flatten)]
    Request(pool::PoolCommand),
}

const CREATE_EXAMPLES: &str = "Examples:
  bulkhead pool create tank mirror /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-b
  bulkhead pool create tank raidz2 /dev/disk/by-id/scsi-[a-f] \\
      log mirror /dev/disk/by-id/nvme-a /dev/disk/by-id/nvme-b
  bulkhead pool create play /srv/disk0.img --property ashift=12
  bulkhead pool create tank --legs /etc/bulkhead/legs.toml";

const IMPORT_EXAMPLES: &str = "Examples:
  bulkhead pool import --search /srv/disks
  bulkhead pool import tank --previous-owner-is-stopped
  bulkhead pool import tank --device /dev/disk/by-id/scsi-a";

const REIDENTIFY_EXAMPLES: &str = "Example:
  bulkhead pool reidentify tank tank-copy --device /dev/disk/by-id/scsi-a-snapshot

It opens the devices that are named and no others, so that the pool itself may be served meanwhile. Of a mirror one side is enough,
and the other sides are detached. Of a pool with legs, a copy of one leg of each group becomes a pool without legs.";

const CONFIRM_EXAMPLES: &str = "Examples:
  bulkhead pool confirm tank --missing-devices-are-not-newer
  bulkhead pool confirm tank --missing-logs-are-lost

Without a word it shows what is missing, and how old the rest is. A word is about that state only, and about
this head: the next start here, by hand or by Pacemaker, uses it up.";

const RECORD_LEGS_EXAMPLES: &str = "Example:
  bulkhead pool record-legs tank

No server may have the pool, each of its groups is one disk, and every member has to answer. Afterwards the pool is opened
with --legs only, and `pool attach` adds the legs of other heads. A command that was killed is said again.";

const MOVE_EXAMPLES: &str = "Example:
  bulkhead pool move tank right

Run it on any head. It asks Pacemaker, waits until the pool and its addresses are served by that
head, and leaves no constraint behind.";

/// `pool create`
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The pool's name
    name: PoolName,
    /// Devices, preceded by keywords: mirror, raidz1, raidz2, raidz3, log, cache, spare
    #[arg(value_name = "DEVICE", conflicts_with = "legs")]
    devices: Vec<String>,
    /// Create it on the legs that this configuration names for the pool, which are on several heads. Every member must
    /// respond
    #[arg(long, value_name = "FILE")]
    legs: Option<PathBuf>,
    /// Set a property of the pool; may be repeated
    #[arg(long, short = 'o', value_name = "NAME=VALUE", value_parser = control::operations::property)]
    property: Vec<(String, String)>,
    /// Overwrite devices that have the label of an exported or destroyed pool, or contain a file
    /// system or partitions
    #[arg(long)]
    overwrite_old_labels: bool,
}

/// `pool import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The pool
    pool: Option<PoolName>,
    /// The last host of the pool is powered off or will never access it again
    #[arg(long, requires = "pool")]
    previous_owner_is_stopped: bool,
    /// Use this one of several devices with the same identity, such as a disk and a copy of it; may be repeated. Data
    /// that only the remaining ones hold is lost to the pool
    #[arg(long, value_name = "PATH", requires = "pool")]
    device: Vec<PathBuf>,
}

/// `pool reidentify`
#[derive(Debug, Args)]
pub struct ReidentifyArgs {
    /// The pool that the devices are copies of
    pool: PoolName,
    /// The new name of the copies
    name: PoolName,
    /// A copy of a device of the pool; may be repeated
    #[arg(long, value_name = "PATH", required = true)]
    device: Vec<PathBuf>,
    /// The last host of the copies, or of the pool when they were created, will never access the copies again
    #[arg(long)]
    previous_owner_is_stopped: bool,
}

/// `pool record-legs`
#[derive(Debug, Args)]
pub struct RecordLegsArgs {
    /// The pool
    pool: PoolName,
    /// The configuration of legs, which names the disks of the pool
    #[arg(long, value_name = "FILE", default_value = "/etc/bulkhead/legs.toml")]
    legs: PathBuf,
    /// The last host of the pool is powered off or will never access it again
    #[arg(long)]
    previous_owner_is_stopped: bool,
}

impl PoolCommand {
    /// Returns the plan.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Request(command) => {
                let again = command.again();
                let (pool, request) = command.request()?;
                Ok(match again {
                    Some(again) => Plan::Watch {
                        pool,
                        request: Request::Pool(request),
                        again,
                    },
                    None => with_long_time_out(pool, request),
                })
            }
            Self::Create(args) => args.plan(),
            Self::List => Ok(Plan::ListPools),
            Self::Import(args) => Ok(args.plan()),
            Self::Confirm { pool, said } => Ok(Plan::Confirm { pool, said }),
            Self::Forget { pool } => Ok(Plan::Forget(pool)),
            Self::RecordLegs(args) => Ok(args.plan()),
            Self::Reidentify(args) => Ok(Plan::Reidentify {
                pool: args.pool,
                name: args.name,
                devices: args.device,
                previous_owner_is_stopped: args.previous_owner_is_stopped,
            }),
            Self::InspectLegs(args) => Ok(Plan::Inspect(args)),
            Self::Move(args) => Ok(Plan::Move(args)),
            Self::Growth(args) => Ok(Plan::Growth(args)),
            Self::Events(args) if args.follow => Ok(Plan::Follow(args.pool)),
            Self::Events(args) => ask(Ok(args.request()), Request::Pool),
            Self::Scrub(args) => ask(args.request(), Request::Pool),
        }
    }
}

/// Retries if the server exits in between and the request can resume.
fn with_long_time_out(pool: PoolSelector, request: PoolRequest) -> Plan {
    match pool {
        PoolSelector::Pool(pool) if request.operation().is_resumable_by_repeat() => {
            Plan::WithLongTimeOut(pool, request)
        }
        pool => Plan::Ask {
            pool,
            request: Request::Pool(request),
            table: TableOptions::default(),
        },
    }
}

impl CreateArgs {
    fn plan(self) -> Result<Plan, Failure> {
        let groups = layout::parse(&self.devices)?;
        if self.legs.is_none() {
            layout::has_data(&groups)?;
        }
        let create = PoolCreate {
            name: self.name,
            groups,
            properties: self.property.into_iter().collect(),
            overwrite: self.overwrite_old_labels,
        };
        Ok(Plan::Create(create, self.legs))
    }
}

impl RecordLegsArgs {
    fn plan(self) -> Plan {
        Plan::RecordLegs {
            pool: self.pool,
            legs: self.legs,
            previous_owner_is_stopped: self.previous_owner_is_stopped,
        }
    }
}

impl ImportArgs {
    fn plan(self) -> Plan {
        match self.pool {
            None => Plan::Discover,
            Some(pool) => Plan::TakeOver {
                pool,
                previous_owner_is_stopped: self.previous_owner_is_stopped,
                devices: self.device,
            },
        }
    }
}
