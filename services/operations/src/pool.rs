//! Requests about the pool itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use control::answer::{Done, PoolStatus as PoolState, Property};
use control::operations::pool::{
    DeviceGroup, GroupKind, GroupRole, PoolRequest, add::Add, add_head::AddHead, attach::Attach,
    clear::Clear, copy_rate::CopyRate, create::PoolCreate, destroy, destroy::Destroy,
    detach::Detach, discard_leg::DiscardLeg, events::Events, get::Get, history::History,
    log_level::LogLevel, offline::Offline, online::Online, plan::Plan,
    read_balancing::ReadBalancing, remove::Remove, replace::Replace, replace_disk::ReplaceDisk,
    scrub::Scrub, scrub_schedule::ScrubSchedule, set::Set, set_witness::SetWitness,
};
use control::operations::property_names;
use control::request::Properties;
use control::words::bytes;
use control::{Answer, Failure, FailureKind};
use engine::pool::{
    DeviceState, DeviceStatus, GroupSpec, PoolError, PoolErrorKind, PoolSpec, PoolStatus, Restart,
    Resumption, Role,
};
use leg_door::{LegRequest, MemberRequest};

use super::loss::Loss;
use super::redundancy::{self, Left};
use super::spare;
use super::volume::chosen;
use super::{
    Context, copy_rate, events, failures, growth, history, legs, read_balancing, replace, scrub,
    status,
};
use crate::needs;

/// Converts a `create` request into the engine's pool specification.
pub fn spec(create: &PoolCreate) -> PoolSpec {
    PoolSpec {
        name: create.name.clone(),
        groups: groups(&create.groups),
        properties: pairs(&create.properties),
        overwrite: create.overwrite,
        record: None,
    }
}

