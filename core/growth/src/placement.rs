//! The disks of each placement group: the output of Ceph's tools, read strictly, and the exceptions from it (upmaps).

use std::collections::BTreeMap;

use crate::osdmap::{OsdMap, PgId, Pool, Upmaps};
use crate::{GrowthError, OSD_ID_MAX, OsdId};

/// Ceph's number for a shard without a disk.
const NO_DISK: OsdId = 0x7fff_ffff;

/// The disks of the placement groups of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPlacement {
    width: usize,
    /// `width` entries for each group.
    disks: Vec<Option<OsdId>>,
}

impl PoolPlacement {
    /// Without disks.
    pub fn new(pool: &Pool) -> Self {
        Self {
            width: pool.width,
            disks: vec![None; pool.width * pool.pgs as usize],
        }
    }

    /// The disks of a group; `None` for a copy without a disk.
    pub fn of(&self, number: u32) -> &[Option<OsdId>] {
        let start = number as usize * self.width;
        self.disks.get(start..start + self.width).unwrap_or(&[])
    }

    fn set(&mut self, number: u32, disks: &[OsdId]) {
        let start = number as usize * self.width;
        if let Some(slots) = self.disks.get_mut(start..start + self.width) {
            slots.fill(None);
            for (slot, &disk) in slots.iter_mut().zip(disks) {
                *slot = (disk != NO_DISK).then_some(disk);
            }
        }
    }

    fn slots(&mut self, number: u32) -> &mut [Option<OsdId>] {
        let start = number as usize * self.width;
        let end = start + self.width;
        &mut self.disks[start..end]
    }
}

/// The disks of all placement groups.
pub type Placement = BTreeMap<i64, PoolPlacement>;

/// The output of `osdmaptool --test-map-pgs-dump-all` for one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDump {
    /// The result of CRUSH alone.
    pub raw: PoolPlacement,
    /// With exceptions, and without disks that are down.
    pub up: PoolPlacement,
}

impl MapDump {
    /// Reads the output.
    ///
    /// # Errors
    ///
    /// A line of a group is not in the form of the tool, or a group is missing or there twice.
    pub fn parse(pool: &Pool, output: &str) -> Result<Self, GrowthError> {
        let mut dump = Self {
            raw: PoolPlacement::new(pool),
            up: PoolPlacement::new(pool),
        };
        let mut seen = vec![false; pool.pgs as usize];
        let prefix = format!("{}.", pool.id);
        for line in output.lines().filter(|line| line.starts_with(&prefix)) {
            let unexpected = || unexpected("osdmaptool", line);
            let (pg, rest) = line.split_once(" raw (").ok_or_else(unexpected)?;
            let pg: PgId = pg.parse()?;
            let (raw, rest) = rest.split_once(") up (").ok_or_else(unexpected)?;
            let (up, _) = rest.split_once(") acting (").ok_or_else(unexpected)?;
            let slot = seen.get_mut(pg.number as usize).ok_or_else(unexpected)?;
            if std::mem::replace(slot, true) {
                return Err(unexpected());
            }
            dump.raw.set(pg.number, &list(pool, raw, line)?);
            dump.up.set(pg.number, &list(pool, up, line)?);
        }
        match seen.iter().position(|&seen| !seen) {
            None => Ok(dump),
            Some(number) => Err(GrowthError::output(format!(
                "osdmaptool printed no line for placement group {}.{number:x}",
                pool.id
            ))),
        }
    }
}

fn unexpected(tool: &str, line: &str) -> GrowthError {
    let shown: String = line.chars().take(100).collect();
    GrowthError::output(format!("{tool} printed an unexpected line: {shown:?}"))
}

/// Reads `[1,2,3]`, with or without a primary behind it.
fn list(pool: &Pool, text: &str, line: &str) -> Result<Vec<OsdId>, GrowthError> {
    let inner = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    let (inner, _) = inner.ok_or_else(|| unexpected("a tool of Ceph", line))?;
    let mut disks = Vec::with_capacity(pool.width);
    for number in inner.split(',').filter(|number| !number.is_empty()) {
        let disk: OsdId = number
            .parse()
            .map_err(|_| unexpected("a tool of Ceph", line))?;
        if disk > OSD_ID_MAX && disk != NO_DISK || disks.len() == pool.width {
            return Err(unexpected("a tool of Ceph", line));
        }
        disks.push(disk);
    }
    Ok(disks)
}

/// The results of CRUSH for the inputs of one pool, filled from several runs of `crushtool --test`.
#[derive(Clone, Debug)]
pub struct Seeds<'a> {
    pool: &'a Pool,
    disks: Vec<Option<Vec<OsdId>>>,
}

/// The inputs of a pool that one run of `crushtool --test` computes, as its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedRange {
    /// The first.
    pub first: u32,
    /// The last, included.
    pub last: u32,
}

impl<'a> Seeds<'a> {
    /// Without results.
    pub fn new(pool: &'a Pool) -> Self {
        Self {
            pool,
            disks: vec![None; pool.placed_pgs as usize],
        }
    }

    /// The arguments of `crushtool` for some of the inputs.
    pub fn arguments(pool: &Pool, range: SeedRange) -> Vec<String> {
        // Old pools add their number where newer ones are hashed with it.
        let shift = match pool.is_hashed {
            true => 0,
            false => pool.id,
        };
        let number = |seed: u32| (i64::from(seed) + shift).to_string();
        let mut words = vec![
            "--test".to_owned(),
            "--show-mappings".to_owned(),
            "--rule".to_owned(),
            pool.rule.to_string(),
            "--num-rep".to_owned(),
            pool.width.to_string(),
            "--min-x".to_owned(),
            number(range.first),
            "--max-x".to_owned(),
            number(range.last),
        ];
        if pool.is_hashed {
            words.extend(["--pool-id".to_owned(), pool.id.to_string()]);
        }
        words
    }

