//! Pools of legs that do not exist yet: an administrator creates them, and Pacemaker must not manage them before. For
//! existing ones: the members of their record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use legs_config::{Group, Kind, Leg, LegsFile};
use schemars::JsonSchema;
use serde::Serialize;
use units::{HeadName, PoolName};

use super::{Actual, Change, DesiredState, HeadActual, Obstacle, RecordedMembers, disks};
use crate::file::{Appliance, Pool};
use crate::render::{Cib, LEGS_PATH, pool_id, resource_ids};
use crate::xml::Element;

/// A pool that an administrator creates, once, on one head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolToMake {
    /// Which.
    pub pool: PoolName,
    /// The head where the command is run: its home.
    pub head: HeadName,
    /// Arguments of the command.
    pub words: Vec<String>,
    /// The number of its record.
    #[serde(skip)]
    pub number: u64,
    /// The names of the pool and its addresses in Pacemaker.
    #[serde(skip)]
    pub resources: BTreeSet<String>,
}

impl fmt::Display for PoolToMake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: bulkhead {}", self.head, self.words.join(" "))
    }
}

/// Returns all pools of legs of the appliance.
pub(super) fn pools(appliance: &Appliance) -> Vec<PoolToMake> {
    let pools = appliance.pools.iter();
    pools
        .filter_map(|(name, pool)| pool_to_create(appliance, name, pool))
        .collect()
}

fn pool_to_create(appliance: &Appliance, name: &PoolName, pool: &Pool) -> Option<PoolToMake> {
    let number = pool.number.filter(|_| pool.has_legs())?;
    let head = appliance.heads_of(pool).into_iter().next()?;
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
        resources: resource_ids(name, pool).into_iter().collect(),
    })
}

/// Returns the pools that neither a head's record nor Pacemaker contains.
pub(super) fn uncreated_pools(
    desired: &DesiredState,
    actual: &Actual,
    before: &Element,
) -> Vec<PoolToMake> {
    let heads = actual.heads.values();
    let stored_pools: BTreeSet<u64> = heads.flat_map(|head| &head.stored_pools).copied().collect();
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
        .filter(|pool| !stored_pools.contains(&pool.number) && !is_managed(pool))
        .cloned()
        .collect()
}

/// Changes to the members of the records of pools.
#[derive(Default)]
pub(super) struct Witnesses {
    pub(super) obstacles: Vec<Obstacle>,
    /// Before the files are written: a witness to be removed can still be reached.
    pub(super) go: Vec<Change>,
    /// After the files are written and read: a new witness can be reached.
    pub(super) come: Vec<Change>,
    /// Legs that are not on record yet.
    pub(super) attach: Vec<Change>,
    /// Groups that are no part of their pool yet.
    pub(super) add: Vec<Change>,
    /// Groups that are added later.
    pub(super) notes: Vec<String>,
}

/// Returns the desired file of legs, as it is for the first head.
pub(super) fn wanted(desired: &DesiredState) -> Option<LegsFile> {
    desired.heads.iter().find_map(|(head, _)| {
        let mut files = desired.files_of(head);
        let file = files.find(|file| file.path == Path::new(LEGS_PATH))?;
        legs_config::parse(&file.text).ok()
    })
}

/// Returns the condition to await before the disks of `head` are unavailable during a restart; none where no pool with
/// legs is served.
pub(super) fn awaited(desired: &DesiredState, actual: &Actual, head: &HeadName) -> Option<Change> {
    let is_served = |pool: &PoolName| {
        let mut heads = actual.heads.values();
        heads.any(|known| known.portals.contains_key(pool))
    };
    let pools = wanted(desired)?.pools.into_iter();
    let served = pools.filter(|(name, _)| is_served(name));
    let groups: BTreeMap<PoolName, Vec<Group>> =
        served.map(|(name, pool)| (name, pool.groups)).collect();
    (!groups.is_empty()).then(|| Change::AwaitLegs {
        head: head.clone(),
        program: desired.program.clone(),
        pools: groups.keys().cloned().collect(),
        groups,
        time_limit: desired.legs_wait,
        stale_legs: desired.stale_legs,
    })
}

