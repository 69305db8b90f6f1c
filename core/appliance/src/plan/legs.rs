//! Pools of legs that do not exist yet: Pacemaker must not look for them, and a person makes them.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use units::{HeadName, PoolName};

use super::{Actual, DesiredState};
use crate::file::{Appliance, Pool};
use crate::render::{Cib, LEGS_PATH, address_id, pool_id};
use crate::xml::Element;

/// A pool that a person makes, once, on one head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolToMake {
    /// Which.
    pub pool: PoolName,
    /// Where the command is run: its home.
    pub head: HeadName,
    /// Words of the command, without the program's name.
    pub words: Vec<String>,
    /// The number by which heads remember it.
    #[serde(skip)]
    pub number: u64,
    /// What Pacemaker calls the pool and its addresses.
    #[serde(skip)]
    pub resources: BTreeSet<String>,
}

impl fmt::Display for PoolToMake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: bulkhead {}", self.head, self.words.join(" "))
    }
}

/// All pools of legs of the appliance.
pub(super) fn pools(appliance: &Appliance) -> Vec<PoolToMake> {
    let pools = appliance.pools.iter();
    pools
        .filter_map(|(name, pool)| to_be_made(appliance, name, pool))
        .collect()
}

fn to_be_made(appliance: &Appliance, name: &PoolName, pool: &Pool) -> Option<PoolToMake> {
    let number = pool.number.filter(|_| pool.has_legs())?;
    let head = appliance.heads_of(pool).into_iter().next()?;
    let addresses = pool.addresses.iter().map(|one| address_id(one.address));
    let ashift = pool.sector_bytes.max(1).ilog2();
    let words = ["pool", "create", name.as_str(), "--legs", LEGS_PATH];
    let words = words.into_iter().map(str::to_owned);
    Some(PoolToMake {
        pool: name.clone(),
        head,
        words: words
            .chain(["--property".to_owned(), format!("ashift={ashift}")])
            .collect(),
        number: number.into(),
        resources: addresses.chain([pool_id(name)]).collect(),
    })
}

/// Those that no head remembers, and that Pacemaker does not have already.
pub(super) fn to_make(
    desired: &DesiredState,
    actual: &Actual,
    before: &Element,
) -> Vec<PoolToMake> {
    let heads = actual.heads.values();
    let remembered: BTreeSet<u64> = heads.flat_map(|head| &head.remembered).copied().collect();
    let is_managed = |pool: &PoolToMake| {
        let resources = before.child("configuration");
        let resources = resources.and_then(|all| all.child("resources"));
        let id = pool_id(&pool.pool);
        resources.is_some_and(|all| {
            let mut all = all.children.iter();
            all.any(|one| one.attribute("id") == Some(id.as_str()))
        })
    };
    let pools = desired.pools_of_legs.iter();
    pools
        .filter(|pool| !remembered.contains(&pool.number) && !is_managed(pool))
        .cloned()
        .collect()
}

/// The configuration without these pools and their addresses.
pub(super) fn without(cib: &Cib, pools: &[PoolToMake]) -> Cib {
    let is_left_out = |id: &str| pools.iter().any(|pool| pool.resources.contains(id));
    let mut cib = cib.clone();
    cib.primitives.retain(|one| !is_left_out(&one.id));
    cib.locations.retain(|one| !is_left_out(&one.resource));
    cib.colocations.retain(|one| !is_left_out(&one.resource));
    cib.orders.retain(|one| !is_left_out(&one.then));
    cib
}
