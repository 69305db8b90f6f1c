//! Changes of the portals of running servers.

use units::{HeadName, PoolName};

use super::{Actual, Change, DesiredState, HeadActual, Obstacle};
use crate::ports::Portals;

/// Changes of the portals of servers, in an order in which each portal is free before it is used.
#[derive(Default)]
pub(super) struct PortalChanges {
    /// Changes that use no portal of another server.
    pub(super) first: Vec<Change>,
    /// Changes that use one, after the other server has released it and pools that leave the file
    /// are stopped.
    pub(super) then: Vec<Change>,
    /// Why that is not possible.
    pub(super) obstacles: Vec<Obstacle>,
}

pub(super) fn changes(desired: &DesiredState, actual: &Actual) -> PortalChanges {
    let mut changes = PortalChanges::default();
    for (head, known) in &actual.heads {
        for (pool, listens) in &known.portals {
            let wanted = desired.portals.get(pool);
            if let Some(wanted) = wanted.map(|wanted| wanted.supported_by(listens)) {
                changes.of_server(desired, (head, known), (pool, listens), &wanted);
            }
        }
    }
    changes
}

/// Returns whether a server gets a portal that a different server on its head releases, or that belongs to a pool that
/// leaves the file.
fn takes(desired: &DesiredState, known: &HeadActual, pool: &PoolName, new: &Portals) -> bool {
    let mut others = known.portals.iter().filter(|(other, _)| *other != pool);
    others.any(|(other, listens)| {
        let gone = match desired.portals.get(other) {
            Some(wanted) => listens.minus(&wanted.supported_by(listens)),
            None => listens.clone(),
        };
        new.overlaps(&gone)
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
            new: portals.minus(from),
            gone: from.minus(portals),
            portals: portals.clone(),
            in_use: desired.in_use,
        };
        let (gone, new) = (listens.minus(wanted), wanted.minus(listens));
        let kept = listens.minus(&gone);
        match (gone.is_empty() && new.is_empty(), takes(desired, known, pool, &new)) {
            (true, _) => {}
            (false, false) => self.first.push(set(listens, wanted)),
            (false, true) if gone.is_empty() => self.then.push(set(listens, wanted)),
            // A server without any portal cannot report its state, and an interrupted run would leave it like that.
            (false, true) if kept.is_empty() => self.obstacles.push(Obstacle {
                what: format!(
                    "pool {pool}, which {head} serves, would release all its addresses and bind addresses that another pool has there"
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
