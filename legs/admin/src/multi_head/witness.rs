//! Adds a witness or a third head to a pool that is served, or removes a witness: the members of the record change by
//! the record itself.

use std::path::Path;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use control::answer::{Answer, Done};
use control::{Failure, FailureKind};
use leg_door::MemberRequest;
use leg_record::{MemberId, Membership, Record};
use legs::{Configured, Proof, PublishedState, Reporter, Stage, Viewer};
use legs_config::{Kind, LegsFile};
use members::Peer;
use units::PoolName;

use super::{LegsOfPool, names_no_pool, peer, read};
use crate::view::current_members;

/// Time-out of the command. A change that the other head does not accept is taken back earlier.
const CHANGE_WAIT: Duration = Duration::from_secs(45);
/// Time-out for a concurrent check of the file, and the pause between two attempts.
const POLL_WAIT: Duration = Duration::from_secs(2);
const POLL_PAUSE: Duration = Duration::from_millis(10);

impl LegsOfPool {
    /// Changes the members of the open pool's record.
    pub(crate) fn change_members(
        &self,
        (viewer, reporter): (&Viewer, &Reporter),
        request: MemberRequest<'_>,
    ) -> Result<Answer, Failure> {
        let Some(_lock) = self.lock_changes() else {
            return Err(Failure::new(
                FailureKind::Busy,
                "the members of the pool are being changed by another command",
            ));
        };
        match request {
            MemberRequest::Witness(witness) => self.set_witness(viewer, reporter, witness),
            MemberRequest::Head(head) => self.add_head(viewer, reporter, head),
        }
    }

