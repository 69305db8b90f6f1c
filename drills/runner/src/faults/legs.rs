//! Faults of pools with legs: of the network to another head's legs, of the lender, of the witness, and of power while
//! a leg is stale.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use appliance::Appliance;
use cluster::process::Invocation;
use lab::{Node, Power};
use units::{HeadName, NetworkName, PoolName};

use super::apart::{self, Without};
use super::heads::{other_head, reach_fence_devices};
use super::{alone, damage};
use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::Fault;
use crate::third;
use drill_verdict::{Drill, Timestamp};

/// The delay of a slow leg, in milliseconds.
const SLOW_LEG_MS: u32 = 100;
/// The lender's process, as pkill(1) finds it.
const LEG_SERVER: &str = "[l]eg-server --config";
/// The processes of the witness: of the record, and of the vote.
pub(crate) const WITNESS_PROCESSES: [&str; 2] = ["[b]ulkhead-witness serve", "[c]orosync-qnetd"];
/// How long until it is on record that a leg was lost.
const FALL_BEHIND_WITHIN: Duration = Duration::from_secs(30);
/// Time in which clients write data that a leg misses.
const STALE_WRITE_TIME: Duration = Duration::from_secs(2);
/// Time limit for a leg that can be reached again to be resilvered.
const HEALTHY_WITHIN: Duration = Duration::from_secs(90);
/// How long a head that came back alone may take to start, and to refuse.
const REFUSED_WITHIN: Duration = Duration::from_secs(90);
/// The same where it does not even try: it has no vote but its own.
const STARTED_WITHIN: Duration = Duration::from_secs(20);
/// Time without power of a head that reboots quickly: less than a leg's time-out.
const BLINK_MS_MAX: u64 = 500;
/// Between the losses of power of two heads, and between their returns, in milliseconds.
const TURN_MS_MAX: u64 = 4_000;
/// How far a return is when power is lost, in milliseconds.
const RETURN_MS_MAX: u64 = 1_500;
/// How long it is lost then.
const DARK: Duration = Duration::from_secs(5);
/// Time after which an operator switches on heads that the cluster switched off.
const OPERATOR: Duration = Duration::from_secs(10);
/// How often.
const OPERATOR_ROUNDS: u32 = 6;
/// How long heads do not hear each other.
const APART: Duration = Duration::from_secs(8);
/// The message of the pool's server when the record does not allow it to open the pool.
const REFUSAL: &str = "the pool is not opened";

/// Why the drill is not possible with such a pool.
pub fn impossible(drill: Drill, appliance: &Appliance, pool: &PoolName) -> Option<&'static str> {
    if !drill.is_of_legs() {
        return None;
    }
    if !appliance.pools[pool].has_legs() {
        return Some("the pool's disks belong to no head");
    }
    let is_apart = appliance.legs.as_ref().is_some_and(|legs| {
        let addresses = &appliance.pools[pool].addresses;
        let is_free = |network: &NetworkName| addresses.iter().all(|one| one.network != *network);
        !legs.networks.is_empty() && legs.networks.iter().all(is_free)
    });
    match drill {
        Drill::LegLinkCut
        | Drill::LegHalfOpen
        | Drill::StaleAlone
        | Drill::PowerLostDuringReturn
            if !is_apart =>
        {
            Some("heads reach each other's disks by networks of clients")
        }
        Drill::ThirdHeadJoins => third::impossible(appliance),
        Drill::LastLegDamaged if !has_two_lenders(appliance, pool) => {
            Some("its legs are not on two heads")
        }
        Drill::WitnessLost | Drill::WitnessHung | Drill::OneReturns
            if appliance.witness.is_none() =>
        {
            Some("no witness remembers")
        }
        drill if drill.is_without_vote() && appliance.witness.is_none() => {
            Some("no witness remembers")
        }
        drill if drill.is_without_vote() && appliance.has_voting_witness() => {
            Some("the witness votes: a head that reaches it has quorum")
        }
        Drill::LegHung if appliance.witness.is_none() && appliance.heads.len() == 2 => {
            Some("of two heads alone the other one has to agree that its legs are lost")
        }
        Drill::PartitionFenceDead
            if appliance.heads.values().any(|head| head.fencing.is_none()) =>
        {
            Some("not every head has a fence device")
        }
        _ => None,
    }
}

