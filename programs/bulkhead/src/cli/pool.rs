//! `bulkhead pool …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use control::Failure;
use control::request::{PoolCreate, PoolRequest, Request, ScrubAction};
use units::{HeadName, PoolName};

use super::appliance::ApplianceFile;
use super::head::API_PORT;
use super::{Plan, PoolSelector, confirmed, layout};
use crate::legs::Said;
use control::operations::WhichPool;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Make a pool
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List the pools that are served or can be found
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead pool list --search /srv/disks --json"
    )]
    List,
    /// Show devices, errors, capacity and what to do
    Status(WhichPool),
    /// Show what happened: devices that failed or came back, repairs, scrubs, suspensions
    #[command(after_help = EVENTS_EXAMPLES)]
    Events {
        /// The pool
        pool: PoolName,
        /// Go on with what happens from now on, until interrupted
        #[arg(long, short)]
        follow: bool,
    },
    /// Without a name, list what can be imported; with one, make a pool from another machine
    /// this machine's
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Say, once, that a pool may be opened though something newer may be lost by that
    #[command(after_help = CONFIRM_EXAMPLES)]
    Confirm {
        /// The pool
        pool: PoolName,
        /// What is said
        #[command(flatten)]
        said: Said,
    },
    /// Drain the sessions, close the pool cleanly, and end its server
    #[command(after_help = "Example:\n  bulkhead pool export tank")]
    Export {
        /// The pool
        pool: PoolName,
        /// Even though clients are connected: their sessions end
        #[arg(long)]
        in_use: bool,
    },
    /// Hand a pool over to another head of the appliance; clients wait a moment and go on
    #[command(after_help = MOVE_EXAMPLES)]
    Move(MoveArgs),
    /// Destroy a pool with everything in it
    #[command(after_help = "Example:\n  bulkhead pool destroy tank --yes-destroy-all-data")]
    Destroy {
        /// The pool
        pool: PoolName,
        /// Yes, every volume and snapshot of the pool shall be lost
        #[arg(long)]
        yes_destroy_all_data: bool,
        /// Even though clients are connected: their sessions end
        #[arg(long)]
        in_use: bool,
    },
    /// Read every block, verify it, repair what is damaged
    #[command(after_help = SCRUB_EXAMPLES)]
    Scrub(ScrubArgs),
    /// Forget device errors, and resume a suspended pool
    #[command(after_help = CLEAR_EXAMPLES)]
    Clear {
        /// The pool
        pool: PoolName,
        /// Only this device
        device: Option<String>,
        /// Go on without the devices that are still gone, although they may hold newer data: what only they hold is lost
        #[arg(long)]
        missing_devices_are_not_newer: bool,
    },
    /// Add a device to a mirror, or make a mirror of a single device
    #[command(
        after_help = "Example:\n  bulkhead pool attach tank /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-c"
    )]
    Attach {
        /// The pool
        pool: PoolName,
        /// A device of the pool
        device: String,
        /// The device to add
        new_device: String,
        /// Overwrite devices that carry the label of an exported or destroyed pool, were spares, or
        /// hold a file system or partitions
        #[arg(long)]
        overwrite_old_labels: bool,
    },
    /// Take a device off a mirror
    #[command(after_help = "Example:\n  bulkhead pool detach tank /dev/disk/by-id/scsi-c")]
    Detach(DeviceArgs),
    /// Put a new device in the place of another
    #[command(
        after_help = "Example:\n  bulkhead pool replace tank /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-d"
    )]
    Replace {
        /// The pool
        pool: PoolName,
        /// A device of the pool
        device: String,
        /// Its successor; without it, a new disk is at the old path
        new_device: Option<String>,
        /// Overwrite devices that carry the label of an exported or destroyed pool, were spares, or
        /// hold a file system or partitions
        #[arg(long)]
        overwrite_old_labels: bool,
    },
    /// Replace a bad disk, step by step: shows what would be done; --yes does it and waits
    #[command(after_help = REPLACE_DISK_EXAMPLES)]
    ReplaceDisk(ReplaceDiskArgs),
    /// Use a device again
    #[command(after_help = "Example:\n  bulkhead pool online tank /dev/disk/by-id/scsi-a")]
    Online(DeviceArgs),
    /// Stop using a device
    #[command(
        after_help = "Example:\n  bulkhead pool offline tank /dev/disk/by-id/scsi-a --temporary"
    )]
    Offline {
        /// The pool and the device
        #[command(flatten)]
        device: DeviceArgs,
        /// Until the next import only
        #[arg(long)]
        temporary: bool,
    },
    /// Widen a pool with further devices
    #[command(
        after_help = "Example:\n  bulkhead pool add tank mirror /dev/disk/by-id/scsi-e /dev/disk/by-id/scsi-f"
    )]
    Add {
        /// The pool
        pool: PoolName,
        /// Devices and group words, as in `pool create`
        #[arg(required = true, value_name = "DEVICE")]
        devices: Vec<String>,
        /// Yes, the new devices shall survive less than those of the pool
        #[arg(long)]
        mismatched: bool,
        /// Overwrite devices that carry the label of an exported or destroyed pool, were spares, or
        /// hold a file system or partitions
        #[arg(long)]
        overwrite_old_labels: bool,
    },
    /// Move the data off a device (or drop a log, cache or spare) and remove it
    #[command(after_help = "Example:\n  bulkhead pool remove tank /dev/disk/by-id/scsi-e")]
    Remove(DeviceArgs),
    /// Read properties of a pool
    #[command(after_help = "Example:\n  bulkhead pool get tank autotrim comment")]
    Get {
        /// The pool
        pool: PoolName,
        /// Which properties [default: all]
        names: Vec<String>,
    },
    /// Change properties of a pool
    #[command(after_help = "Example:\n  bulkhead pool set tank autotrim=on comment=rack-7")]
    Set {
        /// The pool
        pool: PoolName,
        /// New values
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = control::operations::property)]
        properties: Vec<(String, String)>,
    },
}