/// Compares the members that pools have on record with those in the file.
pub(super) fn witnesses(desired: &DesiredState, actual: &Actual) -> Witnesses {
    let mut found = Witnesses::default();
    let Some(wanted) = wanted(desired) else {
        return found;
    };
    let heads = actual.heads.iter();
    let files: Files<'_> = heads
        .filter_map(|(head, known)| {
            let (text, _) = known.files.get(Path::new(LEGS_PATH))?;
            Some((head, legs_config::parse(text).ok()?))
        })
        .collect();
    let labelled = labelled(actual);
    for (pool, entry) in &wanted.pools {
        let misnumbered = renumbered(pool, entry, actual, &files, &labelled)
            .or_else(|| used_number(pool, entry.guid, actual, &files, &labelled));
        if misnumbered.is_some() {
            found.obstacles.extend(misnumbered);
            continue;
        }
        let heads = files.iter().filter_map(|(head, file)| {
            let known = &actual.heads[*head];
            let mut pools = file.pools.values();
            let has =
                known.stored_pools.contains(&entry.guid) && pools.any(|one| one.guid == entry.guid);
            has.then_some((known, file))
        });
        let heads: Vec<HeadWithRecord<'_>> = heads.collect();
        if !heads.is_empty() {
            found.of_pool(
                desired,
                actual,
                (pool, entry.guid),
                (&heads, &files),
                &wanted,
            );
        }
    }
    found
}

/// The current files of legs of the heads.
pub(super) type Files<'a> = BTreeMap<&'a HeadName, LegsFile>;

/// A head that stores a pool's record, and a file that names the pool.
type HeadWithRecord<'a> = (&'a HeadActual, &'a LegsFile);

