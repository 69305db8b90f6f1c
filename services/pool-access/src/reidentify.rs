//! Converts copies of a pool's devices to a separate pool: with a new GUID, a new name, and new identities of its
//! volumes.
//!
//! Only the devices that the administrator names are opened. Those of the original can be attached to the same host, be
//! served, or be at the paths that the copies' labels contain.

use std::path::PathBuf;

use control::answer::Done;
use control::{Answer, Failure, FailureKind};
use engine::Pool;
use engine::pool::legs::{Confirmation, Evidence, Verdict};
use engine::pool::{
    Candidate, CandidateState, DeviceState, DeviceStatus, ImportOptions, PoolErrorKind,
};
use operations::{Context, DocumentCache, NoServer};
use units::PoolName;

use crate::access::{Hold, hold};
use crate::common::Common;
use crate::engines::Search;
use crate::open::{self, PreviousOwner};
use crate::{audit, engines, places};

/// Converts the copies of devices of `pool` at `devices` to a pool `name`, and exports it.
///
/// # Errors
///
/// A device is no copy of one of that pool, too few are named, or a process has one open.
pub fn reidentify(
    common: &Common,
    pool: &PoolName,
    name: &PoolName,
    devices: &[PathBuf],
    previous_owner_is_stopped: bool,
) -> Result<Answer, Failure> {
    let owner = match previous_owner_is_stopped {
        true => PreviousOwner::IsStopped,
        false => PreviousOwner::Unknown,
    };
    let audit = audit::path(common);
    audit::noted(&audit, "pool.reidentify", pool.as_str(), || {
        make_own(common, pool, name, devices, &owner)
    })
}

fn make_own(
    common: &Common,
    pool: &PoolName,
    name: &PoolName,
    devices: &[PathBuf],
    owner: &PreviousOwner,
) -> Result<Answer, Failure> {
    operations::refuse_space(name.as_str())?;
    let Hold::Own(_lock) = hold(common, name)? else {
        return Err(taken(name));
    };
    let candidate = copies(pool, name, devices)?;
    let is_other = |other: &Candidate| other.name == name.as_str() && other.guid != candidate.guid;
    if places::candidates(common, Some(name))?.iter().any(is_other) {
        return Err(taken(name));
    }
    let engine = engines::start(open::small_engine(common, pool))?;
    let proof = open::prove(&*engine, &candidate, owner)?;
    let options = ImportOptions {
        rename: Some(name.clone()),
        word: Some(word(&candidate)),
        ..ImportOptions::default()
    };
    let opened = engine.import(&candidate, proof, &options);
    let opened = opened.map_err(operations::pool_failure)?;
    let changed = change(&*opened, common);
    open::export(opened)?;
    let volumes = changed?;
    let paths: Vec<_> = candidate.devices.present().cloned().collect();
    places::cache_devices(common, name, &paths);
    Ok(Done::changed(format!(
        "the copies are pool {name} now, with a number of its own, and {volumes} volumes with identities of their own. Its targets and exports \
         have the names of the original: change them before `bulkhead pool-server {name}` serves it next to the original"
    )))
}

fn taken(name: &PoolName) -> Failure {
    let message = format!("there is already a pool {name} on this host");
    Failure::new(FailureKind::Exists, message).advise("choose another name for the copies")
}

/// The pool that is on these devices, and on no other. A command that was killed may have given it the new name already.
fn copies(pool: &PoolName, name: &PoolName, devices: &[PathBuf]) -> Result<Candidate, Failure> {
    let found = engines::discover(Search::Alone(devices));
    let mut found = found.map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
    let is_named = |one: &Candidate| [pool, name].iter().any(|name| name.as_str() == one.name);
    let is_free =
        |one: &Candidate| matches!(one.state, CandidateState::Active | CandidateState::Exported);
    found.retain(|one| is_named(one) && is_free(one));
    match found.len() {
        1 if found[0].devices.conflicts.is_empty() => Ok(found.remove(0)),
        1 => Err(operations::copies::refusal(
            pool.as_str(),
            &found[0].devices.conflicts,
        )),
        0 => Err(Failure::not_found(format!(
            "none of the devices that are named has a label of pool {pool}"
        ))),
        _ => Err(Failure::usage(format!(
            "the devices that are named are those of several pools {pool}"
        ))
        .advise("name the copies of one pool")),
    }
}

/// The copy becomes a different pool: data missing from the original is no loss, and the leg record belongs to the
/// original.
fn word(candidate: &Candidate) -> Confirmation {
    let mut word = Confirmation {
        pool_guid: candidate.guid,
        newest_txg: candidate.devices.legs.newest_txg,
        missing: Default::default(),
        may_lose_newest: false,
        may_lose_logs: false,
        forgets_record: true,
    };
    let evidence = Evidence {
        word: Some(&word),
        has_waited: true,
        ..Evidence::default()
    };
    if let Verdict::Refuse(doubt) = candidate.devices.legs.judge(&evidence) {
        word.missing = doubt.word().missing;
    }
    word
}

fn change(pool: &dyn Pool, common: &Common) -> Result<usize, Failure> {
    let devices = operations::needs(pool.devices())?;
    let status = pool.status().map_err(operations::pool_failure)?;
    for device in absent(&status.devices) {
        // The other sides of a mirror remain with the original.
        devices
            .detach(&device.guid.to_string())
            .map_err(operations::pool_failure)?;
    }
    devices.change_number().map_err(|error| {
        let lacks = error.kind == PoolErrorKind::NoReplicas;
        let failure = operations::pool_failure(error);
        match lacks {
            true => failure
                .advise("name copies of all devices of the pool, or of one side of each mirror"),
            false => failure,
        }
    })?;
    let context = Context {
        pool,
        hooks: &NoServer,
        documents: &DocumentCache::with_seals(places::seals(common)),
    };
    operations::reidentify::volumes(&context)
}

/// Devices of mirrors that were not named.
fn absent(devices: &[DeviceStatus]) -> Vec<&DeviceStatus> {
    let groups = devices.iter().filter(|group| group.kind == "mirror");
    let sides = groups.flat_map(|group| &group.children);
    sides
        .filter(|side| side.state != DeviceState::Online)
        .collect()
}
