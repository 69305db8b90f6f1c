//! Decides whether a pool may be used without the record of its legs: only while no leg-server lends its disks or has
//! the record, and if this host's disks are current by the newest record found.

use std::collections::BTreeSet;

use control::{Failure, FailureKind};
use leg_door::{Configuration, Directories};
use leg_memory::{Store, StoreErrorKind};
use leg_record::{Config, DiskId, MemberId, Membership, Record};
use legs_config::{Kind, LegsFile};
use units::PoolName;

use crate::multi_head::LegsOfPool;

/// Refuses if writes would be lost, or if two pools could result. `number`: of the record that the labels name; the
/// members of the configuration are queried for it, whichever number the configuration has. `may_be_stale`: the
/// administrator accepts stale disks. Returns this head's open record: no leg-server can use it while it is open.
///
/// # Errors
///
/// A leg-server responds, a leg of this host is missing data, a member was not queried, or the members are unknown.
pub(crate) fn may_discard(
    directories: &Directories,
    pool: &PoolName,
    number: u64,
    configuration: Configuration<'_>,
    may_be_stale: bool,
) -> Result<Option<Store>, Failure> {
    let legs = configured(directories, pool, configuration)?;
    let folder = leg_memory::folder(&directories.state);
    let store = match Store::open(&folder, number) {
        Ok(store) => Some(store),
        Err(error) if error.kind == StoreErrorKind::InUse => {
            return Err(answers(pool, "this head"));
        }
        // A lost record cannot be judged. The other members are queried.
        Err(_) => None,
    };
    let own = store
        .iter()
        .filter_map(|store| store.memory().accepted.clone());
    let mut records: Vec<Record> = own.collect();
    if let Some(legs) = &legs {
        for (member, memory) in legs.survey(number)? {
            tracing::debug!(pool = %pool, member = member.0, ?memory, "the state of a member");
            if is_head(legs.file(), member) {
                return Err(answers(pool, &legs.file().name(member)));
            }
            records.extend(memory.and_then(|memory| memory.accepted));
        }
    }
    if let Some(legs) = legs.as_ref().filter(|_| !may_be_stale) {
        are_all_queried(legs, &records)?;
    }
    // Another record may have other disks.
    let legs = legs.filter(|legs| legs.record() == number);
    judge(legs.as_ref(), newest(records).as_ref(), may_be_stale)?;
    Ok(store)
}

/// The configuration, if it exists and names the pool. One that was given explicitly must exist.
fn configured(
    directories: &Directories,
    pool: &PoolName,
    Configuration { path, is_named }: Configuration<'_>,
) -> Result<Option<LegsOfPool>, Failure> {
    match LegsOfPool::read(directories, pool, path) {
        Ok(legs) => Ok(Some(legs)),
        Err(failure) if is_named => Err(failure),
        Err(failure) if failure.kind == FailureKind::NotFound => Ok(None),
        Err(_) if matches!(path.try_exists(), Ok(false)) => Ok(None),
        Err(failure) => {
            let message = format!(
                "nothing was changed: without {} the heads that could have pool {pool} are unknown: {}",
                path.display(),
                failure.message
            );
            Err(Failure::new(failure.kind, message).advise(
                "repair it, or name a copy of another head's with --legs. If all other heads are gone for good, move it away",
            ))
        }
    }
}

fn newest(records: Vec<Record>) -> Option<Record> {
    records.into_iter().max_by_key(Record::version)
}

fn is_head(file: &LegsFile, member: MemberId) -> bool {
    file.member(member)
        .is_some_and(|one| one.kind == Kind::Head)
}

/// Checks that the configuration names all members of these records: a member that it does not name was not queried,
/// and may have newer data.
fn are_all_queried(legs: &LegsOfPool, records: &[Record]) -> Result<(), Failure> {
    let named = records.iter().filter_map(|record| record.members.as_ref());
    let mut named = named.flat_map(Membership::members);
    let Some(unasked) = named.find(|member| legs.file().member(*member).is_none()) else {
        return Ok(());
    };
    let (number, path) = (unasked.0, legs.path().display());
    let message = format!(
        "nothing was changed: by the record, {number} is a member of the pool, and {path} does not name it: it was not queried, and may have a record by which \
         other legs are current"
    );
    Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "write member {number} back into {path}, and repeat the command; if it is gone for good, add --use-stale-legs: newer data is \
         lost then"
    )))
}

/// A leg-server runs that lends disks of the pool.
fn answers(pool: &PoolName, head: &str) -> Failure {
    let message = format!(
        "nothing was changed: the leg-server of {head} runs, and could lend disks of pool {pool} to a server that uses the record"
    );
    Failure::new(FailureKind::Busy, message).advise(
        "stop the pool's server on each head, stop the leg-servers there (`systemctl stop bulkhead-leg-server`), and repeat the command",
    )
}