    /// A concurrent check of the file holds the lock for a short time.
    fn lock_changes(&self) -> Option<MutexGuard<'_, ()>> {
        let until = Instant::now() + POLL_WAIT;
        loop {
            match self.is_changing.try_lock() {
                Ok(lock) => return Some(lock),
                Err(_) if Instant::now() >= until => return None,
                Err(_) => std::thread::sleep(POLL_PAUSE),
            }
        }
    }

    /// Adopts the file if it was changed after the members, to the same members as the record.
    pub(super) fn check_file_follows(&self, viewer: &Viewer, reporter: &Reporter) {
        // A change of the members handles the file itself. The state before the lock may predate such a change.
        if let Ok(_lock) = self.is_changing.try_lock() {
            self.follow_file(&viewer.shown(), reporter);
        }
    }

    fn follow_file(&self, shown: &PublishedState, reporter: &Reporter) {
        let known = self.multi_head.file();
        let read = read(&self.path).ok().map(|(file, _)| file);
        let read = read.filter(|file| names(shown, &file.membership()));
        let follows = |file: &LegsFile| {
            differs_by_witness(&known, file, &self.pool) || file.adds_groups_to(&known, &self.pool)
        };
        let Some(file) = read.filter(follows) else {
            return;
        };
        let witness = file.membership().witness();
        let witness = witness.and_then(|number| file.member(number)).map(peer);
        let members = file.membership();
        tracing::debug!(pool = %self.pool, ?members, "the changed configuration is adopted");
        self.has_read(file, reporter);
        if witness.is_some() {
            // The members are unchanged. The witness is connected.
            reporter.change_members(members, witness);
        }
    }

    pub(super) fn has_read(&self, file: LegsFile, reporter: &Reporter) {
        let configured = Configured {
            digest: file.digest(self.record()).unwrap_or_default(),
            heads: file.membership().heads().to_vec(),
            groups: file
                .config(&self.pool)
                .map(|config| config.groups)
                .unwrap_or_default(),
        };
        match self.side.get() {
            Some(side) => side.has_read(file),
            None => self.multi_head.has_read(file),
        }
        reporter.configured(configured);
    }

    /// The known configuration, or the present one if only the witness is missing there.
    fn file_without(&self, known: &LegsFile) -> LegsFile {
        let read = read(&self.path).ok().map(|(file, _)| file);
        let is_without = |file: &LegsFile| file.membership().witness().is_none();
        let read = read.filter(is_without);
        let read = read.filter(|file| differs_by_witness(known, file, &self.pool));
        read.unwrap_or_else(|| known.clone())
    }

    fn set_witness(
        &self,
        viewer: &Viewer,
        reporter: &Reporter,
        witness: Option<&str>,
    ) -> Result<Answer, Failure> {
        let (known, shown) = (self.multi_head.file(), viewer.shown());
        let before = current_members(&known, &shown);
        let (file, desired) = match witness {
            None => (self.file_without(&known), without(&before)?),
            Some(name) => {
                let (file, _) = read(&self.path)?;
                let number = joining_member(&known, (&file, &self.path), &self.pool, name)?;
                let desired = with(&before, number, |one| known.name(one))?;
                (file, desired)
            }
        };
        if names(&shown, &desired) {
            self.follow_file(&shown, reporter);
            return Ok(Done::already(reported(witness, "stores", "store")));
        }
        let joining = witness.and_then(|name| file.members.get(name)).map(peer);
        self.change((viewer, reporter), file, &desired, joining)?;
        Ok(Done::changed(reported(witness, "stores", "store")))
    }

    /// Changes the members. A new one receives the record when both heads have agreed.
    pub(super) fn change(
        &self,
        (viewer, reporter): (&Viewer, &Reporter),
        file: LegsFile,
        desired: &Membership,
        joining: Option<Peer>,
    ) -> Result<(), Failure> {
        let (known, shown) = (self.multi_head.file(), viewer.shown());
        let joining_member = joining.as_ref().map(|one| one.member);
        tracing::debug!(pool = %self.pool, ?desired, ?joining_member, "a change of members is requested");
        has_room(shown.record.as_ref(), joining_member)?;
        self.do_agree(&file, desired, joining_member)?;
        if file != *known {
            self.has_read(file, reporter);
        }
        reporter.change_members(desired.clone(), joining);
        let is_over = |now: &PublishedState| {
            let is_done = names(now, desired) || now.changes_taken_back != shown.changes_taken_back;
            is_done || now.stage != Stage::Open
        };
        let after = viewer.wait_for(CHANGE_WAIT, is_over);
        let is_done = names(&after, desired);
        tracing::debug!(pool = %self.pool, is_done, "a change of members has ended");
        if is_done {
            return Ok(());
        }
        reporter.leave_members();
        let is_taken_back = after.changes_taken_back != shown.changes_taken_back;
        let is_leaving = matches!(
            current_members(&known, &after),
            Membership::WitnessLeaves { .. }
        );
        Err(unfinished(is_taken_back && !is_leaving))
    }

    /// Checks that the new members respond, and that all heads have read the same file.
    fn do_agree(
        &self,
        file: &LegsFile,
        desired: &Membership,
        joining_member: Option<MemberId>,
    ) -> Result<(), Failure> {
        let config = leg_record::Config {
            membership: desired.clone(),
            ..self.config()
        };
        let network = self.network_of(file, Proof::None);
        let names = self.names(file.clone());
        legs::inspect_members(config, network, joining_member, names).map_err(|error| {
            let failure = self.refused(&error);
            let message = format!("nothing was changed: {}", failure.message);
            Failure::new(failure.kind, message).advise(format!(
                "all heads must agree, with the same {}: check the one that is named, and repeat the command",
                self.path.display()
            ))
        })
    }
}

/// Whether the record has these members.
pub(super) fn names(shown: &PublishedState, desired: &Membership) -> bool {
    let record = shown.record.as_ref();
    record.is_some_and(|record| record.members.as_ref() == Some(desired))
}

/// Whether the record has room for the life of a new member.
fn has_room(record: Option<&Record>, joining_member: Option<MemberId>) -> Result<(), Failure> {
    let is_full = |record: &Record| joining_member.is_some_and(|one| !record.uses_life_of(one));
    match record.is_some_and(is_full) {
        false => Ok(()),
        true => Err(Failure::usage(
            "nothing was changed: the record names each witness that left, so that a late vote of it does not count, and has no room for another",
        )
        .advise("use the number of a witness that left before")),
    }
}

/// The membership without a witness.
fn without(before: &Membership) -> Result<Membership, Failure> {
    match before {
        Membership::TwoHeads(heads)
        | Membership::TwoHeadsAndWitness { heads, .. }
        | Membership::WitnessLeaves { heads, .. } => Ok(Membership::TwoHeads(*heads)),
        Membership::OneHead(_) | Membership::ThreeHeads(_) => Err(has_none()),
    }
}