const CREATE_EXAMPLES: &str = "Examples:
  bulkhead pool create tank mirror /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-b
  bulkhead pool create tank raidz2 /dev/disk/by-id/scsi-[a-f] \\
      log mirror /dev/disk/by-id/nvme-a /dev/disk/by-id/nvme-b
  bulkhead pool create play /srv/disk0.img --property ashift=12";

const EVENTS_EXAMPLES: &str = "Examples:
  bulkhead pool events tank
  bulkhead pool events tank --follow --json

The pool keeps its events itself: they move with it, and `zpool history` shows them, too. With
--follow and --json, each event is a line.";

const SCRUB_EXAMPLES: &str = "Examples:
  bulkhead pool scrub tank --wait
  bulkhead pool scrub tank --pause
  bulkhead pool scrub tank --schedule monthly

The schedule is kept in the pool. `bulkhead pool status` shows when the next scrub is due.";

const REPLACE_DISK_EXAMPLES: &str = "Examples:
  bulkhead pool replace-disk tank
  bulkhead pool replace-disk tank --yes
  bulkhead pool replace-disk tank /dev/disk/by-id/scsi-a --with /dev/disk/by-id/scsi-d --yes

Clients are served all the time. If it is interrupted, or the server is killed or moves to another
head, the filling goes on by itself; the same command waits for its end.";

const IMPORT_EXAMPLES: &str = "Examples:
  bulkhead pool import --search /srv/disks
  bulkhead pool import tank --previous-owner-is-stopped";

const CLEAR_EXAMPLES: &str = "Example:
  bulkhead pool clear tank

A suspended pool goes on with the devices that are back, if those that are still gone cannot alone hold what was
acknowledged; else the word for that is named.";

const CONFIRM_EXAMPLES: &str = "Example:
  bulkhead pool confirm tank --missing-devices-are-not-newer

Without a word it shows what is missing, and how old the rest is. A word is about that state only, and about
this head: the next start here, by hand or by Pacemaker, uses it up.";

const MOVE_EXAMPLES: &str = "Example:
  bulkhead pool move tank right

Run it on any head. It asks Pacemaker, waits until the pool and its addresses are served by that
head, and leaves no constraint behind.";

