//! Takes an administrator's word about a pool. That it may go on without the record of its legs is taken only while nobody lends or
//! remembers it, and if this machine's disks hold everything by what is still known of the record.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use control::answer::Done;
use control::{Answer, Failure, FailureKind, calendar};
use engine::pool::legs::{Evidence, Verdict, Word};
use leg_memory::{Store, StoreErrorKind};
use legs_config::{Kind, LegsFile};
use takeover::legs::{Config, DiskId, MemberId, Record};
use units::PoolName;

use crate::across::LegsOfPool;
use crate::common::Common;
use crate::legs::keep;
use crate::{places, sockets};

/// What an administrator says of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Said {
    /// They are lost for good, or fell behind: whatever only they hold may be lost
    #[arg(long)]
    pub missing_devices_are_not_newer: bool,
    /// What the newest transaction groups wrote is lost: the pool goes on from an older state, if the newest
    /// cannot be read
    #[arg(long)]
    pub newest_groups_are_lost: bool,
    /// The pool goes on without the record of its legs, for good, with the disks of this machine only: whatever only
    /// the other heads' legs hold is lost
    #[arg(long)]
    pub forget_legs: bool,
    /// With --forget-legs: also if legs of this machine lack data, by the record: what they lack is lost
    #[arg(long, requires = "forget_legs")]
    pub use_stale_legs: bool,
    /// With --forget-legs: the configuration of legs, by which the other members are asked [default:
    /// /etc/bulkhead/legs.toml, if there is one]
    #[arg(long, value_name = "FILE", requires = "forget_legs")]
    pub legs: Option<PathBuf>,
}

impl Said {
    /// The configuration of legs, and whether somebody named it.
    fn configuration(&self) -> (&Path, bool) {
        let named = self.legs.as_deref();
        let default = Path::new(legs_config::DEFAULT_PATH);
        (named.unwrap_or(default), named.is_some())
    }
}

/// Takes an administrator's word about the state that `pool` is in.
pub fn confirm(common: &Common, pool: &PoolName, said: &Said) -> Result<Answer, Failure> {
    if sockets::is_served(common, pool)? {
        return Ok(Done::already(format!("pool {pool} is served here")));
    }
    let legs = places::candidate(common, pool)?.legs;
    if let Some(number) = legs.record.filter(|_| said.forget_legs) {
        let file = said.configuration();
        may_forget(common, pool, number, file, said.use_stale_legs)?;
    }
    let mut word = Word {
        pool_guid: legs.pool_guid,
        newest_txg: legs.newest_txg,
        missing: BTreeSet::new(),
        may_lose_newest: said.newest_groups_are_lost,
        forgets_record: said.forget_legs && legs.record.is_some(),
    };
    let evidence = Evidence {
        word: Some(&word),
        has_waited: true,
        ..Evidence::default()
    };
    let doubt = match legs.judge(&evidence) {
        Verdict::AskRecord(number) => {
            let (file, _) = said.configuration();
            return Err(operations::has_record(pool.as_str(), number, file));
        }
        Verdict::Refuse(doubt) if said.missing_devices_are_not_newer => Some(doubt),
        Verdict::Refuse(doubt) => return Err(operations::refusal(pool.as_str(), &doubt)),
        _ if word.may_lose_newest || word.forgets_record => None,
        _ => {
            let message =
                format!("no missing device of pool {pool} can be newer: nothing to confirm");
            return Ok(Done::already(message));
        }
    };
    if let Some(doubt) = &doubt {
        word.missing = doubt.word().missing;
    }
    keep(common, pool, &word)?;
    let without = doubt.map_or_else(String::new, |doubt| {
        format!(" without {}", doubt.missing_paths())
    });
    let state = match said.newest_groups_are_lost {
        true => "from a state before",
        false => "as of",
    };
    let record = match word.forgets_record {
        true => " without the record of its legs, which it then has no more,",
        false => "",
    };
    Ok(Done::changed(format!(
        "pool {pool} may be opened once, on this head,{without}{record} {state} transaction group {} of {}",
        legs.newest_txg,
        calendar::utc(legs.newest_time_s),
    )))
}