fn has_none() -> Failure {
    Failure::usage("only a pool of two heads has a witness")
}

/// The membership with that witness. `name` returns the name of a member.
fn with(
    before: &Membership,
    witness: MemberId,
    name: impl Fn(MemberId) -> String,
) -> Result<Membership, Failure> {
    match before {
        Membership::TwoHeads(heads) => Ok(Membership::TwoHeadsAndWitness {
            heads: *heads,
            witness,
        }),
        Membership::TwoHeadsAndWitness { witness: other, .. } if *other == witness => {
            Ok(before.clone())
        }
        Membership::TwoHeadsAndWitness { witness: other, .. } => Err(Failure::usage(format!(
            "{} is the witness of the pool, and there is one at most",
            name(*other)
        ))
        .advise("remove it first: `bulkhead pool set-witness POOL --none`")),
        Membership::WitnessLeaves { witness: other, .. } => Err(Failure::new(
            FailureKind::Busy,
            format!("{} is being removed", name(*other)),
        )
        .advise("that completes when both heads respond: repeat the command then")),
        Membership::OneHead(_) | Membership::ThreeHeads(_) => Err(has_none()),
    }
}

/// The number of the witness that the configuration now names. Nothing else may differ from the known configuration.
fn joining_member(
    known: &LegsFile,
    (file, path): (&LegsFile, &Path),
    pool: &PoolName,
    name: &str,
) -> Result<MemberId, Failure> {
    let place = path.display();
    let found = file.members.get(name);
    let Some(found) = found.filter(|one| one.kind == Kind::Witness) else {
        return Err(Failure::not_found(format!("{place} names no witness {name}")).advise(
            "write it into the file of each head (of an appliance into appliance.toml, then `bulkhead appliance apply`), and restart one \
             leg-server after the other",
        ));
    };
    if !file.pools.contains_key(pool) {
        return Err(names_no_pool(file, pool, path));
    }
    match differs_by_witness(known, file, pool) {
        true => Ok(MemberId(found.number)),
        false => Err(Failure::usage(format!(
            "{place} differs from what the pool's server has read of this pool or of its members in more than a new witness"
        ))
        .advise("change one thing at a time: the pool's server reads other changes when it starts")),
    }
}

/// Whether the two differ only by a witness that was added or removed. A replaced witness is read at the start only.
fn differs_by_witness(known: &LegsFile, file: &LegsFile, pool: &PoolName) -> bool {
    let heads = |file: &LegsFile| {
        let mut heads = file.members.clone();
        heads.retain(|_, one| one.kind == Kind::Head);
        // Two heads alone listen in more networks.
        heads.values_mut().for_each(|one| one.members.clear());
        heads
    };
    let witness = file.membership().witness();
    let is_moved = witness.is_some_and(|number| {
        let before = known.member(number);
        before.is_some() && before != file.member(number)
    });
    let is_same = known.pools.get(pool) == file.pools.get(pool) && known.me == file.me;
    is_same && heads(known) == heads(file) && file.pools.contains_key(pool) && !is_moved
}

fn reported(witness: Option<&str>, one: &str, several: &str) -> String {
    match witness {
        Some(name) => format!("the witness {name} {one} the record of the pool's legs"),
        None => format!("both heads alone {several} the record of the pool's legs"),
    }
}

