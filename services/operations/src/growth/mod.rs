//! The growth of a pool: long work on its devices with its progress, and the consequences of a change of the devices
//! before it is made.

pub mod plan;
mod rate;
#[cfg(test)]
mod tests;
pub mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use control::copy_rate::RateMax;
use control::operations::pool::plan::PlannedChange;
use control::{Answer, Failure};
use engine::pool::{DeviceStatus, PoolStatus};

use super::space::{self, Promises};
use super::{Context, copy_rate, failures, pool, spare};
use crate::needs;
use plan::Facts;

/// Returns the consequences of `change` without making it.
///
/// # Errors
///
/// The state of the pool is not available. A change that would be refused is a part of the response.
pub fn perform(context: &Context<'_>, change: &PlannedChange) -> Result<Answer, Failure> {
    let facts = facts(context, change)?;
    let mut view = plan::plan(&facts, change);
    if view.refused.is_none() {
        view.refused = refusal(context, &facts.status, change).map(|failure| sentence(&failure));
    }
    if let (None, PlannedChange::Add { groups }) = (&view.refused, change) {
        view.notes
            .extend(spare::unused_space(&pool::groups(groups)));
    }
    Ok(Answer::Plan(Box::new(view)))
}

fn facts(context: &Context<'_>, change: &PlannedChange) -> Result<Facts, Failure> {
    let status = context.pool.status().map_err(failures::pool)?;
    let space = match status.suspended {
        Some(_) => None,
        None => Some(space::look(context.pool, &Promises::of(context.pool)?)?),
    };
    let properties = needs(context.pool.pool_properties())
        .and_then(|all| all.properties().map_err(failures::pool))
        .unwrap_or_default();
    let mut autoexpand = properties
        .iter()
        .filter(|property| property.name == "autoexpand");
    let members = status.leaves().into_iter();
    let members = members.map(|leaf| PathBuf::from(&leaf.name));
    let new = change.new_devices().into_iter().cloned();
    let sizes = members
        .chain(new)
        .filter_map(|path| Some((path.clone(), spare::size_of(&path)?)));
    Ok(Facts {
        sizes: sizes.collect::<BTreeMap<_, _>>(),
        space,
        is_autoexpand: autoexpand.any(|property| property.value == "on"),
        copy_rate_max: copy_rate::stored(context.pool)
            .ok()
            .flatten()
            .and_then(RateMax::bytes_per_s),
        status,
    })
}

/// Checks the new devices as the change does.
fn refusal(context: &Context<'_>, status: &PoolStatus, change: &PlannedChange) -> Option<Failure> {
    let devices = match needs(context.pool.devices()) {
        Ok(devices) => devices,
        Err(failure) => return Some(failure),
    };
    let checked = match change {
        PlannedChange::Add { groups } => {
            let groups = pool::groups(groups);
            let matching = pool::refuse_mismatched(status, &groups, false)
                .and_then(|()| spare::refuse_small(status, &groups));
            if let Err(failure) = matching {
                return Some(failure);
            }
            let new = groups.into_iter().flat_map(|group| group.devices);
            devices.check_new(&new.collect::<Vec<_>>())
        }
        PlannedChange::Attach { existing: _, new } => devices.check_new(std::slice::from_ref(new)),
        PlannedChange::Replace { old, new } => {
            let old = old.to_string_lossy();
            if let Err(failure) = spare::refuse_second(status, &old, &new.to_string_lossy()) {
                return Some(failure);
            }
            let needed = status.find(&old).map_or(0, |found| found.needed_bytes);
            devices.check_replace(&old, new, needed, false)
        }
        PlannedChange::Remove { .. } | PlannedChange::Expand { .. } => Ok(()),
    };
    pool::joined(checked).err()
}

fn sentence(failure: &Failure) -> String {
    match &failure.advice {
        Some(advice) => format!("{}; {advice}", failure.message),
        None => failure.message.clone(),
    }
}

/// The group at the top of the tree that is, or contains, the device.
fn group_of<'a>(status: &'a PoolStatus, device: &Path) -> Option<&'a DeviceStatus> {
    fn has(group: &DeviceStatus, guid: u64) -> bool {
        group.guid == guid || group.children.iter().any(|child| has(child, guid))
    }
    let found = status.find(&device.to_string_lossy())?;
    status.devices.iter().find(|group| has(group, found.guid))
}
