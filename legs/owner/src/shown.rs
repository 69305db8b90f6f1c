//! The state of a pool with legs: its stage, its record, and why it is not opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::SystemTime;

use leg_record::{Config, Denial, DiskId, MemberId, Newer, Record, Refusal};
use members::Silence;

use crate::Side;

/// How far a pool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is about to be opened.
    Opening,
    /// It is open.
    Open,
    /// It is not opened, with the reason and what to do.
    Refused(String),
    /// It is closed.
    Closed,
    /// Nothing can be decided any more, with the reason. Writes wait until a new start.
    Failed(String),
}

/// What can be seen of a pool with legs at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// How far it is.
    pub stage: Stage,
    /// The last committed record of this term.
    pub record: Option<Record>,
    /// Legs that have failed, and that the record still calls current: writes wait.
    pub awaited: BTreeSet<DiskId>,
    /// Legs that are stale, and to which what they lack is being copied.
    pub copying: BTreeSet<DiskId>,
    /// Legs that are stale, and that came back and failed so often that they are left alone: until when.
    pub held: BTreeMap<DiskId, SystemTime>,
    /// Why what a stale leg lacks was not copied to it when that was tried last.
    pub troubles: BTreeMap<DiskId, String>,
    /// The leg that failed and that no other one can stand in for.
    pub last: Option<DiskId>,
    /// Members that do not answer, each with the reason.
    pub unheard: BTreeMap<MemberId, Unheard>,
    /// Heads whose leg-servers have read a configuration that says something else of the pool.
    pub differing: BTreeSet<MemberId>,
    /// So many changes of members were taken back.
    pub changes_taken_back: u64,
}

/// Why a member does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// It can be reached, and says nothing of the pool.
    Silent(Silence),
    /// It cannot be reached, for that reason.
    Lost(String),
    /// Somebody answers at its address, and one side does not know the other's certificate.
    Stranger(String),
    /// The configuration does not name it.
    Unnamed,
}

impl fmt::Display for Unheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(why) => f.write_str(why.meaning()),
            Self::Lost(why) | Self::Stranger(why) => f.write_str(why),
            Self::Unnamed => f.write_str("the configuration does not name it"),
        }
    }
}

/// Why a pool is not opened, and what to do. `objection`: why what was said of the owner before does not count, or why a member was not
/// asked.
pub(crate) fn refusal(
    side: &impl Side,
    config: &Config,
    why: &Refusal,
    objection: Option<String>,
) -> String {
    match why {
        Refusal::Stale(newer) => stale(side, config, newer),
        Refusal::NoRecord => {
            "no member knows the legs of the pool: which of its disks hold everything is unknown; open it where its record is, or say \
             `bulkhead pool record-legs` again if that did not come to its end"
                .into()
        }
        Refusal::Diverged(disks) => format!(
            "the disks {} went on without each other, so one of them holds writes that the other one does not: \
             decide which of them counts, and take the other one away",
            names(side, disks.iter())
        ),
        Refusal::NoMember => {
            "by its record this head is none of the pool's heads yet: `bulkhead pool add-head` on the head that serves it makes it one".into()
        }
        Refusal::NoQuorum { heard } => format!(
            "too few members answer to know which disks hold everything: {} did, {} did not, and two are needed: start \
             bulkhead-leg-server there, or the witness, and see to the network between them{}",
            members(side, heard.iter()),
            members(side, config.members().iter().filter(|one| !heard.contains(one))),
            objection.unwrap_or_default()
        ),
        Refusal::OtherHeadUnheard { head, known } => format!(
            "head {0} may have gone on alone, so writes that were acknowledged there may be missing here: it was not heard since \
             this machine's leg-server started. By what is known here, the record of epoch {1}, {2} held everything. Start head \
             {0}, and open the pool again",
            side.member_name(*head),
            known.epoch,
            names(side, known.disks.keys()),
        ),
        Refusal::OwnerLives(head) => format!(
            "head {0} serves it: stop its server there first. If that hangs, `systemctl kill -s KILL` ends it, or power {0} off; \
             nobody's word replaces that while the leg-server of {0} answers",
            side.member_name(*head)
        ),
        Refusal::OwnerUnconfirmed(head) => match objection {
            Some(objection) => objection,
            None => format!(
                "nothing proves that head {0} has stopped, and two owners destroy a pool: power {0} off; when it is off for \
                 certain, add --previous-owner-is-stopped. If {0} runs after all, what it acknowledges from then on is lost",
                side.member_name(*head)
            ),
        },
        Refusal::Outbid => "another head claims the pool at the same time: see which one shall have it".into(),
        Refusal::Changed => "the record changed meanwhile, or the other head was heard: open the pool again".into(),
    }
}

