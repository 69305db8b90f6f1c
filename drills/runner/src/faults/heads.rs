//! The heads and the pool's server that a fault is about.

use cluster::host::Local;
use drill_verdict::Timestamp;
use lab::Node;
use units::HeadName;

use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::Fault;
use crate::watch::owners_now;

pub fn other_head(environment: &Environment, head: &HeadName, rng: &mut fastrand::Rng) -> HeadName {
    let appliance = environment.lab.appliance();
    let mut others = appliance.heads_of(&appliance.pools[&environment.pool]);
    others.retain(|other| other != head);
    others[rng.usize(..others.len())].clone()
}

/// The process that has the pool's disks open, by its pid on this host.
pub fn server_pid(environment: &Environment) -> Result<i32, DrillError> {
    let owners =
        owners_now(&environment.files()).map_err(DrillError::io("look for the pool's server"))?;
    let pid = owners.first().copied();
    pid.ok_or_else(|| DrillError::Client("no process has the pool's disks open".to_owned()))
}

pub fn hand_over(
    environment: &Environment,
    from: &HeadName,
    to: &HeadName,
) -> Result<Fault, DrillError> {
    let mut fault = Fault::begin(format!("the pool is moved from {from} to {to}"));
    // As an operator does, from the head that is there anyway.
    let machine = Local {
        prefix: environment.lab.enter(&Node::Head(from.clone()))?,
    };
    cluster::hand_over(&machine, environment.lab.appliance(), &environment.pool, to)?;
    fault.acted_at = Timestamp::now();
    Ok(fault)
}

pub fn survivors(environment: &Environment, victim: &HeadName) -> Vec<HeadName> {
    let mut heads = environment.lab.heads();
    heads.retain(|head| head != victim);
    heads
}

pub fn host_of(environment: &Environment, head: &HeadName) -> Result<Local, DrillError> {
    Ok(Local {
        prefix: environment.lab.enter(&Node::Head(head.clone()))?,
    })
}

/// Lets the other heads reach whatever can power `victim` off, or not any more.
pub fn reach_fence_devices(
    environment: &Environment,
    victim: &HeadName,
    reachable: bool,
) -> Result<(), DrillError> {
    let appliance = environment.lab.appliance();
    let Some(fencing) = &appliance.heads[victim].fencing else {
        return Ok(());
    };
    let bmc = fencing.bmc.iter().map(|bmc| bmc.address);
    let pdus = fencing
        .outlets
        .iter()
        .filter_map(|outlet| appliance.pdus.get(&outlet.pdu));
    let addresses: Vec<_> = bmc.chain(pdus.map(|pdu| pdu.address)).collect();
    let verb = if reachable { "del" } else { "add" };
    for head in survivors(environment, victim) {
        for address in &addresses {
            let address = address.to_string();
            let route = ["route", verb, "blackhole", &address];
            let done = environment
                .lab
                .must(&Node::Head(head.clone()), "ip", &route);
            // A head that booted in the meantime has no such route any more.
            if let Err(error) = done {
                if !reachable {
                    return Err(error.into());
                }
            }
        }
    }
    Ok(())
}