fn pairs(properties: &Properties) -> Vec<(String, String)> {
    let pairs = properties.iter();
    pairs
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

pub(crate) fn groups(groups: &[DeviceGroup]) -> Vec<GroupSpec> {
    let group = |group: &DeviceGroup| GroupSpec {
        kind: match group.kind {
            GroupKind::Stripe => engine::pool::GroupKind::Stripe,
            GroupKind::Mirror => engine::pool::GroupKind::Mirror,
            GroupKind::Raidz { parity: 3 } => engine::pool::GroupKind::Raidz3,
            GroupKind::Raidz { parity: 2 } => engine::pool::GroupKind::Raidz2,
            GroupKind::Raidz { .. } => engine::pool::GroupKind::Raidz1,
        },
        role: match group.role {
            GroupRole::Data => engine::pool::GroupRole::Data,
            GroupRole::Log => engine::pool::GroupRole::Log,
            GroupRole::Cache => engine::pool::GroupRole::Cache,
            GroupRole::Spare => engine::pool::GroupRole::Spare,
        },
        devices: group.devices.clone(),
    };
    groups.iter().map(group).collect()
}

fn no_legs() -> Result<Answer, Failure> {
    let message = "the pool has no legs on several heads that a server has open";
    Err(Failure::new(FailureKind::Unavailable, message))
}

/// Retries a leg, or all legs with too many failures, because the errors of a pool are cleared after its devices were
/// checked. Returns the retried legs.
fn retry_legs(context: &Context<'_>, device: Option<String>) -> Vec<String> {
    let mut legs = match device {
        Some(device) => vec![device],
        None => context.hooks.held_legs(),
    };
    legs.retain(|leg| {
        let answer = context.hooks.leg(leg, LegRequest::Readmit);
        matches!(answer, Some(Ok(_)))
    });
    legs
}

fn exit_for_restart(context: &Context<'_>, anew: Restart) -> Result<Answer, Failure> {
    let without: Vec<_> = anew.without.iter().map(|path| path.display()).collect();
    let without: Vec<String> = without.iter().map(ToString::to_string).collect();
    let without = match without.as_slice() {
        [] => "with all its devices".to_owned(),
        some => format!("without {}", some.join(", ")),
    };
    context.hooks.exit_for_restart(anew)?;
    let name = context.pool.name();
    Ok(Done::changed(format!(
        "the server of pool {name} terminates, and the next start continues {without}; if neither Pacemaker nor systemd starts it, \
         start it again here"
    )))
}

/// Performs the requests that need only the state of the pool. A server uses its last cached state, so that the request
/// never blocks on a device.
pub fn of_state(request: &PoolRequest) -> Option<fn(PoolState) -> Answer> {
    match request {
        PoolRequest::Status => Some(|state| Answer::Pool(Box::new(state))),
        PoolRequest::Iostat => Some(|state| Answer::Load(Box::new(state.load))),
        _ => None,
    }
}

/// Performs one request. The caller itself performs those that close the pool.
pub fn perform(
    context: &Context<'_>,
    request: PoolRequest,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let pool = context.pool;
    let name = pool.name();
    if let Some(answer) = of_state(&request) {
        return status::alone(context).map(answer);
    }
    if context.hooks.has_legs() {
        legs::check(context, &request)?;
    }
    match request {
        PoolRequest::Destroy(Destroy { preview, .. }) if preview.is_wanted() => {
            let shown = Loss::of_pool(context)?.preview::<destroy::Arguments>(preview, None)?;
            Ok(shown.expect("a preview is wanted"))
        }
        PoolRequest::Export | PoolRequest::Close(_) | PoolRequest::Destroy(_) => Err(Failure::new(
            FailureKind::Failed,
            "only the owner of the pool can end it",
        )),
        PoolRequest::Scrub(Scrub { action, wait }) => {
            scrub::perform(context, action, wait, progress)
        }
        PoolRequest::ScrubSchedule(ScrubSchedule { when }) => scrub::set_schedule(context, when),
        PoolRequest::CopyRate(CopyRate { max }) => copy_rate::perform(context, max),
        PoolRequest::ReadBalancing(ReadBalancing { mode }) => {
            read_balancing::perform(context, mode)
        }
        PoolRequest::Clear(Clear {
            device,
            missing_devices_are_not_newer,
        }) => {
            let device = device.as_deref().map(text);
            let goes_on =
                needs(pool.upkeep())?.resume_pool(device.as_deref(), missing_devices_are_not_newer);
            match goes_on.map_err(failures::pool)? {
                Resumption::InPlace => {
                    let tried = retry_legs(context, device.clone());
                    let status = pool.status().map_err(failures::pool)?;
                    if let Some(device) = device.filter(|_| tried.is_empty()) {
                        refuse_unused(&status, &device)?;
                    }
                    let tried = tried
                        .iter()
                        .map(|leg| format!("; leg {leg} is tried again now"));
                    let unused = status.leaves().into_iter().filter(|leaf| is_unused(leaf));
                    let unused = unused.map(|leaf| format!("; {}", unused_reason(leaf)));
                    Ok(Done::changed(format!(
                        "cleared the errors of pool {name}{}",
                        tried.chain(unused).collect::<String>()
                    )))
                }
                Resumption::Restart(anew) => exit_for_restart(context, anew),
            }
        }
        PoolRequest::Attach(Attach {
            existing,
            new,
            overwrite,
        }) => {
            let word = LegRequest::Attach {
                new: text(&new),
                overwrite,
            };
            if let Some(answer) = context.hooks.leg(&text(&existing), word) {
                return answer;
            }
            joined(needs(pool.devices())?.attach(&text(&existing), &new, overwrite))?;
            let attached = attached(&text(&existing), &new);
            Ok(Done::changed(attached + &while_served(context)))
        }
        PoolRequest::Detach(Detach {
            device,
            without_redundancy,
        }) => {
            let before = pool.status().map_err(failures::pool)?;
            let left = redundancy::after_detach(&before, &text(&device));
            let left = confirmed(left, without_redundancy)?;
            done(needs(pool.devices())?.detach(&text(&device)))?;
            // The device is detached, whether or not the new size is available.
            let grown = pool.status().ok();
            let grown = grown.and_then(|now| grown_without(&before, &now, &text(&device)));
            let grown = grown.map_or_else(String::new, |grown| format!("; {grown}"));
            Ok(Done::changed(format!(
                "detached {}{grown}{left}",
                device.display()
            )))
        }
        PoolRequest::Replace(Replace {
            old,
            new,
            overwrite,
        }) => {
            let word = LegRequest::Replace {
                new: new.as_deref().map(text),
                overwrite,
            };
            if let Some(answer) = context.hooks.leg(&text(&old), word) {
                return answer;
            }
            let new = new.unwrap_or_else(|| old.clone());
            let status = pool.status().map_err(failures::pool)?;
            spare::refuse_second(&status, &text(&old), &text(&new))?;
            joined(needs(pool.devices())?.replace(&text(&old), &new, overwrite))?;
            let (old, new) = (old.display(), new.display());
            Ok(Done::changed(format!(
                "{new} replaces {old} as soon as it is resilvered{}",
                while_served(context)
            )))
        }
        PoolRequest::ReplaceDisk(ReplaceDisk {
            device,
            with,
            overwrite,
            perform,
        }) => {
            let options = replace::ReplaceOptions {
                device,
                with,
                overwrite,
            };
            match perform {
                true => replace::perform(context, &options, progress),
                false => replace::plan(context, &options),
            }
        }
        PoolRequest::DiscardLeg(DiscardLeg { leg }) => {
            let answer = context.hooks.leg(&leg, LegRequest::Discard);
            answer.unwrap_or_else(no_legs)
        }
        PoolRequest::SetWitness(SetWitness { witness }) => {
            let word = MemberRequest::Witness(witness.as_deref());
            context.hooks.change_members(word).unwrap_or_else(no_legs)
        }
        PoolRequest::AddHead(AddHead { head }) => {
            let word = MemberRequest::Head(&head);
            context.hooks.change_members(word).unwrap_or_else(no_legs)
        }
        PoolRequest::LogLevel(LogLevel { filter }) => context.hooks.log_filter(filter.as_deref()),
        PoolRequest::Online(Online { device, expand }) => {
            if let Some(answer) = context.hooks.leg(&text(&device), LegRequest::Readmit) {
                return answer;
            }
            done(needs(pool.devices())?.online(&text(&device), expand))?;
            let status = pool.status().map_err(failures::pool)?;
            refuse_unused(&status, &text(&device))?;
            Ok(Done::changed(match expand {
                true => format!("{} is used with all of its size", device.display()),
                false => format!("{} is used again", device.display()),
            }))
        }
        PoolRequest::Offline(Offline {
            device,
            temporary,
            without_redundancy,
        }) => {
            let before = pool.status().map_err(failures::pool)?;
            let left = redundancy::after_offline(&before, &text(&device));
            let left = confirmed(left, without_redundancy)?;
            done(needs(pool.devices())?.offline(&text(&device), temporary))?;
            Ok(Done::changed(format!(
                "{} is not used{left}",
                device.display()
            )))
        }
        PoolRequest::Plan(Plan { change }) => growth::perform(context, &change),
        PoolRequest::Events(Events { after }) => events::list(pool, after),
        PoolRequest::History(History { limit }) => history::list(pool, limit),
        PoolRequest::Add(Add {
            groups: new,
            mismatched,
            overwrite,
        }) => {
            let of_legs = legs::group_of_legs(&new).filter(|_| context.hooks.has_legs());
            let mismatch = match mismatched {
                true => None,
                false => {
                    let status = pool.status().map_err(failures::pool)?;
                    let groups = groups(&new);
                    refuse_mismatched(&status, &groups, of_legs.is_some())
                        .and_then(|()| spare::refuse_small(&status, &groups))
                        .err()
                }
            };
            if let Some(group) = of_legs.cloned() {
                let first = group
                    .devices
                    .first()
                    .map(|leg| text(leg))
                    .unwrap_or_default();
                let add = LegRequest::Add {
                    group,
                    overwrite,
                    mismatch,
                };
                return context.hooks.leg(&first, add).unwrap_or_else(no_legs);
            }
            if let Some(mismatch) = mismatch {
                return Err(mismatch);
            }
            let before = ashifts(&pool.status().map_err(failures::pool)?);
            joined(needs(pool.devices())?.add(&groups(&new), overwrite))?;
            // The group is added, whether or not its sectors are known.
            let status = pool.status().ok();
            let now = status.as_ref().map(ashifts).unwrap_or_default();
            let mut note = match now.len() > before.len().max(1) {
                true => format!("; {}", different_sectors(&now)),
                false => String::new(),
            };
            if let Some(unused) = spare::unused_space(&groups(&new)) {
                note.push_str(&format!("; {unused}"));
            }
            if let Some(small) = status.and_then(|status| spare::too_small_for_some(&status, &new))
            {
                note.push_str(&format!("; {small}"));
            }
            Ok(Done::changed(format!(
                "{}{note}",
                joined_groups(name.as_str(), &new)
            )))
        }
        PoolRequest::Remove(Remove { device }) => {
            let status = pool.status().map_err(failures::pool)?;
            let moves = status
                .find(&text(&device))
                .is_some_and(|found| found.role == Role::Data);
            let removed = needs(pool.devices())?.remove(&text(&device));
            removed.map_err(|error| removal_failure(&status, error))?;
            let device = device.display();
            Ok(Done::changed(match moves {
                true => format!(
                    "{device} leaves the pool as soon as its data is moved to the other groups{}",
                    while_served(context)
                ),
                false => format!("{device} leaves the pool"),
            }))
        }
        PoolRequest::Get(Get { names }) => get(context, &names),
        PoolRequest::Status | PoolRequest::Iostat => unreachable!("answered from the pool's state"),
        PoolRequest::Set(Set { properties }) => {
            let set = needs(pool.pool_properties())?.set_properties(&pairs(&properties));
            set.map_err(|error| {
                let value = |property: &str| properties.get(property).map(String::as_str);
                super::properties::of_pool(context, error, value)
            })?;
            let names: Vec<&str> = properties.keys().map(String::as_str).collect();
            Ok(Done::changed(format!("set {} of {name}", names.join(", "))))
        }
    }
}

/// The end of a sentence about work that continues in the background.
pub fn while_served(context: &Context<'_>) -> String {
    let name = context.pool.name();
    match context.hooks.is_server() {
        true => String::new(),
        false => format!(
            ", which proceeds only while the pool is served: `bulkhead pool-server {name}` starts its server"
        ),
    }
}

/// The end of the sentence about a change after which `left` is the redundancy.
fn confirmed(left: Option<Left<'_>>, is_confirmed: bool) -> Result<String, Failure> {
    match left {
        None => Ok(String::new()),
        Some(left) if is_confirmed => Ok(format!("; {}", left.sentence())),
        Some(left) => {
            left.refuse_none("--without-redundancy")?;
            Ok(format!("; {}", left.sentence()))
        }
    }
}

/// Whether the device is out of use for a reason that this request did not remove.
fn is_unused(device: &DeviceStatus) -> bool {
    let is_out = matches!(
        device.state,
        DeviceState::Faulted | DeviceState::Removed | DeviceState::Unavailable
    );
    is_out && device.role != Role::Spare
}

fn unused_reason(device: &DeviceStatus) -> String {
    let reason = device.reason.as_deref().map(|reason| format!(": {reason}"));
    format!(
        "{} is still {}{}",
        device.name,
        status::word(device.state),
        reason.unwrap_or_default()
    )
}

/// Fails if the pool does not use `device`, although the library accepted the request.
fn refuse_unused(status: &PoolStatus, device: &str) -> Result<(), Failure> {
    let Some(found) = status.find(device).filter(|found| is_unused(found)) else {
        return Ok(());
    };
    let pool = &status.name;
    let advice = match found.state {
        DeviceState::Faulted => format!(
            "`bulkhead pool clear {pool} {device}` retries it; `bulkhead pool replace {pool} {device} NEW` replaces it"
        ),
        _ => format!(
            "correct that and repeat the command, or replace it: `bulkhead pool replace {pool} {device} NEW`"
        ),
    };
    Err(Failure::new(FailureKind::Unavailable, unused_reason(found)).advise(advice))
}

/// The growth of a pool by the detach of `device`, which can be too small to be attached again.
fn grown_without(before: &PoolStatus, now: &PoolStatus, device: &str) -> Option<String> {
    if now.size_bytes <= before.size_bytes {
        return None;
    }
    let size = spare::size_of(Path::new(device));
    let is_small = size.is_some_and(|size| !now.too_large_for(size).is_empty());
    let small = match is_small {
        true => format!(", so that {device} is too small to be attached again"),
        false => String::new(),
    };
    Some(format!(
        "pool {} has grown from {} to {} at once (autoexpand=on){small}",
        now.name,
        bytes(before.size_bytes),
        bytes(now.size_bytes)
    ))
}

/// The result of an `add`: only groups of data widen the pool.
fn joined_groups(pool: &str, new: &[DeviceGroup]) -> String {
    if new.iter().any(|group| group.role == GroupRole::Data) {
        return format!("pool {pool} is wider");
    }
    let more = new.iter().map(|group| {
        let devices: Vec<_> = group.devices.iter().map(|path| text(path)).collect();
        let role = match group.role {
            GroupRole::Spare => "spare",
            GroupRole::Log => "log",
            GroupRole::Cache => "cache",
            GroupRole::Data => "group",
        };
        format!("a {role} more: {}", devices.join(", "))
    });
    format!("pool {pool} has {}", more.collect::<Vec<_>>().join("; "))
}

/// Explains the refusal to remove a group by the sector sizes of the pool.
fn removal_failure(status: &PoolStatus, error: PoolError) -> Failure {
    let shifts = ashifts(status);
    let failure = failures::pool(error);
    match shifts.len() > 1 && failure.kind == FailureKind::Usage {
        false => failure,
        true => Failure::new(
            failure.kind,
            format!("{}; {}", failure.message, different_sectors(&shifts)),
        )
        .advise(format!(
            "move the data to a new pool instead: `bulkhead snapshot send`, or `bulkhead replicate` from pool {}",
            status.name
        )),
    }
}

/// The sector sizes of the groups of data, as `ashift`.
pub(crate) fn ashifts(status: &PoolStatus) -> BTreeSet<u64> {
    let groups = status.devices.iter();
    let is_data = |group: &&DeviceStatus| group.role == Role::Data && group.kind != "indirect";
    let data = groups.filter(is_data).filter(|group| group.ashift > 0);
    data.map(|group| group.ashift).collect()
}

pub(crate) fn different_sectors(shifts: &BTreeSet<u64>) -> String {
    let shifts: Vec<String> = shifts.iter().map(ToString::to_string).collect();
    format!(
        "its groups of data have different sector sizes (ashift {}), so that none of them can be removed again",
        shifts.join(" and ")
    )
}

/// Redundancy of a group of data: how it is made, and devices that may fail.
#[derive(PartialEq, Eq)]
struct Redundancy {
    kind: &'static str,
    losses_max: usize,
}

impl std::fmt::Display for Redundancy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.kind, self.losses_max) {
            ("mirror", losses) => write!(f, "a mirror of {}", losses + 1),
            ("raidz", parity) => write!(f, "raidz{parity}"),
            ("draid", parity) => write!(f, "draid{parity}"),
            (kind, _) => f.write_str(kind),
        }
    }
}

