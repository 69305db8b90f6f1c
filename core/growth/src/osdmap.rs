//! An OSD map as `osdmaptool --dump json` prints it: pools, states of disks, exceptions from placement.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{GrowthError, OSD_ID_MAX, OsdId};

/// Most placement groups of a pool; Ceph's own limit is 65,536 by default.
pub const PGS_MAX: u32 = 1 << 19;

/// Most copies of all placement groups of all pools: a cluster of 300,000 disks.
pub const COPIES_MAX: u64 = 1 << 25;

/// Most copies or shards of a placement group.
pub const WIDTH_MAX: usize = 64;

/// Fractions of a disk that a map without settings means: Ceph's defaults.
const DEFAULT_RATIOS: Ratios = Ratios {
    nearfull: 0.85,
    backfillfull: 0.90,
    full: 0.95,
};

/// The kind of a pool, by its number in the map.
const ERASURE: i64 = 3;

#[derive(Debug, Deserialize)]
struct RawPool {
    pool: i64,
    pool_name: String,
    #[serde(rename = "type")]
    kind: i64,
    size: usize,
    crush_rule: i64,
    pg_num: u32,
    pg_placement_num: u32,
    flags_names: String,
    #[serde(default)]
    erasure_code_profile: String,
}

#[derive(Debug, Deserialize)]
struct RawOsd {
    osd: i64,
    up: u8,
    weight: f64,
    #[serde(default)]
    state: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct RawUpmap {
    pgid: String,
    osds: Vec<i64>,
}

#[derive(Debug, Deserialize)]
struct RawMapping {
    from: i64,
    to: i64,
}

#[derive(Debug, Deserialize)]
struct RawUpmapItems {
    pgid: String,
    mappings: Vec<RawMapping>,
}

#[derive(Debug, Deserialize)]
struct RawMap {
    epoch: u64,
    fsid: String,
    #[serde(default)]
    nearfull_ratio: f64,
    #[serde(default)]
    backfillfull_ratio: f64,
    #[serde(default)]
    full_ratio: f64,
    pools: Vec<RawPool>,
    osds: Vec<RawOsd>,
    #[serde(default)]
    pg_upmap: Vec<RawUpmap>,
    #[serde(default)]
    pg_upmap_items: Vec<RawUpmapItems>,
    #[serde(default)]
    pg_temp: Vec<serde::de::IgnoredAny>,
    #[serde(default)]
    erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
}

/// A placement group: its pool and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgId {
    /// The number of the pool.
    pub pool: i64,
    /// The number of the group.
    pub number: u32,
}

impl std::str::FromStr for PgId {
    type Err = GrowthError;

    /// Parses the form that Ceph prints: the pool in decimal, the group in hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, GrowthError> {
        let parsed = text.split_once('.').and_then(|(pool, number)| {
            let pool = pool.parse().ok()?;
            let number = u32::from_str_radix(number, 16).ok()?;
            Some(Self { pool, number })
        });
        parsed.ok_or_else(|| GrowthError::output(format!("{text:?} is no placement group")))
    }
}

/// A pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Copies, or shards of an erasure code.
    pub width: usize,
    /// The number of its CRUSH rule.
    pub rule: i64,
    /// Placement groups.
    pub pgs: u32,
    /// Placement groups that are placed independently; fewer while their number grows.
    pub placed_pgs: u32,
    /// Whether the placement is hashed with the pool's number.
    pub is_hashed: bool,
    /// Data shards, of an erasure code.
    pub data_shards: Option<u32>,
}

impl Pool {
    /// Bytes that each copy or shard has of `bytes` of clients.
    pub const fn shard_bytes(&self, bytes: u64) -> u64 {
        match self.data_shards {
            Some(shards) => bytes / shards as u64,
            None => bytes,
        }
    }

    /// The input of CRUSH for a placement group, before the hash with the pool.
    pub const fn seed(&self, number: u32) -> u32 {
        // Groups that were split are placed like their parents until the second number follows the first.
        let mask = self.placed_pgs.next_power_of_two() - 1;
        match number & mask < self.placed_pgs {
            true => number & mask,
            false => number & (mask >> 1),
        }
    }
}

/// Fractions of a disk at which Ceph warns or stops.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ratios {
    /// A warning.
    pub nearfull: f64,
    /// No data is moved to the disk.
    pub backfillfull: f64,
    /// No client can write.
    pub full: f64,
}

/// A disk's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsdState {
    /// Whether its daemon runs.
    pub is_up: bool,
    /// Its reweight, of 65,536; 0 is out.
    pub reweight: u32,
}

