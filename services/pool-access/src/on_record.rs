//! Makes a pool of one head one with legs: its disks are put on record as those that hold everything, and legs of other heads can be
//! attached afterwards.
//!
//! The labels name the record before any member remembers it, and from then on nobody opens the pool without. A command that was killed is
//! said again, and takes up what it finds: labels without a name, labels that name the record, or members that remember it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use control::answer::Done;
use control::{Answer, Failure, FailureKind};
use engine::Pool;
use engine::pool::legs::{GroupContent, LegGroup};
use engine::pool::{Candidate, Role};
use units::PoolName;

use crate::access::{Hold, hold};
use crate::across::LegsOfPool;
use crate::common::Common;
use crate::open::{self, Access, PreviousOwner};
use crate::{audit, engines, managed, places};

/// Puts the disks of `pool`, which nobody serves, on record by the configuration of legs at `path`.
///
/// # Errors
///
/// The pool is in use, has disks that the configuration does not name, or more than one copy of anything; a member does not answer, or
/// remembers another pool of that number.
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
        put_on_record(common, pool, path, &owner)
    })
}

fn put_on_record(
    common: &Common,
    pool: &PoolName,
    path: &Path,
    owner: &PreviousOwner,
) -> Result<Answer, Failure> {
    managed::refuse(common, pool)?;
    let legs = LegsOfPool::read(common, pool, path)?;
    let Hold::Own(_lock) = hold(common, pool)? else {
        let message = format!("pool {pool} is served here");
        return Err(Failure::new(FailureKind::Busy, message)
            .advise(format!("end that first: `bulkhead pool export {pool}`")));
    };
    let mut options = open::small_engine(common, pool);
    legs.install(&mut options);
    let engine = engines::start(options)?;
    let candidate = places::candidate_among(common, pool, &legs.own_paths())?;
    consists_of(&candidate, &legs.own_paths())?;
    let is_labelled = match candidate.legs.record {
        None => false,
        Some(number) if number == legs.record() => true,
        Some(number) => return Err(operations::has_record(pool.as_str(), number)),
    };
    // The leg-server lets go of the disks.
    let founding = legs.begin_record(is_labelled)?;
    if !is_labelled {
        let opened = open::import(&*engine, common, pool, owner, Access::Change)?;
        let has_data_only = has_data_only(&*opened);
        open::export(opened)?;
        has_data_only?;
    }
    if !founding.is_taken_up() {
        let opened = legs.open_unrecorded(&*engine)?;
        let synced = opened.sync().map_err(operations::pool_failure);
        open::export(opened)?;
        synced?;
    }
    legs.finish_record(founding)?;
    places::forget(common, pool);
    let path = path.display();
    Ok(Done::changed(format!(
        "the disks of pool {pool} are on record at all members: `bulkhead pool-server {pool} --legs {path}` serves it, then `bulkhead pool \
         attach` adds the legs of other heads"
    )))
}

/// Whether each group of the pool is one of these disks, and each of these disks is one.
fn consists_of(candidate: &Candidate, own: &[PathBuf]) -> Result<(), Failure> {
    let name = &candidate.name;
    let refused = |message: String, advice: String| {
        Err(Failure::usage(format!("nothing was changed: {message}")).advise(advice))
    };
    if candidate.legs.groups_missing > 0 {
        return refused(
            format!("not all disks of pool {name} were found"),
            "name all of them in legs.toml, or say where they are with --search".to_owned(),
        );
    }
    if let Some(group) = candidate.legs.groups.iter().find(|group| !is_one(group)) {
        let paths = group.members.iter().flatten().map(|leg| &leg.path);
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        return refused(
            format!(
                "pool {name} has a mirror, a raidz or a log: {}",
                paths.join(" ")
            ),
            format!(
                "each group has to be one disk of this head: `bulkhead pool detach {name} DISK` leaves one of a mirror, and \
                 `bulkhead pool remove {name} DISK` takes a log away. A raidz cannot get legs"
            ),
        );
    }
    let real = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let found: BTreeSet<PathBuf> = candidate
        .devices
        .iter()
        .map(|one| real(&one.path))
        .collect();
    let named: BTreeSet<PathBuf> = own.iter().map(real).collect();
    if let Some(path) = found.difference(&named).next() {
        return refused(
            format!("pool {name} has {}, which legs.toml does not name", path.display()),
            "write a group for each disk of the pool, with its path on this head, into legs.toml of each head".to_owned(),
        );
    }
    match named.difference(&found).next() {
        None => Ok(()),
        Some(path) => refused(
            format!("legs.toml names {}, which is no disk of pool {name}", path.display()),
            "take its group out of legs.toml of each head: groups are not added to a pool with legs".to_owned(),
        ),
    }
}

/// Whether the group has one copy of everything.
fn is_one(group: &LegGroup) -> bool {
    let is_one_disk = group.members.len() == 1 && group.members[0].len() == 1;
    group.content == GroupContent::Data && is_one_disk
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

#[cfg(test)]
mod tests {
    use engine::pool::legs::{Leg, Legs};
    use engine::pool::{CandidateDevice, Detail, LabelState};

    use super::*;

    fn leg(path: &str) -> Leg {
        Leg {
            guid: 1,
            path: path.into(),
            is_present: true,
            is_marked: false,
        }
    }

    /// A pool of these groups.
    fn pool(groups: &[&[&str]]) -> Candidate {
        let group = |paths: &&[&str]| LegGroup {
            content: GroupContent::Data,
            members: paths.iter().map(|path| vec![leg(path)]).collect(),
            needed: 1,
        };
        let device = |path: &&str| CandidateDevice {
            path: path.into(),
            guid: 1,
            present: true,
        };
        Candidate {
            name: "tank".to_owned(),
            guid: 9,
            state: LabelState::Exported,
            host_id: None,
            host_name: None,
            txg: 5,
            is_watched: false,
            devices: groups.iter().copied().flatten().map(device).collect(),
            groups_missing: 0,
            features_for_read: Vec::new(),
            note: None,
            legs: Legs {
                groups: groups.iter().map(group).collect(),
                groups_missing: 0,
                pool_guid: 9,
                newest_txg: 5,
                newest_time_s: 0,
                record: None,
            },
            detail: Detail::new(()),
        }
    }

    #[test]
    fn only_a_pool_of_single_disks_that_are_all_named_is_put_on_record() {
        let own = |paths: &[&str]| -> Vec<PathBuf> { paths.iter().map(PathBuf::from).collect() };
        let judged = |groups: &[&[&str]], named: &[&str]| {
            let failure = consists_of(&pool(groups), &own(named)).err();
            failure.map(|failure| failure.message)
        };
        assert_eq!(judged(&[&["/a"], &["/b"]], &["/a", "/b"]), None);
        for (groups, named, part) in [
            (&[&["/a", "/b"][..]][..], &["/a"][..], "has a mirror"),
            (&[&["/a"], &["/b"]], &["/a"], "/b, which legs.toml does not"),
            (&[&["/a"]], &["/a", "/b"], "/b, which is no disk of"),
        ] {
            let said = judged(groups, named).expect("refused");
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
