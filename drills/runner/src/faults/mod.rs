//! Injects faults, and undoes them.

mod alone;
mod apart;
mod clock;
mod damage;
mod disks;
mod file;
mod heads;
pub mod joining;
mod legs;
mod memory;

pub use file::with_profile;

use std::time::Duration;

use cluster::host::Host;
use cluster::process::Invocation;
use lab::Power;
use rustix::process::{Pid, Signal, kill_process};
use units::{HeadName, NetworkName};

use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::{Fault, Impossible};
use drill_verdict::{Drill, SLOW_BMC_MS, Timestamp};

use self::clock::JUMP_S;
use self::heads::{hand_over, host_of, other_head, reach_fence_devices, server_pid, survivors};

/// How long heads stay without power when all lost it.
const DARK: Duration = Duration::from_secs(1);
/// Time until an operator confirms that a head is off. Longer than a takeover.
const UNCONFIRMED: Duration = Duration::from_secs(8);
/// The delay of a slow disk, in milliseconds.
const SLOW_DISK_MS: u32 = 100;
/// A brief power failure ends within this time, in milliseconds: before the remaining heads notice, while they power
/// the head off, while they start the pool, or later.
const BLINK_MS_MAX: u64 = 1_500;

/// Whether the drill is possible with such an appliance.
pub fn possible(
    drill: Drill,
    appliance: &appliance::Appliance,
    pool: &units::PoolName,
) -> Result<(), Impossible> {
    let not = |why: &str| Err(Impossible(why.to_owned()));
    if let Some(why) = legs::impossible(drill, appliance, pool) {
        return not(why);
    }
    let client_networks = client_networks(appliance, pool);
    match drill {
        Drill::OneLinkCut | Drill::OneNetworkDown if client_networks.len() < 2 => {
            not("the pool has addresses in one network only")
        }
        Drill::BmcSlow if appliance.heads.values().any(|head| !has_bmc(head)) => {
            not("not every head has a BMC")
        }
        Drill::BmcDead if !appliance.heads.values().all(has_two_fence_paths) => {
            not("not every head has a BMC and outlets")
        }
        Drill::BothLegsGone if appliance.pools[pool].has_legs() => {
            not("no disk of the pool is shared: `stale-alone` loses a whole mirror")
        }
        Drill::DiskFails | Drill::DiskHangs | Drill::DiskSlow | Drill::BothLegsGone
            if !appliance.pools[pool].has_legs() && appliance.pools[pool].disks.len() < 2 =>
        {
            not("the pool has one disk")
        }
        _ => Ok(()),
    }
}

fn has_bmc(head: &appliance::Head) -> bool {
    head.fencing
        .as_ref()
        .is_some_and(|fencing| fencing.bmc.is_some())
}

fn has_two_fence_paths(head: &appliance::Head) -> bool {
    let fencing = head.fencing.as_ref();
    has_bmc(head) && fencing.is_some_and(|fencing| !fencing.outlets.is_empty())
}