fn unfinished(is_taken_back: bool) -> Failure {
    let (message, advice) = match is_taken_back {
        true => (
            "the members of the record are unchanged: the other head did not accept the change in time",
            "check that its leg-server responds, and that both heads have the same release of bulkhead; then repeat the command",
        ),
        false => (
            "the change of members is not on record yet",
            "check that all members respond (`bulkhead pool status`) and have the same release of bulkhead; then repeat the command",
        ),
    };
    Failure::new(FailureKind::Unavailable, message).advise(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multi_head::tests::two_heads;

    const HEADS: [MemberId; 2] = [MemberId(1), MemberId(2)];
    const WITNESS: MemberId = MemberId(3);

    fn tank() -> PoolName {
        "tank".parse().expect("a name")
    }

    fn with_witness() -> LegsFile {
        let mut file = two_heads();
        let mut witness = file.members["a"].clone();
        witness.number = WITNESS.0;
        witness.kind = Kind::Witness;
        witness.lends.clear();
        file.members.insert("w".to_owned(), witness);
        file
    }

    #[test]
    fn witness_is_added_to_and_removed_from_two_heads() {
        let (heads, witness) = (HEADS, WITNESS);
        let two = Membership::TwoHeads(heads);
        let three = Membership::TwoHeadsAndWitness { heads, witness };
        let leaves = Membership::WitnessLeaves { heads, witness };
        let add = |before: &Membership, number| with(before, number, |_| "w".to_owned());
        assert_eq!(add(&two, WITNESS).ok(), Some(three.clone()));
        assert_eq!(add(&three, WITNESS).ok(), Some(three.clone()));
        let other = add(&three, MemberId(4)).expect_err("there is one");
        assert!(other.message.contains("w is the witness"), "{other:?}");
        let early = add(&leaves, WITNESS).expect_err("it goes");
        assert_eq!(early.kind, FailureKind::Busy);
        for before in [&two, &three, &leaves] {
            assert_eq!(without(before).ok(), Some(two.clone()));
        }
        let three_heads = Membership::ThreeHeads([HEADS[0], HEADS[1], WITNESS]);
        assert!(without(&three_heads).is_err() && add(&three_heads, MemberId(4)).is_err());
    }

    /// An administrator removes it from the file after it is no member any more.
    #[test]
    fn file_without_removed_witness_is_otherwise_equal() {
        let (before, mut after) = (with_witness(), two_heads());
        let differs =
            |before: &LegsFile, after: &LegsFile| differs_by_witness(before, after, &tank());
        let head = after.members.get_mut("b").expect("a head");
        head.members
            .push("10.8.1.2:7071".parse().expect("an address"));
        assert!(differs(&before, &after) && differs(&after, &before));
        let mut moved = after.clone();
        let pool = moved.pools.get_mut(&tank()).expect("a pool");
        pool.groups[0].legs[0].path = "/z".into();
        assert!(!differs(&before, &moved), "a disk is another");
        let head = after.members.get_mut("b").expect("a head");
        head.fingerprint = before.members["a"].fingerprint;
        assert!(!differs(&before, &after), "a head is another");
        after.pools.clear();
        assert!(!differs(&after, &after.clone()), "it names no such pool");
    }

    #[test]
    fn full_record_reuses_number_of_removed_witness() {
        let mut record = Record::new(123, leg_record::Ballot::default(), []);
        let reported = |record: &Record, joining_member: u64| {
            has_room(Some(record), Some(MemberId(joining_member))).map_err(|error| error.message)
        };
        record.lives = (3..14).map(|number| (MemberId(number), 1)).collect();
        assert_eq!(reported(&record, 20), Ok(()));
        record.lives.insert(MemberId(14), 1);
        assert!(reported(&record, 20).is_err_and(|why| why.contains("no room for another")));
        assert_eq!(reported(&record, 14), Ok(()));
        assert!(has_room(Some(&record), None).is_ok());
    }

    #[test]
    fn configuration_adds_only_the_witness() {
        let (known, file) = (two_heads(), with_witness());
        let path = Path::new("/legs.toml");
        let judge = |file: &LegsFile, name| joining_member(&known, (file, path), &tank(), name);
        assert_eq!(judge(&file, "w").ok(), Some(WITNESS));
        let unnamed = judge(&known, "w").expect_err("it is not there");
        assert!(unnamed.message.contains("/legs.toml names no witness w"));
        assert!(judge(&file, "b").is_err(), "a head is no witness");
        let mut moved = file.clone();
        let pool = moved.pools.get_mut(&tank()).expect("a pool");
        pool.groups[0].legs[0].path = "/z".into();
        let differs = judge(&moved, "w").expect_err("a disk is another");
        assert!(differs.message.contains("differs from what"), "{differs:?}");
        let mut others = file.clone();
        others.members.get_mut("w").expect("a witness").fingerprint = file.members["b"].fingerprint;
        let replaced = joining_member(&others, (&file, path), &tank(), "w");
        assert!(
            replaced.is_err(),
            "a replaced witness is read at the start only"
        );
    }
}