fn redundancy_of(group: &GroupSpec) -> Redundancy {
    let (kind, losses_max) = match group.kind {
        engine::pool::GroupKind::Stripe => ("a single device", 0),
        engine::pool::GroupKind::Mirror => ("mirror", group.devices.len().saturating_sub(1)),
        engine::pool::GroupKind::Raidz1 => ("raidz", 1),
        engine::pool::GroupKind::Raidz2 => ("raidz", 2),
        engine::pool::GroupKind::Raidz3 => ("raidz", 3),
    };
    Redundancy { kind, losses_max }
}

fn redundancy_in(group: &DeviceStatus) -> Redundancy {
    let (kind, losses_max) = match group.kind.as_str() {
        "mirror" => ("mirror", group.children.len().saturating_sub(1)),
        "raidz" => ("raidz", parity_in(&group.name, "raidz")),
        "draid" => ("draid", parity_in(&group.name, "draid")),
        "file" | "disk" | "replacing" | "spare" => ("a single device", 0),
        // No group that can be added matches it, so confirmation is required.
        _ => ("a group of another kind", usize::MAX),
    };
    Redundancy { kind, losses_max }
}

/// The parity of a group by its name, such as `raidz2-0` or `draid2:8d:11c:1s-0`; without a number it is 1.
pub(crate) fn parity_in(name: &str, kind: &str) -> usize {
    let digit = name.strip_prefix(kind).and_then(|rest| rest.chars().next());
    let digit = digit.and_then(|digit| digit.to_digit(10));
    digit.map_or(1, |digit| digit as usize)
}