/// Heads have read another configuration.
pub(crate) fn difference(names: &[String]) -> String {
    format!(
        "the leg-server of {} has read a configuration that says something else of this pool: its groups, disks or members. Write \
         the same file on each head, but for `me` and the key, and restart the leg-servers",
        names.join(", ")
    )
}

/// The member of this head does not say what it remembers, and the configuration is not what another one remembers.
pub(crate) fn of_others(member: &str) -> String {
    format!(
        "the member of this head does not say what it remembers, and by what {member} remembers the pool has other members than the \
         configuration names: see to bulkhead-leg-server on this machine, or write the members that {member} has into the file of each head. A \
         head that is to come is added by `bulkhead pool add-head` on the head that serves the pool"
    )
}

/// Why a lender admitted no session, as a clause.
pub(crate) fn denial(denial: Option<Denial>, name: impl Fn(MemberId) -> String) -> String {
    match denial {
        Some(Denial::Term(ballot, by)) => {
            let by = by.map_or_else(|| "an owner".to_owned(), name);
            format!("{by} has claimed it since epoch {}", ballot.epoch)
        }
        Some(Denial::InUse) => "a process of its head has it".to_owned(),
        Some(Denial::Unopened) => "it cannot be opened there".to_owned(),
        Some(Denial::Unknown) | None => {
            "what is kept of it cannot be read: see the leg-server's log".to_owned()
        }
        Some(Denial::Anew) => "its leg-server was started anew meanwhile".to_owned(),
    }
}

fn members<'a>(side: &impl Side, members: impl Iterator<Item = &'a MemberId>) -> String {
    let names: Vec<String> = members.map(|member| side.member_name(*member)).collect();
    match names.is_empty() {
        true => "nobody".to_owned(),
        false => names.join(", "),
    }
}

fn names<'a>(side: &impl Side, disks: impl Iterator<Item = &'a DiskId>) -> String {
    let names: Vec<String> = disks.map(|disk| side.name(*disk)).collect();
    names.join(", ")
}

fn stale(side: &impl Side, config: &Config, newer: &Newer) -> String {
    let disks = config.groups.iter().flat_map(|group| group.lenders.keys());
    let seen = |disk: &DiskId| side.look(*disk).ok().map(|seen| (*disk, seen));
    let present: Vec<_> = disks.filter_map(seen).collect();
    let is_missing = |disk: &&DiskId| !present.iter().any(|(found, _)| found == *disk);
    let missing = names(side, newer.disks.keys().filter(is_missing));
    let own = |seen: &crate::Seen| {
        let when = seen.newest_time.map(written).unwrap_or_default();
        format!("its own newest group is {}{when}", seen.roots.newest)
    };
    let lacking: Vec<String> = present
        .iter()
        .filter_map(|(disk, seen)| {
            let since = newer.since.get(disk)?;
            let (name, own) = (side.name(*disk), own(seen));
            Some(format!(
                "{name} lacks what was written since transaction group {since}; {own}"
            ))
        })
        .collect();
    // One that is an older image of itself is among these: the record calls it current.
    let reached: String = present
        .iter()
        .filter(|(disk, _)| newer.disks.contains_key(disk))
        .map(|(disk, seen)| format!(". {} can be reached; {}", side.name(*disk), own(seen)))
        .collect();
    let lacking = match lacking.is_empty() {
        true => "no disk that holds everything can be reached".to_owned(),
        false => lacking.join("; "),
    };
    format!(
        "acknowledged writes would be lost: {lacking}. By the record of epoch {}, {missing} holds everything, and cannot be \
         reached: connect it, and open the pool again{reached}",
        newer.epoch
    )
}

/// A time, as a clause.
fn written(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    format!(", written {}", control::calendar::utc(seconds))
}