/// The networks in which clients reach the pool.
fn client_networks(appliance: &appliance::Appliance, pool: &units::PoolName) -> Vec<NetworkName> {
    let mut networks: Vec<NetworkName> = Vec::new();
    for address in &appliance.pools[pool].addresses {
        if !networks.contains(&address.network) {
            networks.push(address.network.clone());
        }
    }
    networks
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
    match drill {
        Drill::ActivePower => {
            let fault = Fault::of_head(format!("{head} loses its power"), head);
            environment.lab.power(head, Power::Off)?;
            Ok(fault)
        }
        Drill::PowerBlinks => {
            let dark_ms = rng.u64(..BLINK_MS_MAX);
            let words = format!("{head} loses its power, and gets it back {dark_ms} ms later");
            let mut fault = Fault::of_head(words, head);
            environment.lab.power(head, Power::Off)?;
            environment.client.listen(Duration::from_millis(dark_ms))?;
            environment.lab.power(head, Power::On)?;
            fault.acted_at = Timestamp::now();
            Ok(fault)
        }
        Drill::PassivePower => {
            let other = other_head(environment, head, rng);
            let fault = Fault::of_head(format!("{other} loses its power"), &other);
            environment.lab.power(&other, Power::Off)?;
            Ok(fault)
        }
        Drill::ServerKilled => signal_server(environment, Signal::KILL, "is killed"),
        Drill::ServerFrozen => signal_server(environment, Signal::STOP, "is stopped"),
        Drill::MemoryExhausted => memory::exhaust(environment, head),
        Drill::HeadFrozen => {
            let fault = Fault::of_head(format!("{head} stands still"), head);
            environment.lab.freeze(head)?;
            Ok(fault)
        }
        Drill::AllLinksCut => {
            let fault = Fault::of_head(format!("{head} loses all links"), head);
            environment.lab.cut(head, &[])?;
            Ok(fault)
        }
        Drill::OneLinkCut | Drill::OneNetworkDown => cut_network(drill, environment, head, rng),
        Drill::FenceDead => lose_head_and_fencing(environment, head),
        Drill::DiskFails => disks::harm(environment, head, rng, "read=eio write=eio flush=eio"),
        Drill::DiskHangs => disks::harm(environment, head, rng, "hang"),
        Drill::DiskSlow => disks::harm(environment, head, rng, &format!("delay={SLOW_DISK_MS}")),
        Drill::BothLegsGone => disks::lose_mirror(environment, head, rng),
        Drill::BmcSlow => {
            let delay = Duration::from_millis(SLOW_BMC_MS.into());
            environment.lab.set_bmc_delay(head, delay)?;
            let fault = Fault::of_head(format!("{head} is frozen, its BMC is slow"), head);
            environment.lab.freeze(head)?;
            Ok(fault)
        }
        Drill::BmcDead => {
            environment.lab.set_bmc_dead(head, true)?;
            let fault = Fault::of_head(
                format!("{head} is frozen, and its BMC does not respond"),
                head,
            );
            environment.lab.freeze(head)?;
            Ok(fault)
        }
        Drill::Move => {
            let other = other_head(environment, head, rng);
            hand_over(environment, head, &other)
        }
        Drill::MoveBack => {
            let home = home(environment).unwrap_or_else(|| other_head(environment, head, rng));
            hand_over(environment, head, &home)
        }
        Drill::BothPowerCycled => {
            let mut fault =
                Fault::begin("all heads lose their power, and get it back a second later");
            for one in environment.lab.heads() {
                environment.lab.power(&one, Power::Off)?;
            }
            environment.client.listen(DARK)?;
            for one in environment.lab.heads() {
                environment.lab.power(&one, Power::On)?;
            }
            fault.acted_at = Timestamp::now();
            Ok(fault)
        }
        Drill::FileChanges => file::change(environment),
        Drill::ClockJump => clock::jump(environment, head, JUMP_S),
        Drill::ClockJumpBack => clock::jump(environment, head, -JUMP_S),
        Drill::ThirdHeadJoins => joining::strike(environment, head, rng),
        _ => legs::strike(drill, environment, head, rng),
    }
}

/// Brings the pool to where the drill begins: its home, or for the way back away from it.
///
/// # Errors
///
/// It cannot be moved.
pub fn prepare(
    drill: Drill,
    environment: &mut Environment,
    head: &HeadName,
    rng: &mut fastrand::Rng,
) -> Result<HeadName, DrillError> {
    let home = home(environment).unwrap_or_else(|| head.clone());
    let wanted = match drill {
        Drill::MoveBack => other_head(environment, &home, rng),
        _ => home,
    };
    let mut head = head.clone();
    if drill == Drill::LastLegDamaged {
        damage::prepare(environment, &head, rng)?;
    }
    if drill.is_of_legs() && head == wanted {
        // A server re-admits a leg only a few times an hour: each round has a server of its own.
        let other = other_head(environment, &head, rng);
        hand_over(environment, &head, &other)?;
        head = environment.settle()?;
    }
    if head == wanted {
        return Ok(wanted);
    }
    hand_over(environment, &head, &wanted)?;
    environment.settle()
}