    /// Reads the output of a run.
    ///
    /// # Errors
    ///
    /// A line is not in the form of the tool, or an input of the range is missing.
    pub fn read(&mut self, range: SeedRange, output: &str) -> Result<(), GrowthError> {
        let shift = match self.pool.is_hashed {
            true => 0,
            false => self.pool.id,
        };
        let prefix = format!("CRUSH rule {} x ", self.pool.rule);
        for line in output.lines() {
            let Some(rest) = line.strip_prefix(&prefix) else {
                continue;
            };
            let unexpected = || unexpected("crushtool", line);
            let (x, disks) = rest.split_once(' ').ok_or_else(unexpected)?;
            let seed = x.parse::<i64>().map_err(|_| unexpected())? - shift;
            let seed = u32::try_from(seed).map_err(|_| unexpected())?;
            if !(range.first..=range.last).contains(&seed) {
                return Err(unexpected());
            }
            let disks = list(self.pool, disks, line)?;
            let slot = self.disks.get_mut(seed as usize).ok_or_else(unexpected)?;
            *slot = Some(disks);
        }
        let range = range.first as usize..=range.last as usize;
        let results = self.disks.get(range).unwrap_or(&[]);
        match results.iter().all(Option::is_some) && !results.is_empty() {
            true => Ok(()),
            false => Err(GrowthError::output(format!(
                "crushtool printed no placement for some groups of pool {}",
                self.pool.name
            ))),
        }
    }

    /// The result for a group, if its input was computed.
    pub fn of(&self, number: u32) -> Option<&[OsdId]> {
        let seed = self.pool.seed(number) as usize;
        self.disks.get(seed)?.as_deref()
    }

    /// The placement by CRUSH of all groups.
    ///
    /// # Errors
    ///
    /// An input was not computed.
    pub fn into_placement(self) -> Result<PoolPlacement, GrowthError> {
        let mut placement = PoolPlacement::new(self.pool);
        for number in 0..self.pool.pgs {
            let disks = self.of(number).ok_or_else(|| {
                GrowthError::output(format!("pool {} is not placed completely", self.pool.name))
            })?;
            placement.set(number, disks);
        }
        Ok(placement)
    }
}

/// The differences between the placement by CRUSH and the final one.
pub struct Exceptions<'a> {
    /// The upmaps.
    pub upmaps: &'a Upmaps,
    /// Disks that are out: no exception leads to them.
    pub out: std::collections::BTreeSet<OsdId>,
    /// For each pool its failure domains. The monitors remove an exception that puts two copies into one.
    pub domains: BTreeMap<i64, BTreeMap<OsdId, i64>>,
}

impl Exceptions<'_> {
    /// Applies them to the placement of a pool.
    pub fn apply(&self, pool: i64, placement: &mut PoolPlacement) {
        let first = PgId { pool, number: 0 };
        let last = PgId {
            pool,
            number: u32::MAX,
        };
        for (pg, disks) in self.upmaps.whole.range(first..=last) {
            let is_out = disks.iter().any(|disk| self.out.contains(disk));
            if !is_out && (pg.number as usize) < placement.disks.len() / placement.width {
                placement.set(pg.number, disks);
            }
        }
        for (pg, pairs) in self.upmaps.items.range(first..=last) {
            if (pg.number as usize) >= placement.disks.len() / placement.width {
                continue;
            }
            let before = placement.of(pg.number).to_vec();
            let slots = placement.slots(pg.number);
            for &(from, to) in pairs {
                if slots.contains(&Some(to)) || self.out.contains(&to) {
                    continue;
                }
                if let Some(slot) = slots.iter_mut().find(|slot| **slot == Some(from)) {
                    *slot = Some(to);
                }
            }
            if self.has_common_domain(pool, slots) {
                slots.copy_from_slice(&before);
            }
        }
    }

    fn has_common_domain(&self, pool: i64, slots: &[Option<OsdId>]) -> bool {
        let Some(domains) = self.domains.get(&pool) else {
            return false;
        };
        let found = slots.iter().flatten();
        let mut found: Vec<i64> = found.filter_map(|osd| domains.get(osd).copied()).collect();
        found.sort_unstable();
        found.windows(2).any(|pair| pair[0] == pair[1])
    }
}

/// Compares the model with Ceph's own result for the map before the growth. `seeds` are computed with the map as this
/// crate writes it, for the first groups or all; `placement` with its exceptions.
///
/// # Errors
///
/// They differ: a plan would be wrong.
pub fn verify(
    map: &OsdMap,
    pool: &Pool,
    dump: &MapDump,
    seeds: &Seeds<'_>,
    placement: &PoolPlacement,
) -> Result<(), GrowthError> {
    let different = |number: u32, part: &str| {
        let message = format!(
            "{part} of placement group {}.{number:x} differ from those of osdmaptool: no plan can be made for this map",
            pool.id
        );
        GrowthError::unsupported(message).advise(
            "check that crushtool and osdmaptool have the version of the cluster: `crushtool -v`",
        )
    };
    let mut computed = PoolPlacement::new(pool);
    for number in 0..pool.pgs {
        if let Some(disks) = seeds.of(number) {
            computed.set(number, disks);
            if computed.of(number) != dump.raw.of(number) {
                return Err(different(number, "the disks by CRUSH"));
            }
        }
        let ours = placement.of(number);
        let is_up = |disk: &OsdId| map.osds.get(disk).is_some_and(|state| state.is_up);
        // Ceph leaves disks that are down out; they hold their data all the same.
        if ours.iter().flatten().all(is_up) && ours != dump.up.of(number) {
            return Err(different(number, "the disks"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