/// Exceptions from the placement by CRUSH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upmaps {
    /// Placement groups with a placement of their own.
    pub whole: BTreeMap<PgId, Vec<OsdId>>,
    /// Placement groups with replaced disks: old and new.
    pub items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
}

/// An OSD map.
#[derive(Clone, Debug)]
pub struct OsdMap {
    /// Its version.
    pub epoch: u64,
    /// The cluster.
    pub fsid: String,
    /// Pools by number.
    pub pools: BTreeMap<i64, Pool>,
    /// Disks that exist.
    pub osds: BTreeMap<OsdId, OsdState>,
    /// Exceptions.
    pub upmaps: Upmaps,
    /// Placement groups that are served elsewhere while data moves.
    pub pgs_in_motion: usize,
    /// Limits of fullness.
    pub ratios: Ratios,
}

impl OsdMap {
    /// Parses the output of `osdmaptool --dump json`.
    ///
    /// # Errors
    ///
    /// It is no such document, or one of its numbers is out of range.
    pub fn parse(json: &[u8]) -> Result<Self, GrowthError> {
        let raw: RawMap = serde_json::from_slice(json).map_err(|error| {
            GrowthError::output(format!("the dump of the OSD map is not valid: {error}"))
        })?;
        let mut pools = BTreeMap::new();
        for pool in &raw.pools {
            pools.insert(pool.pool, pool_of(pool, &raw.erasure_code_profiles)?);
        }
        let copies = pools
            .values()
            .map(|pool: &Pool| u64::from(pool.pgs) * pool.width as u64);
        let copies: u64 = copies.sum();
        if copies > COPIES_MAX {
            let message =
                format!("the map has {copies} copies; at most {COPIES_MAX} are supported");
            return Err(GrowthError::unsupported(message));
        }
        let mut osds = BTreeMap::new();
        for osd in &raw.osds {
            // The list can have numbers that no disk has.
            if !osd.state.is_empty() && !osd.state.iter().any(|state| state == "exists") {
                continue;
            }
            let state = OsdState {
                is_up: osd.up != 0,
                reweight: reweight_of(osd.weight)?,
            };
            osds.insert(osd_id(osd.osd)?, state);
        }
        let given = |ratio: f64, default: f64| match ratio > 0.0 && ratio <= 1.0 {
            true => ratio,
            false => default,
        };
        Ok(Self {
            epoch: raw.epoch,
            fsid: raw.fsid.clone(),
            pools,
            osds,
            upmaps: upmaps_of(&raw)?,
            pgs_in_motion: raw.pg_temp.len(),
            ratios: Ratios {
                nearfull: given(raw.nearfull_ratio, DEFAULT_RATIOS.nearfull),
                backfillfull: given(raw.backfillfull_ratio, DEFAULT_RATIOS.backfillfull),
                full: given(raw.full_ratio, DEFAULT_RATIOS.full),
            },
        })
    }

    /// Placement groups of all pools.
    pub fn pgs(&self) -> u64 {
        self.pools.values().map(|pool| u64::from(pool.pgs)).sum()
    }
}

fn pool_of(
    raw: &RawPool,
    profiles: &BTreeMap<String, BTreeMap<String, String>>,
) -> Result<Pool, GrowthError> {
    let name = &raw.pool_name;
    let is_in_range = (1..=PGS_MAX).contains(&raw.pg_num)
        && (1..=raw.pg_num).contains(&raw.pg_placement_num)
        && (1..=WIDTH_MAX).contains(&raw.size);
    if !is_in_range {
        return Err(GrowthError::unsupported(format!(
            "pool {name} has {} placement groups ({} placed) of {} copies: at most {PGS_MAX} of {WIDTH_MAX} are supported",
            raw.pg_num, raw.pg_placement_num, raw.size
        )));
    }
    let data_shards = match raw.kind {
        ERASURE => {
            let profile = profiles.get(&raw.erasure_code_profile);
            let shards = profile.and_then(|profile| profile.get("k")?.parse().ok());
            let shards = shards.filter(|shards| (1..=WIDTH_MAX as u32).contains(shards));
            Some(shards.ok_or_else(|| {
                let message =
                    format!("pool {name} has an erasure code without a number of data shards (k)");
                GrowthError::unsupported(message)
            })?)
        }
        _ => None,
    };
    Ok(Pool {
        id: raw.pool,
        name: name.clone(),
        width: raw.size,
        rule: raw.crush_rule,
        pgs: raw.pg_num,
        placed_pgs: raw.pg_placement_num,
        is_hashed: raw.flags_names.split(',').any(|flag| flag == "hashpspool"),
        data_shards,
    })
}

