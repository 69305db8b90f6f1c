//! Converts a pool of one head to a pool of legs: its disks are recorded as those that hold all data, and legs of other
//! heads can be attached afterwards.
//!
//! The labels name the record before any member stores it. From then on the pool cannot be opened without it. A killed
//! command is repeated, and continues from the state that it finds: labels without a record, labels with one, or
//! members that store it.

use std::path::Path;

use control::answer::Done;
use control::{Answer, Failure, FailureKind};
use engine::Pool;
use engine::pool::Role;
use units::PoolName;

use crate::access::{Hold, hold};
use crate::common::Common;
use crate::open::{self, Access, PreviousOwner};
use crate::{audit, engines, managed, places};

/// Records the disks of `pool`, which has no server, by the leg configuration at `path`.
///
/// # Errors
///
/// The pool is in use, has disks that are not in the configuration, or has more than one copy of a device; a member
/// does not respond, or stores another pool of that number.
pub fn record_legs(
    common: &Common,
    pool: &PoolName,
    path: &Path,
    previous_owner_is_stopped: bool,
) -> Result<Answer, Failure> {
    let owner = match previous_owner_is_stopped {
        true => PreviousOwner::IsStopped,
        false => PreviousOwner::Unknown,
    };
    let audit = audit::path(common);
    audit::noted(&audit, "pool.record_legs", pool.as_str(), || {
        register_legs(common, pool, path, &owner)
    })
}

fn register_legs(
    common: &Common,
    pool: &PoolName,
    path: &Path,
    owner: &PreviousOwner,
) -> Result<Answer, Failure> {
    managed::refuse(common.maintenance, pool)?;
    let legs = engines::legs().pool(&common.directories(), pool, path)?;
    let Hold::Own(_lock) = hold(common, pool)? else {
        let message = format!("pool {pool} is served here");
        return Err(Failure::new(FailureKind::Busy, message)
            .advise(format!("end that first: `bulkhead pool export {pool}`")));
    };
    let mut options = open::small_engine(common, pool);
    options.legs = Some(Box::new(|own| legs.install(own)));
    let engine = engines::start(options)?;
    legs.are_present()?;
    let candidate = places::candidate_among(common, pool, &legs.own_paths(), &[])?;
    let is_labelled = candidate.devices.legs.record.is_some();
    // The leg-server releases the disks.
    let begun = legs.begin_record(&candidate)?;
    if !is_labelled {
        let opened = open::import(&*engine, common, pool, owner, Access::Change)?;
        let has_data_only = has_data_only(&*opened);
        open::export(opened)?;
        has_data_only?;
    }
    if !begun.is_taken_up() {
        let opened = legs.open_unrecorded(&*engine)?;
        let synced = opened.sync().map_err(operations::pool_failure);
        open::export(opened)?;
        synced?;
    }
    begun.finish()?;
    places::forget(common, pool);
    let path = legs.path().display();
    Ok(Done::changed(format!(
        "the disks of pool {pool} are on record at all members: `bulkhead pool-server {pool} --legs {path}` serves it, then `bulkhead pool \
         attach` adds the legs of other heads"
    )))
}

/// Whether the pool has nothing that is no leg.
fn has_data_only(pool: &dyn Pool) -> Result<(), Failure> {
    let status = pool.status().map_err(operations::pool_failure)?;
    let mut devices = status.devices.iter();
    match devices.find(|device| device.role != Role::Data) {
        None => Ok(()),
        Some(device) => {
            let (name, device) = (&status.name, &device.name);
            let message =
                format!("nothing was changed: {device} of pool {name} is no disk for data");
            Err(Failure::usage(message).advise(format!(
                "take it out of the pool: `bulkhead pool remove {name} {device}`"
            )))
        }
    }
}