fn home(environment: &Environment) -> Option<HeadName> {
    environment.lab.appliance().pools[&environment.pool]
        .home
        .clone()
}

/// Undoes faults that do not end automatically. Heads, cables and power are restored while the environment settles.
///
/// # Errors
///
/// A command in the lab fails.
pub fn undo(
    drill: Drill,
    environment: &mut Environment,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    match drill {
        Drill::DiskFails | Drill::DiskHangs | Drill::DiskSlow | Drill::BothLegsGone => {
            disks::mend(environment, fault)?;
        }
        Drill::BmcSlow => {
            if let Some(head) = &fault.victim {
                environment.lab.set_bmc_delay(head, Duration::ZERO)?;
            }
            thaw(environment, fault)?;
        }
        Drill::FenceDead => {
            if let Some(head) = &fault.victim {
                reach_fence_devices(environment, head, true)?;
            }
        }
        Drill::BmcDead => {
            if let Some(head) = &fault.victim {
                environment.lab.set_bmc_dead(head, false)?;
            }
            thaw(environment, fault)?;
        }
        Drill::ClockJump | Drill::ClockJumpBack => {
            if let Some(head) = &fault.victim {
                environment.lab.set_clock(head, 0)?;
            }
        }
        Drill::MemoryExhausted => {
            if let Some(exhausted) = environment.exhausted.take() {
                let kills = exhausted.end()?;
                fault
                    .words
                    .push_str(&format!(", and the kernel kills {kills} processes"));
                if kills == 0 {
                    fault
                        .complaints
                        .push("the memory did not run out".to_owned());
                }
            }
        }
        Drill::HeadFrozen => thaw(environment, fault)?,
        Drill::FileChanges => file::change_back(environment, fault)?,
        _ if drill.is_of_legs() => legs::undo(drill, environment, fault)?,
        _ => {}
    }
    Ok(())
}

/// The head wakes up, if it still has power.
fn thaw(environment: &Environment, fault: &Fault) -> Result<(), DrillError> {
    match &fault.victim {
        Some(head) => Ok(environment.lab.thaw(head)?),
        None => Ok(()),
    }
}

fn signal_server(
    environment: &Environment,
    signal: Signal,
    verb: &str,
) -> Result<Fault, DrillError> {
    let pid = server_pid(environment)?;
    let fault = Fault::begin(format!("the pool's server, process {pid}, {verb}"));
    let pid = Pid::from_raw(pid).expect("processes have numbers above 0");
    kill_process(pid, signal)
        .map_err(|error| DrillError::io("signal the pool's server")(error.into()))?;
    Ok(fault)
}

fn cut_network(
    drill: Drill,
    environment: &Environment,
    head: &HeadName,
    rng: &mut fastrand::Rng,
) -> Result<Fault, DrillError> {
    let networks = client_networks(environment.lab.appliance(), &environment.pool);
    let network = networks[rng.usize(..networks.len())].clone();
    let heads = match drill {
        Drill::OneLinkCut => vec![head.clone()],
        _ => environment.lab.heads(),
    };
    let fault = match drill {
        Drill::OneLinkCut => Fault::begin(format!("{head} loses its link to {network}")),
        _ => Fault::begin(format!("the network {network} is gone")),
    };
    for head in &heads {
        environment.lab.cut(head, std::slice::from_ref(&network))?;
    }
    Ok(fault)
}

