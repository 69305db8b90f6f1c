//! `bulkhead leg-server may-start-alone`: whether a head that boots without the other one may start its pools. It may if the witness has
//! not heard the other head for a while, and if the legs of this head are current by the record of each pool. After a while one pool is enough.
//!
//! No data depends on it: a takeover needs a fence, and the record decides which legs are opened. It keeps a head that booted with its cables cut
//! from fencing the head that serves.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use certificates::Identity;
use control::legs::STALE_HERE;
use control::{Failure, FailureKind};
use leg_record::{Config, DiskId, MemberId, Record};
use legs_config::{Kind, LegsFile};
use members::limits::SILENT_AT_WITNESS;
use rendering::Printer;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::identity;
use crate::responses::{Requester, Responses};

/// A member without a response by then is taken for one that is unreachable.
const WAIT: Duration = Duration::from_secs(4);

/// Time in which another head that got its power at the same time boots: the firmware of a server with much memory tests
/// it for minutes. This head powers the other one off when it starts, and that one may have the only current legs of a
/// pool.
const BOOT_MAX: Duration = Duration::from_secs(600);

/// The pools that this head may start.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct StartablePools {
    pools: Vec<String>,
}

impl fmt::Display for StartablePools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "no other head is alive by the witness, and the legs of this head are current: {}",
            self.pools.join(", ")
        )
    }
}

/// The reason of the wait at the boot.
#[derive(Debug, PartialEq, Eq)]
struct Wait {
    why: String,
    /// The heads with the current legs of a pool, if those of this head are not current.
    current_heads: BTreeSet<String>,
    /// Another head, if it is alive by the witness.
    alive: Option<String>,
}

impl From<String> for Wait {
    fn from(why: String) -> Self {
        Self {
            why,
            current_heads: BTreeSet::new(),
            alive: None,
        }
    }
}

impl Wait {
    /// The action for the administrator. A head with stale legs cannot open the pool, and powers the head that can off.
    fn advice(&self) -> String {
        if let Some(head) = &self.alive {
            return format!(
                "repair the networks to {head}, which is on: both heads act when they see each other"
            );
        }
        let heads: Vec<&str> = self.current_heads.iter().map(String::as_str).collect();
        match heads.join(", ").as_str() {
            "" => "start the other head, or repair the networks. If the other head is off for certain (cords out), have this one start its pools: \
                   `corosync-cmapctl -s quorum.cancel_wait_for_all u8 1`"
                .to_owned(),
            heads => format!(
                "boot {heads}, which has the current legs: the pool is served then, and the legs of this head are copied. Do not cancel \
                 wait_for_all on this head: it would power {heads} off, and open no stale leg. Only if {heads} is lost for good, continue with the \
                 legs of this head: all writes since they became stale are lost then (\"Without the record\" in the guide to pools of legs)"
            ),
        }
    }
}

/// Succeeds if this head may start its pools alone.
///
/// # Errors
///
/// It may not, and why: the witness hears another head or does not respond, or this head's legs are not current.
pub(crate) fn run(config: &Path, out: Printer) -> Result<(), Failure> {
    let (file, _) = identity::config(config)?;
    let Some(witness) = file.membership().witness() else {
        return Err(Failure::usage(format!(
            "{} names no witness, so no member can report that the other head is off",
            config.display()
        )));
    };
    let identity = identity::of(&file)?;
    let responses = request(&file, &identity, witness)?;
    let pools = judge(&file, witness, &responses, uptime()).map_err(|wait| {
        let message = format!("this head waits for the other one: {}", wait.why);
        Failure::new(FailureKind::Failed, message).advise(wait.advice())
    })?;
    let may = StartablePools { pools };
    out.either(&may, || may.to_string())
}

/// Time since this host booted.
fn uptime() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::from_secs(now.tv_sec.unsigned_abs())
}

fn request(file: &LegsFile, identity: &Identity, witness: MemberId) -> Result<Responses, Failure> {
    let members = [file.me(), witness];
    let requester = Requester::start(file, identity, &members)?;
    let until = Instant::now() + WAIT;
    let mut responses = Responses::to(1);
    requester.records(file, &members, until, &mut responses);
    // Last, so that it is fresh; and a witness of an earlier release disconnects.
    requester.liveness(witness, until, &mut responses);
    Ok(responses)
}

