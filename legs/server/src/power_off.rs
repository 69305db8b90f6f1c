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
use members::limits::{FENCE_REFUSAL, FENCE_YIELD, SILENT_BEFORE_FENCE};

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
    let witness = file
        .membership()
        .witness()
        .ok_or("legs.toml names no witness")?;
    let identity = identity::of(&file).map_err(failed)?;
    let requester = Requester::start(&file, &identity, &[witness]).map_err(failed)?;
    let begun = Instant::now();
    for number in 1.. {
        let responses = send_request(&file, folder, (&requester, witness), victim, number);
        let age = begun.elapsed();
        match judge(&file, victim, request.has_shared_pools, &responses) {
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

/// Requests the liveness, and the records only if the victim is alive: a takeover is pending.
fn send_request(
    file: &LegsFile,
    folder: &Path,
    (requester, witness): (&Requester, MemberId),
    victim: MemberId,
    number: u32,
) -> Responses {
    let until = Instant::now() + RESPONSE_WAIT;
    let mut responses = Responses::default();
    requester.liveness(witness, until, &mut responses);
    if is_alive(&responses, victim) {
        requester.records(file, &[witness], number, until, &mut responses);
        let me = file.me();
        let own = file.pools.values().map(|pool| pool.guid);
        let own = own.map(|guid| ((me, guid), leg_memory::last_record(folder, guid)));
        responses.records.extend(own);
    }
    responses
}

fn is_alive(responses: &Responses, head: MemberId) -> bool {
    let liveness = responses.liveness.as_ref();
    liveness.is_some_and(|liveness| !liveness.is_silent(head, SILENT_BEFORE_FENCE))
}

/// The newest record of a pool, at the witness and on this head.
fn newest(responses: &Responses, pool: u64) -> Option<&Record> {
    let records = responses.records.iter();
    let records = records.filter(|((_, of), _)| *of == pool);
    records
        .filter_map(|(_, record)| record.as_ref())
        .max_by_key(|record| record.version())
}

fn judge(
    file: &LegsFile,
    victim: MemberId,
    has_shared_pools: bool,
    responses: &Responses,
) -> Verdict {
    let (me, name) = (file.me(), file.name(victim));
    // The head with the smaller number is first, so that two heads do not power each other off.
    let turn = match me < victim {
        true => FENCE_YIELD,
        false => FENCE_YIELD * 2,
    };
    if responses.liveness.is_none() {
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
    }
    if !is_alive(responses, victim) {
        return Verdict::Permitted(format!("the witness receives nothing from {name}"));
    }
    let mut owned = [0_usize; 2];
    for (pool, entry) in &file.pools {
        let Some(newest) = newest(responses, entry.guid) else {
            continue;
        };
        if newest.owner == Some(me) {
            owned[0] += 1;
        }
        if newest.owner != Some(victim) {
            continue;
        }
        owned[1] += 1;
        let config = file.config(pool);
        if !config.is_some_and(|config| is_openable(&config, newest)) {
            return Verdict::Refused(format!(
                "{name} is alive by the witness and has {pool}, and the record excludes the legs of this head"
            ));
        }
    }
    match owned {
        [own, 0] if own > 0 || me < victim => {
            Verdict::Permitted(format!("{name} has no pool by the record"))
        }
        _ => Verdict::PermittedAfter(
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
        judge(&file("left"), RIGHT, false, known)
    }

    fn right(known: &Responses) -> Verdict {
        judge(&file("right"), LEFT, false, known)
    }

    fn after(verdict: &Verdict) -> Option<Duration> {
        match verdict {
            Verdict::PermittedAfter(wait, _) => Some(*wait),
            _ => None,
        }
    }

    #[test]
    fn a_head_that_is_silent_at_the_witness_is_powered_off_at_once() {
        let mut known = pools((Some(LEFT), Some(RIGHT)), (Some(LEFT), None));
        let liveness = known.liveness.as_mut().expect("there");
        liveness.silent_ms.insert(LEFT, 300);
        assert!(matches!(right(&known), Verdict::Permitted(_)));
        let liveness = known.liveness.as_mut().expect("there");
        liveness.silent_ms.remove(&LEFT);
        assert!(matches!(right(&known), Verdict::Permitted(_)));
        // The witness has just started, or was frozen: heartbeats may be unread.
        let liveness = known.liveness.as_mut().expect("there");
        liveness.observed_ms = 299;
        assert!(matches!(right(&known), Verdict::Refused(_)));
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
        let shared = |me, victim| after(&judge(&file(me), victim, true, &known));
        assert_eq!(shared("left", RIGHT), Some(FENCE_YIELD));
        assert_eq!(shared("right", LEFT), Some(FENCE_YIELD * 2));
    }
}