fn osd_id(number: i64) -> Result<OsdId, GrowthError> {
    let id = OsdId::try_from(number).ok().filter(|&id| id <= OSD_ID_MAX);
    id.ok_or_else(|| GrowthError::output(format!("{number} is no number of an OSD")))
}

fn reweight_of(fraction: f64) -> Result<u32, GrowthError> {
    if !(0.0..=1.0).contains(&fraction) {
        let message = format!("the OSD map has a disk with the reweight {fraction}");
        return Err(GrowthError::output(message));
    }
    Ok((fraction * f64::from(1 << 16)).round() as u32)
}

fn upmaps_of(raw: &RawMap) -> Result<Upmaps, GrowthError> {
    let mut upmaps = Upmaps::default();
    for one in &raw.pg_upmap {
        let osds: Result<Vec<_>, _> = one.osds.iter().map(|&osd| osd_id(osd)).collect();
        upmaps.whole.insert(one.pgid.parse()?, osds?);
    }
    for one in &raw.pg_upmap_items {
        let pairs = one.mappings.iter();
        let pairs: Result<Vec<_>, GrowthError> = pairs
            .map(|pair| Ok((osd_id(pair.from)?, osd_id(pair.to)?)))
            .collect();
        upmaps.items.insert(one.pgid.parse()?, pairs?);
    }
    Ok(upmaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(pgs: u32, placed_pgs: u32) -> Pool {
        Pool {
            id: 1,
            name: "rbd".to_owned(),
            width: 3,
            rule: 0,
            pgs,
            placed_pgs,
            is_hashed: true,
            data_shards: None,
        }
    }

    #[test]
    fn seeds_of_a_number_that_is_no_power_of_two_fold_back() {
        let pool = pool(12, 12);
        let seeds: Vec<u32> = (0..16).map(|number| pool.seed(number)).collect();
        assert_eq!(seeds, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 4, 5, 6, 7]);
    }

    #[test]
    fn split_groups_are_placed_like_their_parents() {
        let pool = pool(16, 8);
        assert_eq!((pool.seed(3), pool.seed(11)), (3, 3));
    }

    const MAP: &str = r#"{"epoch": 7, "fsid": "f", "nearfull_ratio": 0.8, "backfillfull_ratio": 0, "full_ratio": 0.95,
        "pools": [{"pool": 2, "pool_name": "ec", "type": 3, "size": 5, "crush_rule": 1, "pg_num": 8,
            "pg_placement_num": 8, "flags_names": "hashpspool,ec_overwrites", "erasure_code_profile": "p"}],
        "osds": [{"osd": 0, "up": 1, "weight": 0.849991, "state": ["exists", "up"]},
                 {"osd": 1, "up": 0, "weight": 0, "state": ["exists"]}, {"osd": 2, "up": 0, "weight": 0, "state": ["new"]}],
        "pg_upmap": [{"pgid": "2.a", "osds": [1, 2]}],
        "pg_upmap_items": [{"pgid": "2.1", "mappings": [{"from": 0, "to": 1}]}], "pg_temp": [{"pgid": "2.0", "osds": []}],
        "erasure_code_profiles": {"p": {"k": "3", "m": "2"}}}"#;

    #[test]
    fn a_map_is_read() {
        let map = OsdMap::parse(MAP.as_bytes()).expect("a map");
        let pool = &map.pools[&2];
        assert_eq!(
            (pool.data_shards, pool.width, pool.is_hashed),
            (Some(3), 5, true)
        );
        assert_eq!(pool.shard_bytes(300), 100);
        assert_eq!(map.osds.len(), 2);
        assert_eq!(map.osds[&0].reweight, 55_705);
        assert_eq!(map.ratios.nearfull, 0.8);
        assert_eq!(map.ratios.backfillfull, 0.9);
        assert_eq!(map.pgs_in_motion, 1);
        let pg = PgId {
            pool: 2,
            number: 10,
        };
        assert_eq!(map.upmaps.whole[&pg], [1, 2]);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let wrong = [
            ("\"pg_num\": 8", "\"pg_num\": 4000000000"),
            ("\"size\": 5", "\"size\": 500"),
            ("\"k\": \"3\"", "\"k\": \"0\""),
            ("\"osd\": 0", "\"osd\": -5"),
            ("\"weight\": 0.849991", "\"weight\": 7"),
            ("2.a", "2:a"),
        ];
        for (right, wrong) in wrong {
            let text = MAP.replace(right, wrong);
            assert_ne!(text, MAP);
            assert!(OsdMap::parse(text.as_bytes()).is_err(), "{wrong}");
        }
    }
}
