//! Pools of legs that do not exist yet: Pacemaker must not look for them, and a person makes them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use legs_config::LegsFile;
use schemars::JsonSchema;
use serde::Serialize;
use units::{HeadName, PoolName};

use super::{Actual, DesiredState, HeadActual, Obstacle};
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

/// Whether a head has a pool on record with other members than the file names. Heads that went by different members could both open it.
pub(super) fn other_members(
    desired: &DesiredState,
    head: &HeadName,
    known: &HeadActual,
) -> Option<Obstacle> {
    let path = Path::new(LEGS_PATH);
    let (text, _) = known.files.get(path)?;
    let before = legs_config::parse(text).ok()?;
    let after = desired.files_of(head).find(|file| file.path == path)?;
    let after = legs_config::parse(&after.text).ok()?;
    let is_kept = |number: u64| before.pools.values().any(|pool| pool.guid == number);
    let mut pools = after.pools.iter();
    let (pool, _) =
        pools.find(|(_, pool)| known.remembered.contains(&pool.guid) && is_kept(pool.guid))?;
    let (old, new) = (members(&before), members(&after));
    (old != new).then(|| Obstacle {
        what: format!(
            "{head} has pool {pool} on record with the members {}, and the file names {}",
            old.join(", "),
            new.join(", ")
        ),
        mend: "name the same members in the file: those of a pool on record do not change. The guide says how a pool gets others, by another \
               record (Pools without shared disks, \"Add or remove a witness or a head\")"
            .to_owned(),
    })
}

/// Who remembers, by number.
fn members(file: &LegsFile) -> Vec<String> {
    let mut members: Vec<_> = file.members.iter().collect();
    members.sort_by_key(|(_, member)| member.number);
    let named = members.into_iter().map(|(name, member)| {
        let kind = match member.kind {
            legs_config::Kind::Head => "head",
            legs_config::Kind::Witness => "witness",
        };
        match kind == name {
            true => format!("{name} {}", member.number),
            false => format!("{kind} {name} {}", member.number),
        }
    });
    named.collect()
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