/// The pools whose record allows this head to open them alone, or why there is none.
fn judge(
    file: &LegsFile,
    witness: MemberId,
    responses: &Responses,
    uptime: Duration,
) -> Result<Vec<String>, Wait> {
    let me = file.me();
    let Some(liveness) = &responses.liveness else {
        return Err(Wait::from(match &responses.lost {
            Some(why) => format!("the witness does not respond ({why})"),
            None => {
                "the witness does not report which heads are alive: install the same release there"
                    .to_owned()
            }
        }));
    };
    let heads = file.members.iter();
    let mut others = heads.filter(|(_, one)| one.kind == Kind::Head && one.number != me.0);
    let silence_s = SILENT_AT_WITNESS.as_secs();
    if let Some((name, one)) =
        others.find(|(_, one)| !liveness.is_silent(MemberId(one.number), SILENT_AT_WITNESS))
    {
        let silent_ms = liveness.silent_ms.get(&MemberId(one.number));
        let is_alive = silent_ms.is_some_and(|ms| *ms < SILENT_AT_WITNESS.as_millis() as u64);
        let wait = match is_alive {
            true => format!("{name} is alive: the witness receives its heartbeats"),
            false => format!("the witness has not listened for {silence_s} s yet"),
        };
        return Err(Wait {
            alive: is_alive.then(|| name.clone()),
            ..Wait::from(wait)
        });
    }
    let mut why = Wait::from("no pool has a record yet".to_owned());
    // Why a pool may be one of which only the other head has the current legs.
    let mut waiting = None;
    let mut pools = Vec::new();
    for (name, pool) in &file.pools {
        let record = |member| {
            responses
                .records
                .get(&(member, pool.guid))
                .cloned()
                .flatten()
        };
        let (Some(own), Some(other)) = (record(me), record(witness)) else {
            let silent = match record(me) {
                Some(_) => "the witness",
                None => "the leg-server of this head",
            };
            let unknown = Wait::from(format!("{silent} has no record of {name}"));
            // No member stores a record of a pool that is not created yet.
            let members = [me, witness];
            let may_exist = members.iter().any(|member| {
                let response = responses.records.get(&(*member, pool.guid));
                response.is_none_or(Option::is_some)
            });
            if may_exist {
                // The legs of a pool that are known to be stale determine the action.
                waiting.get_or_insert(unknown);
            } else {
                why = unknown;
            }
            continue;
        };
        let newest = std::cmp::max_by_key(own, other, Record::version);
        match file
            .config(name)
            .is_some_and(|config| is_openable(&config, &newest))
        {
            true => pools.push(name.to_string()),
            false => {
                let current = newest.current.keys();
                let current: Vec<String> = current.map(|disk| file.disk_name(*disk)).collect();
                let heads = current.iter().filter_map(|leg| leg.split(':').next());
                waiting = Some(Wait {
                    why: format!("{STALE_HERE}: {name} needs {}", current.join(", ")),
                    current_heads: heads.map(str::to_owned).collect(),
                    alive: None,
                });
            }
        }
    }
    match waiting {
        Some(waiting) if pools.is_empty() || uptime < BOOT_MAX => Err(waiting),
        _ if pools.is_empty() => Err(why),
        _ => Ok(pools),
    }
}