/// Refuses what would lose writes, or make two pools of one. `number`: of the record that the labels name. `file`: the configuration of
/// legs, and whether a person named it; one that nobody named and that cannot be used is done without. `may_be_stale`: a person's word.
///
/// # Errors
///
/// A leg-server answers, or a leg of this machine lacks data.
fn may_forget(
    common: &Common,
    pool: &PoolName,
    number: u64,
    (file, is_named): (&Path, bool),
    may_be_stale: bool,
) -> Result<(), Failure> {
    let legs = match LegsOfPool::read(common, pool, file) {
        Ok(legs) if legs.record() == number => Some(legs),
        Err(failure) if is_named => return Err(failure),
        _ => None,
    };
    let folder = leg_memory::folder(&common.settings.state_dir);
    let mut records: Vec<Record> = Vec::new();
    match Store::open(&folder, number) {
        Ok(store) => records.extend(store.memory().accepted.clone()),
        Err(error) if error.kind == StoreErrorKind::InUse => {
            return Err(answers(pool, "this head"));
        }
        // What is lost is not known. The others are asked.
        Err(_) => {}
    }
    let Some(legs) = legs else {
        return judge(None, newest(records).as_ref(), may_be_stale);
    };
    for (member, memory) in legs.survey()? {
        if is_head(legs.file(), member) {
            return Err(answers(pool, &legs.file().name(member)));
        }
        records.extend(memory.and_then(|memory| memory.accepted));
    }
    judge(Some(&legs), newest(records).as_ref(), may_be_stale)
}

fn newest(records: Vec<Record>) -> Option<Record> {
    records.into_iter().max_by_key(Record::version)
}

fn is_head(file: &LegsFile, member: MemberId) -> bool {
    file.member(member)
        .is_some_and(|one| one.kind == Kind::Head)
}

/// A leg-server runs, which lends disks of the pool.
fn answers(pool: &PoolName, head: &str) -> Failure {
    let message = format!(
        "nothing was changed: the leg-server of {head} runs, and could lend disks of pool {pool} to a server that goes by the record"
    );
    Failure::new(FailureKind::Busy, message).advise(
        "end the pool's server on each head, stop the leg-servers there (`systemctl stop bulkhead-leg-server`), and say it again",
    )
}

fn judge(
    legs: Option<&LegsOfPool>,
    record: Option<&Record>,
    may_be_stale: bool,
) -> Result<(), Failure> {
    let Some(record) = record.filter(|_| !may_be_stale) else {
        return Ok(());
    };
    let config = legs.map(LegsOfPool::config);
    let lacking = lacking(config.as_ref(), record);
    if lacking.is_empty() {
        return Ok(());
    }
    let name = |disk: &DiskId| match legs {
        Some(legs) => legs.file().disk_name(*disk),
        None => format!("disk {}", disk.0),
    };
    let names = |disks: Vec<&DiskId>| disks.into_iter().map(name).collect::<Vec<_>>().join(", ");
    let message = format!(
        "nothing was changed: by the record of epoch {}, {} holds everything, and {} does not: acknowledged writes would be lost",
        record.ballot.epoch,
        names(record.current.keys().collect()),
        names(lacking.iter().collect())
    );
    Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(
        "say it on the head whose legs hold everything; if those are gone for good, add --use-stale-legs: what only they hold is lost then",
    ))
}

/// Disks that the pool would go on with, and that lack data. Without a configuration nobody knows which disks those are: each counts.
fn lacking(config: Option<&Config>, record: &Record) -> BTreeSet<DiskId> {
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
    use super::*;
    use crate::across::tests::two_heads;
    use takeover::legs::{Ballot, Lack};

    #[test]
    fn what_lacks_data_is_a_leg_of_this_head_or_any_if_nobody_knows() {
        let file = two_heads();
        let config = file.config(&"tank".parse().expect("a name"));
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        let lacking = |record: &Record| {
            let seen = |config| lacking(config, record).into_iter().collect::<Vec<_>>();
            (seen(config.as_ref()), seen(None))
        };
        assert_eq!(lacking(&record), (vec![], vec![]));
        let lack = Lack {
            since: 30,
            newest: 30,
        };
        record.drop_disk(DiskId(22), lack);
        assert_eq!(lacking(&record), (vec![], vec![DiskId(22)]));
        let mut record = Record::new(123, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.drop_disk(DiskId(11), lack);
        assert_eq!(lacking(&record), (vec![DiskId(11)], vec![DiskId(11)]));
    }
}
