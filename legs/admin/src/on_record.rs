//! Checks whether a pool of one head can be put on record.

use std::collections::BTreeSet;
use std::path::PathBuf;

use control::{Failure, FailureKind};
use engine::pool::Candidate;
use engine::pool::legs::{GroupContent, LegGroup};
use units::PoolName;

use crate::multi_head::LegsOfPool;

/// Whether the labels of the pool name the record of the configuration already.
///
/// # Errors
///
/// They name another record, or the pool has the wrong devices.
pub(crate) fn may_record(candidate: &Candidate, legs: &LegsOfPool) -> Result<bool, Failure> {
    consists_of(candidate, legs)?;
    match candidate.devices.legs.record {
        None => Ok(false),
        Some(number) if number == legs.record() => Ok(true),
        Some(number) => Err(other_record(legs.name(), number, legs)),
    }
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

/// Checks that this head has the disks that the configuration names.
pub(crate) fn are_present(legs: &LegsOfPool) -> Result<(), Failure> {
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

/// Checks that each group of the pool is one configured disk of this head, and that each configured disk is one.
fn consists_of(candidate: &Candidate, legs: &LegsOfPool) -> Result<(), Failure> {
    let (name, own, file) = (&candidate.name, legs.own_paths(), legs.path().display());
    if candidate.devices.legs.groups_missing > 0 {
        return refused(
            format!("not all disks of pool {name} were found"),
            format!("name all of them in {file}, or say where they are with --search"),
        );
    }
    if let Some(group) = candidate
        .devices
        .legs
        .groups
        .iter()
        .find(|group| !is_one(group))
    {
        let paths = group.members.iter().flatten().map(|leg| &leg.path);
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        return refused(
            format!(
                "pool {name} has a mirror, a raidz or a log: {}",
                paths.join(" ")
            ),
            format!(
                "each group has to be one disk of this head: `bulkhead pool detach {name} DISK` leaves one of a mirror, and \
                 `bulkhead pool remove {name} DISK` removes a log. A raidz cannot get legs"
            ),
        );
    }
    let real = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let found: BTreeSet<PathBuf> = candidate
        .devices
        .all
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
                "write the path of the pool's disk there; if the group is new, take it out of {file} of each head: `bulkhead pool add {name}` \
                 adds it when the pool is on record and served"
            ),
        ),
    }
}

/// Whether the group is one data disk.
fn is_one(group: &LegGroup) -> bool {
    let is_one_disk = group.members.len() == 1 && group.members[0].len() == 1;
    group.content == GroupContent::Data && is_one_disk
}

#[cfg(test)]
mod tests {
    use engine::Opaque;
    use engine::pool::legs::{Leg, Legs};
    use engine::pool::{CandidateDevice, CandidateDevices, CandidateState};

    use std::path::Path;

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
            state: CandidateState::Exported,
            host_id: None,
            host_name: None,
            is_watched: false,
            note: None,
            devices: CandidateDevices {
                all: groups.iter().copied().flatten().map(device).collect(),
                legs: Legs {
                    groups: groups.iter().map(group).collect(),
                    pool_guid: 9,
                    newest_txg: 5,
                    ..Legs::default()
                },
                ..CandidateDevices::default()
            },
            detail: Opaque::new(()),
        }
    }

    /// A configuration in `folder` that names these disks of this head.
    fn legs(folder: &Path, named: &[&str]) -> LegsOfPool {
        let mut file = crate::multi_head::tests::two_heads();
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
            &crate::multi_head::tests::in_directory(folder),
            &"tank".parse().expect("a name"),
            &path,
        )
        .expect("it is whole")
    }

    #[test]
    fn only_pool_of_named_single_disks_is_recorded() {
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
    fn disk_missing_on_this_head_is_reported_with_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = folder.path().join("absent");
        let named = legs(folder.path(), &[absent.to_str().expect("UTF-8")]);
        let said = are_present(&named).expect_err("refused").message;
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
        assert_eq!(are_present(&named), Ok(()));
    }
}
