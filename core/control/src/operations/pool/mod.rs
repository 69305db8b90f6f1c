//! Pools and their devices.

pub mod create;
pub mod layout;

use std::path::{Component, Path, PathBuf};

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{PoolSelector, noun};
use crate::effect::change_unless;
use crate::{Effect, Failure};

noun! {
    /// Requests about the pool.
    PoolRequest, PoolCommand, "pool";
    verbs {
        close::Close as "export",
        destroy::Destroy,
        clear::Clear,
        attach::Attach,
        detach::Detach,
        discard_leg::DiscardLeg,
        set_witness::SetWitness,
        add_head::AddHead,
        replace::Replace,
        replace_disk::ReplaceDisk,
        online::Online,
        offline::Offline,
        add::Add,
        remove::Remove,
        get::Get,
        history::History,
        plan::Plan,
        set::Set,
        copy_rate::CopyRate,
        read_balancing::ReadBalancing,
        log_level::LogLevel,
    }
    bare { status::Status, iostat::Iostat }
    nouns {}
    wire_only { events::Events, scrub::Scrub, scrub_schedule::ScrubSchedule }
    bare_wire_only { export::Export }
}

/// The redundancy of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// Each device for itself.
    Stripe,
    /// All devices hold the same.
    Mirror,
    /// One, two or three devices of the group may fail.
    Raidz {
        /// 1, 2 or 3.
        parity: u8,
    },
}

/// The purpose of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupRole {
    /// Holds data.
    Data,
    /// Holds the intent log of synchronous writes.
    Log,
    /// Second-level read cache.
    Cache,
    /// Hot spare.
    Spare,
}

/// Devices that are added to a pool together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceGroup {
    /// Their redundancy.
    pub kind: GroupKind,
    /// Their purpose.
    pub role: GroupRole,
    /// Files or block devices.
    pub devices: Vec<PathBuf>,
}

/// A pool and a device of it.
#[derive(Debug, Args)]
struct DeviceArguments {
    /// The pool
    pool: PoolName,
    /// A device of the pool
    device: String,
}

impl DeviceArguments {
    fn read(self) -> Result<(PoolSelector, PathBuf), Failure> {
        let device = layout::member_path(&self.device)?;
        Ok((PoolSelector::Pool(self.pool), device))
    }
}

/// `--overwrite-old-labels`
#[derive(Debug, Args)]
struct OverwriteOption {
    /// Overwrite devices that have the label of an exported or destroyed pool, were spares, or
    /// contain a file system or partitions
    #[arg(long = "overwrite-old-labels")]
    overwrite: bool,
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the effect of a device that joins a pool: with `overwrite` its contents are lost. Daily work is allowed with
/// disks only: an ordinary file that joins is overwritten, whatever it contains. `new` is none where the device of the
/// pool is replaced by itself.
fn joins(device: &Path, new: Option<&Path>, overwrite: bool) -> Effect {
    match overwrite {
        true => Effect::Destroy(vec![text(device)]),
        false => change_unless(!new.is_none_or(is_disk)),
    }
}

/// Returns whether its name is that of a disk: in `/dev`, or a leg.
fn is_disk(path: &Path) -> bool {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    let is_in_dev = path.starts_with("/dev") && path.components().all(is_plain);
    is_in_dev || layout::is_leg(&path.to_string_lossy())
}

fn grows(groups: &[DeviceGroup], overwrite: bool) -> Effect {
    let devices = groups.iter().flat_map(|group| &group.devices);
    match overwrite {
        true => Effect::Destroy(devices.map(|device| text(device)).collect()),
        false => Effect::Govern,
    }
}