/// `pool move`
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// The pool
    pub pool: PoolName,
    /// The head that shall serve it
    pub head: HeadName,
    #[command(flatten)]
    pub appliance: ApplianceFile,
    /// Also when that head lacks keys of volumes that are served now
    #[arg(long)]
    pub without_keys: bool,
    /// What the heads of the appliance know, to recognise each other by
    #[arg(long, value_name = "FILE", default_value = appliance::plan::AUTHKEY_PATH)]
    pub peer_key: PathBuf,
    /// Port of the API of the other heads
    #[arg(long, value_name = "PORT", default_value_t = API_PORT)]
    pub peer_port: u16,
}

/// `pool create`
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The pool's name
    name: PoolName,
    /// Devices, with group words before them: mirror, raidz1, raidz2, raidz3, log, cache, spare
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// Set a property of the pool; may be repeated
    #[arg(long, short = 'o', value_name = "NAME=VALUE", value_parser = control::operations::property)]
    property: Vec<(String, String)>,
    /// Overwrite devices that carry the label of an exported or destroyed pool, or hold a file
    /// system or partitions
    #[arg(long)]
    overwrite_old_labels: bool,
}

/// `pool import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The pool
    pool: Option<PoolName>,
    /// The machine that used the pool last is switched off or will never touch it again
    #[arg(long, requires = "pool")]
    previous_owner_is_stopped: bool,
}

/// A pool and a device of it.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// The pool
    pool: PoolName,
    /// A device of the pool
    device: String,
}

/// `pool replace-disk`
#[derive(Debug, Args)]
pub struct ReplaceDiskArgs {
    /// The pool
    pool: PoolName,
    /// The disk to replace [default: the one that is bad]
    device: Option<String>,
    /// The new disk [default: the smallest unused one that is blank and large enough, else a spare]
    #[arg(long, value_name = "DISK")]
    with: Option<String>,
    /// Do it, and wait until the new disk holds everything
    #[arg(long)]
    yes: bool,
    /// Overwrite a disk that carries the label of an exported or destroyed pool, was a spare, or
    /// holds a file system or partitions
    #[arg(long)]
    overwrite_old_labels: bool,
}

impl ReplaceDiskArgs {
    fn plan(self) -> Result<Plan, Failure> {
        let device = self.device.as_deref().map(layout::member_path);
        let with = self.with.as_deref().map(layout::device_path);
        let request = PoolRequest::ReplaceDisk {
            device: device.transpose()?,
            with: with.transpose()?,
            overwrite: self.overwrite_old_labels,
            perform: self.yes,
        };
        Ok(match self.yes {
            true => Plan::Patiently(self.pool, request),
            false => Plan::Ask {
                pool: PoolSelector::Pool(self.pool),
                request: Request::Pool(request),
            },
        })
    }
}

/// `pool scrub`
#[derive(Debug, Args)]
pub struct ScrubArgs {
    /// The pool
    pool: PoolName,
    /// Stop for now and keep the place
    #[arg(long, conflicts_with_all = ["stop", "wait", "resume"])]
    pause: bool,
    /// Go on after a pause
    #[arg(long, conflicts_with = "stop")]
    resume: bool,
    /// Stop for good
    #[arg(long, conflicts_with = "wait")]
    stop: bool,
    /// Return when it has ended, and show the progress
    #[arg(long)]
    wait: bool,
    /// Scrub by itself from now on: `monthly`, `weekly on sunday at 02:00` (UTC); `none` ends it
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["pause", "resume", "stop", "wait"])]
    schedule: Option<String>,
}