/// The loss of any data group is the loss of the pool. One group with less redundancy renders the
/// redundancy of the rest worthless. `are_legs`: the group is one of legs.
pub(crate) fn refuse_mismatched(
    status: &PoolStatus,
    new: &[GroupSpec],
    are_legs: bool,
) -> Result<(), Failure> {
    let is_data = |group: &&DeviceStatus| group.role == Role::Data;
    let present = status.devices.iter().find(is_data);
    let Some((name, present)) = present.map(|group| (&group.name, redundancy_in(group))) else {
        return Ok(());
    };
    let is_new_data = |group: &&GroupSpec| group.role == engine::pool::GroupRole::Data;
    for new in new.iter().filter(is_new_data).map(redundancy_of) {
        let is_stronger = new.kind == present.kind && new.losses_max > present.losses_max;
        if new == present || is_stronger {
            continue;
        }
        let message = format!(
            "{new} would join {name}, which is {present}, and the pool is lost with any of them"
        );
        let advice = match are_legs {
            true => format!(
                "write {present} into legs.toml of each head instead: a group of legs cannot be removed; if you intend that, add --mismatched"
            ),
            false => format!(
                "add {present} (write the group type before the devices); a spare is added by \
                 `pool add {} spare DEVICE`; if you intend that, add --mismatched",
                status.name
            ),
        };
        return Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(advice));
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A device that was refused for its label can be used with an explicit flag.
pub(crate) fn joined(result: Result<(), PoolError>) -> Result<(), Failure> {
    result.map_err(|error| match error.kind {
        PoolErrorKind::DeviceInPool { .. }
        | PoolErrorKind::DeviceKept { .. }
        | PoolErrorKind::DeviceHolds { .. } => failures::pool(error).advise(
            "--overwrite-old-labels permits devices of pools that are not in use, or with other contents",
        ),
        _ => failures::pool(error),
    })
}

/// Describes the result of an attach: to another device or, by its name in `status`, to a raidz.
fn attached(existing: &str, new: &Path) -> String {
    let new = new.display();
    if existing.starts_with("raidz") {
        format!("{new} widens {existing} as soon as the data is spread over all its devices")
    } else {
        format!("{new} mirrors {existing} as soon as it is resilvered")
    }
}

fn done<T>(result: Result<T, PoolError>) -> Result<T, Failure> {
    result.map_err(failures::pool)
}

fn get(context: &Context<'_>, names: &[String]) -> Result<Answer, Failure> {
    let found = needs(context.pool.pool_properties())?
        .properties()
        .map_err(failures::pool)?;
    let all: BTreeMap<String, Property> = found
        .into_iter()
        .map(|property| {
            let source = if property.is_set { "local" } else { "-" };
            let source = source.to_owned();
            let value = property.value;
            (property.name, Property { value, source })
        })
        .collect();
    let all = without_uncounted(all);
    let names = property_names(names);
    chosen(all, &names, context.pool.name().as_str()).map(Answer::Properties)
}

/// Properties that the library derives from the space maps, which it does not read in a pool that is open read-only.
const COUNTED: [&str; 5] = [
    "allocated",
    "capacity",
    "expandsize",
    "fragmentation",
    "free",
];

/// Replaces the values that are not known of a pool that is open read-only, as without a server.
fn without_uncounted(mut all: BTreeMap<String, Property>) -> BTreeMap<String, Property> {
    if all.get("readonly").is_some_and(|one| one.value == "on") {
        for name in COUNTED {
            if let Some(property) = all.get_mut(name) {
                "-".clone_into(&mut property.value);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use engine::pool::DeviceState;

    use super::*;
    use crate::replace;

    fn group(name: &str, kind: &str) -> DeviceStatus {
        replace::tests::device(name, kind, DeviceState::Online)
    }

    /// Pools of other software have groups that cannot be made here.
    #[test]
    fn single_device_is_added_to_a_redundant_pool_with_flag_only() {
        let single = GroupSpec {
            kind: engine::pool::GroupKind::Stripe,
            role: engine::pool::GroupRole::Data,
            devices: vec!["/new".into()],
        };
        for (name, kind, asks) in [
            ("/a", "disk", false),
            ("replacing-0", "replacing", false),
            ("raidz2-0", "raidz", true),
            ("draid2:8d:11c:1s-0", "draid", true),
            ("new-0", "a kind of tomorrow", true),
        ] {
            let status = PoolStatus {
                devices: vec![group(name, kind)],
                ..replace::tests::mirror(Vec::new())
            };
            let refused = refuse_mismatched(&status, std::slice::from_ref(&single), false);
            assert_eq!(refused.is_err(), asks, "{name}");
        }
        let status = PoolStatus {
            devices: vec![group("raidz2-0", "raidz")],
            ..replace::tests::mirror(Vec::new())
        };
        let refused = refuse_mismatched(&status, &[single], true).expect_err("it has one leg");
        assert_eq!(refused.kind, FailureKind::NeedsConfirmation);
        let advice = refused.advice.expect("a remedy");
        assert!(advice.contains("legs.toml of each head"), "{advice}");
        let parity = |name: &str, kind: &str| redundancy_in(&group(name, kind)).losses_max;
        assert_eq!(parity("raidz3-1", "raidz"), 3);
        assert_eq!(parity("draid2:8d:11c:1s-0", "draid"), 2);
        assert_eq!(parity("draid:8d:11c-0", "draid"), 1);
    }
}
