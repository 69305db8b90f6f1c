//! Changes to the devices of a pool of legs. The leg record lists the legs that hold all data. With a device outside
//! the record, the next head would not find the device and could not open the pool.

use std::path::{Path, PathBuf};

use control::Failure;
use control::operations::pool::{
    DeviceGroup, GroupRole, PoolRequest, add::Add, detach::Detach, layout, offline::Offline,
    remove::Remove,
};
use engine::pool::Role;

use super::{Context, failures};

/// Refuses changes that the record would not contain.
///
/// # Errors
///
/// Fails if the change is refused or the pool's state is not available.
pub fn check(context: &Context<'_>, request: &PoolRequest) -> Result<(), Failure> {
    let name = context.pool.name();
    let refused = |message: String, advice: String| Err(Failure::usage(message).advise(advice));
    match request {
        PoolRequest::Add(Add { groups, .. }) => {
            let is_cache = |group: &DeviceGroup| group.role == GroupRole::Cache;
            match groups.iter().all(is_cache) || group_of_legs(groups).is_some() {
                true => Ok(()),
                false => refused(
                    format!(
                        "the legs of pool {name} lie on several heads, and another head could not open it without a device of this one"
                    ),
                    "name one group of legs that legs.toml of each head names, as HEAD:PATH; a cache device of this head can be added, too: the pool \
                     does not need it"
                        .to_owned(),
                ),
            }
        }
        PoolRequest::Detach(Detach { device, .. }) => refused(
            format!(
                "{} is a leg: the record of the legs of pool {name} would not know that it is gone",
                device.display()
            ),
            format!(
                "to use a different disk instead: `bulkhead pool replace {name} HEAD:PATH HEAD:PATH`"
            ),
        ),
        PoolRequest::ReplaceDisk(_) => refused(
            format!(
                "the legs of pool {name} lie on several heads, and each is replaced by a disk of its own head"
            ),
            format!("`bulkhead pool replace {name} HEAD:PATH HEAD:PATH` does that"),
        ),
        PoolRequest::Plan(_) => refused(
            format!("the legs of pool {name} lie on several heads, whose sizes are not read here"),
            format!("`bulkhead pool status {name}` shows the legs, and the progress of a copy"),
        ),
        PoolRequest::Remove(Remove { device }) => for_data(context, device, "removed"),
        PoolRequest::Offline(Offline { device, .. }) => for_data(context, device, "taken offline"),
        // By the record.
        PoolRequest::Attach(_)
        | PoolRequest::Replace(_)
        | PoolRequest::Online(_)
        | PoolRequest::DiscardLeg(_)
        | PoolRequest::SetWitness(_)
        | PoolRequest::AddHead(_) => Ok(()),
        // These change no device. A new request must be classified here.
        PoolRequest::Export
        | PoolRequest::Close(_)
        | PoolRequest::Destroy(_)
        | PoolRequest::Clear(_)
        | PoolRequest::CopyRate(_)
        | PoolRequest::Get(_)
        | PoolRequest::LogLevel(_)
        | PoolRequest::ReadBalancing(_)
        | PoolRequest::Set(_)
        | PoolRequest::Status
        | PoolRequest::Iostat
        | PoolRequest::Events(_)
        | PoolRequest::History(_)
        | PoolRequest::Scrub(_)
        | PoolRequest::ScrubSchedule(_) => Ok(()),
    }
}

/// The group, if `groups` is one group of legs.
pub fn group_of_legs(groups: &[DeviceGroup]) -> Option<&DeviceGroup> {
    let [group] = groups else { return None };
    let is_kept = matches!(group.role, GroupRole::Data | GroupRole::Log);
    let is_leg = |device: &PathBuf| layout::is_leg(&device.to_string_lossy());
    (is_kept && group.devices.iter().all(is_leg)).then_some(group)
}

/// Devices that hold no data of their own are not legs.
fn for_data(context: &Context<'_>, device: &Path, what: &str) -> Result<(), Failure> {
    let status = context.pool.status().map_err(failures::pool)?;
    let found = status.find(&device.to_string_lossy());
    let is_leg =
        found.is_none_or(|found| !matches!(found.role, Role::Cache | Role::Log | Role::Spare));
    match is_leg {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "{} is a leg of pool {}, and is not {what} by hand: the record of the legs would not contain the change",
            device.display(),
            status.name
        ))
        .advise(
            "stop bulkhead-leg-server on its head, or pull the disk: the pool continues without it, and updates the record",
        )),
    }
}
