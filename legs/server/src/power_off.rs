//! Whether this head should power off another head that the cluster has lost. In a split of the networks between two heads both would do it,
//! and the record of a pool may already exclude the legs of the survivor. The witness distinguishes a split from a lost head: it receives the
//! heartbeats of a head that is alive, and its record names the owner of each pool and the current legs.
//!
//! No data depends on it: a takeover needs a confirmed power-off, and a refusal only prevents one.

use std::path::Path;
use std::time::{Duration, Instant};

use leg_door::PowerOff;
use leg_record::{MemberId, Record};
use legs_config::LegsFile;
use members::limits::{
    FENCE_REFUSAL, FENCE_YIELD, SILENT_AT_WITNESS, SILENT_BEFORE_FENCE, STEADY_BEFORE_FENCE,
};

use crate::alone::is_openable;
use crate::identity;
use crate::responses::{Requester, Responses};

/// A witness without a response by then is requested again.
const RESPONSE_WAIT: Duration = Duration::from_secs(1);
/// Interval of requests while the decision is pending.
const INTERVAL: Duration = Duration::from_millis(200);

/// The decision at one time.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Now.
    Permitted(String),
    /// When the request is that old, if nothing changes until then.
    PermittedAfter(Duration, String),
    /// When the request is [`FENCE_REFUSAL`] old, if nothing changes until then.
    Refused(String),
}

/// Decides, within [`FENCE_REFUSAL`] and two responses.
pub(crate) fn decide(folder: &Path, request: &PowerOff<'_>) -> Result<String, String> {
    let failed = |failure: control::Failure| failure.to_string();
    let (file, _) = identity::config(request.config).map_err(failed)?;
    let victim = file
        .members
        .get(request.head)
        .map(|member| MemberId(member.number))
        .ok_or_else(|| format!("{} is no member in legs.toml", request.head))?;
    let identity = identity::of(&file).map_err(failed)?;
    let requester = match file.membership().witness() {
        Some(witness) => {
            let requester = Requester::start(&file, &identity, &[witness]).map_err(failed)?;
            Some((requester, witness))
        }
        None => None,
    };
    let begun = Instant::now();
    for number in 1.. {
        let verdict = match &requester {
            Some((requester, witness)) => {
                let responses = send_request(&file, folder, (requester, *witness), number);
                judge(
                    &file,
                    (victim, *witness),
                    request.has_shared_pools,
                    &responses,
                )
            }
            // The fence counts as the vote of the other head, so this head can open the pools.
            None => Verdict::PermittedAfter(
                turn(&file, victim),
                "legs.toml names no witness".to_owned(),
            ),
        };
        let age = begun.elapsed();
        match verdict {
            Verdict::Permitted(why) => return Ok(why),
            Verdict::PermittedAfter(wait, why) if age >= wait => return Ok(why),
            Verdict::Refused(why) if age >= FENCE_REFUSAL => return Err(why),
            Verdict::PermittedAfter(..) | Verdict::Refused(_) => {}
        }
        if (request.is_member)() {
            return Err(format!("{} is a member of the cluster again", request.head));
        }
        std::thread::sleep(INTERVAL);
    }
    unreachable!("a verdict is final after a time")
}

/// The head with the smaller number is first, so that two heads do not power each other off.
fn turn(file: &LegsFile, victim: MemberId) -> Duration {
    match file.me() < victim {
        true => FENCE_YIELD,
        false => FENCE_YIELD * 2,
    }
}

/// Requests the liveness and the records at once: a takeover is pending.
fn send_request(
    file: &LegsFile,
    folder: &Path,
    (requester, witness): (&Requester, MemberId),
    number: u32,
) -> Responses {
    let until = Instant::now() + RESPONSE_WAIT;
    let mut responses = Responses::to(number);
    requester.liveness_and_records(file, witness, until, &mut responses);
    let me = file.me();
    let own = file.pools.values().map(|pool| pool.guid);
    let own = own.map(|guid| ((me, guid), leg_memory::last_record(folder, guid)));
    responses.records.extend(own);
    responses
}

/// The newest record of a pool, at the witness and on this head.
fn newest(responses: &Responses, pool: u64) -> Option<&Record> {
    let records = responses.records.iter();
    let records = records.filter(|((_, of), _)| *of == pool);
    records
        .filter_map(|(_, record)| record.as_ref())
        .max_by_key(|record| record.version())
}

/// The pools by their newest records.
#[derive(Default)]
struct Ownership {
    /// Whether this head owns one.
    is_owner: bool,
    /// Number of pools of the head to be powered off that this head can open.
    openable: usize,
    /// One that this head cannot open: its legs are excluded.
    excluded: Option<String>,
}