/// Whether the loss of one head leaves the pool one leg of each group.
fn has_two_lenders(appliance: &Appliance, pool: &PoolName) -> bool {
    let lenders = appliance.pools[pool].all_legs().map(|leg| &leg.head);
    lenders.collect::<BTreeSet<_>>().len() == 2
}

/// Injects the fault. `head` serves the pool.
///
/// # Errors
///
/// A command in the lab fails.
pub fn strike(
    drill: Drill,
    environment: &mut Environment,
    head: &HeadName,
    rng: &mut fastrand::Rng,
) -> Result<Fault, DrillError> {
    let lender = lender(environment, head, rng);
    let begin = |words: String| Fault {
        lender: Some(lender.clone()),
        ..Fault::begin(words)
    };
    match drill {
        Drill::LegLinkCut => {
            let fault = begin(format!("{lender} loses its cables to the other heads"));
            cut(environment, &lender)?;
            Ok(fault)
        }
        Drill::LegHung => {
            let fault = begin(format!("the leg-server of {lender} is stopped"));
            signal(environment, &Node::Head(lender), "STOP", LEG_SERVER)?;
            Ok(fault)
        }
        Drill::LegSlow => {
            let fault = begin(format!(
                "the legs of {lender} respond {SLOW_LEG_MS} ms late"
            ));
            let names = environment.device_names(&lender);
            environment.set_device_faults(&names, &format!("delay={SLOW_LEG_MS}"))?;
            Ok(fault)
        }
        Drill::LegServerKilled => {
            let one = if rng.bool() { &lender } else { head };
            let fault = begin(format!("the leg-server of {one} is killed"));
            signal(environment, &Node::Head(one.clone()), "KILL", LEG_SERVER)?;
            Ok(fault)
        }
        Drill::LenderReboots => {
            let dark_ms = rng.u64(..BLINK_MS_MAX);
            let words = format!("{lender} loses its power, and gets it back {dark_ms} ms later");
            let mut fault = Fault {
                victim: Some(lender.clone()),
                ..begin(words)
            };
            environment.lab.power(&lender, Power::Off)?;
            environment.client.listen(Duration::from_millis(dark_ms))?;
            environment.lab.power(&lender, Power::On)?;
            fault.acted_at = Timestamp::now();
            Ok(fault)
        }
        Drill::LegHalfOpen => {
            let fault = begin(format!("nothing that {lender} sends reaches another head"));
            set_reachable(environment, &lender, false)?;
            Ok(fault)
        }
        Drill::WitnessLost => {
            let fault = Fault::begin("no head reaches the witness");
            reach_witness(environment, false)?;
            Ok(fault)
        }
        Drill::WitnessHung => {
            let fault = Fault::begin("every process of the witness is stopped");
            signal_witness(environment, "STOP")?;
            Ok(fault)
        }
        Drill::LastLegDamaged => damage::strike(environment, head, &lender),
        Drill::StaleAlone => return_stale_alone(environment, head, &lender, rng),
        Drill::OneReturns => {
            let one = if rng.bool() { head } else { &lender };
            alone::return_alone(environment, one)
        }
        Drill::BootsApart => alone::boot_apart(environment, head, &lender),
        Drill::BothBootApart => apart::both_boot(environment, head, &lender),
        Drill::HeadsApart => apart::split(environment, head, &lender, Without::None),
        Drill::ServingHeadApart => apart::split(environment, head, &lender, Without::Serving),
        Drill::OtherHeadApart => apart::split(environment, head, &lender, Without::Other),
        Drill::ShortOutage => apart::short_outage(environment, rng),
        Drill::WitnessThenPower => apart::lose_witness_then_head(environment, head),
        Drill::PowerInTurn => lose_power_in_turn(environment, rng),
        Drill::PowerLostDuringReturn => lose_power_during_return(environment, head, &lender, rng),
        Drill::PartitionFenceDead => part(environment, head, &lender),
        _ => unreachable!("{drill} is no fault of legs"),
    }
}

