//! The state of a pool with legs: its stage, its record, and why it is not opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::SystemTime;

use leg_record::{Config, Denial, DiskId, MemberId, Newer, Record, Refusal};
use members::Silence;

use crate::Side;

/// Stage of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being opened.
    Opening,
    /// It is open.
    Open,
    /// It was not opened, with the reason and a remedy.
    Refused(String),
    /// It is closed.
    Closed,
    /// The deciding thread has stopped, with the reason. Writes block until a restart.
    Failed(String),
}

/// Published state of a pool with legs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedState {
    /// The stage.
    pub stage: Stage,
    /// The last committed record of this term.
    pub record: Option<Record>,
    /// Legs that have failed, and that the record still calls current: writes are blocked.
    pub awaited: BTreeSet<DiskId>,
    /// Stale legs that are being resilvered.
    pub copying: BTreeSet<DiskId>,
    /// Stale legs that have returned and failed too often, with the time of the next attempt.
    pub held: BTreeMap<DiskId, SystemTime>,
    /// Why the last resilver of a stale leg failed.
    pub troubles: BTreeMap<DiskId, String>,
    /// The last leg, if it failed: no other leg can replace it.
    pub last: Option<DiskId>,
    /// Members that do not respond, each with the reason.
    pub unresponsive: BTreeMap<MemberId, Unresponsive>,
    /// Heads with leg-servers that have read a different configuration of the pool.
    pub differing: BTreeSet<MemberId>,
    /// Number of changes of members that were taken back.
    pub changes_taken_back: u64,
}

/// Why a member does not respond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresponsive {
    /// It is reachable, but does not respond for the pool.
    Silent(Silence),
    /// It is unreachable, with the reason.
    Lost(String),
    /// A TLS peer responds at its address, but one side rejects the other's certificate.
    Stranger(String),
    /// The configuration does not name it.
    Unnamed,
}

impl fmt::Display for Unresponsive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(why) => f.write_str(why.meaning()),
            Self::Lost(why) | Self::Stranger(why) => f.write_str(why),
            Self::Unnamed => f.write_str("the configuration does not name it"),
        }
    }
}

/// Why a pool is not opened, and a remedy. `objection`: why the proof about the previous owner does not count, or which
/// members got no request.
pub(crate) fn refusal(
    side: &impl Side,
    config: &Config,
    why: &Refusal,
    objection: Option<String>,
) -> String {
    match why {
        Refusal::Stale(newer) => stale(side, config, newer),
        Refusal::NoRecord => {
            "no member has the record of the pool, so its current disks are unknown; open it where its record is, or run \
             `bulkhead pool record-legs` again if that was interrupted"
                .into()
        }
        Refusal::Diverged(disks) => format!(
            "the disks {} went on without each other, so one of them holds writes that the other one does not: \
             decide which of them counts, and take the other one away",
            names(side, disks.iter())
        ),
        Refusal::NoMember => {
            "by its record this head is not a head of the pool yet: add it by `bulkhead pool add-head` on the head that serves the pool".into()
        }
        Refusal::Unlisted { disks, owner } => {
            let head = owner.map(|head| format!("head {}", side.member_name(head)));
            format!(
                "legs.toml of this head does not name {}, current by the record: an earlier file than that of the heads that served the pool. \
                 Write the file of {} here, but for `me` and the key, and restart bulkhead-leg-server on this head",
                names(side, disks.iter()),
                head.unwrap_or_else(|| "the head that served the pool last".to_owned())
            )
        }
        Refusal::NoQuorum { received } => format!(
            "too few members respond to determine the current disks: {} did, {} did not, and two are needed: start \
             bulkhead-leg-server there, or the witness, and see to the network between them{}",
            members(side, received.iter()),
            members(side, config.members().iter().filter(|one| !received.contains(one))),
            objection.unwrap_or_default()
        ),
        Refusal::OtherHeadUnresponsive { head, known } => format!(
            "head {0} may have continued alone, so writes that were acknowledged there may be missing here: it has sent no message since \
             this host's leg-server started. By the record stored here, of epoch {1}, the current disks were {2}. Start head \
             {0}, and open the pool again",
            side.member_name(*head),
            known.epoch,
            names(side, known.disks.keys()),
        ),
        Refusal::OwnerLives(head) => format!(
            "head {0} serves it: stop its server there first. If that hangs, run `systemctl kill -s KILL`, or power {0} off; \
             no confirmation replaces that while the leg-server of {0} responds",
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
        Refusal::Changed => "the record changed in the meantime, or the other head sent a message: open the pool again".into(),
    }
}

/// Message: heads have read different configurations.
pub(crate) fn difference(names: &[String]) -> String {
    format!(
        "the leg-server of {} has read a different configuration of this pool: its groups, disks or members. Write \
         the same file on each head, but for `me` and the key, and restart the leg-servers",
        names.join(", ")
    )
}

/// Message: the member of this head sends no state, and another member has a record with other members than the
/// configuration.
pub(crate) fn of_others(member: &str) -> String {
    format!(
        "the member of this head has sent no record, and by the record of {member} the pool has other members than the \
         configuration names: check bulkhead-leg-server on this host, or write the members that {member} has into the file of each head. A \
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
            "its stored state cannot be read: see the leg-server's log".to_owned()
        }
        Some(Denial::Reopened) => "its leg-server has restarted in the meantime".to_owned(),
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
    let seen = |disk: &DiskId| side.inspect(*disk).ok().map(|seen| (*disk, seen));
    let present: Vec<_> = disks.filter_map(seen).collect();
    let is_missing = |disk: &&DiskId| !present.iter().any(|(found, _)| found == *disk);
    let missing = names(side, newer.disks.keys().filter(is_missing));
    let own = |seen: &crate::DiskState| {
        let when = seen.newest_time.map(written).unwrap_or_default();
        format!("its own newest group is {}{when}", seen.roots.newest)
    };
    let lacking: Vec<String> = present
        .iter()
        .filter_map(|(disk, seen)| {
            let since = newer.since.get(disk)?;
            let (name, own) = (side.name(*disk), own(seen));
            Some(format!(
                "{name} is missing all writes since transaction group {since}; {own}"
            ))
        })
        .collect();
    // An older image of a current disk is among these: the record still calls it current.
    let reached: String = present
        .iter()
        .filter(|(disk, _)| newer.disks.contains_key(disk))
        .map(|(disk, seen)| format!(". {} can be reached; {}", side.name(*disk), own(seen)))
        .collect();
    let lacking = match lacking.is_empty() {
        true => "no current disk can be reached".to_owned(),
        false => lacking.join("; "),
    };
    format!(
        "acknowledged writes would be lost: {lacking}. By the record of epoch {}, {missing} is current, and cannot be \
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
