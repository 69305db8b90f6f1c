//! The request: disks to add and to remove. Resolved against the maps, so that each mistake is found before any
//! placement is computed.

use std::collections::{BTreeMap, BTreeSet};

use units::ByteCount;

use crate::crush::{CrushMap, HOST};
use crate::osdmap::OsdMap;
use crate::{GrowthError, OSD_ID_MAX, OsdId, weight_of_bytes};

/// Most disks that one request adds.
pub const ADDED_MAX: u32 = 20_000;

/// `--add [PARENT/]HOST=COUNTxSIZE[:CLASS]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The bucket that holds the host, if it is new.
    pub parent: Option<String>,
    /// The host.
    pub host: String,
    /// Disks.
    pub count: u32,
    /// Bytes of each.
    pub size: u64,
    /// Their device class.
    pub class: Option<String>,
}

impl std::str::FromStr for Addition {
    type Err = GrowthError;

    fn from_str(text: &str) -> Result<Self, GrowthError> {
        let malformed = |reason: String| {
            GrowthError::usage(format!("{text:?} adds no disks: {reason}")).advise(
                "write HOST=COUNTxSIZE, such as ceph18=10x3.638T; RACK/HOST=… for a new host of a rack, and …:CLASS for \
                 a device class",
            )
        };
        let (location, disks) = text
            .split_once('=')
            .ok_or_else(|| malformed("there is no =".to_owned()))?;
        let (parent, host) = match location.split_once('/') {
            Some((parent, host)) => (Some(parent), host),
            None => (None, location),
        };
        let (disks, class) = match disks.split_once(':') {
            Some((disks, class)) => (disks, Some(class)),
            None => (disks, None),
        };
        for name in [Some(host), parent, class].into_iter().flatten() {
            if !is_name(name) {
                return Err(malformed(format!("{name:?} is no name")));
            }
        }
        let (count, size) = disks
            .split_once('x')
            .ok_or_else(|| malformed("there is no x between count and size".to_owned()))?;
        let count: u32 = count
            .parse()
            .map_err(|_| malformed(format!("{count:?} is no count")))?;
        let size: ByteCount = size
            .parse()
            .map_err(|error| malformed(format!("{error}")))?;
        if !(1..=ADDED_MAX).contains(&count) {
            return Err(malformed(format!(
                "the count is {count}, and must be 1 to {ADDED_MAX}"
            )));
        }
        if weight_of_bytes(size.get()) == 0 {
            return Err(malformed(format!(
                "a disk of {size} is too small to have a weight: at least 16M"
            )));
        }
        Ok(Self {
            parent: parent.map(str::to_owned),
            host: host.to_owned(),
            count,
            size: size.get(),
            class: class.map(str::to_owned),
        })
    }
}

fn is_name(text: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= 255 && text.chars().all(is_valid)
}

/// `--remove osd.N` or `--remove HOST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// One disk.
    Disk(OsdId),
    /// All disks of a host.
    Host(String),
}

impl std::str::FromStr for Removal {
    type Err = GrowthError;

    fn from_str(text: &str) -> Result<Self, GrowthError> {
        match text.strip_prefix("osd.").map(str::parse) {
            Some(Ok(osd)) => Ok(Self::Disk(osd)),
            None if is_name(text) => Ok(Self::Host(text.to_owned())),
            _ => Err(GrowthError::usage(format!(
                "{text:?} is neither a disk, such as osd.7, nor a host"
            ))),
        }
    }
}

/// A disk that is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDisk {
    /// Its number; predicted if it does not exist yet.
    pub osd: OsdId,
    /// Its host.
    pub host: String,
    /// Bytes.
    pub size: u64,
    /// Its device class.
    pub class: Option<String>,
    /// Whether the map has it already, with weight 0.
    pub exists: bool,
}

impl NewDisk {
    /// The weight that it gets.
    pub fn weight(&self) -> u64 {
        weight_of_bytes(self.size)
    }
}

/// A request that fits the maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Hosts to create, each with the bucket that holds it.
    pub hosts: Vec<(String, String)>,
    /// Disks to add, in the order of the request.
    pub added: Vec<NewDisk>,
    /// Disks to remove.
    pub removed: Vec<OsdId>,
}