impl Witnesses {
    fn of_pool(
        &mut self,
        desired: &DesiredState,
        actual: &Actual,
        (pool, number): (&PoolName, u64),
        (knowing, files): (&[HeadWithRecord<'_>], &Files<'_>),
        wanted: &LegsFile,
    ) {
        let mut serving = actual.heads.iter();
        let serving = serving.find(|(_, known)| known.portals.contains_key(pool));
        let on_record = |known: &&HeadActual| known.on_record.get(&number).cloned();
        let mut others = knowing.iter().copied();
        let record = serving
            .and_then(|(_, known)| on_record(&known))
            .or_else(|| others.find_map(|(known, _)| on_record(&known)));
        let mut known = knowing.iter();
        let regrouped =
            known.find_map(|(_, file)| regrouped(pool, number, record.as_ref(), file, wanted));
        if regrouped.is_some() {
            return self.obstacles.extend(regrouped);
        }
        let risks = disks::obstacles(actual, files, record.as_ref(), (pool, &wanted.pools[pool]));
        if !risks.is_empty() {
            return self.obstacles.extend(risks);
        }
        let record = record.filter(|record| !record.heads.is_empty());
        let numbers = |kind| {
            let members = wanted.members.values().filter(move |one| one.kind == kind);
            members.map(|one| one.number).collect::<BTreeSet<u64>>()
        };
        let heads = numbers(Kind::Head);
        let witness = wanted
            .members
            .iter()
            .find(|(_, one)| one.kind == Kind::Witness);
        if let Some(record) = &record {
            let groups = unadded(pool, record, wanted);
            match serving {
                Some((head, _)) => {
                    let attached = unattached(desired, (head, pool), record, wanted, &groups);
                    self.attach.extend(attached);
                    let added = groups.iter().map(|group| Change::AddGroup {
                        head: head.clone(),
                        program: desired.program.clone(),
                        pool: pool.clone(),
                        group: wanted.words_to_add(group),
                    });
                    self.add.extend(added);
                }
                None if groups.is_empty() => {}
                None => self.notes.push(format!(
                    "no head serves pool {pool}: apply again when it is served, which adds the groups of the file that are no part of it yet"
                )),
            }
        }
        let is_wider = |record: &RecordedMembers| {
            let is_added = record.heads.len() == 2 && heads.len() == 3;
            is_added && record.heads.is_subset(&heads)
        };
        if let Some(record) = record.clone().filter(is_wider) {
            let members = wanted.members.iter();
            let mut coming = members.filter(|(_, one)| !record.heads.contains(&one.number));
            let coming = coming.next().map(|(name, _)| name.clone());
            let coming = coming.unwrap_or_default();
            let Some((head, _)) = serving else {
                return self.obstacles.push(unserved(pool, "heads change"));
            };
            let reason_against_new_head =
                reason_against_new_head((pool, &coming), &record, files.get(head), wanted);
            self.obstacles.extend(reason_against_new_head);
            return self.come.push(Change::AddHead {
                head: head.clone(),
                program: desired.program.clone(),
                pool: pool.clone(),
                coming,
            });
        }
        let Some(record) = record.filter(|record| record.heads == heads) else {
            // Its record does not name its members, no head reports them, or the heads differ.
            self.obstacles.extend(other_members(pool, knowing, wanted));
            return;
        };
        let change = |witness: Option<&String>| {
            let (head, _) = serving?;
            Some(Change::SetWitness {
                head: head.clone(),
                program: desired.program.clone(),
                pool: pool.clone(),
                witness: witness.cloned(),
            })
        };
        let (list, change) = match (record.witness, witness) {
            (None, Some((name, _))) => (&mut self.come, change(Some(name))),
            (Some(_), None) => (&mut self.go, change(None)),
            (Some(known), Some((_, one))) if known != one.number => {
                self.obstacles.push(Obstacle {
                    what: format!(
                        "pool {pool} has the witness of the number {known} on record, and the file names {}",
                        one.number
                    ),
                    mend: "remove the witness from the file and apply it, then name the new one and apply it again; a host that replaces \
                           the witness has its number"
                        .to_owned(),
                });
                return;
            }
            _ => return,
        };
        match change {
            Some(change) => list.push(change),
            None => self.obstacles.push(unserved(pool, "witness changes")),
        }
    }
}

fn unserved(pool: &PoolName, what: &str) -> Obstacle {
    Obstacle {
        what: format!("no head serves pool {pool}, and its {what} only while it is served"),
        mend: "have it served, with both heads there, and plan again".to_owned(),
    }
}

/// Refuses another number, or another name, than the labels of a pool's legs have: the legs would not be found by the
/// new one.
fn renumbered(
    pool: &PoolName,
    wanted: &legs_config::Pool,
    actual: &Actual,
    files: &Files<'_>,
    labelled: &BTreeSet<u64>,
) -> Option<Obstacle> {
    let number = wanted.guid;
    let pools = files.values().flat_map(|file| &file.pools);
    let known = pools.map(|(name, one)| (name, one.guid));
    let mut on_record = known.filter(|(_, known)| labelled.contains(known));
    let other = on_record.find(|(name, known)| (*name == pool) != (*known == number));
    let (what, word) = match other {
        Some((name, known)) if name == pool => (
            format!(
                "pool {pool} is on record with the number {known}, but has {number} in the file"
            ),
            format!("`number = {known}`"),
        ),
        Some((name, _)) => (
            format!(
                "the pool of the number {number} is {name} on record, and the file calls it {pool}"
            ),
            format!("`[pools.{name}]`"),
        ),
        None => {
            let mut legs = wanted.groups.iter().flat_map(|group| &group.legs);
            let (leg, known) = legs.find_map(|leg| {
                let mut heads = actual.heads.iter();
                let (_, head) = heads.find(|(name, _)| name.as_str() == leg.head)?;
                let known = head.disks.get(&leg.path)?.record?;
                (known != number && labelled.contains(&known)).then_some((leg, known))
            })?;
            (
                format!(
                    "{}:{} is a leg of the pool of the number {known} on record, but in the file it belongs to pool {pool} of the number {number}",
                    leg.head,
                    leg.path.display()
                ),
                format!("`number = {known}`, and the name that the pool had,"),
            )
        }
    };
    Some(Obstacle {
        what,
        mend: format!(
            "write {word} again: the members of the record identify the pool by the number, and its legs carry the name. A new pool gets \
             a name and a number that none had"
        ),
    })
}

/// Refuses a new pool with a number that is on record: no member would vote for it, so it could be neither created nor
/// started.
fn used_number(
    pool: &PoolName,
    number: u64,
    actual: &Actual,
    files: &Files<'_>,
    labelled: &BTreeSet<u64>,
) -> Option<Obstacle> {
    let mut heads = actual.heads.iter();
    let (head, _) = heads.find(|(_, known)| known.stored_pools.contains(&number))?;
    let mut pools = files.values().flat_map(|file| file.pools.values());
    // Where a head has lost its file, the labels are evidence.
    let is_known = pools.any(|one| one.guid == number) || labelled.contains(&number);
    let has_files = files.len() == actual.heads.len();
    (has_files && !is_known).then(|| Obstacle {
        what: format!(
            "pool {pool} is new in the file, and its number {number} is that of a pool that head {head} has on record"
        ),
        mend: "give it a number that no pool had: `bulkhead leg-server pools` on each head lists those".to_owned(),
    })
}

/// Returns the numbers of records that labels of disks name. A pool that continues without its record, or was
/// destroyed, has newer labels that name none.
fn labelled(actual: &Actual) -> BTreeSet<u64> {
    let disks = || actual.heads.values().flat_map(|head| head.disks.values());
    let named = disks().filter_map(|disk| Some((disk, disk.record?)));
    let is_newest = |(disk, number): &(&super::ObservedDisk, u64)| {
        !disks().any(|other| {
            let is_of_pool = other.pool_guid == disk.pool_guid && other.txg > disk.txg;
            is_of_pool && other.record != Some(*number)
        })
    };
    named.filter(is_newest).map(|(_, number)| number).collect()
}

/// Refuses to regroup the disks of a pool on record: another set of disks would count as readable.
fn regrouped(
    pool: &PoolName,
    number: u64,
    record: Option<&RecordedMembers>,
    before: &LegsFile,
    wanted: &LegsFile,
) -> Option<Obstacle> {
    let groups = |file: &LegsFile| {
        let pool = file.pools.values().find(|one| one.guid == number);
        pool.map(|one| one.groups.clone()).unwrap_or_default()
    };
    let disks = |groups: &[Group]| {
        let legs = groups.iter().flat_map(|group| &group.legs);
        legs.map(|leg| leg.disk).collect::<BTreeSet<u64>>()
    };
    let (old, new) = (groups(before), groups(wanted));
    // A leg that was never attached may be removed.
    let named = record.and_then(|record| record.disks.clone());
    let named = named.unwrap_or_else(|| disks(&old));
    let shape = |file: &LegsFile, groups: &[Group]| {
        let legs_of = |group: &Group| {
            let legs = group.legs.iter().filter(|leg| named.contains(&leg.disk));
            let placed =
                legs.map(|leg| (leg.disk, file.members.get(&leg.head).map(|one| one.number)));
            (group.needed, placed.collect::<BTreeSet<_>>())
        };
        groups.iter().map(legs_of).collect::<BTreeSet<_>>()
    };
    // A group without a disk on record joins the pool later, so the files may differ in it.
    let joined = |groups: &[Group]| -> Vec<Group> {
        let is_named = |group: &&Group| group.legs.iter().any(|leg| named.contains(&leg.disk));
        groups.iter().filter(is_named).cloned().collect()
    };
    let (old, new) = (joined(&old), joined(&new));
    let is_same = old.len() == new.len() && shape(before, &old) == shape(wanted, &new);
    (!is_same).then(|| Obstacle {
        what: format!("the file groups the disks of pool {pool} otherwise than its record"),
        mend: "leave its groups, and the numbers of their disks on each head, as they were: a mirror may get a further leg, and a disk that \
               takes the place of another one keeps its number. The guide says how a pool gets another record (Pools without shared disks, \
               \"Remove a head\")"
            .to_owned(),
    })
}

/// Returns why the server of the pool, which has read the file `before`, cannot add a new head.
fn reason_against_new_head(
    (pool, coming): (&PoolName, &str),
    record: &RecordedMembers,
    before: Option<&LegsFile>,
    wanted: &LegsFile,
) -> Option<Obstacle> {
    let number = wanted.members.get(coming).map(|one| one.number);
    if record.witness.is_some() && record.witness == number {
        return Some(Obstacle {
            what: format!(
                "head {coming} has the number that the witness of pool {pool} has on record"
            ),
            mend: "give it a number that no member had".to_owned(),
        });
    }
    if record.disks.is_none() {
        return Some(Obstacle {
            what: format!("a head of pool {pool} has an earlier release, which adds no head"),
            mend: "install this release of bulkhead on all heads, and restart their leg-servers and the pool's server".to_owned(),
        });
    }
    let is_fit = before.is_none_or(|before| wanted.adds_to(before, pool, coming));
    (!is_fit).then(|| Obstacle {
        what: format!(
            "the file has more changes of pool {pool} than head {coming} and its legs in mirrors"
        ),
        mend: "apply the other changes first, or later".to_owned(),
    })
}

/// Returns the groups that are no part of the pool: the record names none of their legs, or names them as empty ones
/// because an addition was interrupted.
fn unadded<'a>(pool: &PoolName, record: &RecordedMembers, wanted: &'a LegsFile) -> Vec<&'a Group> {
    let Some(named) = &record.disks else {
        return Vec::new();
    };
    let has_joined = record.current.as_ref().unwrap_or(named);
    let groups = wanted.pools.get(pool).map(|pool| &pool.groups);
    let groups = groups.into_iter().flatten();
    groups
        .filter(|group| !group.legs.iter().any(|leg| has_joined.contains(&leg.disk)))
        .collect()
}