fn judge(
    legs: Option<&LegsOfPool>,
    record: Option<&Record>,
    may_be_stale: bool,
) -> Result<(), Failure> {
    let Some(record) = record.filter(|_| !may_be_stale) else {
        tracing::debug!(may_be_stale, "the record may be discarded: none is judged");
        return Ok(());
    };
    let config = legs.map(LegsOfPool::config);
    let stale_disks = stale_disks(config.as_ref(), record);
    let (pool, term, number) = (record.pool, record.ballot.epoch, record.sequence);
    tracing::debug!(
        pool,
        term,
        record = number,
        ?stale_disks,
        "disks that are stale if the record is discarded"
    );
    if stale_disks.is_empty() {
        return Ok(());
    }
    let name = |disk: &DiskId| match legs {
        Some(legs) => legs.file().disk_name(*disk),
        None => format!("disk {}", disk.0),
    };
    let names = |disks: Vec<&DiskId>| disks.into_iter().map(name).collect::<Vec<_>>().join(", ");
    let message = format!(
        "nothing was changed: by the record of epoch {}, {} is current, and {} is not: acknowledged writes would be lost",
        record.ballot.epoch,
        names(record.current.keys().collect()),
        names(stale_disks.iter().collect())
    );
    Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(
        "run the command on the head with the current legs; if those are gone for good, add --use-stale-legs: the data that only they have is lost then",
    ))
}