/// Undoes faults that do not end automatically, and blocks until every leg is current.
///
/// # Errors
///
/// A command in the lab fails.
pub fn undo(
    drill: Drill,
    environment: &mut Environment,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    if let Some(lender) = fault.lender.clone().as_ref() {
        match drill {
            Drill::LegLinkCut => mend(environment, lender)?,
            Drill::LegHung => {
                signal(environment, &Node::Head(lender.clone()), "CONT", LEG_SERVER)?;
            }
            Drill::LegSlow => environment.set_device_faults(&[], "")?,
            Drill::LegHalfOpen => set_reachable(environment, lender, true)?,
            Drill::LastLegDamaged => damage::undo(environment, lender, fault)?,
            _ => {}
        }
    }
    match drill {
        Drill::WitnessLost => {
            await_status_reports_loss(environment, fault)?;
            reach_witness(environment, true)?;
        }
        Drill::WitnessHung => {
            await_status_reports_loss(environment, fault)?;
            signal_witness(environment, "CONT")?;
        }
        Drill::ShortOutage => apart::slow_bmcs(environment, Duration::ZERO)?,
        Drill::HeadsApart | Drill::ServingHeadApart | Drill::OtherHeadApart => {
            apart::mend(environment)?;
        }
        _ => {}
    }
    wait_until_healthy(environment, fault)
}

/// Blocks until every leg is current. The cluster may switch heads off in the meantime, with fence requests that were
/// pending.
pub(crate) fn wait_until_healthy(
    environment: &mut Environment,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    let is_whole = |environment: &Environment| {
        let serving = environment.serving().ok().flatten();
        serving.is_some_and(|head| environment.unhealthy_devices(&head).is_none())
    };
    let deadline = Timestamp::now().after(HEALTHY_WITHIN);
    while Timestamp::now() < deadline {
        switch_on_heads(environment, fault)?;
        if environment.wait_until(OPERATOR, is_whole)? {
            return Ok(());
        }
    }
    let serving = environment.serving()?;
    let why = serving.and_then(|head| environment.unhealthy_devices(&head));
    let why = why.unwrap_or_else(|| "no head serves the pool".to_owned());
    fault.complaints.push(format!(
        "the legs are not whole {} s after the fault: {why}",
        HEALTHY_WITHIN.as_secs()
    ));
    Ok(())
}

/// A head, other than the one that serves, that has legs of the pool.
fn lender(environment: &Environment, head: &HeadName, rng: &mut fastrand::Rng) -> HeadName {
    let pool = &environment.lab.appliance().pools[&environment.pool];
    let mut lenders: Vec<HeadName> = Vec::new();
    for leg in pool.all_legs() {
        if leg.head != *head && !lenders.contains(&leg.head) {
            lenders.push(leg.head.clone());
        }
    }
    match lenders.is_empty() {
        true => other_head(environment, head, rng),
        false => lenders[rng.usize(..lenders.len())].clone(),
    }
}

fn networks(environment: &Environment) -> Vec<NetworkName> {
    let legs = environment.lab.appliance().legs.as_ref();
    legs.map_or_else(Vec::new, |legs| legs.networks.clone())
}

fn cut(environment: &Environment, lender: &HeadName) -> Result<(), DrillError> {
    Ok(environment.lab.cut(lender, &networks(environment))?)
}

fn mend(environment: &Environment, lender: &HeadName) -> Result<(), DrillError> {
    Ok(environment.lab.mend(lender, &networks(environment))?)
}

pub(crate) fn signal(
    environment: &Environment,
    who: &Node,
    signal: &str,
    pattern: &str,
) -> Result<(), DrillError> {
    let signal = format!("-{signal}");
    environment
        .lab
        .must(who, "pkill", &[&signal, "-f", pattern])?;
    Ok(())
}

fn signal_witness(environment: &Environment, word: &str) -> Result<(), DrillError> {
    signal(environment, &Node::Witness, word, WITNESS_PROCESSES[0])?;
    // It does not run where the heads vote without it.
    match environment.lab.appliance().has_voting_witness() {
        true => signal(environment, &Node::Witness, word, WITNESS_PROCESSES[1]),
        false => Ok(()),
    }
}

/// Addresses of a head in `networks`.
pub(super) fn addresses_in(
    appliance: &Appliance,
    head: &HeadName,
    is_meant: impl Fn(&NetworkName) -> bool,
) -> Vec<IpAddr> {
    let links = appliance.heads[head].links.iter();
    let links = links.filter(|(network, _)| is_meant(network));
    let addresses = links.flat_map(|(_, link)| &link.addresses);
    addresses.copied().collect()
}

