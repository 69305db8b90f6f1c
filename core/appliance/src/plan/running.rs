//! Settings that a running cluster cannot change, and conditions that would keep its agents from running.

use std::collections::BTreeMap;

use super::{
    Actual, Change, DesiredState, HeadActual, Obstacle, QDEVICE_UNIT, Reader, file_changes_of,
    known, start,
};
use units::HeadName;

use crate::render::Node;

/// A head in the configuration of a running Corosync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningNode {
    /// Its number.
    pub number: u32,
    /// Its address on each link, by the number of the link.
    pub links: BTreeMap<u8, String>,
}

/// Heads without the agents' binary. A stop that cannot run is a failed stop, for which the head is powered off.
pub(super) fn missing_program(desired: &DesiredState, actual: &Actual) -> Vec<Obstacle> {
    let lacking = known(desired, actual).filter(|(_, known)| !known.has_program);
    let program = desired.program.display();
    lacking
        .map(|(head, _)| Obstacle {
            what: format!("{head} has no {program}, which its agents would run"),
            mend: format!(
                "install this release on {head} at that path, or name the path that is the same on every head, such as `--program \
                 /usr/bin/bulkhead`"
            ),
        })
        .collect()
}

/// Units that would open a pool of the file outside of Pacemaker.
pub(super) fn beside(desired: &DesiredState, actual: &Actual) -> Vec<Obstacle> {
    let units = known(desired, actual).flat_map(|(head, known)| {
        let units = known.units_beside.iter();
        units.map(move |unit| Obstacle {
            what: format!("{head} serves a pool of the file by {unit}, outside of Pacemaker"),
            mend: format!(
                "run `systemctl disable --now {unit}` on {head}: Pacemaker starts the pool then"
            ),
        })
    });
    units.collect()
}

/// Numbers of heads and addresses of links that differ in the running Corosync. It would treat the changed heads as
/// lost ones, and power them off.
pub(super) fn renumbered(desired: &DesiredState, actual: &Actual) -> Vec<Obstacle> {
    let mut obstacles: Vec<Obstacle> = Vec::new();
    for (_, known) in known(desired, actual) {
        for obstacle in desired
            .nodes
            .iter()
            .flat_map(|node| differences(node, known))
        {
            if !obstacles.contains(&obstacle) {
                obstacles.push(obstacle);
            }
        }
    }
    obstacles
}

fn differences(node: &Node, known: &HeadActual) -> Vec<Obstacle> {
    const STOP: &str = "or stop the cluster for it: `systemctl stop pacemaker corosync` on every head, which interrupts all service, and then apply";
    let (name, number) = (&node.name, node.number);
    let running = known.running_nodes.get(name.as_str());
    let mut others = known.running_nodes.iter();
    let other = others.find(|(other, one)| one.number == number && *other != name.as_str());
    if let Some((other, _)) = other {
        return vec![Obstacle {
            what: format!(
                "{name} has the number {number} in the file, which is that of {other} in the running cluster"
            ),
            mend: format!("give {name} a number that no head has, {STOP}"),
        }];
    }
    let Some(running) = running else {
        return Vec::new();
    };
    if running.number != number {
        return vec![Obstacle {
            what: format!(
                "{name} has the number {number} in the file and {} in the running cluster",
                running.number
            ),
            mend: format!("write `number = {}` again, {STOP}", running.number),
        }];
    }
    let address = |link: &u8| running.links.get(link).map(String::as_str);
    let mut obstacles = Vec::new();
    for (link, wanted) in &node.links {
        if let Some(is) = address(link).filter(|is| *is != wanted.to_string()) {
            obstacles.push(Obstacle {
                what: format!(
                    "link {link} of {name} has the address {wanted} in the file and {is} in the running cluster"
                ),
                mend: format!(
                    "write the former address and the former `heartbeat` again; a link is changed in two steps, by one file without its network's \
                     `heartbeat` and a second one with it, while another link stays; {STOP}"
                ),
            });
        }
    }
    let stays = |link: &u8| node.links.contains_key(link);
    if obstacles.is_empty() && !running.links.is_empty() && !running.links.keys().any(stays) {
        obstacles.push(Obstacle {
            what: format!("{name} would lose all its links in the running cluster"),
            mend: format!(
                "add the new links first, apply, and remove the former ones then, {STOP}"
            ),
        });
    }
    obstacles
}

/// Head by head, starts the process that votes for the witness, or restarts it where its settings changed: it reads
/// them once. At least one head has its vote at any time. While both witnesses vote, each head follows one of them; a
/// fence decides between heads that lose each other in those seconds.
pub(super) fn witness_changes(desired: &DesiredState, actual: &Actual) -> Vec<Change> {
    let mut changes = Vec::new();
    for (head, known) in known(desired, actual) {
        changes.extend(file_changes_of(
            desired,
            (head, known),
            Reader::WitnessDevice,
        ));
        if !desired.units.contains(&QDEVICE_UNIT) {
            continue;
        }
        let started = start(head, known, QDEVICE_UNIT);
        let is_old = runs_outdated_settings(desired, known);
        if is_old {
            changes.extend(heads_without_witness(desired, actual).map(await_witness));
            changes.push(Change::RestartUnit {
                head: head.clone(),
                unit: QDEVICE_UNIT.to_owned(),
            });
            changes.push(await_witness(head));
        }
        changes.extend(started);
    }
    changes
}

/// A witness that does not respond where corosync-qdevice is to be started: the run would apply all other changes
/// first, and fail then.
pub(super) fn unresponsive_witness(desired: &DesiredState, actual: &Actual) -> Vec<Obstacle> {
    let Some((address, port)) = desired.witness_place else {
        return Vec::new();
    };
    let heads = known(desired, actual);
    let silent = heads.filter(|(_, known)| known.reaches_witness == Some(false));
    silent
        .map(|(head, _)| Obstacle {
            what: format!("the witness does not respond to {head} at {address}, port {port}"),
            mend: format!(
                "run `systemctl enable --now corosync-qnetd` on the witness, and open TCP port {port} there; without a witness, leave \
                 `[quorum.witness]` out, with `rule = \"two-node\"` for two heads"
            ),
        })
        .collect()
}

/// Awaits the witness where only its vote is missing.
pub(super) fn witness_to_await(desired: &DesiredState, actual: &Actual) -> Vec<Change> {
    heads_without_witness(desired, actual)
        .map(await_witness)
        .collect()
}

fn await_witness(head: &HeadName) -> Change {
    Change::AwaitWitness { head: head.clone() }
}

/// Heads with a device that runs with the desired settings, but without the witness.
fn heads_without_witness<'a>(
    desired: &'a DesiredState,
    actual: &'a Actual,
) -> impl Iterator<Item = &'a HeadName> {
    known(desired, actual)
        .filter(|(_, known)| desired.units.contains(&QDEVICE_UNIT) && votes(known))
        .filter(|(_, known)| !runs_outdated_settings(desired, known) && !known.has_witness)
        .map(|(head, _)| head)
}

fn votes(known: &HeadActual) -> bool {
    known.units_active.contains(QDEVICE_UNIT)
}

fn runs_outdated_settings(desired: &DesiredState, known: &HeadActual) -> bool {
    votes(known) && known.witness_settings != desired.witness_settings
}
