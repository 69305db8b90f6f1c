//! Servers that run and listen elsewhere than they shall.

use units::{HeadName, PoolName};

use super::{Actual, Change, DesiredState, HeadActual, Obstacle};
use crate::ports::Portals;

/// What servers are told, in an order in which each place is free before it is taken.
#[derive(Default)]
pub(super) struct PortalChanges {
    /// What takes no place of another server.
    pub(super) first: Vec<Change>,
    /// What takes one, after that one has let go, and pools that leave the file are stopped.
    pub(super) then: Vec<Change>,
    /// Why that is not possible.
    pub(super) obstacles: Vec<Obstacle>,
}

pub(super) fn changes(desired: &DesiredState, actual: &Actual) -> PortalChanges {
    let mut changes = PortalChanges::default();
    for (head, known) in &actual.heads {
        for (pool, listens) in &known.portals {
            let wanted = desired.portals.get(pool);
            if let Some(wanted) = wanted.map(|wanted| wanted.known_to(listens)) {
                changes.of_server(desired, (head, known), (pool, listens), &wanted);
            }
        }
    }
    changes
}

/// Whether a server takes what another one on its head gives up, or what a pool has that leaves the file.
fn takes(desired: &DesiredState, known: &HeadActual, pool: &PoolName, new: &Portals) -> bool {
    let mut others = known.portals.iter().filter(|(other, _)| *other != pool);
    others.any(|(other, listens)| {
        let gone = match desired.portals.get(other) {
            Some(wanted) => listens.beyond(&wanted.known_to(listens)),
            None => listens.clone(),
        };
        new.meets(&gone)
    })
}

impl PortalChanges {
    fn of_server(
        &mut self,
        desired: &DesiredState,
        (head, known): (&HeadName, &HeadActual),
        (pool, listens): (&PoolName, &Portals),
        wanted: &Portals,
    ) {
        let set = |from: &Portals, portals: &Portals| Change::SetPortals {
            head: head.clone(),
            program: desired.program.clone(),
            pool: pool.clone(),
            new: portals.beyond(from),
            gone: from.beyond(portals),
            portals: portals.clone(),
            in_use: desired.in_use,
        };
        let (gone, new) = (listens.beyond(wanted), wanted.beyond(listens));
        let kept = listens.beyond(&gone);
        match (gone.is_empty() && new.is_empty(), takes(desired, known, pool, &new)) {
            (true, _) => {}
            (false, false) => self.first.push(set(listens, wanted)),
            (false, true) if gone.is_empty() => self.then.push(set(listens, wanted)),
            // A server without any place does not tell what it knows: a run that is cut off would leave it so.
            (false, true) if kept.is_empty() => self.obstacles.push(Obstacle {
                what: format!(
                    "pool {pool}, which {head} serves, gives all its addresses up and takes addresses that another pool has there"
                ),
                mend: "apply a file first in which it has an address that no pool has yet, or move one of the pools to another head"
                    .to_owned(),
            }),
            (false, true) => {
                self.first.push(set(listens, &kept));
                self.then.push(set(&kept, wanted));
            }
        }
    }
}