/// Blocks or unblocks packets from `head` to `addresses`. Packets in the other direction always arrive.
pub(super) fn route(
    environment: &Environment,
    head: &HeadName,
    addresses: &[IpAddr],
    is_open: bool,
) -> Result<(), DrillError> {
    /// A packet is taken although its sender cannot be answered.
    const ONE_WAY: &str = "for one in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$one; done; ";
    let verb = if is_open { "del" } else { "add" };
    let routes = addresses.iter().map(|address| {
        let family = if address.is_ipv6() { "-6 " } else { "" };
        format!("ip {family}route {verb} blackhole {address}; ")
    });
    let script = ONE_WAY.to_owned() + &routes.collect::<String>();
    let script = Invocation::new("sh", &["-c", &script]);
    // A head that booted in the meantime has no such route any more, and a head without power has
    // none at all.
    match environment.lab.exec(&Node::Head(head.clone()), &script) {
        Err(_) if is_open => Ok(()),
        done => Ok(done.map(drop)?),
    }
}

/// Lets the other heads hear `lender` on the cables to its legs, or not any more.
fn set_reachable(
    environment: &Environment,
    lender: &HeadName,
    is_open: bool,
) -> Result<(), DrillError> {
    let appliance = environment.lab.appliance();
    let networks = networks(environment);
    for other in appliance.heads.keys().filter(|other| *other != lender) {
        let addresses = addresses_in(appliance, other, |network| networks.contains(network));
        route(environment, lender, &addresses, is_open)?;
    }
    Ok(())
}

pub(super) fn reach_witness(environment: &Environment, is_open: bool) -> Result<(), DrillError> {
    let appliance = environment.lab.appliance();
    let remembers = appliance.witness.iter().flat_map(|one| &one.addresses);
    let votes = appliance
        .quorum
        .iter()
        .filter_map(|quorum| quorum.witness.as_ref());
    let mut addresses: Vec<IpAddr> = remembers.copied().collect();
    addresses.extend(votes.map(|witness| witness.address));
    addresses.sort_unstable();
    addresses.dedup();
    for head in environment.lab.heads() {
        route(environment, &head, &addresses, is_open)?;
    }
    Ok(())
}

/// `status` must show that the witness is lost.
fn await_status_reports_loss(
    environment: &mut Environment,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    let is_told = |environment: &Environment| {
        let serving = environment.serving().ok().flatten();
        let told = serving.and_then(|head| environment.unhealthy_devices(&head));
        told.is_some_and(|why| why.contains("does not answer"))
    };
    if !environment.wait_until(FALL_BEHIND_WITHIN, is_told)? {
        let words = "`bulkhead status` does not show that the witness does not respond";
        fault.complaints.push(words.to_owned());
    }
    Ok(())
}

/// Cuts a leg off, and blocks until the record lists it as stale, and clients have written more.
fn fall_behind(
    environment: &mut Environment,
    head: &HeadName,
    lender: &HeadName,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    cut(environment, lender)?;
    wait_until_stale(environment, head, lender, fault)
}

/// Blocks until the record lists the legs of an unreachable head as stale, and clients have written more.
pub(crate) fn wait_until_stale(
    environment: &mut Environment,
    head: &HeadName,
    lender: &HeadName,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    let lacks = |environment: &Environment| environment.are_stale(head, lender);
    if !environment.wait_until(FALL_BEHIND_WITHIN, lacks)? {
        let words = format!("the record does not list the legs of {lender} as stale");
        fault.complaints.push(words);
    }
    environment.client.listen(STALE_WRITE_TIME)
}

/// A leg becomes stale, all heads lose power, and all but the serving head return: they must not serve the pool without
/// the acknowledged writes.
fn return_stale_alone(
    environment: &mut Environment,
    head: &HeadName,
    lender: &HeadName,
    rng: &mut fastrand::Rng,
) -> Result<Fault, DrillError> {
    let words = format!("the legs of {lender} fall behind, all lose their power, {head} is late");
    let mut fault = Fault::begin(words);
    fall_behind(environment, head, lender, &mut fault)?;
    let mut heads = environment.lab.heads();
    rng.shuffle(&mut heads);
    for one in &heads {
        environment.lab.power(one, Power::Off)?;
    }
    mend(environment, lender)?;
    heads.retain(|one| one != head);
    for one in &heads {
        environment.remove_pool_log(one);
        environment.lab.power(one, Power::On)?;
    }
    let back = Timestamp::now();
    let is_over = |environment: &Environment| {
        let is_refused = |one: &HeadName| {
            environment.pool_log(one).contains(REFUSAL)
                || alone::waits(environment, one, "legs of this head are not current")
        };
        heads.iter().any(is_refused) || environment.client.seen.all_responded_since(back)
    };
    let has_votes = environment.lab.appliance().witness.is_some() || heads.len() > 1;
    let boot_wait_s = environment.lab.appliance().timeouts().boot_wait_s;
    let limit = match has_votes {
        true => REFUSED_WITHIN + Duration::from_secs(boot_wait_s.into()),
        false => STARTED_WITHIN,
    };
    let is_over = environment.wait_until(limit, is_over)?;
    // The refusal must be permanent.
    environment.client.listen(STALE_WRITE_TIME)?;
    if let Some(one) = environment.serving()? {
        let words =
            format!("{one} serves the pool without {head}, which has all that was acknowledged");
        fault.complaints.push(words);
    }
    if !is_over && has_votes {
        fault
            .complaints
            .push(format!("{lender} reports no refusal"));
    }
    fault.acted_at = Timestamp::now();
    environment.lab.power(head, Power::On)?;
    switch_on(environment, &mut fault)?;
    Ok(fault)
}

