//! Faults of pools whose disks belong to heads: of the way to another head's legs, and of what lends them.

use std::net::IpAddr;
use std::time::Duration;

use appliance::Appliance;
use cluster::process::Invocation;
use lab::Who;
use units::{HeadName, NetworkName, PoolName};

use crate::catalogue::Drill;
use crate::environment::Environment;
use crate::error::DrillError;
use crate::faults::{Fault, other_head};

/// How much later a slow leg answers, in milliseconds.
const SLOW_LEG_MS: u32 = 100;
/// What lends a head's disks, as pkill(1) finds it.
const LEG_SERVER: &str = "[l]eg-server --config";
/// How long a leg that can be reached again may take to have what it missed.
const WHOLE_WITHIN: Duration = Duration::from_secs(90);

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
        Drill::LegLinkCut | Drill::LegHalfOpen if !is_apart => {
            Some("heads reach each other's disks by networks of clients")
        }
        _ => None,
    }
}

/// Makes the fault. `head` serves the pool.
///
/// # Errors
///
/// The lab does not do what it is told.
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
            signal(environment, &Who::Head(lender), "STOP", LEG_SERVER)?;
            Ok(fault)
        }
        Drill::LegSlow => {
            let fault = begin(format!("the legs of {lender} answer {SLOW_LEG_MS} ms late"));
            let names = environment.device_names(&lender);
            environment.set_device_faults(&names, &format!("delay={SLOW_LEG_MS}"))?;
            Ok(fault)
        }
        Drill::LegHalfOpen => {
            let fault = begin(format!("nothing that {lender} sends reaches another head"));
            hear(environment, &lender, false)?;
            Ok(fault)
        }
        _ => unreachable!("{drill} is no fault of legs"),
    }
}

/// Takes back what does not end by itself, and waits until every leg has what it missed.
///
/// # Errors
///
/// The lab does not do what it is told.
pub fn undo(
    drill: Drill,
    environment: &mut Environment,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    if let Some(lender) = &fault.lender {
        match drill {
            Drill::LegLinkCut => mend(environment, lender)?,
            Drill::LegHung => {
                signal(environment, &Who::Head(lender.clone()), "CONT", LEG_SERVER)?;
            }
            Drill::LegSlow => environment.set_device_faults(&[], "")?,
            Drill::LegHalfOpen => hear(environment, lender, true)?,
            _ => {}
        }
    }
    let is_whole = |environment: &Environment| {
        let serving = environment.serving().ok().flatten();
        serving.is_some_and(|head| environment.devices_unwell(&head).is_none())
    };
    if !environment.wait_until(WHOLE_WITHIN, is_whole)? {
        let serving = environment.serving()?;
        let why = serving.and_then(|head| environment.devices_unwell(&head));
        let why = why.unwrap_or_else(|| "no head serves the pool".to_owned());
        fault.complaints.push(format!(
            "the legs are not whole {} s after the fault: {why}",
            WHOLE_WITHIN.as_secs()
        ));
    }
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

fn signal(
    environment: &Environment,
    who: &Who,
    signal: &str,
    pattern: &str,
) -> Result<(), DrillError> {
    let signal = format!("-{signal}");
    environment
        .lab
        .must(who, "pkill", &[&signal, "-f", pattern])?;
    Ok(())
}

/// Addresses of a head in `networks`.
fn addresses_in(
    appliance: &Appliance,
    head: &HeadName,
    is_meant: impl Fn(&NetworkName) -> bool,
) -> Vec<IpAddr> {
    let links = appliance.heads[head].links.iter();
    let links = links.filter(|(network, _)| is_meant(network));
    let addresses = links.flat_map(|(_, link)| &link.addresses);
    addresses.copied().collect()
}

/// Lets what `head` sends to `addresses` arrive, or not any more. What comes from there arrives all the same.
fn route(
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
    // A head that booted meanwhile has no such route any more, and one without power none at all.
    match environment.lab.exec(&Who::Head(head.clone()), &script) {
        Err(_) if is_open => Ok(()),
        done => Ok(done.map(drop)?),
    }
}

/// Lets the other heads hear `lender` on the cables to its legs, or not any more.
fn hear(environment: &Environment, lender: &HeadName, is_open: bool) -> Result<(), DrillError> {
    let appliance = environment.lab.appliance();
    let networks = networks(environment);
    for other in appliance.heads.keys().filter(|other| *other != lender) {
        let addresses = addresses_in(appliance, other, |network| networks.contains(network));
        route(environment, lender, &addresses, is_open)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appliance(text: &str) -> Appliance {
        appliance::parse(text).expect("well formed").appliance
    }

    #[test]
    fn drills_of_legs_need_legs_and_some_networks_of_their_own() {
        let tank: PoolName = "tank".parse().expect("a name");
        let impossible = |appliance: &Appliance| {
            let drills = Drill::ALL.iter();
            let why = drills.filter(|drill| impossible(**drill, appliance, &tank).is_some());
            why.copied().collect::<Vec<_>>()
        };
        let pair = appliance(include_str!("../../examples/pair.toml"));
        let of_legs = Drill::ALL.iter().filter(|drill| drill.is_of_legs());
        assert_eq!(impossible(&pair), of_legs.copied().collect::<Vec<_>>());
        let witness = appliance(include_str!("../../examples/legs-two-heads-witness.toml"));
        assert_eq!(impossible(&witness), []);
        let three = appliance(include_str!("../../examples/legs-three-heads.toml"));
        assert_eq!(impossible(&three), []);
        let mut shared = witness;
        let first = shared.pools[&tank].addresses[0].network.clone();
        shared.legs.as_mut().expect("legs").networks = vec![first];
        assert!(impossible(&shared).contains(&Drill::LegLinkCut));
    }

    #[test]
    fn a_head_is_reached_in_the_networks_that_are_meant() {
        let appliance = appliance(include_str!("../../examples/legs-two-heads-witness.toml"));
        let left = "left".parse().expect("a name");
        let found = addresses_in(&appliance, &left, |network| network.as_str() == "legs-b");
        assert_eq!(found, ["10.77.4.11".parse::<IpAddr>().expect("an address")]);
    }
}