/// A head dies together with its fence devices. No takeover may happen until an operator, who is at the head, confirms
/// that it is off.
fn lose_head_and_fencing(
    environment: &mut Environment,
    head: &HeadName,
) -> Result<Fault, DrillError> {
    reach_fence_devices(environment, head, false)?;
    let mut fault = Fault::of_head(format!("{head} and its fence devices are gone"), head);
    environment.lab.power(head, Power::Off)?;
    environment.client.listen(UNCONFIRMED)?;
    if let Some(other) = environment.serving()?.filter(|other| other != head) {
        fault.complaints.push(format!(
            "{other} took the pool without a confirmed power-off"
        ));
    }
    if environment
        .client
        .seen
        .all_responded_since(Timestamp(fault.at.0 + 1.0))
    {
        fault
            .complaints
            .push("I/O went on without a confirmed power-off".to_owned());
    }
    let witnesses = survivors(environment, head);
    let alarm = Invocation::new("crm_mon", &["-1", "--output-as=xml", "--fence-history=3"]);
    let output = host_of(environment, &witnesses[0])?
        .run(&alarm)
        .map_err(lab::LabError::from)?;
    if !is_alarm(&output.text(), head) {
        fault
            .complaints
            .push("crm_mon does not show that the power-off fails".to_owned());
    }
    let confirm = Invocation::new("stonith_admin", &["--confirm", head.as_str()]);
    fault.acted_at = Timestamp::now();
    let output = host_of(environment, &witnesses[0])?
        .run(&confirm)
        .map_err(lab::LabError::from)?;
    if output.code != 0 {
        fault
            .complaints
            .push(format!("stonith_admin --confirm: {}", output.complaint()));
    }
    Ok(fault)
}

/// Whether Pacemaker shows that a power-off of `head` failed, or that one is waited for.
fn is_alarm(crm_mon: &str, head: &HeadName) -> bool {
    let target = format!("target=\"{head}\"");
    let is_told = |line: &str| {
        line.contains("<fence_event")
            && line.contains(&target)
            && !line.contains("status=\"success\"")
    };
    let is_unclean = |line: &str| {
        line.contains("<node ")
            && line.contains(&format!("name=\"{head}\""))
            && line.contains("unclean=\"true\"")
    };
    crm_mon
        .lines()
        .any(|line| is_told(line) || is_unclean(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_power_off_raises_alarm_successful_one_does_not() {
        let head = "left".parse().expect("a name");
        for (line, expected) in [
            (
                r#"<fence_event action="off" target="left" status="failed" exit-reason="x"/>"#,
                true,
            ),
            (
                r#"<fence_event action="off" target="left" status="pending"/>"#,
                true,
            ),
            (
                r#"<fence_event action="off" target="left" status="success"/>"#,
                false,
            ),
            (
                r#"<fence_event action="off" target="right" status="failed"/>"#,
                false,
            ),
            (
                r#"<node name="left" id="1" online="false" unclean="true"/>"#,
                true,
            ),
            (
                r#"<node name="left" id="1" online="true" unclean="false"/>"#,
                false,
            ),
        ] {
            assert_eq!(is_alarm(line, &head), expected, "{line}");
        }
    }

    #[test]
    fn drill_unsupported_by_appliance_is_reported() {
        let text = include_str!("../../../../examples/pair.toml");
        let mut appliance = appliance::parse(text).expect("well formed").appliance;
        let pool: units::PoolName = "tank".parse().expect("a name");
        for drill in Drill::ALL {
            let found = possible(*drill, &appliance, &pool);
            assert_eq!(found.is_err(), drill.is_of_legs(), "{drill}: {found:?}");
        }
        for head in appliance.heads.values_mut() {
            head.fencing.as_mut().expect("fencing").outlets.clear();
        }
        assert!(possible(Drill::BmcDead, &appliance, &pool).is_err());
        appliance
            .pools
            .get_mut(&pool)
            .expect("tank")
            .addresses
            .truncate(1);
        assert!(possible(Drill::OneLinkCut, &appliance, &pool).is_err());
    }
}