/// Heads lose their power one after the other, and get it back so, in orders of their own.
fn lose_power_in_turn(
    environment: &mut Environment,
    rng: &mut fastrand::Rng,
) -> Result<Fault, DrillError> {
    let mut heads = environment.lab.heads();
    rng.shuffle(&mut heads);
    let mut fault = Fault::begin("heads lose their power: ");
    for (index, one) in heads.iter().enumerate() {
        if index > 0 {
            listen_ms(environment, &mut fault, rng.u64(..TURN_MS_MAX))?;
        }
        environment.lab.power(one, Power::Off)?;
        fault.words.push_str(one.as_str());
    }
    rng.shuffle(&mut heads);
    fault.words.push_str("; and get it back: ");
    for (index, one) in heads.iter().enumerate() {
        if index > 0 {
            listen_ms(environment, &mut fault, rng.u64(..TURN_MS_MAX))?;
        }
        environment.lab.power(one, Power::On)?;
        fault.words.push_str(one.as_str());
    }
    fault.acted_at = Timestamp::now();
    switch_on(environment, &mut fault)?;
    Ok(fault)
}

fn listen_ms(
    environment: &mut Environment,
    fault: &mut Fault,
    pause_ms: u64,
) -> Result<(), DrillError> {
    fault.words.push_str(&format!(", {pause_ms} ms later "));
    environment.client.listen(Duration::from_millis(pause_ms))
}

/// A leg is resilvered, and during that its head, or the serving head, loses power.
fn lose_power_during_return(
    environment: &mut Environment,
    head: &HeadName,
    lender: &HeadName,
    rng: &mut fastrand::Rng,
) -> Result<Fault, DrillError> {
    let victim = if rng.bool() { head } else { lender };
    let pause_ms = rng.u64(..RETURN_MS_MAX);
    let words = format!(
        "the legs of {lender} are back after a while, and {pause_ms} ms later {victim} loses its power"
    );
    let mut fault = Fault::of_head(words, victim);
    fall_behind(environment, head, lender, &mut fault)?;
    mend(environment, lender)?;
    environment.client.listen(Duration::from_millis(pause_ms))?;
    environment.lab.power(victim, Power::Off)?;
    environment.client.listen(DARK)?;
    fault.acted_at = Timestamp::now();
    environment.lab.power(victim, Power::On)?;
    switch_on(environment, &mut fault)?;
    Ok(fault)
}

/// The serving head and another head are partitioned, and neither can power the other off. The serving head continues
/// or stops, and no other head takes the pool over. Then the partition heals.
fn part(
    environment: &mut Environment,
    head: &HeadName,
    lender: &HeadName,
) -> Result<Fault, DrillError> {
    let words =
        format!("{head} and {lender} do not hear each other, and cannot power each other off");
    let mut fault = Fault::begin(words);
    for victim in [head, lender] {
        reach_fence_devices(environment, victim, false)?;
    }
    let set = |environment: &Environment, is_open| {
        let appliance = environment.lab.appliance();
        for (one, other) in [(head, lender), (lender, head)] {
            let addresses = addresses_in(appliance, other, |_| true);
            route(environment, one, &addresses, is_open)?;
        }
        Ok::<(), DrillError>(())
    };
    set(environment, false)?;
    environment.client.listen(APART)?;
    let own = environment.lab.cluster_view_of(lender)?;
    let taken = own.and_then(|state| crate::workload::serving_head(&state, &environment.pool));
    if taken.as_ref() == Some(lender) {
        let words = format!("{lender} took the pool without a confirmed power-off");
        fault.complaints.push(words);
    }
    set(environment, true)?;
    for victim in [head, lender] {
        reach_fence_devices(environment, victim, true)?;
    }
    fault.acted_at = Timestamp::now();
    switch_on(environment, &mut fault)?;
    Ok(fault)
}