/// Resolves a request. `first_osd` is the number of the first disk that does not exist yet; without it the lowest free
/// numbers are used, as Ceph does.
///
/// # Errors
///
/// It contradicts the maps; the message says how.
pub fn resolve(
    map: &OsdMap,
    crush: &CrushMap,
    additions: &[Addition],
    removals: &[Removal],
    first_osd: Option<OsdId>,
) -> Result<Growth, GrowthError> {
    if additions.is_empty() && removals.is_empty() {
        let message = "nothing is added and nothing removed";
        return Err(GrowthError::usage(message).advise("add disks with --add HOST=COUNTxSIZE"));
    }
    let mut growth = Growth::default();
    for addition in additions {
        let is_again = |(host, _): &(String, String)| *host == addition.host;
        if growth.hosts.iter().any(is_again) {
            continue;
        }
        if let Some(parent) = parent_of_new_host(crush, addition)? {
            growth.hosts.push((addition.host.clone(), parent));
        }
    }
    let mut numbers = Numbers::new(map, crush, first_osd);
    let disks = crush.disks();
    for addition in additions {
        let class = class_of(crush, addition)?;
        let waiting: Vec<OsdId> = disks
            .values()
            .filter(|disk| disk.host == addition.host && disk.weight == 0)
            .filter(|disk| class.is_none() || disk.class == class)
            .map(|disk| disk.osd)
            .collect();
        let mut waiting = waiting.into_iter();
        for _ in 0..addition.count {
            let is_free = |osd: &OsdId| !growth.added.iter().any(|disk| disk.osd == *osd);
            let existing = waiting.by_ref().find(is_free);
            growth.added.push(NewDisk {
                osd: match existing {
                    Some(osd) => osd,
                    None => numbers.next()?,
                },
                host: addition.host.clone(),
                size: addition.size,
                class: class.clone(),
                exists: existing.is_some(),
            });
        }
    }
    if growth.added.len() > ADDED_MAX as usize {
        return Err(GrowthError::usage(format!(
            "{} disks are added; at most {ADDED_MAX} are planned at once",
            growth.added.len()
        )));
    }
    growth.removed = removed(crush, removals)?;
    if let Some(disk) = growth
        .added
        .iter()
        .find(|disk| growth.removed.contains(&disk.osd))
    {
        return Err(GrowthError::usage(format!(
            "osd.{} is added and removed",
            disk.osd
        )));
    }
    let is_left = |osd: &OsdId| !growth.removed.contains(osd);
    if !disks
        .values()
        .any(|disk| disk.weight > 0 && is_left(&disk.osd))
    {
        return Err(GrowthError::usage("no disk with data would be left"));
    }
    Ok(growth)
}

/// The bucket for a host that does not exist; `None` if it does.
fn parent_of_new_host(
    crush: &CrushMap,
    addition: &Addition,
) -> Result<Option<String>, GrowthError> {
    let host = &addition.host;
    if crush.has_bucket(host) {
        if !crush.hosts().contains(host) {
            let message = format!("{host} is a bucket of the CRUSH map, and no {HOST}");
            return Err(GrowthError::usage(message));
        }
        if let Some(parent) = &addition.parent {
            if !crush
                .location_of(host)
                .split(' ')
                .any(|part| part.ends_with(&format!("={parent}")))
            {
                let location = crush.location_of(host);
                let message = format!("host {host} is not in {parent}: it is at {location}");
                return Err(GrowthError::usage(message));
            }
        }
        return Ok(None);
    }
    let parents = crush.parents_of_hosts();
    match &addition.parent {
        Some(parent) if crush.has_bucket(parent) => Ok(Some(parent.clone())),
        Some(parent) => {
            let names = parents.into_iter().collect::<Vec<_>>().join(", ");
            let message = format!("the CRUSH map has no bucket {parent}");
            Err(GrowthError::not_found(message).advise(format!("hosts are in: {names}")))
        }
        None if parents.len() == 1 => Ok(parents.into_iter().next()),
        None => {
            let names = parents.into_iter().collect::<Vec<_>>().join(", ");
            let message = format!(
                "host {host} is not in the CRUSH map, and its hosts are in several buckets"
            );
            Err(GrowthError::not_found(message).advise(format!(
                "name one of them, as in --add BUCKET/{host}=…: {names}"
            )))
        }
    }
}

fn class_of(crush: &CrushMap, addition: &Addition) -> Result<Option<String>, GrowthError> {
    let classes = crush.classes();
    match &addition.class {
        Some(class) => Ok(Some(class.clone())),
        None if classes.len() <= 1 => Ok(classes.into_iter().next()),
        None => {
            let names = classes.into_iter().collect::<Vec<_>>().join(", ");
            let message = "the cluster has several device classes, and the new disks have none";
            Err(GrowthError::usage(message).advise(format!(
                "add the class, as in --add {}=…:CLASS: {names}",
                addition.host
            )))
        }
    }
}

