//! Faults of two heads with legs and a witness that does not vote: the heads do not see each other, or the witness is lost before a head.

use std::net::IpAddr;
use std::time::Duration;

use lab::Power;
use units::HeadName;

use super::alone;
use super::legs::{addresses_in, reach_witness, route, switch_on};
use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::Fault;
use drill_verdict::{SLOW_BMC_MS, Timestamp};

/// How long the witness is lost before the head, and after it. Longer than a takeover.
const WITHOUT_WITNESS: Duration = Duration::from_secs(6);
/// Time in which heads that wait must not change their decision.
const KEPT: Duration = Duration::from_secs(10);

/// Bounds of the length of a short outage, in milliseconds: the heads lose each other, and the connections to the witness
/// break or continue.
const OUTAGE_MS: std::ops::Range<u64> = 1_300..5_000;
/// Time after a short outage in which a head would power the other one off.
const FENCED_WITHIN: Duration = Duration::from_secs(20);

/// Sets the delay of each head's BMC, as of real ones. With a BMC that acts at once, two heads that are both permitted to
/// power each other off do not both do it.
pub(super) fn slow_bmcs(environment: &Environment, delay: Duration) -> Result<(), DrillError> {
    for head in environment.lab.heads() {
        environment.lab.set_bmc_delay(&head, delay)?;
    }
    Ok(())
}

/// All cables of both heads are cut for a short time, as by the restart of a common switch. Neither head sees the other
/// one or the witness.
pub(super) fn short_outage(
    environment: &mut Environment,
    rng: &mut fastrand::Rng,
) -> Result<Fault, DrillError> {
    let outage_ms = rng.u64(OUTAGE_MS);
    let mut heads = environment.lab.heads();
    slow_bmcs(environment, Duration::from_millis(SLOW_BMC_MS.into()))?;
    let words = format!("all cables of all heads are cut for {outage_ms} ms");
    let mut fault = Fault::begin(words);
    rng.shuffle(&mut heads);
    for head in &heads {
        environment.lab.cut(head, &[])?;
    }
    environment
        .client
        .listen(Duration::from_millis(outage_ms))?;
    rng.shuffle(&mut heads);
    for head in &heads {
        environment.lab.mend(head, &[])?;
    }
    fault.acted_at = Timestamp::now();
    let are_off = |environment: &Environment| {
        let state = environment.lab.state();
        state.is_ok_and(|state| state.heads.values().filter(|one| !one.powered).count() > 1)
    };
    if environment.wait_until(FENCED_WITHIN, are_off)? {
        let words = "the heads powered each other off";
        fault.complaints.push(words.to_owned());
    }
    Ok(fault)
}

/// The head that loses the witness, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    /// Both reach it.
    None,
    /// The one that serves.
    Serving,
    /// The other one.
    Other,
}

/// The heads do not see each other in any network. Both still reach each other's fence devices.
pub(super) fn split(
    environment: &Environment,
    head: &HeadName,
    lender: &HeadName,
    without: Without,
) -> Result<Fault, DrillError> {
    let begin = |words: String, victim: &HeadName| Fault {
        victim: Some(victim.clone()),
        lender: Some(lender.clone()),
        ..Fault::begin(words)
    };
    let words = format!("{head} and {lender} do not see each other");
    let (fault, isolated) = match without {
        Without::None => (begin(words + ", and both reach the witness", lender), None),
        Without::Serving => (
            begin(
                format!("{words}, and {head} does not reach the witness"),
                head,
            ),
            Some(head),
        ),
        Without::Other => (
            begin(
                format!("{words}, and {lender} does not reach the witness"),
                lender,
            ),
            Some(lender),
        ),
    };
    slow_bmcs(environment, Duration::from_millis(SLOW_BMC_MS.into()))?;
    if let Some(isolated) = isolated {
        route(
            environment,
            isolated,
            &witness_addresses(environment),
            false,
        )?;
    }
    for (one, other) in [(head, lender), (lender, head)] {
        let addresses = addresses_in(environment.lab.appliance(), other, |_| true);
        route(environment, one, &addresses, false)?;
    }
    Ok(fault)
}

/// Restores all routes of heads that still have power, and the BMCs.
pub(super) fn mend(environment: &Environment) -> Result<(), DrillError> {
    slow_bmcs(environment, Duration::ZERO)?;
    let heads = environment.lab.heads();
    let witness = witness_addresses(environment);
    for head in &heads {
        let others = heads.iter().filter(|other| *other != head);
        let appliance = environment.lab.appliance();
        let others = others.flat_map(|other| addresses_in(appliance, other, |_| true));
        let addresses: Vec<IpAddr> = others.chain(witness.iter().copied()).collect();
        route(environment, head, &addresses, true)?;
    }
    Ok(())
}

fn witness_addresses(environment: &Environment) -> Vec<IpAddr> {
    let witness = environment.lab.appliance().witness.iter();
    witness
        .flat_map(|witness| witness.addresses.clone())
        .collect()
}

/// The witness is lost, and then the power of the serving head. No head may serve the pool until the witness is back.
pub(super) fn lose_witness_then_head(
    environment: &mut Environment,
    head: &HeadName,
) -> Result<Fault, DrillError> {
    let words = format!("no head reaches the witness, and then {head} loses its power");
    let mut fault = Fault::of_head(words, head);
    reach_witness(environment, false)?;
    let before = Timestamp::now();
    environment.client.listen(WITHOUT_WITNESS)?;
    if !environment.client.seen.all_responded_since(before) {
        let words = "the loss of the witness interrupts the pool".to_owned();
        fault.complaints.push(words);
    }
    environment.lab.power(head, Power::Off)?;
    let off = Timestamp::now();
    environment.client.listen(WITHOUT_WITNESS)?;
    if environment.client.seen.all_responded_since(off) {
        let words = "a head opened the pool with one of three members".to_owned();
        fault.complaints.push(words);
    }
    reach_witness(environment, true)?;
    fault.acted_at = Timestamp::now();
    Ok(fault)
}

/// All lose their power and boot, and do not see each other. Both must wait until the networks are back.
pub(super) fn both_boot(
    environment: &mut Environment,
    head: &HeadName,
    lender: &HeadName,
) -> Result<Fault, DrillError> {
    let words = format!("{head} and {lender} lose their power, boot, and do not see each other");
    let mut fault = Fault::begin(words);
    for one in [head, lender] {
        environment.lab.power(one, Power::Off)?;
    }
    environment.lab.power(head, Power::On)?;
    let addresses = addresses_in(environment.lab.appliance(), lender, |_| true);
    route(environment, head, &addresses, false)?;
    environment.lab.power(lender, Power::On)?;
    let wait = |environment: &Environment| {
        let waits = |one, other| alone::waits(environment, one, &format!("{other} is alive"));
        waits(head, lender) && waits(lender, head)
    };
    if !environment.wait_until(alone::limit(environment), wait)? {
        let words = "`bulkhead status` does not show on both heads that the other one is alive";
        fault.complaints.push(words.to_owned());
    }
    environment.client.listen(KEPT)?;
    let state = environment.lab.state()?;
    let off = state.heads.iter().filter(|(_, one)| !one.powered);
    for (one, _) in off {
        fault.complaints.push(format!("{one} was powered off"));
    }
    route(environment, head, &addresses, true)?;
    fault.acted_at = Timestamp::now();
    switch_on(environment, &mut fault)?;
    Ok(fault)
}