/// Switches on heads that the cluster switched off, as an operator does without service. Returns when clients have
/// replies, or all heads are on permanently.
pub(super) fn switch_on(
    environment: &mut Environment,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    for _ in 0..OPERATOR_ROUNDS {
        let since = Timestamp::now();
        let answered = environment
            .client
            .listen_until(OPERATOR, |seen| seen.all_responded_since(since))?;
        if switch_on_heads(environment, fault)? && answered {
            break;
        }
    }
    Ok(())
}

/// Switches on heads that are off. Returns whether all were on.
fn switch_on_heads(environment: &mut Environment, fault: &mut Fault) -> Result<bool, DrillError> {
    let state = environment.lab.state()?;
    let off = state.heads.into_iter().filter(|(_, one)| !one.powered);
    let off: Vec<HeadName> = off.map(|(head, _)| head).collect();
    for head in &off {
        // A head that the cluster is just switching off is switched on at the next check.
        if environment.switch_on(head).is_ok() {
            let words = format!("; {head}, which is off, is switched on");
            fault.words.push_str(&words);
            fault.acted_at = Timestamp::now();
        }
    }
    Ok(off.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appliance(text: &str) -> Appliance {
        appliance::parse(text).expect("well formed").appliance
    }

    #[test]
    fn leg_drills_require_legs_and_some_a_witness() {
        let tank: PoolName = "tank".parse().expect("a name");
        let impossible = |appliance: &Appliance| {
            let drills = Drill::ALL.iter();
            let why = drills.filter(|drill| impossible(**drill, appliance, &tank).is_some());
            why.copied().collect::<Vec<_>>()
        };
        let pair = appliance(include_str!("../../../../examples/pair.toml"));
        let of_legs = Drill::ALL.iter().filter(|drill| drill.is_of_legs());
        assert_eq!(impossible(&pair), of_legs.copied().collect::<Vec<_>>());
        let witness = appliance(include_str!(
            "../../../../examples/legs-two-heads-witness.toml"
        ));
        assert_eq!(impossible(&witness), []);
        let mut voting = witness.clone();
        let shared = appliance(include_str!("../../../../examples/witness.toml"));
        voting.quorum = shared.quorum;
        let without_vote = Drill::ALL.iter().copied();
        let without_vote: Vec<Drill> = without_vote
            .filter(|drill| drill.is_without_vote())
            .collect();
        assert_eq!(impossible(&voting), without_vote);
        let three = appliance(include_str!("../../../../examples/legs-three-heads.toml"));
        let of_witness = |drill: &Drill| {
            let lost = [Drill::WitnessLost, Drill::WitnessHung, Drill::OneReturns];
            lost.contains(drill) || drill.is_without_vote()
        };
        let is_none = |drill: &&Drill| of_witness(drill) || matches!(drill, Drill::ThirdHeadJoins);
        let none: Vec<Drill> = Drill::ALL.iter().filter(is_none).copied().collect();
        assert_eq!(impossible(&three), none);
        let two = appliance(include_str!("../../../../examples/legs-two-heads.toml"));
        let is_alone = |drill: &&Drill| of_witness(drill) || matches!(drill, Drill::LegHung);
        let alone: Vec<Drill> = Drill::ALL.iter().filter(is_alone).copied().collect();
        assert_eq!(impossible(&two), alone);
        let mut shared = witness;
        let first = shared.pools[&tank].addresses[0].network.clone();
        shared.legs.as_mut().expect("legs").networks = vec![first];
        assert!(impossible(&shared).contains(&Drill::LegLinkCut));
    }

    #[test]
    fn head_is_reached_in_the_selected_networks() {
        let appliance = appliance(include_str!(
            "../../../../examples/legs-two-heads-witness.toml"
        ));
        let left = "left".parse().expect("a name");
        let found = addresses_in(&appliance, &left, |network| network.as_str() == "legs-b");
        assert_eq!(found, ["10.77.4.11".parse::<IpAddr>().expect("an address")]);
    }
}