fn removed(crush: &CrushMap, removals: &[Removal]) -> Result<Vec<OsdId>, GrowthError> {
    let disks = crush.disks();
    let mut removed = BTreeSet::new();
    for removal in removals {
        match removal {
            Removal::Disk(osd) if disks.contains_key(osd) => {
                removed.insert(*osd);
            }
            Removal::Disk(osd) => {
                let message = format!("the CRUSH map has no osd.{osd}");
                return Err(GrowthError::not_found(message));
            }
            Removal::Host(host) => {
                let of_host = disks.values().filter(|disk| disk.host == *host);
                let of_host: Vec<OsdId> = of_host.map(|disk| disk.osd).collect();
                if of_host.is_empty() {
                    let message = format!("the CRUSH map has no host {host} with disks");
                    return Err(GrowthError::not_found(message));
                }
                removed.extend(of_host);
            }
        }
    }
    Ok(removed.into_iter().collect())
}

/// Numbers for disks that do not exist yet.
struct Numbers {
    used: BTreeSet<OsdId>,
    next: OsdId,
    /// The user chose the numbers: none is skipped.
    are_chosen: bool,
}

impl Numbers {
    fn new(map: &OsdMap, crush: &CrushMap, first_osd: Option<OsdId>) -> Self {
        let mut used = crush.osd_ids();
        used.extend(map.osds.keys());
        Self {
            used,
            next: first_osd.unwrap_or(0),
            are_chosen: first_osd.is_some(),
        }
    }

    fn next(&mut self) -> Result<OsdId, GrowthError> {
        while self.used.contains(&self.next) {
            if self.are_chosen {
                let highest = self.used.last().copied().unwrap_or(0);
                let message = format!("osd.{} exists", self.next);
                return Err(GrowthError::exists(message).advise(format!(
                    "leave --first-osd out, or use {} or more",
                    highest.saturating_add(1)
                )));
            }
            self.next += 1;
        }
        if self.next > OSD_ID_MAX {
            let message = format!("osd.{} is beyond osd.{OSD_ID_MAX}", self.next);
            return Err(GrowthError::usage(message));
        }
        let number = self.next;
        self.used.insert(number);
        self.next += 1;
        Ok(number)
    }
}

/// The map with all new hosts and disks, which have weight 0 as long as no stage raises them.
///
/// # Errors
///
/// A new name or number exists.
pub fn prepared(crush: &CrushMap, growth: &Growth) -> Result<CrushMap, GrowthError> {
    let mut prepared = crush.clone();
    for (host, parent) in &growth.hosts {
        prepared.add_host(host, parent)?;
    }
    for disk in growth.added.iter().filter(|disk| !disk.exists) {
        prepared.add_disk(disk.osd, &disk.host, disk.class.as_deref())?;
    }
    Ok(prepared)
}

/// For each pool by name: whether its rule can use the new disks.
///
/// # Errors
///
/// No pool's can.
pub fn reached_pools(
    map: &OsdMap,
    prepared: &CrushMap,
    growth: &Growth,
) -> Result<BTreeMap<String, bool>, GrowthError> {
    let mut reached = BTreeMap::new();
    let mut missed = Vec::new();
    for pool in map.pools.values() {
        let takes = prepared.takes(pool.rule)?;
        let has_new = takes.iter().any(|take| {
            let reach = prepared.reach(take);
            growth
                .added
                .iter()
                .any(|disk| reach.contains_key(&disk.osd))
        });
        let starts: Vec<String> = takes.iter().map(ToString::to_string).collect();
        missed.push(format!(
            "pool {} uses disks below {}",
            pool.name,
            starts.join(" and ")
        ));
        reached.insert(pool.name.clone(), has_new);
    }
    let is_of_use = growth.added.is_empty() || reached.values().any(|&reached| reached);
    match (is_of_use, growth.added.first()) {
        (false, Some(disk)) => {
            let class = disk
                .class
                .as_deref()
                .map_or("no class".to_owned(), |class| format!("class {class}"));
            let message = format!(
                "no pool's rule reaches the new disks, which are on {} at {} with {class}: {}",
                disk.host,
                prepared.location_of(&disk.host),
                missed.join("; ")
            );
            Err(GrowthError::usage(message)
                .advise("name another bucket (--add BUCKET/HOST=…) or class (…:CLASS), or change the rule first"))
        }
        _ => Ok(reached),
    }
}

#[cfg(test)]
mod tests;