impl Ownership {
    fn new(file: &LegsFile, victim: MemberId, responses: &Responses) -> Self {
        let mut all = Self::default();
        for (pool, entry) in &file.pools {
            let Some(newest) = newest(responses, entry.guid) else {
                continue;
            };
            all.is_owner |= newest.owner == Some(file.me());
            if newest.owner != Some(victim) {
                continue;
            }
            let config = file.config(pool);
            match config.is_some_and(|config| is_openable(&config, newest)) {
                true => all.openable += 1,
                false => all.excluded = Some(pool.to_string()),
            }
        }
        all
    }
}

fn judge(
    file: &LegsFile,
    (victim, witness): (MemberId, MemberId),
    has_shared_pools: bool,
    responses: &Responses,
) -> Verdict {
    let (me, name) = (file.me(), file.name(victim));
    let turn = turn(file, victim);
    let Some(liveness) = &responses.liveness else {
        let why = responses.lost.as_deref();
        let why = why.unwrap_or("no response; install the same release there");
        let lost = format!("the witness does not respond ({why})");
        return match has_shared_pools {
            true => Verdict::PermittedAfter(turn, lost),
            // The votes of two members are needed to open a pool.
            false => Verdict::Refused(format!(
                "{lost}: without it and {name} this head could not open a pool"
            )),
        };
    };
    if !liveness.is_steady() {
        return Verdict::Refused(format!(
            "the witness receives heartbeats of this head for less than {} s without a gap",
            STEADY_BEFORE_FENCE.as_secs()
        ));
    }
    // Without the record of a pool its owner is not known.
    let mut pools = file.pools.iter();
    let missing = pools.find(|(_, pool)| !responses.records.contains_key(&(witness, pool.guid)));
    if let Some((pool, _)) = missing {
        return Verdict::Refused(format!("the witness does not respond for {pool}"));
    }
    let pools = Ownership::new(file, victim, responses);
    let excluded = pools
        .excluded
        .map(|pool| format!("{name} has {pool}, and its record excludes the legs of this head"));
    if liveness.is_silent(victim, SILENT_BEFORE_FENCE) {
        let silent = format!("the witness receives nothing from {name}");
        return match excluded {
            // It may return. A power-off would then stop its pools for good.
            Some(excluded)
                if pools.openable == 0
                    && !has_shared_pools
                    && !liveness.is_silent(victim, SILENT_AT_WITNESS) =>
            {
                Verdict::Refused(format!(
                    "{silent}, for less than {} s: {excluded}",
                    SILENT_AT_WITNESS.as_secs()
                ))
            }
            _ => Verdict::Permitted(silent),
        };
    }
    if let Some(excluded) = excluded {
        return Verdict::Refused(format!("{name} is alive by the witness: {excluded}"));
    }
    match pools.openable == 0 && (pools.is_owner || me < victim) {
        true => Verdict::Permitted(format!("{name} has no pool by the record")),
        false => Verdict::PermittedAfter(
            turn,
            format!("{name} is alive by the witness, and does not exclude the legs of this head"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leg_record::{Ballot, DiskId, MissingData};
    use members::Liveness;

    const LEFT: MemberId = MemberId(1);
    const RIGHT: MemberId = MemberId(2);
    const WITNESS: MemberId = MemberId(3);
    const POOLS: [(&str, u64); 2] = [("tank", 100), ("vault", 200)];

    fn file(me: &str) -> LegsFile {
        let member = |name: &str, number: u64, kind: &str, lends: &str| {
            format!(
                "[members.{name}]\nnumber = {number}\nkind = \"{kind}\"\nmembers = [\"10.9.1.{number}:7071\"]\n{lends}fingerprint = \"{}\"\n",
                format!("0{number}").repeat(32)
            )
        };
        let pools = POOLS.map(|(pool, guid)| {
            format!(
                "[pools.{pool}]\nguid = {guid}\n[[pools.{pool}.groups]]\nneeded = 1\nlegs = [\
                 {{ disk = {}, head = \"left\", path = \"/{guid}\" }}, {{ disk = {}, head = \"right\", path = \"/{guid}\" }}]\n",
                guid + 1,
                guid + 2
            )
        });
        let text = format!(
            "me = \"{me}\"\ncertificate = \"/c\"\nkey = \"/k\"\n{}{}{}{}",
            member("left", 1, "head", "lends = [\"10.9.1.1:7072\"]\n"),
            member("right", 2, "head", "lends = [\"10.9.1.2:7072\"]\n"),
            member("w", 3, "witness", ""),
            pools.concat(),
        );
        legs_config::parse(&text).expect("well formed")
    }

    /// A record of that epoch, with the owner. The disks of `excluded` are stale.
    fn record(
        guid: u64,
        epoch: u64,
        owner: Option<MemberId>,
        excluded: Option<MemberId>,
    ) -> Record {
        let ballot = Ballot { epoch, nonce: 1 };
        let disks = [DiskId(guid + 1), DiskId(guid + 2)];
        let mut record = Record::new(guid, ballot, disks);
        record.owner = owner;
        if let Some(head) = excluded {
            let missing_data = MissingData {
                since: 30,
                newest: 30,
            };
            record.drop_disk(DiskId(guid + head.0), missing_data);
        }
        record
    }

    /// The state in which the witness received something of each head 100 ms ago.
    fn alive(records: [Record; 2]) -> Responses {
        let at_witness = records.map(|record| ((WITNESS, record.pool), Some(record)));
        Responses {
            liveness: Some(Liveness {
                observed_ms: 60_000,
                steady_ms: Some(60_000),
                silent_ms: [(LEFT, 100), (RIGHT, 100)].into(),
            }),
            records: at_witness.into(),
            ..Responses::default()
        }
    }

    /// Both pools, each with its owner and the head that is excluded from it.
    fn pools(
        tank: (Option<MemberId>, Option<MemberId>),
        vault: (Option<MemberId>, Option<MemberId>),
    ) -> Responses {
        alive([
            record(100, 3, tank.0, tank.1),
            record(200, 3, vault.0, vault.1),
        ])
    }

    fn left(known: &Responses) -> Verdict {
        judge(&file("left"), (RIGHT, WITNESS), false, known)
    }

    fn right(known: &Responses) -> Verdict {
        judge(&file("right"), (LEFT, WITNESS), false, known)
    }

    fn after(verdict: &Verdict) -> Option<Duration> {
        match verdict {
            Verdict::PermittedAfter(wait, _) => Some(*wait),
            _ => None,
        }
    }

    fn silent(mut known: Responses, head: MemberId, ms: Option<u64>) -> Responses {
        let liveness = known.liveness.as_mut().expect("there");
        match ms {
            Some(ms) => liveness.silent_ms.insert(head, ms),
            None => liveness.silent_ms.remove(&head),
        };
        known
    }

    #[test]
    fn a_head_that_is_silent_at_the_witness_is_powered_off_at_once() {
        let one_excludes = || pools((Some(LEFT), Some(RIGHT)), (Some(LEFT), None));
        let no_owner = || pools((None, Some(RIGHT)), (Some(RIGHT), None));
        for records in [one_excludes, no_owner] {
            for ms in [Some(300), None] {
                let verdict = right(&silent(records(), LEFT, ms));
                assert!(matches!(verdict, Verdict::Permitted(_)), "{verdict:?}");
            }
        }
        // The witness has just started, or was frozen: heartbeats may be unread.
        let mut known = silent(one_excludes(), LEFT, Some(300));
        let liveness = known.liveness.as_mut().expect("there");
        liveness.observed_ms = 299;
        assert!(matches!(right(&known), Verdict::Refused(_)));
    }

    /// A serving head is disconnected for a short time. After a power-off its pools would be down until a person powers it
    /// on.
    #[test]
    fn a_silent_head_with_the_only_current_legs_is_not_powered_off_before_it_may_have_returned() {
        let excludes = || pools((Some(LEFT), Some(RIGHT)), (None, None));
        for (ms, is_permitted) in [(1_100, false), (14_999, false), (15_000, true)] {
            let known = silent(excludes(), LEFT, Some(ms));
            let verdict = right(&known);
            let expected = matches!(verdict, Verdict::Permitted(_));
            assert_eq!(expected, is_permitted, "{ms}: {verdict:?}");
            // Pools on shared disks are not in the record.
            let shared = judge(&file("right"), (LEFT, WITNESS), true, &known);
            assert!(matches!(shared, Verdict::Permitted(_)), "{ms}: {shared:?}");
        }
    }

    /// After an outage of both heads the other one may reconnect later.
    #[test]
    fn a_head_that_returned_to_the_witness_just_now_powers_no_head_off() {
        for silent_ms in [100, 1_400] {
            let mut known = silent(
                pools((Some(LEFT), None), (None, None)),
                RIGHT,
                Some(silent_ms),
            );
            known.liveness.as_mut().expect("there").steady_ms = Some(2_999);
            let verdict = left(&known);
            assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
            known.liveness.as_mut().expect("there").steady_ms = Some(3_000);
            assert!(matches!(left(&known), Verdict::Permitted(_)));
        }
    }

    #[test]
    fn a_pool_without_a_response_of_the_witness_prevents_a_power_off() {
        for silent_ms in [100, 300] {
            let mut known = silent(
                pools((Some(LEFT), None), (Some(LEFT), None)),
                RIGHT,
                Some(silent_ms),
            );
            assert!(matches!(left(&known), Verdict::Permitted(_)));
            let vault = known.records.remove(&(WITNESS, 200)).expect("there");
            known.records.insert((LEFT, 200), vault);
            let verdict = left(&known);
            let why = matches!(&verdict, Verdict::Refused(why) if why.contains("does not respond for vault"));
            assert!(why, "{verdict:?}");
            // It responds that it stores no record: the one of this head counts.
            known.records.insert((WITNESS, 200), None);
            assert!(matches!(left(&known), Verdict::Permitted(_)));
        }
    }

    /// The case that the vote of a witness decided: both heads reach the witness, and one of them serves.
    #[test]
    fn in_a_split_the_owner_is_first_and_the_other_head_yields() {
        for excluded in [None, Some(RIGHT)] {
            let known = pools((Some(LEFT), excluded), (Some(LEFT), excluded));
            assert!(matches!(left(&known), Verdict::Permitted(_)));
            match excluded {
                None => assert_eq!(after(&right(&known)), Some(FENCE_YIELD * 2)),
                Some(_) => assert!(matches!(right(&known), Verdict::Refused(_))),
            }
        }
        for excluded in [None, Some(LEFT)] {
            let known = pools((Some(RIGHT), excluded), (Some(RIGHT), excluded));
            assert!(matches!(right(&known), Verdict::Permitted(_)));
            match excluded {
                None => assert_eq!(after(&left(&known)), Some(FENCE_YIELD)),
                Some(_) => assert!(matches!(left(&known), Verdict::Refused(_))),
            }
        }
    }

    #[test]
    fn in_a_split_of_two_owners_neither_is_powered_off() {
        let known = pools((Some(LEFT), Some(RIGHT)), (Some(RIGHT), Some(LEFT)));
        for verdict in [left(&known), right(&known)] {
            assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        }
    }

    /// In no state both heads are permitted within the same time.
    #[test]
    fn two_heads_never_power_each_other_off_at_the_same_time() {
        let heads = [None, Some(LEFT), Some(RIGHT)];
        for (tank, vault) in heads.iter().flat_map(|a| heads.iter().map(move |b| (a, b))) {
            for (from_tank, from_vault) in
                heads.iter().flat_map(|a| heads.iter().map(move |b| (a, b)))
            {
                let known = pools((*tank, *from_tank), (*vault, *from_vault));
                let wait = |verdict| match verdict {
                    Verdict::Permitted(_) => Some(Duration::ZERO),
                    Verdict::PermittedAfter(wait, _) => Some(wait),
                    Verdict::Refused(_) => None,
                };
                if let (Some(a), Some(b)) = (wait(left(&known)), wait(right(&known))) {
                    assert!(a.abs_diff(b) >= FENCE_YIELD, "{known:?}");
                }
            }
        }
    }

    #[test]
    fn the_newest_record_counts_wherever_it_is() {
        let old = record(100, 3, Some(LEFT), None);
        let new = record(100, 4, Some(LEFT), Some(RIGHT));
        let vault = record(200, 3, None, None);
        for (at_witness, own) in [(&old, &new), (&new, &old)] {
            let mut known = alive([at_witness.clone(), vault.clone()]);
            known.records.insert((RIGHT, 100), Some(own.clone()));
            assert!(matches!(right(&known), Verdict::Refused(_)));
        }
    }

    #[test]
    fn without_the_witness_a_head_powers_the_other_off_only_for_pools_that_it_could_open() {
        let known = Responses {
            lost: Some("refused".to_owned()),
            ..Responses::default()
        };
        let Verdict::Refused(why) = right(&known) else {
            panic!("refused")
        };
        assert!(why.contains("does not respond (refused)"), "{why}");
        let shared = |me, victim| after(&judge(&file(me), (victim, WITNESS), true, &known));
        assert_eq!(shared("left", RIGHT), Some(FENCE_YIELD));
        assert_eq!(shared("right", LEFT), Some(FENCE_YIELD * 2));
    }

    /// Its configuration is older than the cluster's, or names two heads alone.
    #[test]
    fn without_a_witness_in_the_configuration_each_head_has_its_turn() {
        assert_eq!(turn(&file("left"), RIGHT), FENCE_YIELD);
        assert_eq!(turn(&file("right"), LEFT), FENCE_YIELD * 2);
    }
}