/// Returns legs of mirrors that the record does not name yet.
fn unattached(
    desired: &DesiredState,
    (head, pool): (&HeadName, &PoolName),
    record: &RecordedMembers,
    wanted: &LegsFile,
    unadded: &[&Group],
) -> Vec<Change> {
    let name = |leg: &Leg| format!("{}:{}", leg.head, leg.path.display());
    let disks = record.disks.as_ref();
    let is_named = |leg: &&Leg| disks.is_none_or(|disks| disks.contains(&leg.disk));
    let groups = wanted.pools.get(pool).map(|pool| &pool.groups);
    let mirrors = groups.into_iter().flatten().filter(|one| one.needed == 1);
    let mirrors = mirrors.filter(|group| !unadded.contains(group));
    let attached = mirrors.filter_map(|group| {
        let (old, new): (Vec<&Leg>, Vec<&Leg>) = group.legs.iter().partition(is_named);
        let beside = name(old.first()?);
        let attach = new.into_iter().map(move |leg| Change::AttachLeg {
            head: head.clone(),
            program: desired.program.clone(),
            pool: pool.clone(),
            beside: beside.clone(),
            leg: name(leg),
        });
        Some(attach.collect::<Vec<_>>())
    });
    attached.flatten().collect()
}

/// The file names other members than a head uses. Heads that use different members could both open the pool.
fn other_members(
    pool: &PoolName,
    knowing: &[HeadWithRecord<'_>],
    wanted: &LegsFile,
) -> Option<Obstacle> {
    let new = members(wanted);
    let mut old = knowing.iter().map(|(_, file)| members(file));
    let old = old.find(|old| *old != new)?;
    Some(Obstacle {
        what: format!(
            "pool {pool} is on record with the members {}, and the file names {}",
            old.join(", "),
            new.join(", ")
        ),
        mend: "name the same members in the file, unless a witness comes or goes, or a third head comes. For that, have the pool served by this release of bulkhead \
               on both heads, with all members there, and restart its server once, or move the pool: its record names them then \
               (`bulkhead leg-server members` shows it). The guide says how a pool gets other heads (Pools without shared disks, \"Remove \
               a head\")"
            .to_owned(),
    })
}

/// Returns the members, by number.
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

/// Returns the configuration without these pools and their addresses.
pub(super) fn without(cib: &Cib, pools: &[PoolToMake]) -> Cib {
    let is_left_out = |id: &str| pools.iter().any(|pool| pool.resources.contains(id));
    let mut cib = cib.clone();
    cib.primitives.retain(|one| !is_left_out(&one.id));
    cib.locations.retain(|one| !is_left_out(&one.resource));
    cib.colocations.retain(|one| !is_left_out(&one.resource));
    cib.orders.retain(|one| !is_left_out(&one.then));
    cib
}