/// Whether the current legs of this head are enough for each group.
pub(crate) fn is_openable(config: &Config, record: &Record) -> bool {
    let own = record.current.keys().copied();
    let own: BTreeSet<DiskId> = own
        .filter(|disk| config.lender(*disk) == Some(config.me))
        .collect();
    config.is_readable_by(record, &own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leg_record::{Ballot, MissingData};
    use members::Liveness;

    const ME: MemberId = MemberId(1);
    const OTHER: MemberId = MemberId(2);
    const WITNESS: MemberId = MemberId(3);
    const POOL: u64 = 123;
    const OTHER_POOL: u64 = 456;
    const BOOTED: Duration = Duration::from_secs(60);

    fn file() -> LegsFile {
        legs_config::parse(&text()).expect("well formed")
    }

    fn text() -> String {
        let member = |name: &str, number: u64, kind: &str, lends: &str| {
            format!(
                "[members.{name}]\nnumber = {number}\nkind = \"{kind}\"\nmembers = [\"10.9.1.{number}:7071\"]\n{lends}fingerprint = \"{}\"\n",
                format!("0{number}").repeat(32)
            )
        };
        format!(
            "me = \"a\"\ncertificate = \"/c\"\nkey = \"/k\"\n{}{}{}[pools.tank]\nguid = {POOL}\n[[pools.tank.groups]]\nneeded = 1\nlegs = [\
             {{ disk = 11, head = \"a\", path = \"/x\" }}, {{ disk = 22, head = \"b\", path = \"/y\" }}]\n",
            member("a", 1, "head", "lends = [\"10.9.1.1:7072\"]\n"),
            member("b", 2, "head", "lends = [\"10.9.1.2:7072\"]\n"),
            member("w", 3, "witness", ""),
        )
    }

    /// A record of that epoch in which these disks are current.
    fn record(epoch: u64, current: &[u64]) -> Record {
        let ballot = Ballot { epoch, nonce: 1 };
        let mut record = Record::new(POOL, ballot, [DiskId(11), DiskId(22)]);
        let missing_data = MissingData {
            since: 30,
            newest: 30,
        };
        for disk in [11, 22].iter().filter(|disk| !current.contains(disk)) {
            record.drop_disk(DiskId(*disk), missing_data);
        }
        record
    }

    fn responses(own: Option<Record>, other: Option<Record>, other_s: Option<u64>) -> Responses {
        let received = other_s.map(|seconds| (OTHER, seconds * 1000));
        Responses {
            records: [((ME, POOL), own), ((WITNESS, POOL), other)].into(),
            liveness: Some(Liveness {
                observed_ms: 60_000,
                steady_ms: None,
                silent_ms: received.into_iter().chain([(ME, 100)]).collect(),
            }),
            ..Responses::default()
        }
    }

    fn why(responses: &Responses) -> String {
        let wait = judge(&file(), WITNESS, responses, BOOTED).expect_err("it waits");
        // Only a head with current legs may act alone.
        let is_stale = wait.why.contains(STALE_HERE);
        let advice = wait.advice();
        assert_eq!(
            advice.contains("boot b, which has the current legs"),
            is_stale,
            "{advice}"
        );
        assert_eq!(
            advice.contains("quorum.cancel_wait_for_all"),
            !is_stale && wait.alive.is_none(),
            "{advice}"
        );
        wait.why
    }

    #[test]
    fn head_starts_alone_if_peer_is_silent_and_legs_current() {
        let both = record(3, &[11, 22]);
        for other_s in [None, Some(15), Some(600)] {
            let responses = responses(Some(both.clone()), Some(both.clone()), other_s);
            let judged = judge(&file(), WITNESS, &responses, BOOTED);
            assert_eq!(judged, Ok(vec!["tank".to_owned()]), "{other_s:?}");
        }
    }

    #[test]
    fn head_with_live_peer_waits() {
        let both = record(3, &[11, 22]);
        let responses = responses(Some(both.clone()), Some(both), Some(14));
        assert!(why(&responses).contains("b is alive"));
    }

    #[test]
    fn head_waits_for_lost_older_or_restarted_witness() {
        let both = record(3, &[11, 22]);
        let mut responses = responses(Some(both.clone()), Some(both), None);
        responses.liveness.as_mut().expect("there").observed_ms = 14_999;
        assert!(why(&responses).contains("has not listened for 15 s"));
        responses.liveness = None;
        assert!(why(&responses).contains("install the same release"));
        responses.lost = Some("refused".to_owned());
        assert!(why(&responses).contains("does not respond (refused)"));
    }

    /// Whoever has the newer record: this head was off while the other one wrote, or the witness was.
    #[test]
    fn head_with_legs_stale_by_newest_record_waits() {
        let (old, new) = (record(3, &[11, 22]), record(4, &[22]));
        for (own, other) in [(&old, &new), (&new, &old)] {
            let responses = responses(Some(own.clone()), Some(other.clone()), None);
            let why = why(&responses);
            assert!(why.contains("not current: tank needs b:/y"), "{why}");
        }
    }

    #[test]
    fn head_or_witness_without_record_is_no_member() {
        let both = record(3, &[11, 22]);
        let unknown = why(&responses(Some(both.clone()), None, None));
        assert!(unknown.contains("the witness has no record of tank"));
        let unknown = why(&responses(None, Some(both), None));
        assert!(unknown.contains("the leg-server of this head has no record"));
    }

    /// The other head may still boot. It has the only current legs of a pool, or the record of a pool is not known.
    #[test]
    fn head_with_current_legs_of_one_pool_waits_for_boot_of_other_head() {
        let vault = "[pools.vault]\nguid = 456\n[[pools.vault.groups]]\nneeded = 1\nlegs = [\
             { disk = 33, head = \"a\", path = \"/v\" }, { disk = 44, head = \"b\", path = \"/w\" }]\n";
        let file = legs_config::parse(&(text() + vault)).expect("well formed");
        let both = Some(record(3, &[11, 22]));
        let vault = |is_current: bool| {
            let mut record = Record::new(
                OTHER_POOL,
                Ballot { epoch: 3, nonce: 1 },
                [DiskId(33), DiskId(44)],
            );
            if !is_current {
                let missing_data = MissingData {
                    since: 30,
                    newest: 30,
                };
                record.drop_disk(DiskId(33), missing_data);
            }
            Some(Some(record))
        };
        // What this head and the witness respond for the second pool, and whether the first one is started.
        let cases = [
            (vault(true), vault(true), true),
            (Some(None), Some(None), true),
            (vault(false), vault(false), false),
            (Some(None), vault(true), false),
            (vault(true), Some(None), false),
            (Some(None), None, false),
        ];
        for (own, other, is_started) in cases {
            let mut responses = responses(both.clone(), both.clone(), None);
            let named = [(ME, own), (WITNESS, other)].into_iter();
            let named = named.filter_map(|(member, one)| Some(((member, OTHER_POOL), one?)));
            responses.records.extend(named);
            let judged = judge(
                &file,
                WITNESS,
                &responses,
                BOOT_MAX - Duration::from_secs(1),
            );
            assert_eq!(judged.is_ok(), is_started, "{judged:?}");
            let late = judge(&file, WITNESS, &responses, BOOT_MAX).expect("it has booted by now");
            assert_eq!(late[0], "tank");
        }
    }
}
