//! Pools and addresses that leave the file. Pacemaker must stop them before their configuration is deleted, and a pool
//! with clients is not removed without confirmation.

use std::collections::BTreeSet;

use units::PoolName;

use super::cib::is_in_maintenance;
use super::{Actual, Change, DesiredState, Obstacle};
use crate::render::{Cib, pool_id, pool_of};
use crate::xml::Element;

/// Stops the resources of Pacemaker that are no longer desired.
pub(super) fn stop(before: &Element, cib: &Cib) -> Option<Change> {
    let resources = gone(before, cib);
    (!resources.is_empty()).then_some(Change::StopResources { resources })
}

/// Returns the pools and addresses of `before` that are not in `cib`. Fence devices are excluded: they need no stop.
fn gone(before: &Element, cib: &Cib) -> BTreeSet<String> {
    let known = resources(before).filter(|one| one.attribute("provider") == Some("bulkhead"));
    let known = known.filter_map(Element::id);
    let stays = |id: &&str| cib.primitives.iter().any(|one| one.id == *id);
    known.filter(|id| !stays(id)).map(str::to_owned).collect()
}

fn resources(cib: &Element) -> impl Iterator<Item = &Element> {
    let resources = cib
        .child("configuration")
        .and_then(|one| one.child("resources"));
    resources
        .into_iter()
        .flat_map(|resources| &resources.children)
}

/// Returns the reasons why removed resources cannot be stopped now.
pub(super) fn obstacles(desired: &DesiredState, actual: &Actual) -> Vec<Obstacle> {
    let Some(before) = &actual.cib else {
        return Vec::new();
    };
    let gone = gone(before, &desired.cib);
    let mut obstacles = Vec::new();
    if !gone.is_empty() && is_in_maintenance(before) {
        let all: Vec<&str> = gone.iter().map(String::as_str).collect();
        obstacles.push(Obstacle {
            what: format!(
                "{} must be stopped, and Pacemaker is in maintenance mode, in which it stops nothing",
                all.join(", ")
            ),
            mend: "run `crm_attribute --name maintenance-mode --delete` first".to_owned(),
        });
    }
    let pools: BTreeSet<PoolName> = resources(before)
        .filter_map(|one| pool_of(one.id()?))
        .collect();
    for (head, known) in actual.heads.iter().filter(|_| !desired.in_use) {
        for (pool, clients) in known.clients.iter().filter(|(_, clients)| **clients > 0) {
            if !pools.contains(pool) || desired.portals.contains_key(pool) {
                continue;
            }
            let lost = match gone.contains(&pool_id(pool)) {
                true => "is not in the file any more",
                false => "has no address in the file any more",
            };
            let clients = match clients {
                1 => "1 client".to_owned(),
                count => format!("{count} clients"),
            };
            obstacles.push(Obstacle {
                what: format!("pool {pool} {lost}, and {head} serves it to {clients}"),
                mend: format!(
                    "end their sessions first (`bulkhead portal list` on {head} counts them), or take the pool away from them: `bulkhead \
                     appliance apply --in-use`"
                ),
            });
        }
    }
    obstacles
}