/// Disks of the pool on this head that are missing data. Without a configuration they are unknown, so each stale disk
/// counts.
fn stale_disks(config: Option<&Config>, record: &Record) -> BTreeSet<DiskId> {
    let is_out = |disk: &DiskId| !record.current.contains_key(disk);
    let Some(config) = config else {
        let out = record.stale.keys().chain(&record.divergent);
        return out.copied().collect();
    };
    let groups = config.groups.iter();
    let own = groups.map(|group| {
        let own = group.lenders.iter();
        let own = own.filter(|(disk, head)| **head == config.me && record.names(**disk));
        own.map(|(disk, _)| *disk).collect::<BTreeSet<_>>()
    });
    own.flatten().filter(is_out).collect()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use super::*;
    use crate::multi_head::tests::{in_directory, two_heads};
    use certificates::Identity;
    use leg_record::{Ballot, MemberState, MissingData};
    use members::{AllowedMember, Member, Server};

    const HEAD_A: MemberId = MemberId(1);
    const HEAD_B: MemberId = MemberId(2);

    fn unnamed(path: &Path) -> Configuration<'_> {
        Configuration {
            path,
            is_named: false,
        }
    }

    /// A new key, with its files.
    fn identity(folder: &Path, name: &str) -> (Identity, PathBuf, PathBuf) {
        let made = certificates::make(&["head.bulkhead".to_owned()], certificates::Purpose::Any);
        let made = made.expect("a key");
        let file = |end: &str| folder.join(format!("{name}-{end}.pem"));
        let (certificate, key) = (file("cert"), file("key"));
        std::fs::write(&certificate, made.certificate_pem()).expect("written");
        std::fs::write(&key, made.key_pem()).expect("written");
        let identity = Identity::new(made.certificate, made.key);
        (identity, certificate, key)
    }

    /// The leg-server of head b, which has no pool. It stops with the runtime.
    fn leg_server(
        folder: &Path,
        own: &Identity,
        a: &Identity,
    ) -> (tokio::runtime::Runtime, SocketAddr) {
        let member = Member::open(&folder.join("b"), HEAD_B, 9, Box::new(|_| false));
        let friend = AllowedMember {
            member: HEAD_A,
            fingerprint: a.fingerprint(),
        };
        let member = Arc::new(member.expect("opened"));
        let server = Server::new(member, own, vec![friend], |_, _| {}).expect("a server");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("its address");
        runtime.spawn(server.serve(listener));
        (runtime, address)
    }

    /// The labels name another number than the configuration, as after a change of `guid` for a new record.
    #[test]
    fn members_are_queried_despite_another_configured_guid() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("legs.toml");
        let (own, certificate, key) = identity(folder.path(), "a");
        let (other, ..) = identity(folder.path(), "b");
        let (_runtime, address) = leg_server(folder.path(), &other, &own);
        let mut file = two_heads();
        (file.certificate, file.key) = (certificate, key);
        for (name, known, at) in [
            ("a", &own, SocketAddr::from(([127, 0, 0, 1], 1))),
            ("b", &other, address),
        ] {
            let member = file.members.get_mut(name).expect("a head");
            (member.fingerprint, member.members) = (known.fingerprint(), vec![at]);
        }
        std::fs::write(&path, file.render()).expect("written");
        let (directories, pool) = (in_directory(folder.path()), "tank".parse().expect("a name"));
        for number in [123, 456] {
            let said = may_discard(&directories, &pool, number, unnamed(&path), true);
            let failure = said.expect_err("the pool may be served there");
            assert_eq!(failure.kind, FailureKind::Busy, "{}", failure.message);
            assert!(
                failure.message.contains("leg-server of b"),
                "{}",
                failure.message
            );
        }
    }

    #[test]
    fn missing_configuration_is_skipped_unusable_one_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("legs.toml");
        let (directories, pool) = (in_directory(folder.path()), "tank".parse().expect("a name"));
        let judged = |is_named| {
            may_discard(
                &directories,
                &pool,
                123,
                Configuration {
                    path: &path,
                    is_named,
                },
                false,
            )
        };
        assert!(judged(false).expect("there is none").is_none());
        judged(true).expect_err("a person named it");
        std::fs::write(&path, "me = 5").expect("written");
        let failure = judged(false).expect_err("another head may serve the pool");
        assert!(failure.message.starts_with("nothing was changed: "));
        let (own, certificate, key) = identity(folder.path(), "a");
        let mut file = two_heads();
        (file.certificate, file.key) = (certificate, key);
        file.members.get_mut("a").expect("a head").fingerprint = own.fingerprint();
        let tank = file.pools.pop_first().expect("a pool").1;
        file.pools.insert("other".parse().expect("a name"), tank);
        std::fs::write(&path, file.render()).expect("written");
        assert!(judged(false).expect("it names no such pool").is_none());
    }

    #[test]
    fn record_file_is_locked_until_confirmation_is_stored() {
        let folder = tempfile::tempdir().expect("a folder");
        let (directories, pool) = (in_directory(folder.path()), "tank".parse().expect("a name"));
        let memories = leg_memory::folder(&directories.state);
        std::fs::create_dir_all(&memories).expect("made");
        let made = Store::create(&memories, 123, leg_record::MemberState::default());
        drop(made.expect("made"));
        let absent = folder.path().join("legs.toml");
        let held = may_discard(&directories, &pool, 123, unnamed(&absent), false);
        assert!(held.expect("nothing speaks against it").is_some());
        let held = may_discard(&directories, &pool, 123, unnamed(&absent), false).expect("again");
        let error = Store::open(&memories, 123).expect_err("it is held");
        assert_eq!(error.kind, StoreErrorKind::InUse);
        drop(held);
    }

    /// A witness was added, and is not in a configuration file that was restored.
    #[test]
    fn recorded_member_missing_in_configuration_is_included() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("legs.toml");
        let (own, certificate, key) = identity(folder.path(), "a");
        let mut file = two_heads();
        (file.certificate, file.key) = (certificate, key);
        for (name, port) in [("a", 1), ("b", 2)] {
            let member = file.members.get_mut(name).expect("a head");
            member.members = vec![SocketAddr::from(([127, 0, 0, 1], port))];
        }
        file.members.get_mut("a").expect("a head").fingerprint = own.fingerprint();
        std::fs::write(&path, file.render()).expect("written");
        let (directories, pool) = (in_directory(folder.path()), "tank".parse().expect("a name"));
        let memories = leg_memory::folder(&directories.state);
        std::fs::create_dir_all(&memories).expect("made");
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.members = Some(Membership::TwoHeadsAndWitness {
            heads: [HEAD_A, HEAD_B],
            witness: MemberId(3),
        });
        drop(Store::create(&memories, 123, MemberState::new(record)).expect("made"));
        let judged =
            |may_be_stale| may_discard(&directories, &pool, 123, unnamed(&path), may_be_stale);
        let failure = judged(false).expect_err("it may know of newer data");
        assert_eq!(failure.kind, FailureKind::NeedsConfirmation);
        assert!(
            failure.message.contains("3 is a member of the pool"),
            "{failure:?}"
        );
        assert!(judged(true).expect("confirmed").is_some());
    }

    #[test]
    fn stale_leg_is_local_or_any_if_unknown() {
        let file = two_heads();
        let config = file.config(&"tank".parse().expect("a name"));
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        let stale_disks = |record: &Record| {
            let seen = |config| stale_disks(config, record).into_iter().collect::<Vec<_>>();
            (seen(config.as_ref()), seen(None))
        };
        assert_eq!(stale_disks(&record), (vec![], vec![]));
        let missing_data = MissingData {
            since: 30,
            newest: 30,
        };
        record.drop_disk(DiskId(22), missing_data);
        assert_eq!(stale_disks(&record), (vec![], vec![DiskId(22)]));
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.drop_disk(DiskId(11), missing_data);
        assert_eq!(stale_disks(&record), (vec![DiskId(11)], vec![DiskId(11)]));
    }
}