impl PoolCommand {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        let ask = |pool: PoolName, request| {
            Ok(Plan::Ask {
                pool: PoolSelector::Pool(pool),
                request: Request::Pool(request),
            })
        };
        let path = layout::member_path;
        let new_path = layout::device_path;
        match self {
            Self::Create(args) => args.plan(),
            Self::List => Ok(Plan::Discover),
            Self::Import(args) => Ok(args.plan()),
            Self::Confirm { pool, said } => Ok(Plan::Confirm { pool, said }),
            Self::Status(pool) => Ok(Plan::Ask {
                pool: pool.into(),
                request: Request::Pool(PoolRequest::Status),
            }),
            Self::Events { pool, follow: true } => Ok(Plan::Follow(pool)),
            Self::Events { pool, .. } => ask(pool, PoolRequest::Events { after: None }),
            Self::Export { pool, in_use } => ask(pool, PoolRequest::Close { in_use }),
            Self::Move(args) => Ok(Plan::Move(args)),
            Self::Destroy {
                pool,
                yes_destroy_all_data,
                in_use,
            } => {
                let what = format!("pool {pool} would be lost with every volume and snapshot");
                confirmed(yes_destroy_all_data, "yes-destroy-all-data", &what)?;
                ask(pool, PoolRequest::Destroy { in_use })
            }
            Self::Scrub(args) => ask(args.pool.clone(), args.request()?),
            Self::Clear {
                pool,
                device,
                missing_devices_are_not_newer,
            } => {
                let device = device.as_deref().map(path).transpose()?;
                let clear = PoolRequest::Clear {
                    device,
                    missing_devices_are_not_newer,
                };
                ask(pool, clear)
            }
            Self::Attach {
                pool,
                device,
                new_device,
                overwrite_old_labels: overwrite,
            } => {
                let (existing, new) = (path(&device)?, new_path(&new_device)?);
                let request = PoolRequest::Attach {
                    existing,
                    new,
                    overwrite,
                };
                ask(pool, request)
            }
            Self::Replace {
                pool,
                device,
                new_device,
                overwrite_old_labels: overwrite,
            } => {
                let new = new_device.as_deref().map(new_path).transpose()?;
                let old = path(&device)?;
                let request = PoolRequest::Replace {
                    old,
                    new,
                    overwrite,
                };
                ask(pool, request)
            }
            Self::ReplaceDisk(args) => args.plan(),
            Self::Detach(args) => {
                let device = path(&args.device)?;
                ask(args.pool, PoolRequest::Detach { device })
            }
            Self::Online(args) => {
                let device = path(&args.device)?;
                ask(args.pool, PoolRequest::Online { device })
            }
            Self::Offline {
                device: args,
                temporary,
            } => {
                let device = path(&args.device)?;
                ask(args.pool, PoolRequest::Offline { device, temporary })
            }
            Self::Add {
                pool,
                devices,
                mismatched,
                overwrite_old_labels: overwrite,
            } => {
                let groups = layout::parse(&devices)?;
                let request = PoolRequest::Add {
                    groups,
                    mismatched,
                    overwrite,
                };
                ask(pool, request)
            }
            Self::Remove(args) => {
                let device = path(&args.device)?;
                ask(args.pool, PoolRequest::Remove { device })
            }
            Self::Get { pool, names } => ask(pool, PoolRequest::Get { names }),
            Self::Set { pool, properties } => {
                let properties = properties.into_iter().collect();
                ask(pool, PoolRequest::Set { properties })
            }
        }
    }
}

impl CreateArgs {
    fn plan(self) -> Result<Plan, Failure> {
        let groups = layout::parse(&self.devices)?;
        layout::has_data(&groups)?;
        Ok(Plan::Create(PoolCreate {
            name: self.name,
            groups,
            properties: self.property.into_iter().collect(),
            overwrite: self.overwrite_old_labels,
        }))
    }
}

impl ImportArgs {
    fn plan(self) -> Plan {
        match self.pool {
            None => Plan::Discover,
            Some(pool) => Plan::TakeOver {
                pool,
                previous_owner_is_stopped: self.previous_owner_is_stopped,
            },
        }
    }
}

impl ScrubArgs {
    fn request(&self) -> Result<PoolRequest, Failure> {
        if let Some(when) = &self.schedule {
            let when = match when.as_str() {
                "none" => None,
                when => Some(when.parse()),
            };
            let wrong = |error: control::schedule::ScheduleError| Failure::usage(error.to_string());
            let when = when.transpose().map_err(wrong)?;
            return Ok(PoolRequest::ScrubSchedule { when });
        }
        let action = match (self.pause, self.resume, self.stop) {
            (true, _, _) => ScrubAction::Pause,
            (_, true, _) => ScrubAction::Resume,
            (_, _, true) => ScrubAction::Stop,
            _ => ScrubAction::Start,
        };
        Ok(PoolRequest::Scrub {
            action,
            wait: self.wait,
        })
    }
}
