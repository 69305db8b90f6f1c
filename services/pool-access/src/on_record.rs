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
    are_there(&legs)?;
    let candidate = places::candidate_among(common, pool, &legs.own_paths(), &[])?;
    consists_of(&candidate, &legs)?;
    let is_labelled = match candidate.legs.record {
        None => false,
        Some(number) if number == legs.record() => true,
        Some(number) => return Err(other_record(pool, number, &legs)),
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
    let path = legs.path().display();
    Ok(Done::changed(format!(
        "the disks of pool {pool} are on record at all members: `bulkhead pool-server {pool} --legs {path}` serves it, then `bulkhead pool \
         attach` adds the legs of other heads"
    )))
}

/// The labels of the pool name a record that is not the configuration's.
fn other_record(pool: &PoolName, number: u64, legs: &LegsOfPool) -> Failure {
    let (file, own) = (legs.path().display(), legs.record());
    let message = format!(
        "nothing was changed: the labels of pool {pool} name the record {number} of its legs, and {file} has `guid = {own}`"
    );
    Failure::new(FailureKind::Exists, message).advise(format!(
        "to serve it by its record, write `guid = {number}` there, and use `bulkhead pool-server {pool} --legs {file}`. To give it another \
         record, let it go on without this one first: `bulkhead pool confirm {pool} --forget-legs`"
    ))
}

fn refused(message: String, advice: String) -> Result<(), Failure> {
    Err(Failure::usage(format!("nothing was changed: {message}")).advise(advice))
}

/// Whether this head has the disks that the configuration says it has.
fn are_there(legs: &LegsOfPool) -> Result<(), Failure> {
    let own = legs.own_paths();
    match own.iter().find(|path| !path.exists()) {
        None => Ok(()),
        Some(path) => refused(
            format!(
                "{} names {}, which is not on this head",
                legs.line_of(path),
                path.display()
            ),
            "write the path of the pool's disk there, in the file of each head, and restart the leg-servers"
                .to_owned(),
        ),
    }
}

/// Whether each group of the pool is a disk of this head that the configuration names, and each of those disks is one.
fn consists_of(candidate: &Candidate, legs: &LegsOfPool) -> Result<(), Failure> {
    let (name, own, file) = (&candidate.name, legs.own_paths(), legs.path().display());
    if candidate.legs.groups_missing > 0 {
        return refused(
            format!("not all disks of pool {name} were found"),
            format!("name all of them in {file}, or say where they are with --search"),
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
            format!(
                "pool {name} has {}, which {file} does not name",
                path.display()
            ),
            format!(
                "write a group for each disk of the pool, with its path on this head, into {file} of each head"
            ),
        );
    }
    match named.difference(&found).next() {
        None => Ok(()),
        Some(path) => refused(
            format!(
                "{} names {}, which is no disk of pool {name}",
                legs.line_of(path),
                path.display()
            ),
            format!(
                "write the path of the pool's disk there; if the group is one too many, take it out of {file} of each head: groups are not \
                 added to a pool with legs"
            ),
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
            labelled: path.into(),
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
            conflicts: Vec::new(),
            left_out: Vec::new(),
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

    /// A configuration in `folder` that names these disks of this head.
    fn legs(folder: &Path, named: &[&str]) -> LegsOfPool {
        let mut file = crate::across::tests::two_heads();
        let made = certificates::make(&["head.bulkhead".to_owned()], certificates::Purpose::Any);
        let made = made.expect("a key");
        (file.certificate, file.key) = (folder.join("cert.pem"), folder.join("key.pem"));
        std::fs::write(&file.certificate, made.certificate_pem()).expect("written");
        std::fs::write(&file.key, made.key_pem()).expect("written");
        let identity = certificates::Identity::new(made.certificate, made.key);
        let me = file.members.get_mut("a").expect("this head");
        me.fingerprint = identity.fingerprint();
        let tank = file.pools.values_mut().next().expect("a pool");
        let mut groups = Vec::new();
        for (disk, path) in (11..).zip(named) {
            let mut group = tank.groups[0].clone();
            group.legs.truncate(1);
            (group.legs[0].disk, group.legs[0].path) = (disk, path.into());
            groups.push(group);
        }
        tank.groups = groups;
        let path = folder.join("legs.toml");
        std::fs::write(&path, file.render()).expect("written");
        LegsOfPool::read(
            &crate::common::tests::in_folder(folder),
            &"tank".parse().expect("a name"),
            &path,
        )
        .expect("it is whole")
    }

    #[test]
    fn only_a_pool_of_single_disks_that_are_all_named_is_put_on_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let judged = |groups: &[&[&str]], named: &[&str]| {
            let failure = consists_of(&pool(groups), &legs(folder.path(), named)).err();
            failure.map(|failure| failure.message)
        };
        assert_eq!(judged(&[&["/a"], &["/b"]], &["/a", "/b"]), None);
        let file = folder.path().join("legs.toml");
        let unnamed = format!("/b, which {} does not name", file.display());
        for (groups, named, part) in [
            (&[&["/a", "/b"][..]][..], &["/a"][..], "has a mirror"),
            (&[&["/a"], &["/b"]], &["/a"], unnamed.as_str()),
            (&[&["/a"]], &["/a", "/b"], "/b, which is no disk of"),
        ] {
            let said = judged(groups, named).expect("refused");
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn a_disk_that_this_head_has_not_is_told_with_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = folder.path().join("absent");
        let named = legs(folder.path(), &[absent.to_str().expect("UTF-8")]);
        let said = are_there(&named).expect_err("refused").message;
        let file = folder.path().join("legs.toml");
        let text = std::fs::read_to_string(&file).expect("written");
        let line = text.lines().position(|line| line.contains("/absent"));
        let line = line.expect("it is there") + 1;
        let place = format!(
            "{}, line {line}, names {}",
            file.display(),
            absent.display()
        );
        assert!(said.contains(&place), "{said}");
        std::fs::write(&absent, []).expect("made");
        assert_eq!(are_there(&named), Ok(()));
    }
}
